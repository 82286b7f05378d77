"""What gateways have recorded: the sessions, and what was taken out of them [SPEC 5.7]."""

from typing import NamedTuple

from foldmark.core.ports import Snapshot
from foldmark.core.wording import count
from foldmark.live.gateway_records import prevented_in, taken_out
from foldmark.log import Agent, Log
from foldmark.log.live_session import client_session, client_tokens
from foldmark.request.standing import Standing
from foldmark.request.usage import usage_of

_NEWEST = 200
"""Answers that the share of the cache is taken of."""


class LiveStatus(NamedTuple):
    """A recorded session: the tokens of its next request and of the model's window, the answers (at most the newest
    200 are counted), the share of their input that was read from the cache, the tokens that were taken out, the
    operations of people and models, and the requests that were passed on as they came because an edit failed."""

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
    """Return the tokens that were taken out, and the number of operations of people and models."""
    operations = [event for event in moment.operations(at.record.id) if event.actor != "system"]
    return taken_out(moment, at), len(operations)
