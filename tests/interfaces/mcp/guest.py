"""A guest: a client of the official SDK with a Foldmark server, in this process or as a separate program."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.session import ClientRequestContext
from mcp.types import (
    ElicitRequestParams,
    ElicitResult,
    TextContent,
)

import stand_in
from foldmark.app import Setup
from foldmark.mcp.conversations import Conversations
from foldmark.mcp.server import server
from patience import LIMIT

ERAS = ("legacy", "auto")
"""Client modes for the handshake of 2025 and the protocol of 2026."""


class Guest:
    """A client with short methods. `asked` holds the questions put to the person, who answers with `answer`."""

    def __init__(self, answer: ElicitResult | None) -> None:
        self.answer, self.asked = answer, list[str]()
        self.client: Client

    async def ask(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        assert self.answer is not None
        return self.answer

    async def call(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool and return its text. An error begins with `Error: `."""
        result = await self.client.call_tool(tool, arguments)
        (content,) = result.content
        assert isinstance(content, TextContent)
        assert result.is_error == content.text.startswith("Error: ")
        if result.structured_content is not None:
            assert result.structured_content == json.loads(content.text)
        return content.text

    async def read(self, uri: str) -> str:
        result = await self.client.read_resource(uri)
        (content,) = result.contents
        assert content.uri == uri
        return str(getattr(content, "text"))  # noqa: B009 - none of them is binary

    async def data(self, uri: str) -> Any:
        return json.loads(await self.read(uri))


def yes() -> ElicitResult:
    return ElicitResult(action="accept", content={"agree": True})


@asynccontextmanager
async def inside(
    db: str, name: str | None = "default", *, era: str = "auto", answer: ElicitResult | None = None, here: bool = True
) -> AsyncIterator[Guest]:
    """Yield a guest of a server in this process."""
    guest = Guest(answer)
    serving = server(Conversations(Setup(db), name), here=here)
    asking = guest.ask if answer is not None else None
    async with Client(serving, mode=era, elicitation_callback=asking, cache=None) as guest.client:
        yield guest


@asynccontextmanager
async def outside(*arguments: str, era: str = "auto", errors: Path | None = None) -> AsyncIterator[Guest]:
    """Yield a guest of `foldmark mcp` over standard input and output."""
    guest = Guest(None)
    program = StdioServerParameters(
        command=str(stand_in.folder() / "foldmark"), args=["mcp", *arguments], env=dict(os.environ)
    )
    with (errors or Path(os.devnull)).open("a") as said:
        async with Client(stdio_client(program, said), mode=era, cache=None) as guest.client:
            yield guest


def visit(visiting: Callable[[], Awaitable[None]]) -> None:
    """Run a visit to its end, within `LIMIT` seconds."""

    async def within() -> None:
        with anyio.fail_after(LIMIT):
            await visiting()

    anyio.run(within)
