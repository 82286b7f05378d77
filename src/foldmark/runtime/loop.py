"""One turn: from a person's text until the agent is idle [SPEC 4, 6].

The cycle of model answer, tool calls and results repeats until the model makes no more calls. Each step is recorded
before it is acted on. Tools run in their own threads, so that the turn stays responsive: read-only ones in parallel,
others one after another, `slash` calls last; results are recorded in the order of the calls.
"""

from asyncio import CancelledError, Future, get_running_loop, wait
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from foldmark.core.agents import MODEL, TOOLS
from foldmark.core.errors import CommandError, ConflictError, ContextFullError, FoldmarkError, ProviderError
from foldmark.core.ports import Provider
from foldmark.core.request import ERROR, Piece, Request, ToolCall, distinct
from foldmark.core.wording import is_full, one_line
from foldmark.editing.answering import answered
from foldmark.editing.offers import ENDED, FILTER, previewed_by, reopen, standing_offer
from foldmark.log import Agent, Result
from foldmark.operations.effects import NOBODY, Asking
from foldmark.request.planning import passed, planning, unpreviewed
from foldmark.runtime.streaming import HeldBackText, StreamedAnswer, stream
from foldmark.sending.interruption import CURRENT, Interruption
from foldmark.sending.status import calibrate, record_usage, reminder

if TYPE_CHECKING:
    from foldmark.text.attachment import Attachment

_T = TypeVar("_T")

PREVIEW_FIRST = (
    f"[Foldmark: nothing was previewed. The person waits for a preview: call {FILTER} with the action preview now. "
    "Without it Foldmark matches the words of the messages.]"
)
"""Told to a model that answered a `/forget` or `/remember` in words."""

NO_TOOLS, ONLY_WORDS = "the model has no tools", "the model did not preview"
"""Why a preview is made without the model."""

ATTEMPTS = 5
"""Maximum number of attempts to record an answer while others write to the same agent."""

MOST = 1000
"""Maximum length of a tool's error message."""


class Shown(NamedTuple):
    """Callbacks that show a turn while it runs: text as it streams, each tool call before it runs, other pieces
    (thoughts, waiting for a provider, the end of the answer), the result of each call once it is recorded, and
    Foldmark's own messages: an offer or its outcome."""

    text: Callable[[str], None]
    call: Callable[[ToolCall], None]
    other: Callable[[Piece], None] = lambda _: None
    returned: Callable[[ToolCall, str], None] = lambda _, __: None
    result: Callable[[Result], None] = lambda _: None

    def piece(self, piece: Piece) -> None:
        """Show a piece of an answer; calls are shown when they run."""
        if isinstance(piece, str):
            self.text(piece)
        elif not isinstance(piece, ToolCall):
            self.other(piece)


class Writing(Protocol):
    """The right to write an agent's turn (see `foldmark.runtime.lease.HeldLease`)."""

    def check(self) -> None:
        """Raise FoldmarkError if another runtime now holds the right; called in every transaction that records."""

    def state(self, state: str) -> None:
        """Record the agent's state."""


class _Unshared:
    """The right to write when there are no other writers."""

    def check(self) -> None:
        pass

    def state(self, state: str) -> None:
        pass


async def turn(
    agent: Agent,
    provider: Provider,
    text: str | None,
    show: Shown,
    asking: Asking = NOBODY,
    writing: Writing = _Unshared(),  # noqa: B008 - it holds nothing
    threads: Executor | None = None,
    files: "Sequence[Attachment]" = (),
) -> None:
    """Record `text`, with its `files` behind it, and answer it, step by step, until the model is done. Without a text,
    continue the open turn, or let the answer open one.

    If the text answers an open offer, that answer is carried out here, and no model is asked [SPEC 4.2]. A planning
    conversation that begins without a preview by the model gets one by the words of the messages.

    The user's text is recorded before the model is asked. If the turn is cancelled or the model fails, the answer so
    far is kept, marked as interrupted, and the turn is closed; the exception propagates. A turn left open by a crash is
    closed first. While planning is open, a request that is longer than the model's window is not sent: ContextFullError
    is raised, and a text that would make it so is not recorded. `writing` is checked before anything is recorded: once
    another runtime has taken over the agent, nothing more is recorded. Tools run in `threads`, by default those of the
    event loop.
    """
    await _RunningTurn(agent, provider, show, asking, writing, threads).run(text, files)


class _RunningTurn:
    """A turn in progress; `_opened` is its id, None until it has one."""

    def __init__(
        self, agent: Agent, provider: Provider, show: Shown, asking: Asking, writing: Writing, threads: Executor | None
    ) -> None:
        self._agent, self._provider, self._show, self._asking = agent, provider, show, asking
        self._writing, self._threads = writing, threads
        self._opened: int | None = None
        self._limit: int | None = None
        self._first: Request | None = None
        self._planned = False

    async def run(self, text: str | None, files: "Sequence[Attachment]") -> None:
        self._planned = self._planning_open()
        if text is not None and (done := self._recorded(partial(self._open, text, files))) is not None:
            self._show.result(done)
            return
        if self._unpreviewed() and not self._has_filter():
            await self._preview(NO_TOOLS)
            return
        told = False
        self._opened = self._agent.open_turn
        answer = measured = StreamedAnswer()
        most = self._agent.standing().config.turn_steps
        try:
            for _ in range(most):
                answer = StreamedAnswer(self._request())
                self._writing.state(MODEL)
                # A question about the planning conversation alone may turn out to be about something else.
                alone = (
                    answer.request is not None
                    and answer.request.manifest.edge.why == "planning"
                    and self._planning_passed()
                )
                held_back = HeldBackText(self._show.piece) if alone else None
                try:
                    limit = await stream(self._agent, self._provider, answer, held_back or self._show.piece)
                except (CancelledError, Exception):
                    answer = StreamedAnswer() if alone else answer
                    raise
                self._limit = limit or self._limit
                measured = answer if answer.usage is not None else measured
                if held_back is not None:
                    if not any(call.name == FILTER for call in answer.calls):
                        self._end_planning(answer)
                        answer = StreamedAnswer()
                        continue
                    held_back.release()
                if not answer.calls and not answer.goes_on:
                    if told or not self._unpreviewed():
                        break
                    told, self._opened = True, self._record(answer, interrupted=False, end=False)
                    self._recorded(partial(self._agent.append, "user", PREVIEW_FIRST, actor="system"))
                    answer = StreamedAnswer()
                    continue
                if not any(call.name == FILTER or self._together(call) for call in answer.calls):
                    self._end_planning()
                answer.calls = distinct(answer.calls)
                self._opened = self._record(answer, interrupted=False, end=False)
                called, answer = answer, StreamedAnswer()
                self._writing.state(TOOLS)
                await self._run_tools(called)
            else:
                answer = StreamedAnswer()
                answer.take(
                    f"[Foldmark: the turn was ended after {most} steps, the maximum set by turn_steps; "
                    '"go on" continues it.]'
                )
                self._show.text(answer.text)
        except (CancelledError, Exception) as error:
            answer.calls, answer.kept, answer.compacted = [], [], []
            self._end_planning()
            self._recorded(partial(reopen, self._agent))
            self._record(answer, interrupted=True, end=True, measured=measured)
            if not isinstance(error, ProviderError) or not self._unpreviewed():
                raise
            await self._preview(str(error))
            return
        self._end_planning()
        self._recorded(partial(reopen, self._agent))
        planned, only_words = self._planning_open(), self._unpreviewed()
        self._record(answer, interrupted=False, end=True, measured=measured)
        if only_words:
            await self._preview(ONLY_WORDS)
        elif planned:
            self._show.result(standing_offer(self._agent))

    def _open(self, text: str, files: "Sequence[Attachment]") -> Result | None:
        done = answered(self._agent, text, model=self._has_filter())
        if done is None:
            self._agent.end_turn(interrupted=True)
            self._agent.append("user", text)
            for file in files:
                self._agent.append("user", file.content, data=file.data)
            if self._planned:
                with suppress(CommandError):  # the turn reports it
                    self._first = self._request()
        return done

    def _has_filter(self) -> bool:
        return any(tool.name == FILTER for tool in self._agent.tools())

    async def _preview(self, why: str) -> None:
        """Make and show the preview of the open planning conversation by the words of the messages."""

        def once() -> Result:
            self._writing.check()
            return previewed_by(self._agent, self._asking, why)

        work = in_thread(self._threads, partial(_retried, self._agent, once))
        cancelled = await _wait_for(work, Interruption())
        self._show.result(work.result())
        if cancelled:
            raise CancelledError

    def _unpreviewed(self) -> bool:
        with self._agent.reading() as (moment, at):
            return unpreviewed(moment, at)

    def _planning_open(self) -> bool:
        with self._agent.reading() as (moment, at):
            return planning(moment, at) is not None

    def _planning_passed(self) -> bool:
        with self._agent.reading() as (moment, at):
            return passed(moment, at) is not None

    def _end_planning(self, thrown_away: StreamedAnswer | None = None) -> None:
        """End the planning conversation if the person has moved on from it [SPEC 4.2], and show that. The usage of a
        `thrown_away` answer is still recorded."""

        def once() -> int | None:
            if thrown_away is not None and thrown_away.sent is not None and thrown_away.usage is not None:
                record_usage(self._agent, thrown_away.sent, thrown_away.usage, thrown_away.stopped)
            return self._agent.end_planning()

        if self._planning_passed() and self._recorded(once) is not None:
            self._show.result(Result(ENDED))

    def _request(self) -> Request:
        """Return the next request, within the limit that the provider reported, with a reminder if the context is
        filling up.

        While planning is open, raises ContextFullError for one that is longer than the model's window."""
        agent = self._agent
        if (first := self._first) is not None:
            self._first = None
            return first
        request = agent.next_request(limit=self._limit)
        text = None if self._planning_open() else reminder(agent, request.tokens, agent.window)
        if text is not None:
            self._recorded(partial(agent.append, "user", text, actor="system", data={"reminder": True}))
            request = agent.next_request(limit=self._limit)
        if self._planned and is_full(request.tokens, agent.window):
            raise ContextFullError
        return request

    async def _run_tools(self, answer: StreamedAnswer) -> None:
        """Run the calls of one answer and record their results [SPEC 3].

        If the turn is cancelled, the running tools are interrupted and waited for, their results are recorded, and no
        other tool is started.
        """
        interruption = Interruption()
        CURRENT.set(interruption)
        calls = sorted(answer.calls, key=lambda call: call.name == "slash")
        for together, group in groupby(calls, self._together):
            for batch in [list(group)] if together else [[call] for call in group]:
                await self._run_batch(batch, answer.dialect, interruption)

    async def _run_batch(self, calls: Sequence[ToolCall], dialect: str | None, interruption: Interruption) -> None:
        works: list[Future[tuple[str, bool]]] = []
        for call in calls:
            self._show.call(call)
            works.append(in_thread(self._threads, partial(self._call, call)))
        cancelled = False
        try:
            for call, work in zip(calls, works, strict=True):
                cancelled = await _wait_for(work, interruption) or cancelled
                text, failed = work.result()
                append = partial(self._agent.append_tool_result, call.call_id, text, dialect=dialect, is_error=failed)
                self._recorded(append)
                if failed or not self._quiet(call):
                    self._show.returned(call, text)
        finally:  # if a result could not be recorded, stop the other tools
            if not all(work.done() for work in works):
                interruption.happen()
            for work in works:
                cancelled = await _wait_for(work, interruption) or cancelled
        if cancelled:
            raise CancelledError

    def _quiet(self, call: ToolCall) -> bool:
        from foldmark.tools import TOOLS

        tool = TOOLS.get(call.name)
        return tool is not None and tool.quiet

    def _together(self, call: ToolCall) -> bool:
        from foldmark.tools import TOOLS

        tool = self._agent.log.added.get(call.name) or TOOLS.get(call.name)
        return tool is not None and tool.together

    def _call(self, call: ToolCall) -> tuple[str, bool]:
        """Run a tool in this thread. Return its result, and True if the result is an error."""

        def once() -> str:
            self._writing.check()  # a tool must not change an agent that is no longer ours
            return self._agent.call_tool(call.name, call.args, asking=self._asking)

        try:
            return _retried(self._agent, once), False
        except ConflictError:
            raise
        except FoldmarkError as error:  # a database error or a lost lease ends the turn when the result is recorded
            return f"{ERROR}{error}", True
        except (Exception, SystemExit) as error:  # from a program's tool: the turn continues without its result
            return f"{ERROR}{call.name} failed: {one_line(f'{type(error).__name__}: {error}'[:MOST])}", True

    def _record(
        self, answer: StreamedAnswer, *, interrupted: bool, end: bool, measured: StreamedAnswer | None = None
    ) -> int | None:
        """Record the answer and, with `end`, close the turn, but never a turn of another process. Return the id of the
        turn that continues; if another process has ended the turn in the meantime, the answer opens a new one.

        `measured` is the turn's last answer, which calibrates the estimates of the next turns.
        """
        agent, opened = self._agent, self._opened

        def once() -> int | None:
            mine = agent.open_turn in (opened, None)
            agent.append_pieces(
                answer.text,
                answer.kept,
                answer.calls,
                answer.dialect,
                interrupted=interrupted,
                compacted=answer.compacted,
                reader=answer.reader(agent),
            )
            if answer.sent is not None and answer.usage is not None:
                record_usage(agent, answer.sent, answer.usage, answer.stopped)
            if measured is not None and measured.request is not None and measured.usage is not None:
                calibrate(agent, measured.request, measured.usage)
            turn_id = agent.open_turn if mine else opened
            if end and mine:
                agent.end_turn(interrupted=interrupted)
            return turn_id

        return self._recorded(once)

    def _recorded(self, once: Callable[[], _T]) -> _T:
        """Record something in one transaction, regardless of what others have appended in the meantime."""

        def checked() -> _T:
            with self._agent.batch():
                self._writing.check()
                return once()

        return _retried(self._agent, checked)


def in_thread(threads: Executor | None, work: Callable[[], _T]) -> "Future[_T]":
    """Start `work` in one of `threads`, with the caller's context variables."""
    return get_running_loop().run_in_executor(threads, partial(copy_context().run, work))


async def _wait_for(work: "Future[_T]", interruption: Interruption) -> bool:
    """Wait for work to end; return True if the turn was cancelled in the meantime, which interrupts it."""
    cancelled = False
    while not work.done():
        try:
            await wait({work})
        except CancelledError:
            cancelled = True
            interruption.happen()
    return cancelled


def _retried(agent: Agent, once: Callable[[], _T]) -> _T:
    for _ in range(ATTEMPTS - 1):
        try:
            return once()
        except ConflictError:
            agent.context()
    return once()
