"""The past of a conversation: its events in order, with those that a fork inherited, and without those that only serve
this machine."""

from collections import deque
from collections.abc import Iterator
from heapq import merge
from typing import Any

from msgspec import Struct

from foldmark.core import selections
from foldmark.core.assembly.eviction import as_sent, begins
from foldmark.core.events import OPERATION_KINDS, Event
from foldmark.core.ports import Snapshot
from foldmark.core.segments import Segment, contains, until
from foldmark.request.client_sizes import SENT
from foldmark.request.standing import AGREED_AT, Standing

_PAGE = 16
"""Number of events that are read at once, each of which may hold megabytes."""

_NOT_HANDED_DOWN = frozenset((*OPERATION_KINDS, "config", "command", "scratchpad", "agent_killed", "window_summary"))
"""Kinds of a parent's events that its fork never reads, besides summaries, which are messages."""

_CONSENT = ("tool_approval", AGREED_AT)


class PastEvent(Struct, frozen=True):
    """An event of a conversation's past."""

    event: Event

    inherited: bool = False
    """True if an ancestor recorded it before the fork."""

    erased: int | None = None
    """Id of the operation that erased it; None if it was not erased."""


def past(moment: Snapshot, at: Standing) -> Iterator[PastEvent]:
    """Yield the events of an agent's lineage in order, read as they are consumed: what it inherited, then its own. An
    operation of another agent that erased one of them is yielded in its place."""
    own, lineage = at.record.id, until(at.lineage, at.last)
    agents = list(dict.fromkeys(segment.agent for segment in lineage))
    gone = (each for each in selections.erased(moment, agents) if contains(lineage, each.agent_id, each.id))
    erased = {each.id: each.erased_by or 0 for each in gone}
    erasing = moment.events(sorted(set(erased.values())))
    others = (PastEvent(event, event.id <= at.record.fork_event) for event in erasing if event.agent_id != own)

    def recorded() -> Iterator[PastEvent]:
        for segment in lineage:
            inherited = segment.agent != own
            for event in _inside(moment, segment):
                if not inherited or event.kind == "summary" or event.kind not in _NOT_HANDED_DOWN:
                    yield PastEvent(event, inherited, erased.get(event.id))

    yield from merge(recorded(), others, key=lambda each: each.event.id)


def _inside(moment: Snapshot, segment: Segment) -> Iterator[Event]:
    after = segment.first - 1
    while page := selections.events_after(moment, segment.agent, after, _PAGE):
        for event in page:
            if event.id > segment.last:
                return
            yield event
        after = page[-1].id


def shown(moment: Snapshot, at: Standing) -> Iterator[Event]:
    """Yield the messages in an agent's context as they are sent, each summary where what it replaced began. They are
    read as they are consumed, twice: summaries are found first."""
    summaries = sorted((event for event in moment.select(at.visible) if event.kind == "summary"), key=begins)
    late = deque(event for event in summaries if begins(event) < event.id)
    moved = {event.id for event in late}
    for event in moment.select(at.visible):
        while late and begins(late[0]) < event.id:
            yield late.popleft()
        if event.id not in moved:
            yield as_sent(event, at.fold.evicted)


def is_carried(kind: str, data: dict[str, Any] | None) -> bool:
    """Return False for an event that only serves this database or this machine: records of a gateway and of imports,
    those of requests, whose texts stay here, and summaries of the window, which are valid only for the ids that they
    name."""
    found = data or {}
    live = kind == "record" and isinstance(found.get("live"), dict)
    return not (live or kind in ("request", "window_summary") or (kind == "command" and "import" in found))


def carried_data(kind: str, data: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return an event's data as a document carries it: without a person's consent to run tools, which counts only where
    it was given, and without what is known of the request that a usage belongs to."""
    if data is None:
        return None
    if kind == "usage":
        return {key: value for key, value in data.items() if key not in ("request", SENT)}
    if kind in ("config", "fork") and isinstance(settings := data.get("settings"), dict):
        return {**data, "settings": without_consent(settings)}
    return data


def without_consent(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings without a person's consent to run tools."""
    return {key: value for key, value in settings.items() if key not in _CONSENT}
