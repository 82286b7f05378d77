"""LiteLLM's SDK behind an address: each request goes through `litellm.anthropic.messages.acreate`, with the editing of
the context that its documentation shows (docs.litellm.ai/docs/providers/anthropic, "Context management")."""

import asyncio
import json
import sys

import litellm
from aiohttp import web

litellm.telemetry = False
EDITS = {
    "edits": [
        {
            "type": "clear_tool_uses_20250919",
            "trigger": {"type": "input_tokens", "value": int(sys.argv[2])},
            "keep": {"type": "tool_uses", "value": 3},
            "clear_at_least": {"type": "input_tokens", "value": 5000},
        }
    ]
}


async def messages(request: web.Request) -> web.StreamResponse:
    """Answer one request."""
    body = await request.json()
    model = body.pop("model")
    try:
        stream = await litellm.anthropic.messages.acreate(
            model=f"anthropic/{model}",
            api_base=sys.argv[1],
            api_key="none",
            context_management=EDITS,
            extra_headers={"anthropic-beta": "context-management-2025-06-27"},
            **body,
        )
    except Exception as error:
        return web.json_response({"type": "error", "error": {"message": str(error)[:500]}}, status=400)
    answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await answer.prepare(request)
    async for piece in stream:
        await answer.write(piece if isinstance(piece, bytes) else str(piece).encode())
    await answer.write_eof()
    return answer


async def main() -> None:
    """Serve until the process is ended."""
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/messages", messages)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    print(json.dumps({"url": f"http://127.0.0.1:{port}"}), flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
