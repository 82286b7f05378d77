"""A real MCP server, written with the SDK, over standard input and output or, with `http FILE` or `sse FILE`, on a
separate loopback port, which it writes to FILE. It leaves files about its calls in its working folder."""

import os
import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

server = MCPServer("workshop")
READ_ONLY = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=READ_ONLY)
def echo(text: str, times: int = 1) -> CallToolResult:
    """Says what it is told."""
    return CallToolResult(content=[TextContent(text=text) for _ in range(times)])


@server.tool()
def note(text: str) -> str:
    """Writes a note."""
    with Path("notes.txt").open("a") as file:
        file.write(f"{text}\n")
    return "written"


@server.tool(annotations=READ_ONLY)
def add(first: int, second: int) -> CallToolResult:
    """Adds."""
    return CallToolResult(content=[], structured_content={"sum": first + second})


@server.tool(annotations=READ_ONLY)
def fail(text: str) -> CallToolResult:
    """Fails."""
    return CallToolResult(content=[TextContent(text=text)] if text else [], is_error=True)


@server.tool(annotations=READ_ONLY)
def show() -> CallToolResult:
    """Answers with much that is no text."""
    return CallToolResult(
        content=[
            TextContent(text="Look:"),
            ImageContent(data="QUJDREU=", mime_type="image/png"),
            AudioContent(data="QUJD", mime_type="audio/wav\x1b[2J"),
            ResourceLink(name="plan", uri="file:///plan.txt", mime_type="text/plain"),
            EmbeddedResource(resource=TextResourceContents(uri="file:///a.txt", text="the text of a")),
            EmbeddedResource(resource=BlobResourceContents(uri="x:" + "u" * 1000, blob="QUI=", mime_type="x/y")),
        ]
    )


@server.tool(annotations=READ_ONLY)
def environment() -> CallToolResult:
    """Tells its variables and folder."""
    return CallToolResult(content=[], structured_content={"env": dict(os.environ), "folder": str(Path.cwd())})


@server.tool(annotations=READ_ONLY)
async def wait() -> str:
    """Waits until it is cancelled."""
    Path("waiting").touch()
    try:
        await anyio.sleep_forever()
    except BaseException:
        Path("cancelled").touch()
        raise
    return "never"


async def over_http(transport: str, port_file: Path) -> None:
    import uvicorn

    app = server.sse_app() if transport == "sse" else server.streamable_http_app()
    listening = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))

    async def tell() -> None:
        while not listening.started:
            await anyio.sleep(0.01)
        part = port_file.with_suffix(".part")
        part.write_text(str(listening.servers[0].sockets[0].getsockname()[1]))
        part.rename(port_file)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tell)
        await listening.serve()


if __name__ == "__main__":
    Path(f"pid-{os.getpid()}").touch()
    if sys.argv[1:]:
        anyio.run(over_http, sys.argv[1], Path(sys.argv[2]))
    else:
        server.run()
