"""The planning conversation: a person and a model agree on what to forget or to remember [SPEC 4.2, S1].

It is tracked here alone, from events: a `command` event says where it begins, another what was previewed. A model's
ids are checked against these and never trusted. It is over when a filter for it was recorded (with ids: applied;
without: cancelled), when `/clear` or a rewind behind its start took it along, or when its first message left the
context in another way; taking such an operation back does not open it again. A preview that left the context counts no
more.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, convert

from foldmark.conversation.standing import Standing
from foldmark.core.codec import operation_of
from foldmark.core.errors import CommandError
from foldmark.core.events import Clear, Drop, Event, Filter, Operation, Rewind, Summary, Undo
from foldmark.core.replay import replay
from foldmark.core.segments import END, Segment, Segments, contains, intersect


class Preview(Struct, frozen=True):
    """What was shown last: the ids that match, and the event that recorded them."""

    mode: str
    criteria: str
    ids: tuple[int, ...]
    event_id: int = 0


class Planning(Struct, frozen=True):
    """An open planning conversation: its first message, what was asked for, what was previewed."""

    first: int
    mode: str
    criteria: str
    preview: Preview | None = None


def planning(at: Standing) -> Planning | None:
    """The planning conversation that is open."""
    own = at.record.id
    found = _read(at.store.newest("command", (Segment(own, 1, at.newest),)))
    if found is None or not at.store.size((Segment(own, found.first, found.first),)).messages:
        return None
    operations = at.store.operations(own, after=found.first, until=at.newest)
    if any(_ends(operation_of(event), own, found.first) for event in operations):
        return None
    # Its newest record that is in the context: one of a preview that nobody sees any more does not count.
    return _read(at.store.newest("command", intersect(at.visible, (Segment(own, found.first, at.newest),))))


def _ends(operation: Operation, own: str, first: int) -> bool:
    """Whether an operation ends the planning conversation that begins with event `first`."""
    match operation:
        case Filter(planning=(start, _)) if start == first:
            return True
        case Clear():
            return True
        case Rewind(position=position):
            return position < first
        case Filter(ranges=ranges) | Drop(ranges=ranges) | Undo(ranges=ranges) | Summary(ranges=ranges):
            return contains(ranges, own, first)
        case _:
            return False


def not_while_planning(at: Standing, why: str) -> None:
    """Raise CommandError if a planning conversation is open, or ends with the turn that goes on."""
    if planning(at) is not None or at.fold.closing is not None:
        raise CommandError(f"a planning conversation is under way, and {why}; agree to the filter or /cancel first")


def talk(at: Standing) -> Segments:
    """The planning conversation that is open, or what was visible of the one just closed in the turn that goes on."""
    own = at.record.id
    if (open_one := planning(at)) is not None:
        return (Segment(own, open_one.first, END),)
    if at.fold.closing is None:
        return ()
    filter_id, first = at.fold.closing
    others = [(event.id, operation_of(event)) for event in at.store.operations(own) if event.id != filter_id]
    return intersect(replay(at.origin, others).segments, (Segment(own, first, END),))


def opening(first: int, mode: str, criteria: str) -> dict[str, Any]:
    """The data of the `command` event that says where a planning conversation begins."""
    return {"name": mode, "planning": {"first": first, "mode": mode, "criteria": criteria}}


def previewed(talk: Planning, mode: str, criteria: str, ids: Sequence[int]) -> dict[str, Any]:
    """The data of the `command` event that says what was previewed."""
    preview = {"mode": mode, "criteria": criteria, "ids": list(ids)}
    return {**opening(talk.first, talk.mode, talk.criteria), "name": "preview", "preview": preview}


def _read(event: Event | None) -> Planning | None:
    data = (event.data or {}) if event else {}
    if event is None or "planning" not in data:
        return None
    shown = data.get("preview")
    preview = convert({**shown, "event_id": event.id}, Preview) if shown else None
    return Planning(**data["planning"], preview=preview)
