"""How full a context is, and where its window begins: one line each, the same on every interface [SPEC 5.5]."""

from math import ceil
from typing import TYPE_CHECKING

from foldmark.conversation.standing import Standing
from foldmark.core.pressure import meter
from foldmark.core.request import Edge, Request
from foldmark.core.wording import count
from foldmark.tokens.counting import BytesRuler, ruler

if TYPE_CHECKING:
    from foldmark.conversation.agent import Agent


def fullness(agent: "Agent", request: Request) -> str:
    """The meter of an agent whose next request is this one."""
    at = agent.standing()
    edge = request.manifest.edge
    budget = at.config.sliding_context_tokens if edge.why == "budget" else 0
    known = whole(at, request.provider, request.model) if edge.before else 0
    return meter(request.tokens, agent.window, budget, known)


def whole(at: Standing, provider: str, model: str) -> int:
    """The tokens of the whole context as requests to this model are counted, from the sums that were stored."""
    measure = ruler(provider, model, at.config)
    return ceil(at.size.tokens * 4 / measure.ratio) if isinstance(measure, BytesRuler) else at.size.tokens


def rule(edge: Edge) -> str:
    """The line across the text that shows where the window begins, with an empty line on each side [S3]."""
    return f"\n── the window begins here; {count(edge.before, 'message')} before it: {edge.detail} ──\n"
