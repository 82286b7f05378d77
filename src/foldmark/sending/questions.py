"""Foldmark's own questions to the agent's model: a judgement, a summary, a state block [SPEC 3, 4]."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from foldmark.core.errors import ContextOverflowError, FoldmarkError
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.request import Request
from foldmark.core.segments import Segments
from foldmark.core.state import parted
from foldmark.request.standing import Standing
from foldmark.sending.sent import quoting, record_sent

if TYPE_CHECKING:
    from foldmark.log.log import Agent

SUMMARIZE = (
    "Summarize the conversation above for yourself: your summary takes its place. Keep the goal, decisions and their "
    "reasons, names, paths, numbers, what is finished and what comes next. Write nothing else."
)
REBUILD = (
    "Write a fresh state block for the conversation above, and nothing else:\n### STATE\nGoal: ...\nContext: ...\n"
    "Resolved: ...\nTechnical Anchors: ..."
)


def ask(
    agent: "Agent",
    question: str,
    purpose: str,
    segments: Segments | None = (),
    *,
    quoted: Sequence[Event] | None = None,
) -> str:
    """Return the model's whole answer to a question about the visible messages in `segments`, or about the window
    (None), or about those `quoted`, which then precede it.

    Blocks, and records only the request. Raises CommandError for a model that cannot be asked, FoldmarkError for an
    empty answer.
    """
    from foldmark.request.prepare import prepare

    instruction = question if quoted is None else quoting(quoted, question)

    def made(moment: Snapshot, at: Standing, limit: int) -> Request:
        provider, _, model = at.config.model.partition("/")
        return prepare(
            moment,
            at,
            at.config,
            provider,
            model or provider,
            only=segments,
            purpose=purpose,
            instruction=instruction,
            limit=limit,
            output=agent.log.model_named(at.config.model).answer,
        )

    def told(request: Request) -> str:
        record_sent(agent, request, question, quoted)
        return agent.log.complete(request).strip()

    with agent.reading() as (moment, at):
        known = agent.log.model_named(at.config.model)
        request = made(moment, at, known.window - known.answer)
    if segments and request.tokens > known.window:
        raise FoldmarkError(
            f"that is ~{request.tokens:,} tokens, more than the {known.window:,} that {at.config.model} takes; nothing "
            "was changed. Name less, as in /summarize MARK or /summarize FROM..TO, or another model"
        )
    try:
        answer = told(request)
    except ContextOverflowError as error:
        with agent.reading() as (moment, at):
            smaller = made(moment, at, error.within(request.tokens))
        if smaller.tokens >= request.tokens:
            raise
        answer = told(smaller)
    if not answer:
        raise FoldmarkError(f"{at.config.model} answered with nothing; nothing was changed")
    return answer


def summarized(agent: "Agent", segments: Segments) -> str:
    """Return the model's summary of the visible messages in `segments`. Raises as `ask`."""
    return ask(agent, SUMMARIZE, "summary", segments)


def rebuilt(agent: "Agent") -> str:
    """Return a fresh state block of the whole window [S2]. Raises as `ask`."""
    answer = ask(agent, REBUILD, "state", None)
    block = parted(answer).block
    if block is None:
        raise FoldmarkError(
            f"the model's answer holds no `### STATE` block; the last one is kept. It said: {answer[:80]}"
        )
    return block
