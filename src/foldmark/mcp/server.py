"""The server's answers: tools, resources, prompts, completions. Each request is answered in a thread."""

import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio import from_thread, to_thread
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

import foldmark
from foldmark.core.codec import well_formed
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.ports import Progress
from foldmark.core.request import ERROR
from foldmark.core.wording import listing, one_line
from foldmark.mcp import resources, tools
from foldmark.mcp.conversations import Conversations, ToolUse, own_arguments
from foldmark.mcp.tools import CONSENT, ConsentQuestion
from foldmark.sending.interruption import CURRENT, Interruption

Report = Callable[[float, float | None], Coroutine[Any, Any, None]]
"""Reports progress, as done and total, to a client that asked for it."""

EVERY = 0.2
"""Seconds between two reports of progress."""

Context = ServerRequestContext[Any]

T = TypeVar("T")
P = TypeVar("P")


async def in_thread(work: Callable[[Progress], T], report: Report) -> T:
    """Run `work` in a thread and return its result, or raise its error; its argument reports progress.

    If this is cancelled, interrupt `work` and wait for it, so that it does not overlap with the next request.
    """
    interruption = Interruption()
    CURRENT.set(interruption)  # for this request only, because each request is a separate task
    failure: Exception | None = None

    async def watch() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            interruption.happen()  # nothing is left to interrupt once the work is over

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        try:
            result = await to_thread.run_sync(work, _progress(report))
        except Exception as error:
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return result


def _progress(report: Report) -> Progress:
    """Return a progress callback for work in a thread. It reports to the client, at most every EVERY seconds."""
    reported = 0.0

    def tell(done: int, total: int) -> None:
        nonlocal reported
        now = time.monotonic()
        if now - reported >= EVERY:
            reported = now
            from_thread.run(report, done, total)

    return tell


NAME = "foldmark"

ABOUT = """Foldmark keeps conversations with language models for ever, and archives the sessions of coding agents.
`search` finds what was said and decided in earlier sessions, and `read` reads on: look there before you assume.
`retrieve_memos` reads what a person told Foldmark to remember, and `save_memo` adds to it. `context_meter` says how
full a context is. The other tools work on a Foldmark conversation, by its name. That is not this chat, unless Foldmark
records this chat (`foldmark live`, `/fm`): to clear or rewind this chat, the person uses its own program."""


class Handlers:
    """The answers to requests. `here` is True if the client was started in this process's folder."""

    def __init__(self, conversations: Conversations, *, here: bool) -> None:
        self._conversations, self._here = conversations, here
        self._writing = anyio.Lock()

    async def list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """List the tools."""
        specs = await self._work(context, lambda _: tools.specs(self._conversations))
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=spec.name,
                    title=offered.title,
                    description=spec.description,
                    input_schema=spec.parameters,
                    output_schema=offered.output,
                    annotations=types.ToolAnnotations(
                        title=offered.title,
                        read_only_hint=offered.reads,
                        destructive_hint=offered.destroys,
                        idempotent_hint=offered.reads,  # a repeated write records again
                        open_world_hint=False,
                    ),
                )
                for spec in specs
                for offered in (tools.TOOLS[spec.name],)
            ]
        )

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Call a tool. A wrong argument gives an error result, which the model can read."""
        if params.name not in tools.TOOLS:
            why = f"there is no tool '{one_line(params.name)[:60]}'; available: {listing(tools.TOOLS, 40)}"
            raise MCPError(types.INVALID_PARAMS, why)
        try:
            answer = await self._run(context, params, _agreed_key(params))
            if isinstance(answer, ConsentQuestion):
                modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
                if modern and _can_ask(context) and not params.input_responses:
                    form = types.ElicitRequest(params=answer.form)  # the client asks, and calls again
                    return types.InputRequiredResult(input_requests={answer.key: form})
                answer = await self._with_consent(context, params, answer)
        except (FoldmarkError, OSError) as error:
            text = well_formed(f"{ERROR}{_reason(error)}")
            return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
        text = well_formed(answer)
        structured = tools.TOOLS[params.name].structured(params.arguments or {}, text)
        return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=structured)

    async def _with_consent(
        self, context: Context, params: types.CallToolRequestParams, question: ConsentQuestion
    ) -> str:
        """Ask during the call, as in the protocol before 2026-07-28."""
        answer: str | ConsentQuestion = question
        if not params.input_responses:
            if not _can_ask(context) or not context.session.can_send_request:
                raise CommandError(question.not_asked)
            form = question.form
            found = await context.session.elicit_form(form.message, form.requested_schema, context.request_id)
            answer = await self._run(context, params, question.key) if _is_yes(found) else question
        if isinstance(answer, ConsentQuestion):
            raise CommandError(question.refused)
        return answer

    async def _run(
        self, context: Context, params: types.CallToolRequestParams, agreed: str | None
    ) -> str | ConsentQuestion:
        offered, arguments = tools.TOOLS[params.name], own_arguments(params.arguments or {})

        def run(progress: Progress) -> str | ConsentQuestion:
            return offered.run(ToolUse(self._conversations, arguments, progress, agreed, self._here))

        if offered.reads:
            return await self._work(context, run)
        async with self._writing:  # one after the other, because the calls of one answer arrive together
            return await self._work(context, run)

    def reading(self, read: Callable[[P], T]) -> Callable[[Context, P], Coroutine[Any, Any, T]]:
        """Return a handler that answers with the result of `read` for the parameters, or with its error."""

        async def handler(context: Context, params: P) -> T:
            try:
                return await self._work(context, lambda _: read(params))
            except (FoldmarkError, OSError) as error:
                code = types.INVALID_PARAMS if isinstance(error, CommandError) else types.INTERNAL_ERROR
                raise MCPError(code, well_formed(_reason(error))) from None

        return handler

    async def _work(self, context: Context, work: Callable[[Progress], T]) -> T:
        return await in_thread(work, context.session.report_progress)


def _agreed_key(params: types.CallToolRequestParams) -> str | None:
    """Return the key of the question that the person agreed to before the client called again."""
    answers = (params.input_responses or {}).items()
    return next((key for key, answer in answers if isinstance(answer, types.ElicitResult) and _is_yes(answer)), None)


def _can_ask(context: Context) -> bool:
    able = context.session.client_capabilities
    forms = able.elicitation if able is not None else None
    return forms is not None and (forms.form is not None or forms.url is None)


def _is_yes(answer: types.ElicitResult) -> bool:
    return answer.action == "accept" and (answer.content or {}).get(CONSENT) is True


def _reason(error: FoldmarkError | OSError) -> str:
    if isinstance(error, FoldmarkError):
        return str(error)
    return one_line(f"{error.strerror or error}: {error.filename or 'input or output'}")


def server(conversations: Conversations, *, here: bool) -> Server[Any]:
    """Return the server, for any transport."""
    handlers = Handlers(conversations, here=here)
    return Server(
        NAME,
        version=foldmark.__version__,
        title="Foldmark",
        instructions=ABOUT,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.reading(partial(resources.listed, conversations)),
        on_list_resource_templates=handlers.reading(
            lambda _: types.ListResourceTemplatesResult(resource_templates=resources.TEMPLATES)
        ),
        on_read_resource=handlers.reading(partial(resources.read, conversations)),
        on_completion=handlers.reading(partial(resources.completed, conversations)),
        on_list_prompts=handlers.reading(lambda _: types.ListPromptsResult(prompts=resources.prompts())),
        on_get_prompt=handlers.reading(resources.prompt),
    )
