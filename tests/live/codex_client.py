"""A small client of the Responses API that sends its items as Codex does. The real Codex: test_codex.py."""

import json
from pathlib import Path
from typing import Any

import httpx2 as httpx
from claude_client import KEY, SESSION
from codex_wire import CodexWire
from plan import Answer, Reply, Say, Think, Use
from running import Running

from foldmark.dialects.openai.stream import ResponseReader
from foldmark.live.clients.answers import body_in
from foldmark.log import Agent
from patience import LIMIT

TOOL = {"type": "function", "name": "Read", "parameters": {"type": "object", "properties": {}}}
ADDED = "internal_chat_message_metadata_passthrough"


def spoken(role: str, *texts: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text} for text in texts]
    return {"type": "message", "id": f"msg_{hash(texts) % 10**9}", "role": role, "content": content}


INJECTED = [
    spoken("developer", "You are in a folder."),
    spoken("user", "# AGENTS.md instructions for /app\n\nBe brief.", "<environment_context>\n</environment_context>"),
]


def answered(call: dict[str, Any]) -> dict[str, Any]:
    """Return the output of a call. One of the local shell is answered like that of a function."""
    if call["type"] == "tool_search_call":
        tools = [{**TOOL, "name": f"found_{call['call_id']}"}]
        found = {"execution": "client", "status": "completed", "tools": tools}
        return {"type": "tool_search_output", "call_id": call["call_id"], **found}
    kind = call["type"].replace("local_shell_call", "function_call")
    output = f"{call.get('name', 'shell')}: " + "data " * 200
    return {"type": f"{kind}_output", "call_id": call["call_id"], "output": output}


class Client:
    """An agent that keeps its items and answers its model's tool calls itself."""

    def __init__(self, url: str) -> None:
        self.url, self.model, self.tools = url, "gpt-5.1", [TOOL]
        self.session, self.thread, self.about = SESSION, SESSION, dict[str, Any]()
        self.items: list[dict[str, Any]] = list(INJECTED)

    def say(self, text: str) -> str:
        """Send a prompt, answer all calls, and return the text of the last answer."""
        self.items.append(spoken("user", text))
        while True:
            answer = self.ask(self.items)
            self.items += answer
            calls = [item for item in answer if item["type"].endswith("_call")]
            if not calls:
                return "".join(part["text"] for item in answer for part in item.get("content", ()))
            self.items += map(answered, calls)

    def ask(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send items, and return the items of the answer as Codex sends them back."""
        body, headers = self.request(items)
        content = json.dumps(body, separators=(",", ":")).encode()
        came = httpx.post(f"{self.url}/v1/responses", headers=headers, content=content, timeout=LIMIT)
        assert came.status_code == 200, came.text
        answer = body_in(came.content, ResponseReader(""), ResponseReader.response)["output"]
        return [{"status": "completed", **item, ADDED: {"turn_id": "t"}} for item in answer]

    def request(self, items: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the body and the headers of a request."""
        body = {"model": self.model, "stream": True, "store": False, "include": ["reasoning.encrypted_content"]}
        headers = {"authorization": f"Bearer {KEY}", "session-id": self.session, "thread-id": self.thread}
        headers |= {
            "x-codex-turn-metadata": json.dumps({"request_kind": "turn", "thread_source": "user", **self.about})
        }
        return {**body, "input": items, "tools": self.tools}, headers


class Model:
    """A model that reads with two tools when asked to, says how many items it sees, and finds nothing."""

    def __init__(self) -> None:
        self.asked, self.fails = 0, list[Answer]()

    def __call__(self, body: Any) -> Answer:
        if self.fails:
            return self.fails.pop()
        self.asked += 1
        if not body.get("tools"):
            return Reply((Say(("[]",)),))
        signature = f"signed-{self.asked}"
        if "READ" in json.dumps(body["input"][-1]):
            calls = Use(f"call_{self.asked}a", "Read", {"at": 1.0}), Use(f"call_{self.asked}b", "exec", {"input": "x"})
            more = Think("The other one.", f"{signature}b")
            return Reply((Think("To read.", signature), Say(("Reading.",)), calls[0], more, calls[1]), stop="calls")
        return Reply((Think("Hm.", signature), Say((f"I see {len(body['input'])}.",))))


class CodexRunning(Running[Model, Client]):
    """A Codex client behind a gateway."""

    member = "input"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, CodexWire(), Model(), Client)

    @property
    def agent(self) -> Agent:
        self.settle()
        return self.log.agent(f"app · {SESSION[:8]}")

    def texts(self) -> list[tuple[str, str]]:
        """Return the texts of the newest request, without those that the client injects."""
        sent = self.upstream.asked[-1].body["input"]
        assert sent[: len(INJECTED)] == INJECTED
        return self.upstream.wire.texts({"input": sent[len(INJECTED) :]})
