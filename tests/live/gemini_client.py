"""A small client of generateContent that behaves as Gemini CLI 0.61 does: it names no session, puts `<session_context>`
in front of the first prompt, sends no thoughts back, and merges what was streamed.
"""

import json
from pathlib import Path
from typing import Any

import httpx2 as httpx
from plan import Answer, Http, Reply, Say, Think, Use
from running import Running
from wire_gemini import GeminiWire

from foldmark.dialects.gemini.contents import first_candidate, parts_of
from foldmark.live.clients.answers import contents_in
from foldmark.live.sessions import Sessions
from foldmark.log import Agent

KEY = "planted-key-4411"
MODEL = "gemini-3.8-flash"
CONTEXT = "<session_context>\nYou are in a folder.\n</session_context>"
UNSIGNED = "skip_thought_signature_validator"
Content = dict[str, Any]


class PlainWire(GeminiWire):
    """The same, which also answers `generateContent`; what is asked there has to be valid but for neighbours of one
    role, which the API takes. `ids` is False for a server of Gemini 2.5, whose calls have none."""

    ids = True

    def refuse(self, path: str, headers: Any, body: dict[str, Any]) -> Http | None:
        if not path.endswith(":generateContent"):
            return super().refuse(path, headers, body)
        return None if body.get("contents") else self.error(400, "contents: missing")

    def _ids(self) -> bool:
        return self.ids


class NoIds(PlainWire):
    ids = False


class Client:
    """An agent: it keeps its transcript, and answers its model's tool calls itself."""

    def __init__(self, url: str, model: str = MODEL, context: str = CONTEXT) -> None:
        self.url, self.model, self.context = url, model, context
        self.contents: list[Content] = []
        self.functions = ["read_file"]
        self.made = 0

    def say(self, text: str) -> str:
        """Ask a prompt, answer all calls, and return what the last answer said."""
        context = [] if self.contents else [{"text": self.context}]
        self.contents.append({"role": "user", "parts": [*context, {"text": text}]})
        return self.go_on()

    def go_on(self) -> str:
        while True:
            parts = self.ask(self.contents)
            self.contents.append({"role": "model", "parts": parts})
            calls = [part["functionCall"] for part in parts if "functionCall" in part]
            if not calls:
                return "".join(part.get("text", "") for part in parts)
            for call in calls:
                self.made += 1
                call.setdefault("id", f"{call['name']}_1795727783269_{self.made}")
            found = [
                {"id": call["id"], "name": call["name"], "response": {"output": f"{call['name']}: " + "data " * 200}}
                for call in calls
            ]
            self.contents.append({"role": "user", "parts": [{"functionResponse": each} for each in found]})

    def ask(self, contents: list[Content], **more: Any) -> list[dict[str, Any]]:
        """Ask, and return the parts of the answer that go back."""
        body = {"contents": contents, "tools": [{"functionDeclarations": [{"name": name} for name in self.functions]}]}
        came = self.post("streamGenerateContent?alt=sse", {**body, **more})
        answer = contents_in(came)
        return [part for part in parts_of(first_candidate(answer)) if not part.get("thought")]

    def aside(self, contents: list[Content], **more: Any) -> str:
        """Ask something beside the conversation, as JSON."""
        formed = {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}}
        return self.post("generateContent", {"contents": contents, "generationConfig": formed, **more}).decode()

    def post(self, method: str, body: dict[str, Any]) -> bytes:
        headers = {"x-goog-api-key": KEY, "user-agent": "GeminiCLI-tui/0.61.0", "content-type": "application/json"}
        content = json.dumps(body, separators=(",", ":")).encode()
        url = f"{self.url}/v1beta/models/{self.model}:{method}"
        came = httpx.post(url, headers=headers, content=content, timeout=30)
        assert came.status_code == 200, came.text
        return came.content


class Model:
    """A model that reads when it is told to, and else says how many contents it sees, or `said`."""

    def __init__(self) -> None:
        self.asked, self.fails, self.said = 0, list[Answer](), ""

    def __call__(self, body: Any) -> Answer | Http:
        if self.fails:
            return self.fails.pop()
        if "responseMimeType" in body.get("generationConfig", {}):
            whole = {"content": {"parts": [{"text": "{}"}], "role": "model"}, "finishReason": "STOP"}
            return Http(200, {"content-type": "application/json"}, json.dumps({"candidates": [whole]}).encode())
        self.asked += 1
        if not body.get("tools"):
            return Reply((Say(("[]",)),))
        if "READ" in json.dumps(body["contents"][-1]):
            first = Use(f"c{self.asked}a", "read_file", {"at": 1.0}, "c2lnbmVk")
            second = Use(f"c{self.asked}b", "read_file", {})
            return Reply((Think("To read.", "c2lnbmVk"), Say(("Rea", "ding.")), first, second), stop="calls")
        said = (self.said,) if self.said else ("I see ", f"{len(body['contents'])}.")
        return Reply((Think("Hm.", "c2lnbmVk"), Say(said)))


class GeminiRunning(Running[Model, Client]):
    """Such a client behind a gateway, in the run `run` of it."""

    member = "contents"
    run = "r" * 32

    def __init__(self, folder: Path, wire: PlainWire) -> None:
        super().__init__(folder, wire, Model(), Client)

    def made_sessions(self) -> Sessions:
        return Sessions(self.log, "app", self.upstream.url, run=self.run)

    def again(self, run: str) -> None:
        """Another gateway: of the same run, or of another one that goes on with the same session."""
        self.end()
        self.run = run
        self.begin()
        self.client.url = self.gateway.url

    @property
    def agents(self) -> list[Agent]:
        self.sessions.settle()
        return [agent for agent in self.log.agents() if agent.name]

    @property
    def agent(self) -> Agent:
        (agent,) = self.agents
        return agent

    def recorded(self, agent: Agent | None = None) -> list[str]:
        return [event.content for event in (agent or self.agent).context().messages if event.kind == "user"]
