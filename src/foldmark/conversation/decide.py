"""From what a person or a model asks for to an operation that means one thing for ever [SPEC 3].

Each function reads what it needs and returns the operation to record, or raises CommandError saying what there is
instead. Nothing is written here. Cost follows the turns and ids named, never the history.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from foldmark.conversation.context import fork_event, scratchpad_of
from foldmark.core.codec import operation_of
from foldmark.core.errors import CommandError, listing
from foldmark.core.events import Drop, Event, Filter, Fork, Mark, Restore, Rewind, Undo
from foldmark.core.ports import AgentRecord, Size, Store
from foldmark.core.replay import RESTORABLE, Fold, Recorded, birth, taken_back
from foldmark.core.segments import END, Segment, Segments, contains, intersect, normal, subtract, until
from foldmark.core.turns import Exchange, Message, exchange_of, newest_turns, settle, whole


class Standing(Struct, frozen=True):
    """Where an agent stands when it is asked: its row, its fold, what it was born with, how much is visible, and the
    store to look things up in."""

    store: Store
    record: AgentRecord
    fold: Fold
    origin: Fold
    size: Size

    @property
    def lineage(self) -> Segments:
        """Everything that is this agent's or was handed down to it, visible or not; no child's and no later event of a
        parent [SPEC 3, L6]."""
        return self.origin.segments

    @property
    def visible(self) -> Segments:
        """The segments as of now, without what is to come."""
        return until(self.fold.segments, self.newest)

    @property
    def newest(self) -> int:
        """The id of the newest event there is for this agent: its own, or the fork that it was born from."""
        return max(self.record.head, self.record.fork_event)


def mark(at: Standing, name: str | None) -> Mark:
    """A mark at the present position; without a name `mark-N` with the smallest N not in force."""
    if name is None:
        number = 1
        while f"mark-{number}" in at.fold.marks:
            number += 1
        name = f"mark-{number}"
    if not name or len(name) > 200 or not name.isprintable() or any(char.isspace() for char in name):
        raise CommandError(f"a mark's name is 1 to 200 visible characters without white space, not {name[:40]!r}")
    return Mark(name)


def rewind(at: Standing, name: str | None) -> Rewind:
    """A cut at a mark, by default the newest."""
    name, mark_id, position = _marked(at, name)
    return Rewind(name, mark_id, position)


def fork(at: Standing, name: str | None, child: str) -> Fork:
    """The birth of `child`: with a mark it starts from what lies after it, without one from everything and the
    scratchpad. The exchange that is still open stays behind, with its text."""
    start, position, scratchpad = at.visible, None, None
    if name is None:
        scratchpad = scratchpad_of(at.store, at.record.id, at.newest, at.record.fork_event)
    else:
        name, _, position = _marked(at, name)
        start = intersect(start, [Segment(at.record.id, position + 1, END)])
    for exchange in _still_open(at):
        start = subtract(start, _ranges(at, at.store.lookup((exchange.first, *exchange.members))))
    pins = tuple(pin for pin in at.fold.pins if _shows(at, start, pin))
    return Fork(child, start, name, position, pins, scratchpad=scratchpad)


def drop(at: Standing, turn_id: int) -> Drop:
    """A whole turn of the lineage."""
    ranges, widened = _turn(at, turn_id)
    return Drop(turn_id, ranges, widened)


def undo(at: Standing) -> Undo:
    """The turn of the newest visible message."""
    for message in at.store.messages(at.visible, newest_first=True):
        if message.kind == "summary":
            raise CommandError(f"the newest turn is a summary; `/restore {message.id}` brings back what it stands for")
        if message.turn_id is not None:
            ranges, widened = _turn(at, message.turn_id)
            return Undo(message.turn_id, ranges, widened)
    raise CommandError("there is no turn to undo: the context is empty. `/restore ID` takes back an operation.")


def restore(at: Standing, target: int) -> Restore:
    """Taking back an operation of this agent that counts."""
    event = at.store.event(target) if target < END else None
    recorded = [(e.id, operation_of(e)) for e in at.store.operations(at.record.id)]
    back = taken_back(recorded)
    operation = dict(recorded).get(target)
    if event is None:
        wrong = f"there is no event {target}"
    elif event.agent_id != at.record.id:
        wrong = f"event {target} belongs to another agent"
    elif operation is None:
        wrong = f"event {target} is a {event.kind.replace('_', ' ')}, not an operation"
    elif not isinstance(operation, RESTORABLE):
        wrong = f"a {event.kind} cannot be taken back"
    elif target in back:
        wrong = f"operation {target} is taken back already"
    else:
        return Restore(target)
    raise CommandError(f"{wrong}; {_restorable(recorded, back)}")


def filter(
    at: Standing, mode: str, ids: Iterable[int], planning: tuple[int, int] | None, criteria: str | None
) -> Filter:
    """What `/forget` or `/remember` takes away: the ids named (or all others) and the planning conversation."""
    if mode not in ("forget", "remember"):
        raise CommandError(f"a filter's mode is 'forget' or 'remember', not {mode!r}")
    named, talk = _named(at, ids), _talk(at, planning)
    inside = [_message(event) for event in at.store.messages(talk)]
    if mode == "forget":
        added = _closure(at, [*named, *inside])
        ranges = normal((*_ranges(at, [*named, *added]), *talk))
    else:
        added = _closure(at, named)
        system = at.store.lookup(at.store.of_kind("system", at.visible))
        kept = _ranges(at, [*named, *added, *system])
        ranges = normal((*subtract(at.visible, kept), *_ranges(at, _closure(at, inside)), *talk))
    before = at.store.size(subtract(at.visible, talk)).messages
    after = at.store.size(subtract(at.visible, ranges)).messages
    return Filter(mode, ranges, criteria, planning, _seen(at, added), before, after)


def origin(store: Store, agent_id: str, fork_event_id: int) -> Fold:
    """The fold that an agent was born with."""
    born = fork_event(store, fork_event_id)
    return birth(agent_id, fork_event_id, born.start, born.pins) if born else birth(agent_id)


def _marked(at: Standing, name: str | None) -> tuple[str, int, int]:
    """A mark's name, its event and the position of a cut there."""
    marks = at.fold.marks
    if name is None:
        if not marks:
            raise CommandError("No checkpoint yet. Use /mark.")
        name = max(marks, key=lambda each: marks[each])
    if name not in marks:
        there_is = f"marks: {listing(marks)}" if marks else "there is no mark yet, `/mark NAME` sets one"
        raise CommandError(f"there is no mark '{name}'; {there_is}")
    mark_id = marks[name]
    store, own = at.store, at.record.id
    apart = store.lookup(result.answers for result in store.apart_results(own, mark_id) if result.answers)
    found = _exchanges(at, [*calls_before(store, own, mark_id), *apart])
    return name, mark_id, settle(mark_id, found, _still_open(at))


def calls_before(store: Store, agent_id: str, event_id: int) -> list[Message]:
    """The run of calls that the newest message up to `event_id` is of, or is a result directly behind."""
    message = store.message_before(agent_id, event_id)
    while message is not None and message.kind == "tool_result":
        message = store.message_before(agent_id, message.id - 1)
    found: list[Message] = []
    while message is not None and message.kind == "tool_call" and (not found or message.turn_id == found[0].turn_id):
        found.append(message)
        message = store.message_before(agent_id, message.id - 1)
    return found


def _turn(at: Standing, turn_id: int) -> tuple[Segments, tuple[int, ...]]:
    """The ranges of a turn that shows something, and what had to be added for no exchange to be parted."""
    messages = at.store.turn(turn_id)
    ranges = _ranges(at, messages)
    if not messages or not at.store.size(intersect(at.visible, ranges)).messages:
        newest = newest_turns(at.store.messages(at.visible, newest_first=True), 6)
        there_is = listing(turn.id for turn in reversed(newest) if turn.id is not None)
        raise CommandError(
            f"no turn {turn_id} is in the context; "
            + (f"its newest turns: {there_is}" if there_is else "the context is empty")
        )
    added = _closure(at, messages)
    return normal((*ranges, *_ranges(at, added))), _seen(at, added)


def _named(at: Standing, ids: Iterable[int]) -> list[Message]:
    """The events with these ids, which must be of this conversation's lineage."""
    wanted = sorted(set(ids))
    found = list(at.store.lookup(id for id in wanted if 0 < id < END))
    lineage = at.lineage
    known = {message.id for message in found if contains(lineage, message.agent_id, message.id)}
    if unknown := [id for id in wanted if id not in known]:
        raise CommandError(f"these ids are not of this conversation: {listing(unknown)}")
    return found


def _talk(at: Standing, planning: tuple[int, int] | None) -> Segments:
    """The range of the planning conversation."""
    if planning is None:
        return ()
    first, last = planning
    if first > last:
        raise CommandError(f"planning is (first id, last id), not ({first}, {last})")
    return (Segment(at.record.id, first, _until_next(at, at.record.id, last)),)


def _closure(at: Standing, messages: Sequence[Message]) -> list[Message]:
    """The rest of every exchange that `messages` touch, visible or not: what is invisible may be brought back."""
    tools = [message for message in messages if message.kind in ("tool_call", "tool_result")]
    found = _exchanges(at, at.store.lookup(message.answers or message.id for message in tools))
    return list(at.store.lookup(sorted(whole([message.id for message in messages], found))))


def _seen(at: Standing, messages: Iterable[Message]) -> tuple[int, ...]:
    """The ids of those that are visible."""
    visible = at.visible
    return tuple(message.id for message in messages if contains(visible, message.agent_id, message.id))


def _exchanges(at: Standing, calls: Iterable[Message]) -> list[Exchange]:
    """The exchanges that these calls are of; what is no call is passed over."""
    found: dict[int, Exchange] = {}
    for call in calls:
        if call.kind == "tool_call" and call.id not in found:
            run = _run(at.store, call)
            exchange = exchange_of(run, at.store.message_before(call.agent_id, run[0].id - 1), results_of(at, run))
            found.update(dict.fromkeys(exchange.calls, exchange))
    return list(dict.fromkeys(found.values()))


def results_of(at: Standing, calls: Sequence[Message]) -> list[Message]:
    """The results of calls, as far as they are of this lineage: others may have answered what they inherited, too."""
    lineage = at.lineage
    return [result for result in at.store.results(calls) if contains(lineage, result.agent_id, result.id)]


def _run(store: Store, call: Message) -> list[Message]:
    """The consecutive calls of one turn around a call, in order."""
    run = calls_before(store, call.agent_id, call.id)[::-1]
    following = store.message_after(call.agent_id, call.id)
    while following is not None and following.kind == "tool_call" and following.turn_id == call.turn_id:
        run.append(following)
        following = store.message_after(call.agent_id, following.id)
    return run


def _still_open(at: Standing) -> list[Exchange]:
    """The exchanges of the open turn that wait for the result of a call; one that left the context waits no more."""
    visible = at.visible
    return _exchanges(
        at, [call for call in at.store.waiting(at.record.id) if contains(visible, call.agent_id, call.id)]
    )


def _ranges(at: Standing, messages: Iterable[Message]) -> Segments:
    """What the ids of `messages` stand for: each the range to just before its agent's next message [SPEC 3]."""
    return normal(Segment(m.agent_id, m.id, _until_next(at, m.agent_id, m.id)) for m in messages)


def _until_next(at: Standing, agent_id: str, event_id: int) -> int:
    following = at.store.message_after(agent_id, event_id)
    if following is not None:
        return following.id - 1
    return at.record.head if agent_id == at.record.id else END


def _shows(at: Standing, segments: Segments, turn_id: int) -> bool:
    return bool(at.store.size(intersect(segments, _ranges(at, at.store.turn(turn_id)))).messages)


def _message(event: Event) -> Message:
    return Message(event.id, event.agent_id, event.turn_id, event.kind, event.answers)


def _restorable(recorded: Sequence[Recorded], back: frozenset[int]) -> str:
    """What there is to restore, for an error message."""
    names = [
        f"{id} ({type(operation).__name__.lower()})"
        for id, operation in reversed(recorded)
        if id not in back and isinstance(operation, RESTORABLE)
    ]
    return f"operations in force: {listing(names, 6)}" if names else "no operation is in force"
