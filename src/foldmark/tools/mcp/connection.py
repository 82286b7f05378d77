"""The connection to one MCP server: opened, shared by threads, and reopened.

Imported only if there is a server to connect to: the SDK takes a second.
"""

import os
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal
from mcp import Client, Tool
from mcp.types import CallToolResult
from pydantic import ValidationError

from foldmark.core.errors import CommandError
from foldmark.core.wording import one_line
from foldmark.sending.interruption import CURRENT
from foldmark.tools.mcp.servers import McpServer
from foldmark.tools.mcp.session import called, connected, lost, reason, tools_of

MOST_SAID = 300
"""Maximum characters of a server's standard error in an error message."""
MOST_LOGGED = 1024 * 1024
"""Maximum bytes of standard error that are kept."""


class Life:
    """A connection from its beginning until it is lost; `ready` returns the tools once the server has listed them."""

    def __init__(self) -> None:
        self.ready: Future[list[Tool]] = Future()
        self.over = False
        self.client: Client | None = None
        self.task: Future[None] | None = None

    def end(self) -> None:
        """Disconnect, or stop trying to connect; the cleanup runs in the portal."""
        self.ready.cancel()
        if self.task is not None:
            self.task.cancel()


class McpConnection:
    """The connection to `server`, whose program runs in `folder`; `call` is thread-safe.

    `starting` and `calling` are the maximum seconds for the server's start and for a call. The program's standard error
    goes to the file `errors`.
    """

    def __init__(
        self, server: McpServer, folder: Path, errors: Path, portal: BlockingPortal, starting: float, calling: float
    ) -> None:
        self.server, self._folder, self._errors, self._portal = server, folder, errors, portal
        self._starting, self._calling = starting, calling
        self._lock, self._life = Lock(), Life()

    def begin(self) -> None:
        """Start to connect, without waiting. Raises CommandError if the portal was closed."""
        life = Life()
        try:
            life.task = self._portal.start_task_soon(self._live, life)
        except RuntimeError:
            raise CommandError("the MCP servers have been disconnected") from None
        self._life = life

    def listed(self, seconds: float) -> list[Tool]:
        """Return the server's tools, waiting up to `seconds` for it. Raises CommandError if it is not there by then."""
        life = self._life
        try:
            with CURRENT.get().ended_by(life.end):
                return life.ready.result(max(0.0, seconds))
        except TimeoutError:
            life.end()
            raise CommandError(f"it did not answer within {self._starting:g} seconds{self._said()}") from None
        except CancelledError:
            raise CommandError("connecting was interrupted") from None
        except Exception as error:
            raise CommandError(f"{reason(error)}{self._said()}") from None

    def call(self, tool: str, args: dict[str, Any]) -> CallToolResult:
        """Call a tool and wait for its result. Raises CommandError, also when the turn is interrupted."""
        life, name = self._life, f"the MCP server {self.server.name}"
        self._forget()
        if life.over:
            self._again(life)
            life = self._life
        try:
            task = self._portal.start_task_soon(self._call, life, tool, args)
            with CURRENT.get().ended_by(task.cancel):
                result: CallToolResult = task.result()
                return result
        except CancelledError:
            raise CommandError(f"the call was interrupted; {name} was told, and may have done a part of it") from None
        except TimeoutError:
            raise CommandError(
                f"{name} did not answer within {self._calling:g} seconds; it was told to stop, and may have done a part"
            ) from None
        except ValidationError:
            raise CommandError(
                f"{name} answered what is no result of a tool, or asks for more than Foldmark gives"
            ) from None
        except Exception as error:
            if not lost(error):
                raise CommandError(f"{name}: {reason(error)}") from None
            said = self._said()
        self._again(life, said)
        raise CommandError(
            f"{name} went away in this call, or before it{said}; it is connected again, so call once more if doing it "
            "twice does no harm"
        )

    def _again(self, life: Life, said: str = "") -> None:
        """Reconnect, unless another thread did. Raises CommandError if that fails."""
        with self._lock:
            if self._life is life:
                life.end()
                self.begin()
            try:
                self.listed(self._starting)
            except CommandError as error:
                self._life.over = True
                raise CommandError(
                    f"the MCP server {self.server.name} went away{said} and cannot be connected again: {error}"
                ) from None

    async def _live(self, life: Life) -> None:
        """Connect, list the tools, and stay connected until cancelled."""
        try:
            async with connected(self.server, self._folder, self._errors) as client:
                life.client = client
                tools = await tools_of(client)
                if life.ready.set_running_or_notify_cancel():
                    life.ready.set_result(tools)
                    await anyio.sleep_forever()
        except Exception as error:
            if not life.ready.done() and life.ready.set_running_or_notify_cancel():
                life.ready.set_exception(error)
        finally:
            life.over = True
            life.ready.cancel()

    async def _call(self, life: Life, tool: str, args: dict[str, Any]) -> CallToolResult:
        if life.client is None:
            raise RuntimeError("not connected")
        with anyio.fail_after(self._calling):
            return await called(life.client, tool, args)

    def _forget(self) -> None:
        """Empty the file of errors if it has become large."""
        with suppress(OSError):
            if self._errors.stat().st_size > MOST_LOGGED:
                os.truncate(self._errors, 0)

    def _said(self) -> str:
        """Return the end of the program's standard error, as a part of an error message."""
        try:
            with self._errors.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - 4 * MOST_SAID))
                lines = file.read(4 * MOST_SAID).decode("utf-8", "replace").split("\n")
        except OSError:
            return ""
        text = " / ".join(line.strip() for line in lines if line.strip())
        return f" (it said: {one_line(text[-MOST_SAID:])})" if text else ""
