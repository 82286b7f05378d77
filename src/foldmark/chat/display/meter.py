"""The data of the chat's meter: the agent, its activity, how full its context is, and its cost so far."""

from typing import NamedTuple

from foldmark.chat.display.operated import brief
from foldmark.chat.live import is_live
from foldmark.core.wording import light, percent
from foldmark.cost.filling import FORM, Portion, shares
from foldmark.cost.messages import NextMessages
from foldmark.cost.spending import Spending, spent
from foldmark.log import Agent
from foldmark.log.family import here, running
from foldmark.log.live_session import client_tokens
from foldmark.request.standing import Standing, end_of

IDLE, ANSWERING, ELSEWHERE, ENDED = "idle", "answering", "another program answers", "ended"
WORKING = "at work"
"""The state of the agent of a live session while its turn is open."""

_FOLDMARKS = ("system", "tools", "state", "memos", FORM)
"""The kinds of content that the client itself adds to its requests; Foldmark knows only their sum."""


class MeterReading(NamedTuple):
    """An agent's next request against its nearest limit: the `budget`, above which older turns are left out, or the
    model's `window`. `shares` is the composition of the request; `light` is always relative to the window."""

    name: str
    model: str
    state: str
    tokens: int
    limit: int
    limited_by: str
    light: str
    shares: tuple[Portion, ...]
    spending: Spending

    @property
    def free(self) -> int:
        """The number of tokens left."""
        return max(0, self.limit - self.tokens)

    @property
    def share(self) -> str:
        """`⚪ 62%`."""
        return f"{self.light} {percent(self.tokens, self.limit)}%"

    @property
    def fullness(self) -> str:
        """`⚪ 62% · 62K of 100K budget`."""
        return f"{self.share} · {brief(self.tokens)} of {brief(self.limit)} {self.limited_by}"

    @property
    def cost(self) -> str:
        """`cache 87% · $0.84`, or a part of it if the rest is unknown; `$0.84+` if the price of some requests is
        unknown."""
        spending, found = self.spending, []
        if spending.read:
            found.append(f"cache {spending.cached}%")
        if spending.price:
            found.append(spending.price)
        return " · ".join(found)


def meter(agent: Agent, before: Spending | None = None) -> MeterReading:
    """Return the current meter of an agent; `before` is its spending at an earlier moment. Raises FoldmarkError if no
    request can be made.

    For a live session, the request is that of the session's agent; all tokens outside its messages count as its system
    prompt.
    """
    with agent.reading() as (moment, at):
        request, spending = agent.next_request(), spent(moment, agent, before)
        tokens, filled = request.tokens, shares(NextMessages(moment, at, request).portions)
        if is_live(agent):
            tokens = client_tokens(agent, moment, at)
            filled = [share for share in filled if share.kind not in _FOLDMARKS]
            own = max(0, tokens - sum(share.tokens for share in filled))
            filled.insert(0, Portion("system", "system", own))
        limit, limited_by = _limit(agent.window, at)
        state = ENDED if end_of(moment, agent.id) is not None else state_of(agent)
    return MeterReading(
        agent.name or f"agent {agent.id[:8]}",
        at.model[1],
        state,
        tokens,
        limit,
        limited_by,
        light(percent(tokens, agent.window)),
        tuple(filled),
        spending,
    )


def state_of(agent: Agent) -> str:
    """Return the current activity of an agent. Costs two reads."""
    lease = running(agent)
    if lease is None:
        return WORKING if agent.open_turn is not None and is_live(agent) else IDLE
    return ANSWERING if (lease.host, lease.process) == here() else ELSEWHERE


def _limit(window: int, at: Standing) -> tuple[int, str]:
    budget = at.config.sliding_context_tokens
    return (budget, "budget") if 0 < budget < window else (window, "window")
