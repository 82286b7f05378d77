"""The neighbours of a message, wherever it was found: in the context, forgotten or erased [SPEC 7]."""

from collections.abc import Callable
from itertools import islice

from msgspec import Struct

from foldmark.core.errors import CommandError
from foldmark.core.events import ROLES, Event
from foldmark.core.ports import Snapshot
from foldmark.core.segments import END, Segment, Segments, contains

MOST = 1000
"""Maximum number of neighbours on each side."""

_FAR = 10_000
"""Range of ids on each side in which erased messages are looked for: only live ones have an index."""


class Neighbour(Struct, frozen=True):
    """A message beside another, or that one itself. `visible` is True if it is in the context of the agent that wrote
    it; an `erased` one has no content."""

    event: Event
    visible: bool
    erased: bool = False


def around(moment: Snapshot, visible: Callable[[str], Segments], event_id: int, reach: int) -> list[Neighbour]:
    """Return a message and up to `reach` messages of the same agent on each side of it, in the order of the log.

    Raises CommandError if there is no such message, or for a reach outside of 0 to 1000.
    """
    if not isinstance(reach, int) or not 0 <= reach <= MOST:
        raise CommandError(f"as many as 0 to {MOST} neighbours can be asked for, not {str(reach)[:40]}")
    event = message(moment, event_id)
    agent = event.agent_id
    before = list(islice(moment.messages((Segment(agent, 1, event_id - 1),), newest_first=True), reach))
    behind = list(islice(moment.messages((Segment(agent, event_id + 1, END),)), reach))
    first = [event_id, *(each.id for each in before)][-1] if len(before) == reach else 1
    last = [event_id, *(each.id for each in behind)][-1] if len(behind) == reach else END
    near = Segment(agent, max(first, event_id - _FAR), min(last, event_id + _FAR))
    gone = {each.id: each for each in moment.tombstones((near,))}
    found = sorted({event_id: event, **{each.id: each for each in (*before, *behind)}, **gone}.items())
    at = next(place for place, (id, _) in enumerate(found) if id == event_id)
    record = moment.agent(agent)
    shown = visible(agent) if record and not record.deleted else ()
    return [
        Neighbour(each, id not in gone and contains(shown, agent, id), id in gone)
        for id, each in found[max(0, at - reach) : at + reach + 1]
    ]


def message(moment: Snapshot, event_id: int) -> Event:
    """Return the message with this id. Raises CommandError."""
    event = moment.event(event_id) if isinstance(event_id, int) and 0 < event_id < END else None
    if event is None:
        raise CommandError(f"there is no message {str(event_id)[:40]}; a search names those it finds")
    if event.kind not in ROLES:
        raise CommandError(f"event {event_id} is no message but what is recorded as {event.kind.replace('_', ' ')}")
    return event
