"""Read a message of any conversation with its neighbours [SPEC 7]."""

import re

from foldmark.core.errors import CommandError
from foldmark.core.events import ROLES, Event
from foldmark.core.passages import Excerpt, PassageMessage
from foldmark.core.ports import Snapshot
from foldmark.core.segments import contains
from foldmark.core.wording import one_line
from foldmark.log.log import Log
from foldmark.log.neighbours import Neighbour, message

_NUMBER = re.compile("[0-9]{1,18}")
_PLACE = re.compile(r"(.*):([0-9]{1,18})", re.DOTALL)


def message_named(log: Log, named: str) -> int | None:
    """Return the message named by EVENT_ID or NAME:EVENT_ID, NAME as in `Log.find`; None if it may name something else.
    Raises CommandError for a message of another conversation than the one named."""
    with log.store.read() as moment:
        if _NUMBER.fullmatch(named):
            event = moment.event(int(named))
            return event.id if event is not None and event.kind in ROLES else None
        match = _PLACE.fullmatch(named)
        if match is None:
            return None
        try:
            agent = log.find(match[1])
        except CommandError:
            return None
        event = moment.event(int(match[2]))
        if event is not None and contains(agent.standing_in(moment).lineage, event.agent_id, event.id):
            return message(moment, event.id).id
        whose = _whose(moment, event)
    raise CommandError(f"there is no message {match[2]} in {agent.name or agent.id[:8]}{whose}")


def excerpt(log: Log, event_id: int, reach: int) -> Excerpt:
    """Return a message with its neighbours. Raises CommandError."""
    with log.store.read() as moment:
        found = log.around(event_id, reach)
        record = moment.agent(found[0].event.agent_id)
        assert record is not None
        name = f"conversation '{record.name}', " if record.name else ""
        return Excerpt(f"{name}agent {record.id[:8]}", tuple(_line(moment, each, event_id) for each in found))


def _line(moment: Snapshot, neighbour: Neighbour, asked: int) -> PassageMessage:
    event, note = neighbour.event, "" if neighbour.visible else "not in the context"
    if neighbour.erased and (by := moment.erased_by(event.id)):
        note = f"erased by a {by.actor} on {by.created_at[:10]}"
    call = moment.event(event.answers) if event.kind == "tool_result" and event.answers else event
    tool = (call.data or {}).get("name") if call and event.kind in ("tool_call", "tool_result") else None
    return PassageMessage(
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
    """Return a substitute for the text of a message without one: the kinds of its blocks, which may be anything."""
    blocks = (event.data or {}).get("blocks")
    kinds = [each.get("type") for each in blocks if isinstance(each, dict)] if isinstance(blocks, list) else []
    return ", ".join(f"[{kind}]" for kind in kinds)


def _whose(moment: Snapshot, event: Event | None) -> str:
    record = moment.agent(event.agent_id) if event else None
    return f"; it is {one_line(record.name or record.id[:8])}'s" if record else ""
