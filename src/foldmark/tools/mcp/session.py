"""One session with an MCP server, over the SDK: its transport, its tools, a call, and the meaning of its errors."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import CallToolRequest, Client, Implementation, MCPError, StdioServerParameters, Tool, stdio_client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CONNECTION_CLOSED, CallToolRequestParams, CallToolResult
from pydantic import ValidationError

from foldmark.core.wording import one_line
from foldmark.tools.mcp.servers import McpServer, Program

MOST_PAGES = 20
MOST_LISTED = 200
"""Maximum number of tools that are read from one server."""

_SECONDS = httpx2.Timeout(30, read=300)

for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())  # otherwise warnings go to the person's terminal


@asynccontextmanager
async def connected(server: McpServer, folder: Path, errors: Path) -> AsyncIterator[Client]:
    """Connect to `server` and yield a client that has agreed on the protocol; on leaving, the connection and the
    process are gone.

    A program runs in `folder` with a few harmless variables and its own, and appends its standard error to the file
    `errors`. Raises the SDK's errors.
    """
    about = Implementation(name="foldmark", version=version("foldmark"))
    at = server.at
    if isinstance(at, Program):
        program = StdioServerParameters(
            command=at.command[0],
            args=[*at.command[1:]],
            env=at.env,
            cwd=folder,
            encoding_error_handler="replace",
        )
        with errors.open("a", encoding="utf-8") as said:
            async with Client(stdio_client(program, said), client_info=about, cache=None) as client:
                yield client
    elif at.transport == "sse":
        async with Client(sse_client(at.url, at.headers), client_info=about, cache=None) as client:
            yield client
    else:
        async with httpx2.AsyncClient(headers=at.headers, timeout=_SECONDS) as http:
            transport = streamable_http_client(at.url, http_client=http)
            async with Client(transport, client_info=about, cache=None) as client:
                yield client


async def tools_of(client: Client) -> list[Tool]:
    """Return the tools that the server lists, up to `MOST_LISTED`."""
    found: list[Tool] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None or len(found) >= MOST_LISTED:
            break
    return found[:MOST_LISTED]


async def called(client: Client, tool: str, args: dict[str, Any]) -> CallToolResult:
    """Return the result of the server's tool. Not by `Client.call_tool`: that checks results by the server's own
    schema, whose patterns could take forever."""
    request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=args))
    result: CallToolResult = await client.session.send_request(request, CallToolResult)
    return result


def lost(error: Exception) -> bool:
    """Return True if the connection is lost."""
    if isinstance(error, MCPError):
        return error.code == CONNECTION_CLOSED or error.message == "Session terminated"
    return isinstance(error, RuntimeError | OSError | anyio.ClosedResourceError | anyio.BrokenResourceError)


def reason(error: BaseException) -> str:
    """Return why there is no connection or no result, in a few words."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return "its program was not found"
    if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
        return "it ended, or closed the connection"
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        return one_line(f"it answered what is not the protocol: {first['msg'][:200]} at {place[:200]}")
    return one_line(str(error)[:500]) or type(error).__name__
