"""Resolve a request of a person or a model into an operation with one fixed meaning [SPEC 3]; `summaries.py` resolves
summaries.

Each function reads what it needs and returns the operation to record, or raises CommandError that names the
alternatives. Nothing is written here. Cost follows the turns and ids named, never the history.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from itertools import islice

from foldmark.core import selections
from foldmark.core.assembly.eviction import in_place_newest_first
from foldmark.core.codec import operation_of
from foldmark.core.errors import CommandError
from foldmark.core.events import (
    OPERATION_KINDS,
    Drop,
    Filter,
    Mark,
    Pin,
    Restore,
    Undo,
    Unpin,
)
from foldmark.core.ports import OPENERS, Snapshot
from foldmark.core.replay import recorded, taken_back
from foldmark.core.segments import END, Segment, Segments, contains, intersect, normal, subtract
from foldmark.core.turns import Message, newest_turns
from foldmark.core.wording import listing
from foldmark.operations.changes import changes
from foldmark.request.exchanges import (
    closure,
    messages_in,
    ranges_of,
    reaching,
    until_next,
)
from foldmark.request.standing import Standing, of_kind


def mark(at: Standing, name: str | None) -> Mark:
    """Return a mark at the present position; without a name `mark-N` with the smallest N not in force."""
    if name is None:
        number = 1
        while f"mark-{number}" in at.fold.marks:
            number += 1
        name = f"mark-{number}"
    if not name or len(name) > 200 or not name.isprintable() or any(char.isspace() for char in name):
        raise CommandError(f"a mark's name must be 1 to 200 visible characters without white space, not {name[:40]!r}")
    return Mark(name)


def drop(moment: Snapshot, at: Standing, wanted: Iterable[int | tuple[int, int]]) -> Drop:
    """Return a drop of whole turns of the lineage, named by id or by ranges of ids (first, last); of a range, only
    turns with visible messages are dropped."""
    wanted = list(wanted)
    found = turns_named(moment, at, [each for each in wanted if not isinstance(each, tuple)])
    for each in wanted:
        if isinstance(each, tuple):
            found |= _between(moment, at, *each)
    if not found:
        raise CommandError(f"no turn was named; {_newest_turns(moment, at)}")
    first, *others = sorted(found)
    ranges, widened = whole_exchanges(moment, at, [message for turn in (first, *others) for message in found[turn]])
    return Drop(first, ranges, widened, tuple(others))


def undo(moment: Snapshot, at: Standing) -> Undo:
    """Return a drop of the turn of the newest visible message."""
    for message in in_place_newest_first(moment.select(at.visible, newest_first=True)):
        if message.kind == "summary":
            back = f"`/restore {message.id}` brings back the messages that it replaces"
            raise CommandError(f"the newest turn is a summary; {back}")
        if message.turn_id is not None:
            return Undo(
                message.turn_id,
                *whole_exchanges(moment, at, turns_named(moment, at, [message.turn_id])[message.turn_id]),
            )
    raise CommandError("there is no turn to undo: the context is empty. `/restore ID` takes back an operation.")


def restore(moment: Snapshot, at: Standing, target: int, is_back: Callable[[int], bool]) -> Restore:
    """Return a restore of one of this agent's operations in force. `is_back` returns True for an operation that was
    taken back already."""
    event = selections.event(moment, target) if target < END else None
    if event is None:
        wrong = f"there is no event {target}"
    elif event.agent_id != at.record.id:
        wrong = f"event {target} belongs to another agent"
    elif event.kind not in OPERATION_KINDS:
        wrong = f"event {target} is a {event.kind.replace('_', ' ')}, not an operation"
    elif not operation_of(event).restorable:
        wrong = f"a {event.kind} cannot be taken back"
    elif is_back(target):
        wrong = f"operation {target} was already taken back"
    else:
        return Restore(target)
    pairs = recorded(selections.operations(moment, at.record.id))
    back = taken_back(pairs)
    done = [(id, type(each).__name__.lower()) for id, each in pairs if id not in back and each.restorable]
    done += [(each.event.id, each.event.kind) for each in changes(moment, at) if each.is_listed and each.by is None]
    names = [f"{id} ({kind})" for id, kind in sorted(done, reverse=True)]
    available = f"operations in force: {listing(names, 6)}" if names else "no operation is in force"
    raise CommandError(f"{wrong}; {available}")


def pin(moment: Snapshot, at: Standing, turn_id: int) -> Pin:
    """Return a pin of a turn with visible messages."""
    turns_named(moment, at, [turn_id])
    if turn_id in at.fold.pins:
        raise CommandError(f"turn {turn_id} is already pinned; {_pinned(at)}")
    return Pin(turn_id)


def unpin(at: Standing, turn_id: int) -> Unpin:
    """Return an unpin of a pinned turn."""
    if turn_id not in at.fold.pins:
        raise CommandError(f"turn {turn_id} is not pinned; {_pinned(at)}")
    return Unpin(turn_id)


def filter(
    moment: Snapshot,
    at: Standing,
    mode: str,
    ids: Iterable[int],
    planning: tuple[int, int | None] | None,
    criteria: str | None,
) -> Filter:
    """Return a filter for `/forget` or `/remember`: it removes the ids named (or all others) and the planning
    conversation."""
    if mode not in ("forget", "remember"):
        raise CommandError(f"a filter's mode must be 'forget' or 'remember', not {mode!r}")
    if not isinstance(criteria, str | None):
        raise CommandError(f"a filter's criteria must be a text, not {criteria!r}")
    named, talk = _named(moment, at, ids), _planning_segments(moment, at, planning)
    inside = messages_in(moment, talk)
    if mode == "forget":
        added = closure(moment, at, [*named, *inside])
        added += _told_with(moment, at, named, {each.id for each in (*named, *added, *inside)})
        ranges = normal((*ranges_of(moment, at, [*named, *added]), *talk))
    else:
        added = closure(moment, at, named)
        added += _told_with(moment, at, named)
        system = moment.lookup(of_kind(moment, at, "system", at.visible))
        kept = ranges_of(moment, at, [*named, *added, *system])
        gone = reaching(moment, at, subtract(at.visible, kept))
        ranges = normal((*gone, *ranges_of(moment, at, closure(moment, at, inside)), *talk))
    before = moment.size(subtract(at.visible, talk)).messages if talk else at.size.messages
    after = moment.size(subtract(at.visible, ranges)).messages
    return Filter(mode, ranges, criteria, planning, _visible_ids(at, added), before, after)


def _told_with(
    moment: Snapshot, at: Standing, named: Iterable[Message], gone: Container[int] | None = None
) -> list[Message]:
    """Return the visible texts that a client told in the turns of these messages, without the named ones. With `gone`,
    only of turns in which nothing else is visible but what is gone."""
    named = list(named)
    found: list[Message] = []
    turns = sorted({each.turn_id for each in named if each.turn_id is not None})
    for messages in moment.turns(turns).values() if turns else ():
        shown = [each for each in messages if contains(at.visible, each.agent_id, each.id)]
        if gone is None or all(each.kind == "client" or each.id in gone for each in shown):
            found += [each for each in shown if each.kind == "client"]
    ids = {each.id for each in named}
    return [each for each in found if each.id not in ids]


def exactly(moment: Snapshot, at: Standing, ids: Iterable[int], criteria: str | None = None) -> Filter:
    """Return a filter of these events and no others, for another program's history: it may separate a call from its
    result."""
    ranges = ranges_of(moment, at, list(moment.lookup(ids)))
    after = moment.size(subtract(at.visible, ranges)).messages
    return Filter("forget", ranges, criteria, before=at.size.messages, after=after)


def ended_before(moment: Snapshot, at: Standing, first: int, message_id: int) -> Filter:
    """Return the filter that ends the planning conversation that began with event `first`, before a message, and
    forgets nothing."""
    last = selections.message_before(moment, at.record.id, message_id - 1)
    return filter(moment, at, "forget", (), (first, last.id if last is not None else first), None)


def turns_named(moment: Snapshot, at: Standing, turn_ids: Iterable[int]) -> dict[int, list[Message]]:
    """Return the messages of each of these turns. Raises CommandError for a turn without visible messages."""
    found = moment.turns([turn for turn in turn_ids if turn < END])
    for turn in turn_ids:
        if not _visible_ids(at, found.get(turn, ())):
            raise CommandError(f"turn {turn} is not in the context; {_newest_turns(moment, at)}")
    return found


def _between(moment: Snapshot, at: Standing, first: int, last: int) -> dict[int, list[Message]]:
    """Return the messages of each turn with an id from `first` to `last` that has visible messages."""
    if first > last:
        raise CommandError(f"the range {first}-{last} is reversed; write {last}-{first}")
    agents = {segment.agent for segment in at.visible}
    opened = selections.ids(
        moment, OPENERS, tuple(Segment(agent, first, min(last, at.newest)) for agent in sorted(agents))
    )
    found = {turn: messages for turn, messages in moment.turns(opened).items() if _visible_ids(at, messages)}
    if not found:
        raise CommandError(f"no turn from {first} to {last} is in the context; {_newest_turns(moment, at)}")
    return found


def _newest_turns(moment: Snapshot, at: Standing) -> str:
    """Return the newest turns in words, for an error message."""
    # A turn may have thousands of messages, so only some are read.
    newest = newest_turns(islice(moment.select(at.visible, newest_first=True), 200), 6)
    listed = listing(turn.id for turn in reversed(newest) if turn.id is not None)
    return f"newest turns: {listed}" if listed else "the context is empty"


def whole_exchanges(moment: Snapshot, at: Standing, messages: Sequence[Message]) -> tuple[Segments, tuple[int, ...]]:
    """Return the ranges of the messages of some turns, and the ids of messages added to keep exchanges whole."""
    ids, answered = {message.id for message in messages}, {message.answers for message in messages}
    # All calls of an exchange belong to one turn, so only answers to or from other turns have to be looked up.
    parted = [
        each
        for each in messages
        if (each.kind == "tool_call" and each.id not in answered)
        or (each.kind == "tool_result" and each.answers not in ids)
    ]
    added = [message for message in closure(moment, at, parted) if message.id not in ids]
    return ranges_of(moment, at, [*messages, *added]), _visible_ids(at, added)


def _named(moment: Snapshot, at: Standing, ids: Iterable[int]) -> list[Message]:
    """Return the events with these ids. Raises CommandError for an id outside of this conversation's lineage."""
    if not isinstance(ids, Iterable):
        raise CommandError(f"ids must be a list of numbers, not {ids!r}")
    ids = list(ids)
    if wrong := [id for id in ids if not isinstance(id, int) or isinstance(id, bool)]:
        raise CommandError(f"ids must be numbers, not {listing(map(repr, wrong))}")
    wanted = sorted(set(ids))
    found = list(moment.lookup(id for id in wanted if 0 < id < END))
    lineage = at.lineage
    known = {message.id for message in found if contains(lineage, message.agent_id, message.id)}
    if unknown := [id for id in wanted if id not in known]:
        raise CommandError(f"these ids do not belong to this conversation: {listing(unknown)}")
    return found


def _planning_segments(moment: Snapshot, at: Standing, planning: tuple[int, int | None] | None) -> Segments:
    """Return the range of the planning conversation; without a last id it is open-ended."""
    if planning is None:
        return ()
    if not isinstance(planning, tuple | list) or len(planning) != 2 or any(isinstance(end, bool) for end in planning):
        raise CommandError(f"planning must be (first id, last id) or (first id, None), not {planning!r}")
    first, last = planning
    if last is None:
        if not (isinstance(first, int) and 0 < first <= at.newest) or at.record.open_turn is None:
            raise CommandError(f"open planning must begin in this agent and in an open turn; ({first}, None) does not")
        return (Segment(at.record.id, first, END),)
    if not (isinstance(first, int) and isinstance(last, int) and 0 < first <= last < END):
        raise CommandError(f"planning must be (first id, last id), not ({first}, {last})")
    ends = [event for event in moment.lookup((first, last)) if contains(at.lineage, event.agent_id, event.id)]
    if len(ends) < 2 or first > last:
        raise CommandError(f"planning must be (first id, last id) of this conversation, not ({first}, {last})")
    agents = {segment.agent for segment in at.lineage}
    behind = until_next(moment, at, [(agent, last) for agent in agents])
    return intersect(at.lineage, [Segment(each.agent, first, each.last) for each in behind])


def _pinned(at: Standing) -> str:
    return f"pinned: {listing(at.fold.pins)}" if at.fold.pins else "no turn is pinned yet. `/pin GID` pins one"


def _visible_ids(at: Standing, messages: Iterable[Message]) -> tuple[int, ...]:
    """Return the ids of the visible messages."""
    visible = at.visible
    return tuple(message.id for message in messages if contains(visible, message.agent_id, message.id))
