"""Sessions of a client that speaks generateContent: recorded, edited, found again without a session's id (SPEC 5.7).

The client here is a small one that behaves as Gemini CLI 0.61 does: it names no session, puts `<session_context>` in
front of the first prompt, sends no thoughts back, and merges what was streamed. The provider checks each request.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from plan import Answer, Fail, Http, Reply, Say, Think, Use
from server import Loopback
from wire_gemini import GeminiWire

import foldmark
from foldmark.live.clients.gemini_answers import read_answer
from foldmark.live.gateway import Gateway
from foldmark.live.sessions import Sessions
from foldmark.live.status import statuses
from foldmark.log import Agent, Log
from foldmark.log.live_session import client_session

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
        answer = read_answer(came)
        assert answer is not None
        return [part for part in answer.parts if not part.get("thought")]

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
    """A model that reads when it is told to, and else says how many contents it sees."""

    def __init__(self) -> None:
        self.asked, self.fails = 0, list[Answer]()

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
        return Reply((Think("Hm.", "c2lnbmVk"), Say(("I see ", f"{len(body['contents'])}."))))


class Running:
    """A client, the log, and the provider behind the gateway."""

    def __init__(self, folder: Path, wire: PlainWire) -> None:
        self.model = Model()
        self.upstream = Loopback(wire, self.model)
        self.path = folder / "live.db"
        self.log: Log = foldmark.open(self.path, settings={})
        self.begin("r" * 32)
        self.client = Client(self.gateway.url)

    def begin(self, run: str) -> None:
        self.sessions = Sessions(self.log, "app", self.upstream.url, run=run)
        self.gateway = Gateway(self.upstream.url, sessions=self.sessions)
        self.gateway.__enter__()

    def end(self) -> None:
        self.gateway.__exit__(None, None, None)
        self.sessions.close()

    def again(self, run: str) -> None:
        """Another gateway: of the same run, or of another one that goes on with the same session."""
        self.end()
        self.begin(run)
        self.client.url = self.gateway.url

    @property
    def agents(self) -> list[Agent]:
        self.sessions.settle()
        return [agent for agent in self.log.agents() if agent.name]

    @property
    def agent(self) -> Agent:
        (agent,) = self.agents
        return agent

    def kinds(self) -> list[str]:
        return [event.kind for event in self.agent.context().messages]

    def recorded(self, agent: Agent | None = None) -> list[str]:
        return [event.content for event in (agent or self.agent).context().messages if event.kind == "user"]

    def texts(self) -> list[tuple[str, str]]:
        """What the provider was last asked."""
        return self.upstream.wire.texts({"contents": self.upstream.asked[-1].body["contents"]})

    def users(self) -> list[str]:
        return [text for kind, text in self.texts() if kind == "user"]

    def turn(self, text: str) -> int:
        event = next(each for each in self.agent.context().messages if each.content == text)
        assert event.turn_id is not None
        return event.turn_id


@pytest.fixture
def wire() -> PlainWire:
    return PlainWire()


@pytest.fixture
def running(tmp_path: Path, wire: PlainWire) -> Iterator[Running]:
    made = Running(tmp_path, wire)
    with made.upstream:
        try:
            yield made
        finally:
            made.end()
            made.log.close()
    assert made.upstream.refusals == []


class NoIds(PlainWire):
    ids = False


def test_it_is_recorded(running: Running) -> None:
    running.client.say("one")
    running.client.say("READ two")
    assert running.kinds() == [
        *("user", "assistant"),
        *("user", "assistant", "tool_call", "tool_call", "tool_result", "tool_result", "assistant"),
    ]
    agent = running.agent
    assert agent.standing().config.model == f"gemini/{MODEL}"
    assert agent.open_turn is None
    messages = list(agent.context().messages)
    assert messages[1].content == "I see 1."
    assert messages[1].data is not None
    assert messages[1].data["blocks"][0]["text"] == "Hm."
    assert messages[4].data is not None
    assert messages[4].data["thought_signature"] == "c2lnbmVk"
    (status,) = statuses(running.log)
    assert (status.answers, status.operations) == (3, 0)


def test_nothing_is_changed_without_an_operation(running: Running) -> None:
    for text in ("one", "READ two", ":help", "three"):
        running.client.say(text)
    plain = [each.body["contents"] for each in running.upstream.asked]
    own = running.client.contents
    assert [len(contents) for contents in plain] == [1, 3, 5, 7]
    assert plain[-1] == [*own[:6], own[8]]


@pytest.mark.parametrize("wire", [PlainWire(), NoIds()], ids=["ids", "no ids"])
def test_a_drop_and_its_restore(running: Running, wire: PlainWire) -> None:
    client = running.client
    client.model = MODEL if wire.ids else "gemini-2.5-pro"
    for text in ("one", "READ two", "READ three"):
        client.say(text)
    whole = running.texts()
    assert "left the context" in client.say(f":drop {running.turn('READ two')} -- it was wrong")
    client.say("four")
    texts = running.texts()
    assert ("user", "READ two") not in texts
    assert ("user", "READ three") in texts
    assert [kind for kind, _ in texts].count("result") == 2
    assert ":drop" not in json.dumps(texts)
    (operation,) = [event for event in running.agent.events() if event.kind == "drop"]
    assert operation.reason == "it was wrong"
    client.say(f":restore {operation.id}")
    client.say("five")
    assert running.texts()[: len(whole)] == whole


def test_the_injected_part_of_a_dropped_turn_stays(running: Running) -> None:
    running.client.say("one")
    running.client.say("two")
    running.client.say(f":drop {running.turn('one')}")
    running.client.say("three")
    assert running.texts()[:2] == [("user", CONTEXT), ("user", "two")]


@pytest.mark.parametrize("wire", [PlainWire(), NoIds()], ids=["ids", "no ids"])
def test_an_eviction_leaves_a_placeholder(running: Running, wire: PlainWire) -> None:
    client = running.client
    client.model = MODEL if wire.ids else "gemini-2.5-pro"
    client.say("READ one")
    result = next(event for event in running.agent.context().messages if event.kind == "tool_result")
    client.say(f":evict {result.id}")
    client.say("two")
    results = [text for kind, text in running.texts() if kind == "result"]
    assert results[0].startswith("[Evicted: ")
    assert results[1].startswith("read_file: data")


def test_clear_to_a_mark(running: Running) -> None:
    client = running.client
    client.say("one")
    client.say(":mark HERE")
    client.say("READ two")
    client.say(":clear HERE")
    client.say("three")
    assert running.users() == [CONTEXT, "one", "three"]
    client.say(":clear")
    client.say("four")
    assert running.users() == [CONTEXT, "four"]


def test_undo(running: Running) -> None:
    for text in ("one", "two", ":undo", "three"):
        running.client.say(text)
    assert running.users() == [CONTEXT, "one", "three"]


def test_a_summary_stands_where_it_stands(running: Running) -> None:
    client = running.client
    client.say("one")
    client.say("READ two")
    running.log.complete = lambda _: "It was read."
    agent = running.agent
    agent.context()
    agent.do("/summarize")
    client.say("three")
    assert ("assistant", "It was read.") in running.texts()
    assert ("user", "READ two") not in running.texts()


def test_forget_asks_the_sessions_own_model(running: Running) -> None:
    client = running.client
    for text in ("the cache experiment", "two", "the cache again"):
        client.say(text)
    asked = len(running.upstream.asked)
    first, last = running.turn("the cache experiment"), running.turn("the cache again")
    assert "Nothing matches" in client.say(":forget cache")
    (question,) = running.upstream.asked[asked:]
    assert question.headers["x-goog-api-key"] == KEY
    assert f"/models/{MODEL}:" in question.path
    running.log.complete = lambda _: json.dumps([first, last])
    assert "Forget" in client.say(":forget cache")
    assert "left the context" in client.say(":yes")
    client.say("four")
    assert running.users() == [CONTEXT, "two", "four"]
    assert ":forget" not in json.dumps(running.texts())


def test_a_command_in_plain_json(running: Running) -> None:
    client = running.client
    content = {"role": "user", "parts": [{"text": ":help"}]}
    body = {"contents": [content], "tools": [{"functionDeclarations": [{"name": "f"}]}]}
    whole = json.loads(client.post("generateContent", body))
    assert ":drop" in whole["candidates"][0]["content"]["parts"][0]["text"]
    listed = json.loads(client.post("streamGenerateContent", body))
    assert [each["candidates"][0]["finishReason"] for each in listed] == ["STOP"]
    assert running.upstream.requests == []


def test_a_session_that_begins_with_a_command(running: Running) -> None:
    for text in (":context", "one", "two"):
        running.client.say(text)
    assert running.users() == [CONTEXT, "one", "two"]


def test_an_escaped_prompt_goes_to_the_model(running: Running) -> None:
    running.client.say("::mark my words")
    assert running.users() == [CONTEXT, ":mark my words"]


def test_requests_beside_the_conversation(running: Running) -> None:
    client = running.client
    for text in ("one", "secret words", ":context"):
        client.say(text)
    client.say(f":drop {running.turn('secret words')}")
    events = len(running.agent.events(0, 1000))
    # A router's request: the newest messages, then the prompt in a content of its own.
    client.aside([*client.contents[2:], {"role": "user", "parts": [{"text": ":clear"}]}])
    sent = json.dumps(running.upstream.requests[-1].body)
    assert not any(each in sent for each in ("secret words", ":context", ":drop", "left the context", ":clear"))
    # A compression: the whole history, no schema and no functions.
    question = {"role": "user", "parts": [{"text": "Summarize."}]}
    client.functions = []
    client.post("streamGenerateContent?alt=sse", {"contents": [*client.contents, question]})
    assert running.users() == [CONTEXT, "one", "Summarize."]
    assert len(running.agent.events(0, 1000)) == events


def test_a_resumed_session_that_begins_beside_the_conversation(running: Running) -> None:
    client = running.client
    for text in ("one", "two", "secret words", ":context"):
        client.say(text)
    client.say(f":drop {running.turn('secret words')}")
    running.again("s" * 32)
    client.aside([*client.contents[2:], {"role": "user", "parts": [{"text": "three"}]}])
    sent = json.dumps(running.upstream.requests[-1].body)
    assert "three" in sent
    assert not any(each in sent for each in ("secret words", ":context", ":drop", "left the context"))
    client.say("three")
    assert running.recorded() == ["one", "two", "three"]


def test_a_sub_agent_is_a_child(running: Running) -> None:
    client = running.client
    client.say("one")
    inner = Client(running.gateway.url)
    inner.functions = ["read_file", "complete_task"]
    inner.contents = [{"role": "user", "parts": [{"text": "Your task: READ it."}]}]
    inner.go_on()
    client.say("two")
    agent = running.agent
    assert running.recorded() == ["one", "two"]
    (child,) = agent.children
    assert running.recorded(child) == ["Your task: READ it."]


def test_a_client_that_compacts(running: Running) -> None:
    client = running.client
    client.say("one")
    client.say("READ two")
    kept = client.contents[-1]
    snapshot = "<state_snapshot>It was read.</state_snapshot>"
    client.contents = [
        {"role": "user", "parts": [{"text": CONTEXT}, {"text": snapshot}]},
        {"role": "model", "parts": [{"text": "Got it. Thanks for the additional context!"}, *kept["parts"]]},
    ]
    client.say("three")
    assert running.recorded() == [snapshot, "three"]
    (operation,) = [event for event in running.agent.events() if event.kind == "filter"]
    assert operation.actor == "system"
    (status,) = statuses(running.log)
    assert (status.taken_out, status.operations) == (0, 0)
    running.agent.do(f"/restore {operation.id}")
    client.say("four")
    assert ("user", "READ two") in running.texts()
    running.again("s" * 32)  # resumed, with what the client has made of it
    client.say("five")
    assert len(running.agents) == 1


def test_a_client_that_goes_back(running: Running) -> None:
    client = running.client
    for text in ("one", "two", "three"):
        client.say(text)
    del client.contents[2:]
    client.say("another two")
    assert running.recorded() == ["one", "another two"]


def test_a_client_that_begins_anew(running: Running) -> None:
    client = running.client
    for text in ("one", "two"):
        client.say(text)
    first = client.contents
    client.contents = []
    client.say("something else")
    client.say("more")
    assert [running.recorded(agent) for agent in running.agents] == [["one", "two"], ["something else", "more"]]
    client.contents = first  # a session that was chosen again
    client.say("three")
    assert [running.recorded(agent) for agent in running.agents] == [
        ["one", "two", "three"],
        ["something else", "more"],
    ]


@pytest.mark.parametrize("run", ["r" * 32, "s" * 32], ids=["the same run", "resumed"])
def test_another_gateway_goes_on(running: Running, run: str) -> None:
    client = running.client
    for text in ("one", "two", ":help", "READ three"):
        client.say(text)
    client.say(f":drop {running.turn('two')}")
    events = len(running.agent.events(0, 1000))
    running.again(run)
    # Another day, and the signatures of what is over are gone.
    client.contents[0]["parts"][0]["text"] = CONTEXT.replace("folder", "folder on Friday")
    for content in client.contents:
        for part in content["parts"]:
            if "thoughtSignature" in part:
                part["thoughtSignature"] = UNSIGNED
    client.say("four")
    assert running.users()[1:] == ["one", "READ three", "four"]
    assert len(running.agent.events(0, 1000)) < events + 12  # nothing is recorded twice


def test_another_run_is_another_session(running: Running) -> None:
    running.client.say("Hello.")
    running.again("s" * 32)
    other = Client(running.gateway.url)
    other.say("Hello.")
    other.say("two")
    assert [running.recorded(agent) for agent in running.agents] == [["Hello."], ["Hello.", "two"]]
    assert [client_session(agent, "gemini") for agent in running.agents] == ["r" * 32, "s" * 32]
    assert client_session(running.agents[0], "anthropic") is None


def test_a_resumed_session_repeats_its_responses(running: Running) -> None:
    """Gemini CLI 0.61 does that, and the API refuses it; what Foldmark changes it mends."""
    client = running.client
    client.say("one")
    client.say("READ two")
    events = len(running.agent.events(0, 1000))
    client.contents[4]["parts"] *= 2
    with pytest.raises(AssertionError, match="4 function responses"):
        client.say("three")
    assert running.upstream.refusals.pop()
    assert len(running.agent.events(0, 1000)) == events + 2  # the prompt, and its place
    result = next(event for event in running.agent.context().messages if event.kind == "tool_result")
    client.contents.pop()
    client.say(f":evict {result.id}")
    client.say("four")
    assert [text[:9] for kind, text in running.texts() if kind == "result"] == ["[Evicted:", "read_file"]


def test_responses_that_the_client_shortens_are_the_same_message(running: Running) -> None:
    client = running.client
    client.say("READ one")
    client.say("two")
    turn = running.turn("READ one")
    client.contents[2]["parts"][0]["functionResponse"]["response"]["output"] = "[masked]"
    client.say("three")
    assert running.recorded() == ["READ one", "two", "three"]
    assert [event.kind for event in running.agent.events(0, 1000)].count("filter") == 0
    client.say(f":drop {turn}")
    client.say("four")
    assert "[masked]" not in json.dumps(running.texts())


def test_an_answer_that_the_client_cuts_otherwise_leaves_with_its_turn(running: Running) -> None:
    client = running.client
    client.say("READ one")
    client.say("two")
    turn = running.turn("READ one")
    client.contents[1]["parts"][:1] = [{"text": "Rea"}, {"text": "ding."}]
    client.say(f":drop {turn}")
    client.say("three")
    assert running.users() == [CONTEXT, "two", "three"]
    assert not any(kind in ("call", "result") for kind, _ in running.texts())


def test_an_answer_that_failed_is_asked_for_again(running: Running) -> None:
    client = running.client
    client.say("one")
    client.say(f":drop {running.turn('one')}")
    running.model.fails.append(Fail("busy"))
    with pytest.raises(AssertionError, match="overloaded"):
        client.say("two")
    client.go_on()
    client.say("three")
    texts = [event.content for event in running.agent.context().messages if event.content]
    assert texts == ["two", "I see 1.", "three", "I see 3."]


def test_damaged_bodies_pass(running: Running) -> None:
    for content in (b"{", b"[]", b'{"contents":{}}', b'{"contents":[{"role":"user"}]}', b'{"contents":[]}'):
        url = f"{running.gateway.url}/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"
        came = httpx.post(url, headers={"x-goog-api-key": KEY}, content=content)
        assert came.status_code in (400, 500)
    running.upstream.refusals.clear()
    assert running.agents == [] or running.kinds() == []


def test_no_key_is_kept(running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    running.client.say("one")
    running.client.say(":forget one")
    assert running.agent.id
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.iterdir())
    assert KEY not in caplog.text
