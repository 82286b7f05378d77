"""Questions about the events of a moment that one selection answers (`core.ports.Snapshot.select` and `locate`)."""

from collections.abc import Iterable, Iterator
from itertools import islice

from foldmark.core.agents import AgentRecord, Mail
from foldmark.core.events import MESSAGE_KINDS, Event
from foldmark.core.ports import ALL, APART, ERASED, MESSAGES, OPERATIONS, UNREAD, WAITING, Snapshot
from foldmark.core.records import Memo
from foldmark.core.segments import END, Segment, Segments
from foldmark.core.turns import Message


def event(moment: Snapshot, event_id: int) -> Event | None:
    """Return the event with this id, of any agent."""
    return next(iter(moment.events([event_id])), None)


def events_after(moment: Snapshot, agent_id: str, after: int, limit: int) -> list[Event]:
    """Return the agent's own events with ids above `after`, of all kinds, oldest first, at most `limit`."""
    return list(islice(moment.select((Segment(agent_id, after + 1, END),), ALL, expected=limit), limit))


def operations(moment: Snapshot, agent_id: str, *, after: int = 0, until: int = END) -> list[Event]:
    """Return an agent's operations with ids above `after` and up to `until`, oldest first."""
    return list(moment.select((Segment(agent_id, after + 1, until),), OPERATIONS, expected=END))


def recent(moment: Snapshot, kind: str, agent_id: str, until: int, limit: int) -> list[Event]:
    """Return the agent's own newest unerased events of a kind up to event `until`, newest first, at most `limit`."""
    found = moment.select((Segment(agent_id, 0, until),), kind, newest_first=True, expected=limit)
    return list(islice(found, limit))


def newest(moment: Snapshot, what: str, segments: Segments) -> Event | None:
    """Return the newest event of a selection inside `segments`."""
    return next(moment.select(segments, what, newest_first=True, expected=1), None)


def ids(moment: Snapshot, what: str, segments: Segments) -> list[int]:
    """Return the ids of all events of a selection inside `segments`, by id."""
    return sorted(each.id for each in moment.locate(segments, what, expected=END))


def message_before(moment: Snapshot, agent_id: str, event_id: int) -> Message | None:
    """Return the agent's newest message with an id up to and including `event_id`."""
    return next(moment.locate((Segment(agent_id, 0, event_id),), MESSAGES, newest_first=True, expected=1), None)


def message_after(moment: Snapshot, agent_id: str, event_id: int) -> Message | None:
    """Return the agent's oldest message with an id above `event_id`."""
    return next(moment.locate((Segment(agent_id, event_id + 1, END),), MESSAGES, expected=1), None)


def unread(moment: Snapshot, agent_id: str) -> list[Mail]:
    """Return the agent's unread mail, oldest first."""
    return list(map(Mail.of, moment.select((Segment(agent_id, 0, END),), UNREAD, expected=END)))


def conversations(moment: Snapshot) -> list[AgentRecord]:
    """Return the records of all conversations, the one with the newest event first."""
    found = [record for record in moment.agents() if record.name is not None and not record.deleted]
    return sorted(found, key=lambda record: -record.newest)


def root_of(moment: Snapshot, agent_id: str) -> str:
    """Return the uuid of the root agent of an agent's tree; empty if there is no such agent."""
    record = moment.agent(agent_id)
    return "" if record is None else record.root


def erased_by(moment: Snapshot, event_id: int) -> Event | None:
    """Return the redact operation that erased this event's content; None if it was not erased."""
    gone = event(moment, event_id)
    return event(moment, gone.erased_by) if gone is not None and gone.erased_by is not None else None


def erased(moment: Snapshot, agent_ids: Iterable[str]) -> Iterator[Event]:
    """Yield the erased events of these agents."""
    for agent_id in agent_ids:
        yield from moment.select((Segment(agent_id, 0, END),), ERASED, expected=END)


def tombstones(moment: Snapshot, segments: Segments) -> Iterator[Event]:
    """Yield the erased messages inside `segments`, without content."""
    return (each for each in moment.select(segments, ERASED, expected=END) if each.kind in MESSAGE_KINDS)


def waiting(moment: Snapshot, agent_id: str) -> list[Message]:
    """Return the calls of the agent's open turn that have no result yet."""
    return list(moment.locate((Segment(agent_id, 0, END),), WAITING, expected=END))


def apart_results(moment: Snapshot, agent_id: str, event_id: int) -> list[Message]:
    """Return the results after `event_id` that answer a call before it and are apart from it."""
    found = moment.locate((Segment(agent_id, event_id + 1, END),), APART, expected=END)
    return [each for each in found if each.answers is not None and each.answers <= event_id]


def memo(moment: Snapshot, memo_id: int) -> Memo | None:
    """Return the memo with this id."""
    return next(iter(moment.memos(1, ids=(memo_id,))), None)
