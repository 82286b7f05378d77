"""The server over standard input and output: nothing but protocol on the one, and no request without an answer."""

import sys
from types import TracebackType
from typing import Any, Self, TextIO, cast

import anyio
from anyio import from_thread
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCResponse

from foldmark.mcp.lines import MessageLines, Pending


async def serve(server: Server[Any]) -> None:
    """Serve one client until it closes standard input, or goes away."""
    pending = Pending()
    lines = MessageLines(sys.stdin.buffer, pending)
    read = anyio.wrap_file(cast(TextIO, lines))
    # The SDK takes the real standard output, which is standard error to everybody else meanwhile.
    async with stdio_server(stdin=read) as (messages, written):
        answers = _Answers(written, pending)

        def refuse(error: JSONRPCError) -> None:  # in the thread that reads
            from_thread.run(answers.send, SessionMessage(error))

        lines.refuse = refuse
        try:
            await server.run(messages, answers, server.create_initialization_options())
        finally:
            sys.stdout.flush()  # what somebody has printed and not sent on


class _Answers:
    """What the server writes to, so that it is known which requests were answered."""

    def __init__(self, to: Any, pending: Pending) -> None:
        self._to, self._pending = to, pending

    async def send(self, item: SessionMessage, /) -> None:
        await self._to.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._pending.ended(item.message.id)

    async def aclose(self) -> None:
        await self._to.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
