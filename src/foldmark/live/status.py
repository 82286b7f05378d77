"""Records of gateways: the sessions, the messages removed from them, and those that their clients left out [SPEC
5.7]."""

from collections.abc import Iterable
from typing import NamedTuple

from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.segments import Segment, normal, subtract
from foldmark.core.wording import count
from foldmark.log import Agent, Log
from foldmark.log.live_session import client_session, client_tokens, gateway_record, left_out
from foldmark.request.client_requests import NextRequest
from foldmark.request.standing import Standing
from foldmark.request.usage import usage_of

_NEWEST = 200
"""Number of newest answers from which the share read from the cache is computed."""


class LiveStatus(NamedTuple):
    """A recorded session: the tokens of its next request and of the model's window, the answers (at most the newest
    200 are counted), the share of their input that was read from the cache, the tokens that were taken out, the
    operations by people and models, and the requests that were passed on unchanged because an edit failed."""

    name: str
    agent: str
    session: str
    tokens: int
    window: int
    answers: int
    cached: float
    taken_out: int
    operations: int
    prevented: int = 0

    @property
    def line(self) -> str:
        """The status in one line."""
        filled = f"{self.tokens:,} of {self.window:,} tokens ({100 * self.tokens // max(1, self.window)}%)"
        parts = [filled, count(self.answers, "answer"), f"{self.cached:.0%} read from cache"]
        parts += [f"~{self.taken_out:,} tokens taken out", count(self.operations, "operation")]
        if self.prevented:
            parts.append(f"{count(self.prevented, 'request')} passed on unedited, since an edit failed")
        return f"{self.name}   {' · '.join(parts)}"


def statuses(log: Log) -> list[LiveStatus]:
    """Return the status of every recorded session, oldest first."""
    found = []
    for agent in log.agents():
        if agent.name is not None and (session := client_session(agent)) is not None:
            found.append(status(agent, session))
    return found


def status(agent: Agent, session: str) -> LiveStatus:
    """Return the status of one recorded session."""
    with agent.reading() as (moment, at):
        usages = [usage_of(event.data) for event in moment.recent("usage", agent.id, at.newest, _NEWEST)]
        out, operations = edits(moment, at)
        tokens, prevented = client_tokens(agent, moment, at), prevented_in(moment, at)
    known = [each for each in usages if each is not None]
    read = sum(each.cache_read for each in known)
    asked = sum(each.fresh + each.cache_read + each.cache_write for each in known)
    return LiveStatus(
        agent.name or agent.id,
        agent.id,
        session,
        tokens,
        agent.window,
        len(known),
        read / asked if asked else 0.0,
        out,
        operations,
        prevented,
    )


def edits(moment: Snapshot, at: Standing) -> tuple[int, int]:
    """Return the tokens that were taken out, and the number of operations by people and models."""
    operations = [event for event in moment.operations(at.record.id) if event.actor != "system"]
    return taken_out(moment, at), len(operations)


_PAGE, _FIRST = 1000, 50


def first_keys(agent: Agent) -> set[str]:
    """Return the keys of the client's first messages: those at the start of the session, and those since it last
    replaced the beginning of its transcript, for example by a compaction."""
    with agent.reading() as (moment, at):
        found = _beginnings(agent.events(0, _FIRST))
        for operation in reversed(list(left_out(moment, at))):
            # The messages that replaced others, and the record of them.
            if newest := _beginnings(moment.events_after(agent.id, operation.id, _FIRST)):
                return found | newest
    return found


def _beginnings(events: Iterable[Event]) -> set[str]:
    """Return the keys of the first messages of entirely new transcripts, from a gateway's records among `events`."""
    found = [about for about in map(gateway_record, events) if about is not None and about.get("added")]
    return {about["added"][0][0] for about in found if not about["kept"]}


def taken_out(moment: Snapshot, at: Standing) -> int:
    """Return the tokens that operations take out of the client's next request (`NextRequest`): messages, evicted
    results, and thinking that can no longer be sent. Without recorded sizes, the estimate of the messages."""
    if not any(event.actor != "system" for event in moment.operations(at.record.id)):
        return 0
    if (request := NextRequest.of(moment, at)) is not None:
        return request.taken_out()
    ranges = [Segment(*each) for event in left_out(moment, at) for each in (event.data or {}).get("ranges", ())]
    left = moment.size(subtract(normal(ranges), at.visible)).tokens
    return max(0, at.record.own.tokens - at.size.tokens - left)


def prevented_in(moment: Snapshot, at: Standing) -> int:
    """Return the number of a session's requests that were passed on unchanged because an edit failed."""
    reach = _PAGE
    while True:  # a session's newest events hold a record, unless much else was recorded in the database since
        after = max(0, at.newest - reach)
        for event in reversed(moment.events_after(at.record.id, after, _PAGE)):
            if (about := gateway_record(event)) is not None:
                return int(about.get("prevented", 0))
        if not after:
            return 0
        reach *= 10
