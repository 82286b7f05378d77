"""An agent of the OpenAI Agents SDK whose memory is a Foldmark conversation: `python examples/openai_agents.py`.

It needs no key and no network: the provider is a server on the loopback interface, in this file, which speaks OpenAI's
Responses API and reports what it was sent. If you have a key, leave out `provider` and the client, and name a model.
"""
# ruff: noqa: T201

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from foldmark.integrations.openai_agents import FoldmarkSession


class Provider(BaseHTTPRequestHandler):
    """A provider that calls `weather` if the last message mentions it; otherwise it reports what it was sent."""

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]
        asked = sent[-1].get("content")
        if isinstance(asked, str) and "weather" in asked:
            call = {"call_id": f"call_{len(sent)}", "name": "weather", "arguments": '{"city":"Oslo"}'}
            item: dict[str, Any] = {"type": "function_call", "id": f"fc_{len(sent)}", "status": "completed", **call}
        else:
            users = [each["content"] for each in sent if each.get("role") == "user"]
            text = f"You sent {len(sent)} items. You said: {' | '.join(users)}"
            part = {"type": "output_text", "text": text, "annotations": []}
            message = {"role": "assistant", "status": "completed", "content": [part]}
            item = {"type": "message", "id": f"msg_{len(sent)}", **message}
        answer = {"id": "resp_1", "object": "response", "created_at": 0, "model": "loopback", "status": "completed"}
        answer |= {"output": [item], "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the example prints what happens."""


@contextmanager
def provider() -> Iterator[str]:
    """Run the provider during the block, and yield its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"It rains in {city}."


async def main(url: str, database: Path) -> None:
    async with AsyncOpenAI(base_url=url, api_key="none") as client:
        agent = Agent("helper", model=OpenAIResponsesModel("loopback", client), tools=[weather])
        with FoldmarkSession("example", database) as session:

            async def say(text: str) -> None:
                print(f"> {text}")
                print((await Runner.run(agent, text, session=session)).final_output)

            def do(line: str) -> None:
                print(f"> {line}")
                print(session.do(line).text)

            await say("My name is Ann.")
            do("/mark BEFORE")
            await say("How is the weather?")
            do("/rewind BEFORE")
            await say("Who am I?")
            for message in session.agent.context().messages:
                print(f"{message.id:>3} {message.kind:<12} {message.content}")
            print([hit.kind for hit in session.log.search("Oslo")], "are still found")


if __name__ == "__main__":
    set_tracing_disabled(True)
    with TemporaryDirectory() as folder, provider() as url:
        asyncio.run(main(url, Path(folder) / "example.db"))
