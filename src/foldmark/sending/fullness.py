"""Report the fill level of a context and the start of its window, worded alike in every interface [SPEC 5.5]."""

from typing import TYPE_CHECKING

from foldmark.core.pressure import meter
from foldmark.core.request import Edge, Request
from foldmark.core.segments import until
from foldmark.core.wording import count
from foldmark.request.fullness import counted

if TYPE_CHECKING:
    from foldmark.log.log import Agent


def fullness(agent: "Agent", request: Request) -> str:
    """Return the meter for an agent's next request."""
    edge, known = request.manifest.edge, 0
    with agent.reading() as (moment, at):
        if edge.before and edge.first is not None:
            before = moment.size(until(at.visible, edge.first - 1)).tokens
            known = request.tokens + counted(at, before, request.provider, request.model)
    return meter(request.tokens, agent.window, at.config.sliding_context_tokens, known)


def assumed(agent: "Agent") -> str | None:
    """Return a line that says that the size of the model's window is assumed, and how to set it; None if it is
    known."""
    name = agent.standing().config.model
    known = agent.log.model_named(name)
    if not known.assumed:
        return None
    return (
        f"The window of {known.window:,} tokens is assumed: none is published for {name}. "
        f'Add `window = TOKENS` under [models."{name}"] in .foldmark.toml to set it.'
    )


def rule(edge: Edge) -> str:
    """Return the separator line that shows where the window begins, with an empty line on each side [S3]."""
    return f"\n── the window begins here; {count(edge.before, 'message')} before it: {edge.reason} ──\n"
