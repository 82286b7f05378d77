"""How full a context is, and where its window begins: one line each, the same on every interface [SPEC 5.5]."""

from math import ceil
from typing import TYPE_CHECKING

from foldmark.conversation.standing import Standing
from foldmark.core.pressure import meter
from foldmark.core.request import Edge, Request
from foldmark.core.segments import until
from foldmark.core.wording import count
from foldmark.tokens.counting import BytesRuler, ruler

if TYPE_CHECKING:
    from foldmark.conversation.agent import Agent


def fullness(agent: "Agent", request: Request) -> str:
    """The meter of an agent whose next request is this one."""
    at, edge = agent.standing(), request.manifest.edge
    known = 0
    if edge.before and edge.first is not None:
        before = at.store.size(until(at.visible, edge.first - 1)).tokens
        known = request.tokens + _counted(at, before, request.provider, request.model)
    return meter(request.tokens, agent.window, at.config.sliding_context_tokens, known)


def assumed(agent: "Agent") -> str | None:
    """One line that says that the window of the agent's model is a guess, and how to set it; None if it is known."""
    name = agent.standing().config.model
    known = agent.log.model_named(name)
    if not known.assumed:
        return None
    return (
        f"The window of {known.window:,} tokens is assumed: none is published for {name}. "
        f'Add `window = TOKENS` under [models."{name}"] in .foldmark.toml to set it.'
    )


def whole(at: Standing, provider: str, model: str) -> int:
    """The tokens of the whole context as requests to this model are counted, from the sums that were stored."""
    return _counted(at, at.size.tokens, provider, model)


def _counted(at: Standing, tokens: int, provider: str, model: str) -> int:
    """Stored tokens, which are bytes / 4, as requests to this model are counted."""
    measure = ruler(provider, model, at.config)
    return ceil(tokens * 4 / measure.ratio) if isinstance(measure, BytesRuler) else tokens


def rule(edge: Edge) -> str:
    """The line across the text that shows where the window begins, with an empty line on each side [S3]."""
    return f"\n── the window begins here; {count(edge.before, 'message')} before it: {edge.reason} ──\n"
