"""A small client of the Messages API that behaves like an agent: it sends its whole transcript each time.

Real agents: test_clients.py.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import httpx2 as httpx
from plan import Answer, Reply, Say, Think, Use
from running import Running
from wire_anthropic import SYSTEM_MESSAGES, AnthropicWire
from wire_bound import BoundWire

from foldmark.dialects.anthropic.stream import MessageReader
from foldmark.live.clients.answers import body_in
from foldmark.log import Agent
from patience import LIMIT

KEY = "sk-planted-0c9d2e"
SESSION = "5e55104e-0000-4000-8000-000000000001"
BOUND, FREE = "claude-fable-5-1", "claude-sonnet-4-6"
TOOL = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}
REMINDER = {"type": "text", "text": "<system-reminder>\nYou are in a folder.\n</system-reminder>"}


class Client:
    """An agent that keeps its transcript and answers its model's tool calls itself."""

    def __init__(self, url: str, model: str = FREE) -> None:
        self.url, self.model, self.tools = url, model, [TOOL]
        self.messages: list[dict[str, Any]] = []
        self.session = SESSION
        self.headers: dict[str, str] = {}
        self.ttl = ""

    def say(self, text: str, *systems: str) -> str:
        """Send a prompt, answer all calls, and return the text of the last answer. The first of `systems` follows the
        prompt as a system message, each other one the results of calls."""
        self.messages.append({"role": "user", "content": [{"type": "text", "text": text}]})
        if len(self.messages) == 1:
            self.messages[0]["content"].insert(0, REMINDER)
        notes = iter(systems)
        self._note(notes)
        while True:
            answer = self.ask(self.messages)
            self.messages.append({"role": "assistant", "content": answer})
            calls = [block for block in answer if block["type"] == "tool_use"]
            if not calls:
                return "".join(block.get("text", "") for block in answer)
            results = [
                {"type": "tool_result", "tool_use_id": call["id"], "content": f"{call['name']}: " + "data " * 200}
                for call in calls
            ]
            self.messages.append({"role": "user", "content": results})
            self._note(notes)

    def _note(self, notes: Iterator[str]) -> None:
        for text in islice(notes, 1):
            self.headers["anthropic-beta"] = SYSTEM_MESSAGES
            self.messages.append({"role": "system", "content": [{"type": "text", "text": text}]})

    def ask(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send messages, and return the blocks of the answer."""
        content, headers = self.request(messages)
        came = httpx.post(f"{self.url}/v1/messages", headers=headers, content=content, timeout=LIMIT)
        assert came.status_code == 200, came.text
        return list(body_in(came.content, MessageReader({}), MessageReader.message)["content"])

    @contextmanager
    def answering(self, messages: list[dict[str, Any]], seen: str) -> Iterator[None]:
        """Send messages, leave once the block has ended, and begin that when `seen` has come of the answer."""
        content, headers = self.request(messages)
        text = ""
        with httpx.stream("POST", f"{self.url}/v1/messages", headers=headers, content=content) as came:
            for piece in came.iter_text():
                text += piece
                if seen in text:
                    break
            yield

    def request(self, messages: list[dict[str, Any]]) -> tuple[bytes, dict[str, str]]:
        """Return the body and the headers of a request, with a cache mark on the newest message unless it is plain
        text."""
        *before, marked = messages
        if isinstance(marked["content"], list) and marked["content"]:
            *blocks, newest = marked["content"]
            control = {"type": "ephemeral", **({"ttl": self.ttl} if self.ttl else {})}
            marked = {**marked, "content": [*blocks, {**newest, "cache_control": control}]}
        body = {"model": self.model, "max_tokens": 1000, "stream": True, "thinking": {"type": "adaptive"}}
        headers = {"x-api-key": KEY, "anthropic-version": "2023-06-01", "content-type": "application/json"}
        headers |= self.headers
        content = json.dumps(
            {**body, "messages": [*before, marked], "tools": self.tools}, separators=(",", ":")
        ).encode()
        headers["x-claude-code-session-id"] = self.session
        return content, headers


class Model:
    """A model that reads when asked to, says how many messages it sees, and finds the messages `found`."""

    def __init__(self, wire: AnthropicWire) -> None:
        self.wire, self.asked, self.fails = wire, 0, list[Answer]()
        self.found: list[int] = []

    def __call__(self, body: Any) -> Answer:
        if self.fails:
            return self.fails.pop()
        self.asked += 1
        if not body.get("tools"):
            return Reply((Say((json.dumps(self.found),)),))
        signature = self.wire.sign(body) if isinstance(self.wire, BoundWire) else f"signed-{self.asked}"
        asked = next(each for each in reversed(body["messages"]) if each["role"] != "system")
        if "READ" in json.dumps(asked):
            calls = (Use(f"toolu_{self.asked}a", "Read", {"at": 1.0}), Use(f"toolu_{self.asked}b", "Read", {}))
            return Reply((Think("To read.", signature), Say(("Reading.",)), *calls), stop="calls")
        return Reply((Think("Hm.", signature), Say((f"I see {len(body['messages'])}.",))))


class ClaudeRunning(Running[Model, Client]):
    """A Claude client behind a gateway."""

    def __init__(self, folder: Path, wire: AnthropicWire, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, wire, Model(wire), Client, settings)

    @property
    def agent(self) -> Agent:
        self.settle()
        return self.log.agent(f"app · {SESSION[:8]}")
