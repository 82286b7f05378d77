"""What stands around a message, wherever it was found: in the context, forgotten or erased [SPEC 7]."""

import re
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from foldmark.core.errors import CommandError
from foldmark.core.events import ROLES, Event
from foldmark.core.passages import Excerpt, Line
from foldmark.core.segments import END, Segment, contains
from foldmark.core.wording import one_line

if TYPE_CHECKING:
    from foldmark.conversation.log import Log

MOST = 1000
"""Neighbours on each side that can be asked for."""

_FAR = 10_000
"""Ids before and behind a message among which erased ones are looked for: only live ones have an index."""

_NUMBER = re.compile("[0-9]{1,18}")
_PLACE = re.compile(r"(.*):([0-9]{1,18})", re.DOTALL)


class Neighbour(Struct, frozen=True):
    """A message beside another, or that one itself. `visible` is whether it is in the context of the agent that wrote
    it; of one that was `erased` no content is left."""

    event: Event
    visible: bool
    erased: bool = False


def around(log: "Log", event_id: int, reach: int) -> list[Neighbour]:
    """A message and up to `reach` messages of the same agent on each side of it, in the order of the log.

    Raises CommandError if there is no such message, or for a reach outside of 0 to 1000.
    """
    if not isinstance(reach, int) or not 0 <= reach <= MOST:
        raise CommandError(f"as many as 0 to {MOST} neighbours can be asked for, not {str(reach)[:40]}")
    event, store = _message(log, event_id), log.store
    agent = event.agent_id
    before = list(islice(store.messages((Segment(agent, 1, event_id - 1),), newest_first=True), reach))
    behind = list(islice(store.messages((Segment(agent, event_id + 1, END),)), reach))
    first = [event_id, *(each.id for each in before)][-1] if len(before) == reach else 1
    last = [event_id, *(each.id for each in behind)][-1] if len(behind) == reach else END
    near = Segment(agent, max(first, event_id - _FAR), min(last, event_id + _FAR))
    gone = {each.id: each for each in store.tombstones((near,))}
    found = sorted({event_id: event, **{each.id: each for each in (*before, *behind)}, **gone}.items())
    at = next(place for place, (id, _) in enumerate(found) if id == event_id)
    record = store.agent(agent)
    visible = log.agent(agent).standing().visible if record and not record.deleted else ()
    return [
        Neighbour(each, id not in gone and contains(visible, agent, id), id in gone)
        for id, each in found[max(0, at - reach) : at + reach + 1]
    ]


def message_named(log: "Log", named: str) -> int | None:
    """The message that EVENT_ID or NAME:EVENT_ID stands for, NAME as in `Log.find`; None where it may be something
    else's name. Raises CommandError for a message of another conversation than the one named."""
    if _NUMBER.fullmatch(named):
        event = log.store.event(int(named))
        return event.id if event is not None and event.kind in ROLES else None
    match = _PLACE.fullmatch(named)
    if match is None:
        return None
    try:
        agent = log.find(match[1])
    except CommandError:
        return None
    event = log.store.event(int(match[2]))
    if event is not None and contains(agent.standing().lineage, event.agent_id, event.id):
        return _message(log, event.id).id
    raise CommandError(f"there is no message {match[2]} in {agent.name or agent.id[:8]}{_whose(log, event)}")


def excerpt(log: "Log", event_id: int, reach: int) -> Excerpt:
    """A message and those around it, to be read. Raises CommandError."""
    found = around(log, event_id, reach)
    record = log.store.agent(found[0].event.agent_id)
    assert record is not None
    name = f"conversation '{record.name}', " if record.name else ""
    return Excerpt(f"{name}agent {record.id[:8]}", tuple(_line(log, each, event_id) for each in found))


def _line(log: "Log", neighbour: Neighbour, asked: int) -> Line:
    event, note = neighbour.event, "" if neighbour.visible else "not in the context"
    if neighbour.erased and (by := log.store.erased_by(event.id)):
        note = f"erased by a {by.actor} on {by.created_at[:10]}"
    call = log.store.event(event.answers) if event.kind == "tool_result" and event.answers else event
    tool = (call.data or {}).get("name") if call and event.kind in ("tool_call", "tool_result") else None
    return Line(
        f"message {event.id}",
        str(event.id),
        event.kind,
        tool if isinstance(tool, str) else None,
        event.created_at,
        event.content or _without_text(event),
        event.id == asked,
        note,
    )


def _without_text(event: Event) -> str:
    """What a message without a text has in its place: the kinds of its blocks, which may be anything."""
    blocks = (event.data or {}).get("blocks")
    kinds = [each.get("type") for each in blocks if isinstance(each, dict)] if isinstance(blocks, list) else []
    return ", ".join(f"[{kind}]" for kind in kinds)


def _message(log: "Log", event_id: int) -> Event:
    event = log.store.event(event_id) if isinstance(event_id, int) and 0 < event_id < END else None
    if event is None:
        raise CommandError(f"there is no message {str(event_id)[:40]}; a search names those it finds")
    if event.kind not in ROLES:
        raise CommandError(f"event {event_id} is no message but what is recorded as {event.kind.replace('_', ' ')}")
    return event


def _whose(log: "Log", event: Event | None) -> str:
    record = log.store.agent(event.agent_id) if event else None
    return f"; it is {one_line(record.name or record.id[:8])}'s" if record else ""
