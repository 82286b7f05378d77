"""The MCP servers of a working folder, connected, and their tools [SPEC 4.1]."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from foldmark.core.codec import Secrets
from foldmark.core.errors import CommandError
from foldmark.core.wording import listing, one_line
from foldmark.log import Agent
from foldmark.log.log import AddedTool
from foldmark.operations.effects import Asking
from foldmark.tools.mcp.servers import McpServer, Program, configured
from foldmark.tools.mcp.tools import offered
from foldmark.tools.tool import approve

if TYPE_CHECKING:
    from foldmark.tools.mcp.connection import McpConnection

MOST_TOOLS = 100
"""Maximum number of tools of all servers together; OpenAI takes 128 in a request, and Foldmark has its own."""
STARTING, CALLING = 10.0, 60.0
"""Maximum seconds for a server's start, and for one call."""


class Servers:
    """The servers of the `.mcp.json` in `folder`; a context manager.

    `environment` provides `${NAME}` in the file, by default this process's; `secrets` are never shown.
    """

    def __init__(
        self,
        folder: Path,
        secrets: Secrets = Secrets(),  # noqa: B008 - it does not change
        environment: Mapping[str, str] | None = None,
        *,
        starting: float = STARTING,
        calling: float = CALLING,
    ) -> None:
        self.folder, self.tools = Path(os.path.abspath(folder)), list[AddedTool]()  # noqa: PTH100 - as it is named
        self._secrets, self._environment = secrets, os.environ if environment is None else environment
        self._starting, self._calling = starting, calling
        self._opened = ExitStack()

    def __enter__(self) -> "Servers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self, agent: Agent, asking: Asking) -> list[str]:
        """Start and connect all servers that the person agrees to, side by side; `tools` are theirs afterwards.

        Return one line for each server or tool that failed. Waits at most for the servers' starts. To be called once.
        """
        found = configured(self.folder, self._environment, self._secrets)
        wrong = [*found.wrong]
        servers, agreed = found.servers, []
        if servers and find_spec("mcp") is None:
            wrong.append(_missing(servers, "it is not installed"))
            servers = ()
        for server in servers:
            try:
                approve(agent, server.approval, self._question(server), asking)
                agreed.append(server)
            except CommandError as error:
                wrong.append(f"the MCP server {server.name} was not started: {error}")
        if agreed:
            wrong += self._connected(agreed)
        return [self._secrets.hidden(each) for each in wrong]

    def close(self) -> None:
        """Disconnect from all servers and end those that were started; waits until they have ended."""
        self._opened.close()

    def _question(self, server: McpServer) -> str:
        if isinstance(server.at, Program):
            return f"start the MCP server {server.name} in {one_line(str(self.folder))}: {server.shown}"
        return f"connect to the MCP server {server.name}: {server.shown}"

    def _connected(self, servers: Sequence[McpServer]) -> list[str]:
        try:
            from anyio.from_thread import start_blocking_portal

            from foldmark.tools.mcp.connection import McpConnection
        except ImportError as error:
            return [_missing(servers, str(error))]  # an older SDK
        errors = self._opened.enter_context(TemporaryDirectory(prefix="foldmark-mcp-", ignore_cleanup_errors=True))
        portal = self._opened.enter_context(start_blocking_portal(name="foldmark-mcp"))
        self._opened.callback(portal.call, portal.stop, True)
        connections = [
            McpConnection(each, self.folder, Path(errors, f"{each.name}.log"), portal, self._starting, self._calling)
            for each in servers
        ]
        end = time.monotonic() + self._starting
        for connection in connections:
            connection.begin()
        return [text for connection in connections for text in self._take(connection, end - time.monotonic())]

    def _take(self, connection: "McpConnection", seconds: float) -> list[str]:
        """Take a server's tools. Return the errors."""
        name = connection.server.name
        try:
            listed = connection.listed(seconds)
        except CommandError as error:
            return [f"the MCP server {name} is not there: {error}"]
        room = MOST_TOOLS - len(self.tools)
        tools, wrong = offered(name, listed[:room], connection.call)
        if len(listed) > room:
            wrong.append(f"{len(listed) - room} tools of the MCP server {name} are left out: {MOST_TOOLS} are the most")
        self.tools += tools
        return wrong


def _missing(servers: Sequence[McpServer], why: str) -> str:
    names = listing(server.name for server in servers)
    return f"the MCP servers {names} need the package mcp ({why}): pip install 'foldmark[mcp]'"
