"""A small client of generateContent that behaves like Gemini CLI 0.61: it names no session, puts `<session_context>`
before the first prompt, sends no thoughts back, and merges streamed parts.
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
from patience import LIMIT

KEY = "planted-key-4411"
MODEL = "gemini-3.8-flash"
CONTEXT = "<session_context>\nYou are in a folder.\n</session_context>"
UNSIGNED = "skip_thought_signature_validator"
Content = dict[str, Any]


class PlainWire(GeminiWire):
    """A `GeminiWire` that also answers `generateContent`. Requests there have to be valid except for neighbours of one
    role, which the API accepts. `ids` is False for a server of Gemini 2.5, whose calls have none."""

    ids = True

    def refuse(self, path: str, headers: Any, body: dict[str, Any]) -> Http | None:
        if path.endswith(":generateContent"):
            path = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
            body = {**body, "contents": joined(body["contents"])}
        return super().refuse(path, headers, body)

    def _ids(self) -> bool:
        return self.ids


class NoIds(PlainWire):
    ids = False


def joined(contents: list[Content]) -> list[Content]:
    """Merge neighbours of one role."""
    found: list[Content] = []
    for content in contents:
        if found and found[-1]["role"] == content["role"]:
            found[-1] = {**content, "parts": [*found[-1]["parts"], *content["parts"]]}
        else:
            found.append(content)
    return found


class Client:
    """An agent that keeps its transcript and answers its model's tool calls itself."""

    def __init__(self, url: str, model: str = MODEL, context: str = CONTEXT) -> None:
        self.url, self.model, self.context = url, model, context
        self.contents: list[Content] = []
        self.functions = ["read_file"]
        self.made = 0

    def say(self, text: str) -> str:
        """Send a prompt, answer all calls, and return the text of the last answer."""
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
        """Send contents, and return the parts of the answer that the client sends back."""
        body = {"contents": contents, "tools": [{"functionDeclarations": [{"name": name} for name in self.functions]}]}
        came = self.post("streamGenerateContent?alt=sse", {**body, **more})
        answer = contents_in(came)
        return [part for part in parts_of(first_candidate(answer)) if not part.get("thought")]

    def aside(self, contents: list[Content], **more: Any) -> str:
        """Ask for JSON outside the conversation, and return the response."""
        formed = {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}}
        return self.post("generateContent", {"contents": contents, "generationConfig": formed, **more}).decode()

    def post(self, method: str, body: dict[str, Any]) -> bytes:
        headers = {"x-goog-api-key": KEY, "user-agent": "GeminiCLI-tui/0.61.0", "content-type": "application/json"}
        content = json.dumps(body, separators=(",", ":")).encode()
        url = f"{self.url}/v1beta/models/{self.model}:{method}"
        came = httpx.post(url, headers=headers, content=content, timeout=LIMIT)
        assert came.status_code == 200, came.text
        return came.content


class Model:
    """A model that reads when asked to, and otherwise says `said`, or how many contents it sees."""

    def __init__(self) -> None:
        self.asked, self.fails, self.said = 0, list[Answer | Http](), ""

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
    """A Gemini client behind a gateway. `run` is the id of the run."""

    member = "contents"
    run = "r" * 32

    def __init__(self, folder: Path, wire: PlainWire) -> None:
        super().__init__(folder, wire, Model(), Client)

    def made_sessions(self) -> Sessions:
        return Sessions(self.log, "app", self.upstream.url, run=self.run)

    def again(self, run: str) -> None:
        """Start another gateway, of the same run or of a run that continues the same session."""
        self.end()
        self.run = run
        self.begin()
        self.client.url = self.gateway.url

    @property
    def agents(self) -> list[Agent]:
        self.settle()
        return [agent for agent in self.log.agents() if agent.name]

    @property
    def agent(self) -> Agent:
        (agent,) = self.agents
        return agent

    def recorded(self, agent: Agent | None = None) -> list[str]:
        return [event.content for event in (agent or self.agent).context().messages if event.kind == "user"]
