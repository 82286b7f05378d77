"""`FoldmarkHistory`: the history of a Pydantic AI agent is the context of a conversation."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from threading import RLock
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, WrapRunHandler
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import CompactionPart, ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models import AbstractModel, Model, ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import Tool, ToolDefinition
from pydantic_ai.toolsets import FunctionToolset

import foldmark
from foldmark.core.assembly.eviction import begins, placeholder
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.request import Request, ToolSpec
from foldmark.core.segments import END
from foldmark.core.wording import listing
from foldmark.editing.offers import end_planning
from foldmark.integrations.pydantic_ai.logbook import Logbook
from foldmark.integrations.pydantic_ai.pieces import Fragment, history
from foldmark.log import Agent, Log, Result
from foldmark.operations.effects import NOBODY, Asking
from foldmark.request.exchanges import read_by
from foldmark.request.planning import beside
from foldmark.request.recorded import SentPlan
from foldmark.request.standing import Standing


@dataclass(eq=False)
class FoldmarkHistory(AbstractCapability[Any]):
    """The history of a Pydantic AI agent, kept by Foldmark: `Agent(model, capabilities=[FoldmarkHistory("chat.db")])`.

    Every message of a run is recorded once, in the conversation `name` of a log. The model sees the context of that
    conversation, with the effects of clear, rewind, forget, drop and restore, and the run continues with it. A run
    therefore continues the conversation with or without a `message_history`; messages of such a history that are not
    recorded yet are recorded first.

    `log` is an open log or the path of one. `window` sends only the newest whole turns that fit the token budget, with
    the pinned turns, and `truncation` shortens old tool results, both according to the conversation's settings
    [SPEC 5.2, 5.3]. `tools` lists Foldmark's own tools that the model is offered, such as "recall" and "slash".
    `asking` reaches the person if a command or a tool has to ask. Several concurrent runs share one conversation.

    `ProcessHistory(history)` works as well, but it records an answer only with the next request, and a tool that
    changes the context runs before its own call is recorded.
    """

    log: Log | str | os.PathLike[str]
    name: str = "default"
    _: KW_ONLY
    window: bool = False
    truncation: bool = False
    tools: Sequence[str] = ()
    asking: Asking = NOBODY

    def __post_init__(self) -> None:
        self._own = not isinstance(self.log, Log)
        self._log = self.log if isinstance(self.log, Log) else foldmark.open(self.log)
        self.agent: Agent = self._log.agent(self.name)
        self._logbook, self._lock = Logbook(self.agent), RLock()
        self._running: dict[str | None, list[ModelMessage]] = {}
        self._given: SentPlan | None = None
        self._tools = _toolset(self.agent, self.tools, self.asking) if self.tools else None

    def __enter__(self) -> "FoldmarkHistory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the database if this object has opened it."""
        if self._own:
            self._log.close()

    def do(self, line: str, *, actor: str = "human") -> Result:
        """Carry out a command such as "/mark BEFORE", also from within a tool. Raises CommandError if nothing was
        done."""
        self.agent.context()
        return self.agent.do(line, actor=actor, asking=self.asking)

    def messages(self, *, waiting: bool = False) -> list[ModelMessage]:
        """Return the current context, for `message_history=` or for inspection.

        A call without a result gets a result that says so; with `waiting`, calls of the last response do not, because
        `deferred_tool_results=` will answer them. Nothing is written.
        """
        with self._lock:
            self.agent.context()  # accounts for events that others have appended
            return self._made(waiting=waiting)

    def record(self, messages: Sequence[ModelMessage], run_id: str | None = None) -> None:
        """Record the messages of a history that are not recorded yet. Raises FoldmarkError, in which case none is
        recorded."""
        with self._lock:
            try:
                with self._log.store.write() as transaction:
                    self.agent.context()  # another process may have appended
                    end_planning(self.agent)
                    self._logbook.record(
                        transaction, messages, run_id, joins=any(other != run_id for other in self._running)
                    )
            except BaseException:
                self._logbook = self._logbook.anew()
                raise

    # Called by Pydantic AI

    async def __call__(self, ctx: RunContext[Any], messages: list[ModelMessage]) -> list[ModelMessage]:
        """Record and replace a history, as the processor of `ProcessHistory`."""
        return self._processed(messages, ctx.run_id, ctx.model)

    def get_toolset(self) -> FunctionToolset[Any] | None:
        """Return Foldmark's tools that the model is offered."""
        return self._tools

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Record new messages and replace the history with the context, for this request and the rest of the run."""
        self._running[ctx.run_id] = ctx.messages
        messages = self._processed(request_context.messages, ctx.run_id, ctx.model)
        request_context.messages = list(messages)
        ctx.messages[:] = messages
        return request_context

    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any
    ) -> Any:
        """Record a call before its tool runs, so that a crash loses nothing and the tool can change the context."""
        self.record(ctx.messages, ctx.run_id)
        return args

    async def wrap_run(self, ctx: RunContext[Any], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Record the end of a run, however it ends, and end the turn."""
        try:
            result = await handler()
        except BaseException:
            with suppress(FoldmarkError):
                self._end(ctx.run_id, interrupted=True)
            raise
        self._end(ctx.run_id, interrupted=False)
        return result

    def _end(self, run_id: str | None, *, interrupted: bool) -> None:
        messages = self._running.pop(run_id, None)
        if messages is not None:
            try:
                self.record(messages, run_id)
            finally:
                self._logbook.end_turn(run_id, interrupted=interrupted)

    def _processed(
        self, messages: Sequence[ModelMessage], run_id: str | None, model: AbstractModel
    ) -> list[ModelMessage]:
        with self._lock:
            self.record(messages, run_id)
            return self._made(messages, model)

    # The context for a model

    def _made(
        self, messages: Sequence[ModelMessage] = (), model: AbstractModel | None = None, *, waiting: bool = False
    ) -> list[ModelMessage]:
        """Return the context in place of a history."""
        last = messages[-1] if messages else None
        with self.agent.reading() as (moment, at):
            standing = self._logbook.standing(moment, at, messages)
            made = history(self._shown(moment, at, model), standing, last, waiting=waiting)
        self._logbook.handed(made)
        return [each.message for each in made]

    def _shown(self, moment: Snapshot, standing: Standing, model: AbstractModel | None) -> list[Fragment]:
        """Return the pieces for a model; without a model, for the provider of each summary."""
        at = read_by(moment, beside(moment, standing), partial(self._reads, moment, model))
        shown = [each.id for each in moment.locate(at.visible, newest_first=True)]
        summaries = {event.id: begins(event) for event in moment.select(at.visible, "summary", expected=END)}
        shown.sort(key=lambda event: (summaries.get(event, event), event))
        pieces, evicted = self._logbook.pieces(moment, shown), standing.fold.evicted
        out = moment.events([piece.event for piece in pieces if piece.event in evicted])
        texts: dict[int | None, str] = {event.id: placeholder(event, evicted[event.id]) for event in out}
        if self.window or self.truncation:
            # The SDK makes the requests, so their plans are not recorded: the window is that of the last one made here.
            request = self.agent.next_request(before=lambda *_: self._given)
            self._given = SentPlan.of(request, standing)
            if self.window:
                pieces = _windowed(pieces, request)
            if self.truncation:
                texts |= {part.event: part.text for part in request.manifest.parts if part.how == "truncated"}
        return [_worded(piece, texts[piece.event]) if piece.event in texts else piece for piece in pieces]

    def _reads(self, moment: Snapshot, model: AbstractModel | None, event: Event) -> bool:
        """Return True if a model accepts a summary as it is: one of its own provider, or one in plain text."""
        (piece,) = self._logbook.pieces(moment, [event.id])
        made = next((part for part in piece.parts if isinstance(part, CompactionPart)), None)
        if made is None or not isinstance(piece.message, ModelResponse):
            return made is not None
        return not isinstance(model, Model) or model.accepts_stateless_artifacts(piece.message, made)


def _windowed(pieces: Sequence[Fragment], request: Request) -> list[Fragment]:
    first = request.manifest.edge.first or 0
    pinned = {part.event for part in request.manifest.parts if part.layer == "pinned"}
    return [piece for piece in pieces if piece.event >= first or piece.kind == "system" or piece.event in pinned]


def _worded(piece: Fragment, text: str) -> Fragment:
    parts = (
        replace(part, content=text) if isinstance(part, ToolReturnPart) and not part.files else part
        for part in piece.parts
    )
    return piece._replace(parts=tuple(parts))


def _toolset(agent: Agent, names: Sequence[str], asking: Asking) -> FunctionToolset[Any]:
    """Return the tools with these names. They work on the conversation of `agent` and ask the person through `asking`.
    Raises CommandError for an unknown name."""
    there = {spec.name: spec for spec in agent.tools()}
    if unknown := [name for name in names if name not in there]:
        raise CommandError(f"there is no tool '{str(unknown[0])[:40]}'; available: {listing(there, 40)}")
    return FunctionToolset([_tool(agent, there[name], asking) for name in names])


def _tool(agent: Agent, spec: ToolSpec, asking: Asking) -> Tool[Any]:
    def call(**args: Any) -> str:
        try:
            agent.context()  # another process may have appended
            return agent.call_tool(spec.name, args, asking=asking)
        except CommandError as error:
            raise ToolFailed(str(error)) from None

    # Sequential, because each call sees the changes of earlier calls to the context.
    return Tool.from_schema(call, spec.name, spec.description, spec.parameters, sequential=True)
