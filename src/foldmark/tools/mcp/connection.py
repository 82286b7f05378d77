"""The connection to one MCP server over the SDK: opened, shared by threads, and reopened if it is lost.

This module is imported only if there is a server to connect to, because the SDK takes a second.
"""

import logging
import os
from concurrent.futures import CancelledError, Future
from contextlib import AsyncExitStack, suppress
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any

import anyio
import httpx2
from anyio.from_thread import BlockingPortal
from mcp import CallToolRequest, Client, Implementation, MCPError, StdioServerParameters, Tool, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CONNECTION_CLOSED, CallToolRequestParams, CallToolResult
from pydantic import ValidationError

from foldmark.core.errors import CommandError
from foldmark.core.wording import one_line
from foldmark.sending.interruption import CURRENT
from foldmark.tools.mcp.servers import McpServer, Program

MOST_PAGES = 20
MOST_LISTED = 200
"""Maximum number of tools that are read from one server."""
MOST_QUOTED = 300
"""Maximum characters of a server's standard error in an error message."""
MOST_LOGGED = 1024 * 1024
"""Maximum bytes of standard error that are kept."""

_SECONDS = httpx2.Timeout(30, read=300)

for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())  # otherwise warnings appear in the person's terminal


class Life:
    """A connection from its beginning until it is lost. `ready` holds the tools once the server has listed them."""

    def __init__(self) -> None:
        self.ready: Future[list[Tool]] = Future()
        self.over = False
        self.client: Client | None = None
        self.task: Future[None] | None = None

    def end(self) -> None:
        """Disconnect, or stop connecting. The cleanup runs in the portal."""
        self.ready.cancel()
        if self.task is not None:
            self.task.cancel()


class McpConnection:
    """The connection to `server`, whose program runs in `folder`. `call` is thread-safe.

    `starting` and `calling` are the maximum seconds for the server's start and for a call. The program's standard error
    goes to the file `errors`. The SDK's `ClientSessionGroup` cannot replace this class: it has no such file, reads only
    one page of tools, connects to servers one after another, and does not reconnect.
    """

    def __init__(
        self, server: McpServer, folder: Path, errors: Path, portal: BlockingPortal, starting: float, calling: float
    ) -> None:
        self.server, self._folder, self._errors, self._portal = server, folder, errors, portal
        self._starting, self._calling = starting, calling
        self._lock, self._life = Lock(), Life()

    def begin(self) -> None:
        """Begin to connect, and return at once. Raises CommandError if the portal is closed."""
        life = Life()
        try:
            life.task = self._portal.start_task_soon(self._live, life)
        except RuntimeError:
            raise CommandError("the MCP servers have been disconnected") from None
        self._life = life

    def listed(self, seconds: float) -> list[Tool]:
        """Wait up to `seconds` for the server, and return its tools. Raises CommandError if it does not answer."""
        life = self._life
        try:
            with CURRENT.get().ended_by(life.end):
                return life.ready.result(max(0.0, seconds))
        except TimeoutError:
            life.end()
            raise CommandError(f"it did not answer within {self._starting:g} seconds{self._quoted_errors()}") from None
        except CancelledError:
            raise CommandError("connecting was interrupted") from None
        except Exception as error:
            raise CommandError(f"{_reason(error)}{self._quoted_errors()}") from None

    def call(self, tool: str, args: dict[str, Any]) -> CallToolResult:
        """Call a tool and wait for its result. Raises CommandError, also when the turn is interrupted."""
        name = f"the MCP server {self.server.name}"
        with suppress(OSError):
            if self._errors.stat().st_size > MOST_LOGGED:
                os.truncate(self._errors, 0)
        if (life := self._life).over:
            self._reconnect(life)
            life = self._life
        try:
            task = self._portal.start_task_soon(self._call, life, tool, args)
            with CURRENT.get().ended_by(task.cancel):
                result: CallToolResult = task.result()
                return result
        except CancelledError:
            raise CommandError(
                f"the call was interrupted; {name} was notified, and may have done a part of it"
            ) from None
        except TimeoutError:
            raise CommandError(
                f"{name} did not answer within {self._calling:g} seconds; it was told to stop, and may have done "
                "a part of the work"
            ) from None
        except ValidationError:
            raise CommandError(
                f"{name} returned no valid tool result, or asked for something that Foldmark does not offer"
            ) from None
        except Exception as error:
            if not _is_lost(error):
                raise CommandError(f"{name}: {_reason(error)}") from None
            quoted = self._quoted_errors()
        self._reconnect(life, quoted)
        raise CommandError(
            f"{name} disconnected during this call or before it{quoted}; it is connected again. Repeat the call if "
            "running it twice does no harm"
        )

    def _reconnect(self, life: Life, quoted: str = "") -> None:
        """Reconnect, unless another thread has done so. Raises CommandError if that fails."""
        with self._lock:
            if self._life is life:
                life.end()
                self.begin()
            try:
                self.listed(self._starting)
            except CommandError as error:
                self._life.over = True
                raise CommandError(
                    f"the MCP server {self.server.name} disconnected{quoted} and cannot be connected again: {error}"
                ) from None

    async def _live(self, life: Life) -> None:
        """Connect, list the tools, and stay connected until cancelled."""
        try:
            async with AsyncExitStack() as stack:
                transport = await self._transport(stack)
                about = Implementation(name="foldmark", version=version("foldmark"))
                client = Client(transport, client_info=about, cache=None)
                life.client = await stack.enter_async_context(client)
                tools: list[Tool] = []
                cursor: str | None = None
                for _ in range(MOST_PAGES):
                    page = await client.list_tools(cursor=cursor)
                    tools += page.tools
                    cursor = page.next_cursor
                    if cursor is None or len(tools) >= MOST_LISTED:
                        break
                if life.ready.set_running_or_notify_cancel():
                    life.ready.set_result(tools[:MOST_LISTED])
                    await anyio.sleep_forever()
        except Exception as error:
            if not life.ready.done() and life.ready.set_running_or_notify_cancel():
                life.ready.set_exception(error)
        finally:
            life.over = True
            life.ready.cancel()

    async def _transport(self, stack: AsyncExitStack) -> Any:
        """Return the SDK's transport. A program gets its own variables and a few harmless ones."""
        at = self.server.at
        if isinstance(at, Program):
            command, *args = at.command
            program = StdioServerParameters(
                command=command, args=args, env=at.env, cwd=self._folder, encoding_error_handler="replace"
            )
            return stdio_client(program, stack.enter_context(self._errors.open("a", encoding="utf-8")))
        if at.transport == "sse":
            return sse_client(at.url, at.headers)
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=at.headers, timeout=_SECONDS))
        return streamable_http_client(at.url, http_client=http)

    async def _call(self, life: Life, tool: str, args: dict[str, Any]) -> CallToolResult:
        if life.client is None:
            raise RuntimeError("not connected")
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=args))
        with anyio.fail_after(self._calling):
            # `Client.call_tool` would check the result by the server's own schema, whose patterns could take forever.
            return await life.client.session.send_request(request, CallToolResult)

    def _quoted_errors(self) -> str:
        """Return the end of the program's standard error, to append to an error message."""
        try:
            with self._errors.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - 4 * MOST_QUOTED))
                lines = file.read(4 * MOST_QUOTED).decode("utf-8", "replace").split("\n")
        except OSError:
            return ""
        text = " / ".join(line.strip() for line in lines if line.strip())
        return f" (it said: {one_line(text[-MOST_QUOTED:])})" if text else ""


def _is_lost(error: Exception) -> bool:
    """Return True if an error means that the connection is lost."""
    if isinstance(error, MCPError):
        return error.code == CONNECTION_CLOSED or error.message == "Session terminated"
    return isinstance(error, RuntimeError | OSError | anyio.ClosedResourceError | anyio.BrokenResourceError)


def _reason(error: BaseException) -> str:
    """Return in a few words why there is no connection or no result."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return "its program was not found"
    if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
        return "it ended, or closed the connection"
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        return one_line(f"its answer does not follow the protocol: {first['msg'][:200]} at {place[:200]}")
    return one_line(str(error)[:500]) or type(error).__name__
