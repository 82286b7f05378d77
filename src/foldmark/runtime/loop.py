"""One turn: from a person's text to idle [SPEC 4, 6].

Text, model, tool calls, results, and again, until the model calls nothing. Each step is recorded before it is acted
on. Tools run in a thread of their own, so that the turn stays responsive; `slash` calls of one batch run last.
"""

from asyncio import CancelledError, create_task, to_thread, wait
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

from foldmark.conversation import Agent
from foldmark.conversation.answers import append_answer
from foldmark.conversation.asking import NOBODY, Asking
from foldmark.conversation.interruption import CURRENT, Interruption
from foldmark.conversation.planning import planning
from foldmark.conversation.reminders import reminder
from foldmark.conversation.usage import calibrate, record_usage
from foldmark.core.answer import Piece, distinct
from foldmark.core.errors import ConflictError, FoldmarkError, StoreError
from foldmark.core.ports import Provider
from foldmark.core.request import Request, ToolCall
from foldmark.runtime.asking import Answer, ask

_T = TypeVar("_T")

ATTEMPTS = 5
"""How often an answer is recorded anew when others write to the same agent meanwhile."""

MOST_STEPS = 50
"""Requests of one turn."""


class Shown(NamedTuple):
    """What an interface shows of a turn while it runs: text as it streams, each tool call before it runs, and whatever
    else comes (thoughts, waiting for a provider, how the answer ended)."""

    text: Callable[[str], None]
    call: Callable[[ToolCall], None]
    other: Callable[[Piece], None] = lambda _: None

    def piece(self, piece: Piece) -> None:
        """Show a piece of an answer; calls are shown when they run."""
        if isinstance(piece, str):
            self.text(piece)
        elif not isinstance(piece, ToolCall):
            self.other(piece)


async def turn(agent: Agent, provider: Provider, text: str | None, show: Shown, asking: Asking = NOBODY) -> None:
    """Record `text` and answer it, step by step, until the model is done; without a text go on in the open turn.

    The user's text is recorded before the model is asked. When the turn is cancelled, or the model fails, what there is
    of the answer is kept, marked as interrupted, and the turn is closed; the exception goes on. A turn that a crash
    left open is closed first.
    """
    if text is not None:
        if agent.open_turn is not None:
            agent.end_turn(interrupted=True)
        agent.append("user", text)
    opened = agent.open_turn
    answer = said = Answer()
    limit: int | None = None
    try:
        for _ in range(MOST_STEPS):
            answer = Answer(_request(agent, limit))
            limit = await ask(agent, provider, answer, show.piece) or limit
            said = answer if answer.usage is not None else said
            if not answer.calls:
                break
            answer.calls = distinct(answer.calls)
            opened = _record(agent, answer, opened, interrupted=False, end=False)
            asked, answer = answer, Answer()
            await _run(agent, asked, show, asking)
        else:
            answer = Answer()
            answer.take(f"[Foldmark: the turn was ended after {MOST_STEPS} steps.]")
            show.text(answer.text)
    except (CancelledError, Exception):
        answer.calls, answer.kept = [], []
        _record(agent, answer, opened, interrupted=True, end=True, measured=said)
        raise
    _record(agent, answer, opened, interrupted=False, end=True, measured=said)


def _request(agent: Agent, limit: int | None) -> Request:
    """The next request, within what the provider was found to take, with a reminder if the context fills up."""
    request = agent.request(limit=limit)
    told = None if planning(agent.standing()) else reminder(agent, request.tokens, agent.window)
    if told is None:
        return request
    _retried(agent, partial(agent.append, "user", told, actor="system", data={"reminder": True}))
    return agent.request(limit=limit)


async def _run(agent: Agent, answer: Answer, show: Shown, asking: Asking) -> None:
    """Run the tools of one batch; results are recorded in the order of the calls, `slash` after all others [SPEC 3].

    When the turn is cancelled, the tool that runs is told so and waited for, its result is recorded, and no other is
    begun.
    """
    interruption = Interruption()
    CURRENT.set(interruption)
    for call in sorted(answer.calls, key=lambda call: call.name == "slash"):
        show.call(call)
        work = create_task(to_thread(_call, agent, call, asking))
        cancelled = False
        while not work.done():
            try:
                await wait({work})
            except CancelledError:
                cancelled = True  # the database is not to be used by two threads at once
                interruption.happen()
        text, failed = work.result()
        _retried(agent, partial(_result, agent, call, text, failed, answer.dialect))
        if cancelled:
            raise CancelledError


def _call(agent: Agent, call: ToolCall, asking: Asking) -> tuple[str, bool]:
    try:
        return _retried(agent, partial(agent.call_tool, call.name, call.args, asking=asking)), False
    except StoreError:
        raise
    except FoldmarkError as error:
        return f"Error: {error}", True


def _result(agent: Agent, call: ToolCall, text: str, failed: bool, dialect: str | None) -> None:
    agent.append_tool_result(call.call_id, text, dialect=dialect, is_error=failed)


def _record(
    agent: Agent, answer: Answer, opened: int | None, *, interrupted: bool, end: bool, measured: Answer | None = None
) -> int | None:
    """Record what was answered and, at the end, close the turn; not another's turn. Returns the turn that goes on: if
    somebody else has ended it meanwhile, the answer opened one.

    `measured` is the turn's last answer, which calibrates the estimates of the next turns.
    """

    def once() -> int | None:
        with agent.batch():
            mine = agent.open_turn in (opened, None)
            append_answer(agent, answer.text, answer.kept, answer.calls, answer.dialect, interrupted=interrupted)
            if answer.request is not None and answer.usage is not None:
                record_usage(agent, answer.request, answer.usage, answer.stopped)
            if measured is not None and measured.request is not None and measured.usage is not None:
                calibrate(agent, measured.request, measured.usage)
            turn_id = agent.open_turn if mine else opened
            if end and mine:
                agent.end_turn(interrupted=interrupted)
            return turn_id

    return _retried(agent, once)


def _retried(agent: Agent, once: Callable[[], _T]) -> _T:
    """Record something whatever somebody else has appended meanwhile."""
    for _ in range(ATTEMPTS - 1):
        try:
            return once()
        except ConflictError:
            agent.context()
    return once()
