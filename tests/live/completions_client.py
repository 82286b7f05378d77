"""A small client of Chat Completions that behaves like an agent: it puts its system prompt first, which changes from
request to request, and sends its whole transcript each time."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2 as httpx
from claude_client import KEY
from plan import Answer, Http, Reply, Say, Use
from running import Running
from wire_openai import OpenAIWire

from foldmark.dialects.openai.stream import CompletionReader
from foldmark.live.clients.answers import body_in
from foldmark.live.sessions import Sessions
from foldmark.log import Agent
from patience import LIMIT

TOOL = {"type": "function", "function": {"name": "Read", "parameters": {"type": "object", "properties": {}}}}
SESSION = "ses_ddc1b8eb8ffeQzdq"
REMINDER = "<system-reminder>\nYou are in a folder.\n</system-reminder>"
Message = dict[str, Any]


def as_it_came(message: Message) -> Message:
    """Return an answer as most clients repeat it."""
    calls = {"tool_calls": message["tool_calls"]} if message["tool_calls"] else {}
    return {"role": "assistant", "content": message["content"] or None, **calls}


def otherwise(message: Message) -> Message:
    """Return an answer as a client repeats it that has parsed it: in parts, without blanks at the end, and with its
    arguments written anew."""
    text, calls = message["content"].strip(), []
    for call in message["tool_calls"]:
        arguments = json.dumps(json.loads(call["function"]["arguments"] or "{}"), separators=(",", ":"))
        calls.append(
            {**call, "function": {"arguments": arguments.replace("1.0", "1"), "name": call["function"]["name"]}}
        )
    made = {"tool_calls": calls} if calls else {}
    return {**made, "content": [{"type": "text", "text": text}] if text else None, "role": "assistant"}


class Client:
    """An agent that keeps its transcript and answers its model's tool calls itself. `repeat` makes the message that it
    sends back for an answer. It names its session unless `headers` are empty."""

    def __init__(self, url: str) -> None:
        self.url, self.model = url, "gpt-5.1"
        self.tools: list[Message] = [TOOL]
        self.messages: list[Message] = []
        self.headers = {"x-session-id": SESSION, "x-session-affinity": SESSION}
        self.repeat: Callable[[Message], Message] = as_it_came
        self.path, self.asked = "/v1/chat/completions", 0
        self.system = "You are an agent."
        self.options: dict[str, Any] = {"stream_options": {"include_usage": True}}

    def say(self, text: str) -> str:
        """Send a prompt, answer all calls, and return the text of the last answer."""
        self.messages.append({"role": "user", "content": text if self.messages else self.begun(text)})
        while True:
            answer = self.ask(self.messages)
            self.messages.append(self.repeat(answer))
            if not answer["tool_calls"]:
                return str(answer["content"])
            for call in answer["tool_calls"]:
                content = f"{call['function']['name']}: " + "data " * 200
                self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})

    def begun(self, text: str) -> Any:
        return [{"type": "text", "text": each} for each in (REMINDER, text)]

    def ask(self, messages: list[Message]) -> Message:
        """Send messages behind the system prompt, and return the message of the answer."""
        self.asked += 1
        system = {"role": "system", "content": f"{self.system} It is {self.asked} o'clock."}
        body = {"model": self.model, "stream": True, **self.options}
        tools = {"tools": self.tools} if self.tools else {}
        content = json.dumps({**body, "messages": [system, *messages], **tools}, separators=(",", ":")).encode()
        headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json", **self.headers}
        came = httpx.post(f"{self.url}{self.path}", headers=headers, content=content, timeout=LIMIT)
        assert came.status_code == 200, came.text
        return dict(body_in(came.content, CompletionReader(""), CompletionReader.completion)["choices"][0]["message"])


class Model:
    """A model that reads when asked to, says how many messages it sees, and finds nothing."""

    def __init__(self) -> None:
        self.asked, self.fails = 0, list[Answer | Http]()

    def __call__(self, body: Any) -> Answer | Http:
        if self.fails:
            return self.fails.pop()
        self.asked += 1
        if not body.get("tools"):
            return Reply((Say(("[]",)),))
        if "READ" in json.dumps(body["messages"][-1]):
            calls = Use(f"call_{self.asked}a", "Read", {"at": 1.0}), Use(f"call_{self.asked}b", "Read", {})
            return Reply((Say(("Rea", "ding.\n")), *calls), stop="calls")
        return Reply((Say(("I see ", f"{len(body['messages'])}.")),))


class CompletionsRunning(Running[Model, Client]):
    """A client of Chat Completions behind a gateway. `run` is the id of the run."""

    run = "r" * 32

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, OpenAIWire(), Model(), Client)

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

    def texts(self) -> list[tuple[str, str]]:
        """Return the texts of the newest request, without its system prompt and what the client adds."""
        return [each for each in super().texts()[1:] if each != ("user", REMINDER)]
