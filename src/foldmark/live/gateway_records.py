"""What the records of a gateway in the log say of a session [SPEC 5.7]."""

from collections.abc import Iterable, Iterator

from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.segments import Segment, normal, subtract
from foldmark.log import Agent
from foldmark.log.live_session import gateway_record
from foldmark.request.standing import Standing

LEFT = "the client no longer sends it"
"""The reason of the operation by which messages leave the context that the client has left out itself."""

_PAGE, _FIRST = 1000, 50


def first_keys(agent: Agent) -> set[str]:
    """Return the keys of the messages that the client began with, and that it has sent first since it replaced its
    beginning for the last time, as by a compaction."""
    with agent.reading() as (moment, at):
        found = _beginnings(agent.events(0, _FIRST))
        for operation in reversed(list(_left_out(moment, at))):
            # The messages that took the place of others, and the record of them.
            if newest := _beginnings(moment.events_after(agent.id, operation.id, _FIRST)):
                return found | newest
    return found


def _beginnings(events: Iterable[Event]) -> set[str]:
    """Return the first messages of transcripts that are wholly new, by what a gateway recorded among events."""
    found = [about for about in map(gateway_record, events) if about is not None and about.get("added")]
    return {about["added"][0][0] for about in found if not about["kept"]}


def _left_out(moment: Snapshot, at: Standing) -> Iterator[Event]:
    """Yield the operations by which messages left that the client has left out itself."""
    return (event for event in moment.operations(at.record.id) if event.kind == "filter" and event.reason == LEFT)


def taken_out(moment: Snapshot, at: Standing) -> int:
    """Return the tokens that operations keep out of what the client sends; what it has left out itself does not
    count."""
    ranges = [Segment(*each) for event in _left_out(moment, at) for each in (event.data or {}).get("ranges", ())]
    left = moment.size(subtract(normal(ranges), at.visible)).tokens
    return max(0, at.record.own.tokens - at.size.tokens - left)


def prevented_in(moment: Snapshot, at: Standing) -> int:
    """Return the number of a session's requests that were passed on as they came because an edit failed."""
    reach = _PAGE
    while True:  # a session's newest events hold a record, unless much else was recorded in the database since
        after = max(0, at.newest - reach)
        for event in reversed(moment.events_after(at.record.id, after, _PAGE)):
            if (about := gateway_record(event)) is not None:
                return int(about.get("prevented", 0))
        if not after:
            return 0
        reach *= 10
