"""Resolve places to go back to and to fork from: marks, and the beginnings of turns [SPEC 3, 6]."""

from typing import NamedTuple

from msgspec.structs import replace

from foldmark.core import selections
from foldmark.core.assembly.eviction import in_place_newest_first
from foldmark.core.errors import CommandError
from foldmark.core.events import Fork, Rewind
from foldmark.core.ports import Snapshot
from foldmark.core.segments import END, Segment, Segments, contains, intersect, normal, subtract
from foldmark.core.turns import settle
from foldmark.core.wording import listing
from foldmark.operations.decide import turns_named
from foldmark.request.exchanges import calls_before, exchanges, ranges_of, still_open, summaries_before
from foldmark.request.planning import not_while_planning
from foldmark.request.standing import Standing

ID_DIGITS = 20
"""Maximum number of digits read of an id; the largest id has 19."""


def rewind(moment: Snapshot, at: Standing, name: str | None) -> Rewind:
    """Return a rewind to a mark or to the beginning of a turn, given by its id; by default to the newest mark."""
    return _back_to(_placed(moment, at, name))


def retry(moment: Snapshot, at: Standing) -> Rewind:
    """Return a rewind to the newest question, so that it can be answered again: the message of a person, or another one
    that opened a turn."""
    not_while_planning(moment, at, "its questions are not asked again")
    for message in in_place_newest_first(moment.select(at.visible, newest_first=True)):
        if message.kind == "summary":
            raise _is_summary("the newest turn", message.id)
        opens = message.id == message.turn_id or bool((message.data or {}).get("birth"))
        if message.kind == "user" and (message.actor == "human" or opens):
            return _back_to(_place_in(moment, at, message.turn_id, message.id))
    raise CommandError("there is nothing to retry: the context holds no prompt; type one")


def _back_to(place: "_Place") -> Rewind:
    return Rewind(place.mark, place.event, place.position, place.kept, place.turn, place.inherited)


def fork(moment: Snapshot, at: Standing, name: str | None, child: str) -> Fork:
    """Return the fork that creates `child`. With a mark the child inherits everything after it, with the id of a turn
    that turn and everything after it, and without a name everything visible and the scratchpad. The open exchange is
    left out, with its text."""
    not_while_planning(moment, at, "no child should inherit it")
    if name is None:
        return _forked(moment, at, Fork(child, without_open(moment, at, at.visible), scratchpad=at.scratchpad))
    place = _placed(moment, at, name)
    own = intersect(at.visible, [Segment(at.record.id, place.position + 1, END)])
    stay = [Segment(at.record.id, each, each) for each in place.kept]
    start = normal((*place.inherited, *subtract(own, stay)))
    fork = Fork(child, without_open(moment, at, start), place.mark, place.position, turn=place.turn)
    return _forked(moment, at, fork)


def delegated(moment: Snapshot, at: Standing, fork: Fork) -> Fork:
    """Return a fork from a place as a person means it in a chat, where a model has answered the goal: if the child
    would inherit one turn of the person, it gets what the person said in it. Raises CommandError if the child would
    inherit nothing."""
    if not moment.size(fork.start).messages:
        raise CommandError(
            f"nothing came after {fork.place}, so the child would have no goal: type the goal, or `/note GOAL`, and "
            "fork again. `/fork` alone gives a child the whole context"
        )
    turn, said = None, list[int]()
    for message in moment.select(fork.start):
        if message.kind == "user" and message.actor == "human":
            if said and message.turn_id != turn:
                return fork
            turn = message.turn_id
            said.append(message.id)
    if not said:
        return fork
    return _forked(moment, at, replace(fork, start=intersect(fork.start, ranges_of(moment, at, moment.lookup(said)))))


def _forked(moment: Snapshot, at: Standing, fork: Fork) -> Fork:
    """Return a fork with the pins and evictions of its start, and the parent's settings."""
    pins = tuple(pin for pin in at.fold.pins if _shows_turn(moment, at, fork.start, pin))
    evicted = tuple(m.id for m in moment.lookup(sorted(at.fold.evicted)) if contains(fork.start, m.agent_id, m.id))
    return replace(fork, pins=pins, evicted=evicted, settings=at.settings)


class _Place(NamedTuple):
    """Where a rewind ends or a fork begins: at a mark or before a turn."""

    mark: str | None
    """The mark's name; None for a turn."""

    turn: int | None
    """The turn's id; None for a mark."""

    event: int
    """Id of the mark's event, or of the last event before the turn."""

    position: int
    """Id of the last event that stays."""

    kept: tuple[int, ...]
    """Ids of summaries that were recorded later and replace messages before this place."""

    inherited: Segments
    """Visible ranges of ancestors after this place."""


def _placed(moment: Snapshot, at: Standing, name: str | None) -> _Place:
    """Return the place of a mark, by default the newest, or before a turn with visible messages, named by its id. A
    mark may have a number as its name."""
    if name is None or name in at.fold.marks or not (name.isascii() and name.isdigit() and int(name[:ID_DIGITS])):
        name, mark_id, position = marked(moment, at, name)
        return _Place(name, None, mark_id, position, summaries_before(moment, at, position), ())
    turn = int(name[:ID_DIGITS])
    if turns_named(moment, at, [turn])[turn][0].kind == "summary":
        raise _is_summary(f"turn {turn}", turn)
    return _place_in(moment, at, turn, turn - 1)


def _place_in(moment: Snapshot, at: Standing, turn: int | None, position: int) -> _Place:
    """Return the place behind a position before or in a turn, which may be inherited."""
    own, agents = at.record.id, {at.record.id, *(segment.agent for segment in at.lineage)}
    kept = summaries_before(moment, at, position, agents)
    later = intersect(at.visible, [Segment(agent, position + 1, END) for agent in agents])
    stay = [Segment(agent, each, each) for agent in agents for each in kept]
    inherited = tuple(segment for segment in subtract(later, stay) if segment.agent != own)
    return _Place(None, turn, position, _settled_position(moment, at, position), kept, inherited)


def _is_summary(what: str, event_id: int) -> CommandError:
    return CommandError(f"{what} is a summary; `/restore {event_id}` brings back the messages that it replaces")


def marked(moment: Snapshot, at: Standing, name: str | None) -> tuple[str, int, int]:
    """Return a mark's name, its event and the position of a cut there."""
    marks = at.fold.marks
    if name is None:
        if not marks:
            raise CommandError("No checkpoint yet. Use /mark.")
        name = max(marks, key=lambda each: marks[each])
    if name not in marks:
        available = f"marks: {listing(marks)}" if marks else "no mark is set yet. `/mark NAME` sets one"
        raise CommandError(f"there is no mark '{name}'; {available}")
    return name, marks[name], _settled_position(moment, at, marks[name])


def without_open(moment: Snapshot, at: Standing, ranges: Segments) -> Segments:
    """Return `ranges` without the open exchanges and their texts."""
    for exchange in still_open(moment, at):
        ranges = subtract(ranges, ranges_of(moment, at, moment.lookup((exchange.first, *exchange.members))))
    return ranges


def _settled_position(moment: Snapshot, at: Standing, position: int) -> int:
    """Return the position of a cut that splits no exchange. It is moved until it is outside all exchanges: after the
    last result of one exchange it may still be inside another one."""
    own, waiting = at.record.id, still_open(moment, at)
    while True:
        apart = moment.lookup(each.answers or 0 for each in selections.apart_results(moment, own, position))
        found = exchanges(moment, at, [*calls_before(moment, own, position), *apart])
        moved = settle(position, found, waiting)
        if moved <= position:
            return moved
        position = moved


def _shows_turn(moment: Snapshot, at: Standing, segments: Segments, turn_id: int) -> bool:
    return bool(moment.size(intersect(segments, ranges_of(moment, at, moment.turns([turn_id])[turn_id]))).messages)
