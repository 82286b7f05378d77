"""Sessions through a gateway: recorded, commands in the prompt, and what the next request holds (SPEC 5.7).

The client here is a small one that behaves as agents do: it sends its whole transcript each time. The provider checks
each request as the real one does. Real agents: test_clients.py.
"""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2 as httpx
import pytest
from plan import Answer, Broken, Fail, Reply, Say, Think, Use
from server import Loopback
from wire_anthropic import AnthropicWire
from wire_bound import BoundWire

import foldmark
from foldmark.app import Setup
from foldmark.core.errors import CommandError, ProviderError
from foldmark.live.clients import anthropic_answers
from foldmark.live.gateway import Gateway, loopback_socket
from foldmark.live.prompts import help_text
from foldmark.live.running import supervised
from foldmark.live.sessions import Sessions
from foldmark.live.status import statuses
from foldmark.log import Agent, Log
from foldmark.mcp.conversations import Conversations
from foldmark.mcp.tools import TOOLS, ToolUse
from foldmark.sessions.install.edits import template
from patience import LIMIT

KEY = "sk-planted-0c9d2e"
SESSION = "5e55104e-0000-4000-8000-000000000001"
BOUND, FREE = "claude-fable-5-1", "claude-sonnet-4-6"
TOOL = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}
REMINDER = {"type": "text", "text": "<system-reminder>\nYou are in a folder.\n</system-reminder>"}


class Client:
    """An agent: it keeps its transcript, and answers its model's tool calls itself."""

    def __init__(self, url: str, model: str = FREE) -> None:
        self.url, self.model, self.tools = url, model, [TOOL]
        self.messages: list[dict[str, Any]] = []
        self.session = SESSION
        self.headers: dict[str, str] = {}

    def say(self, text: str) -> str:
        """Ask a prompt, answer all calls, and return what the last answer said."""
        self.messages.append({"role": "user", "content": [{"type": "text", "text": text}]})
        if len(self.messages) == 1:
            self.messages[0]["content"].insert(0, REMINDER)
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

    def ask(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Ask with a cache mark on the newest message, and return the blocks of the answer."""
        *before, last = messages
        *blocks, newest = last["content"]
        marked = {**last, "content": [*blocks, {**newest, "cache_control": {"type": "ephemeral"}}]}
        body = {"model": self.model, "max_tokens": 1000, "stream": True, "thinking": {"type": "adaptive"}}
        headers = {"x-api-key": KEY, "anthropic-version": "2023-06-01", "content-type": "application/json"}
        headers |= self.headers
        content = json.dumps(
            {**body, "messages": [*before, marked], "tools": self.tools}, separators=(",", ":")
        ).encode()
        came = httpx.post(
            f"{self.url}/v1/messages", headers={**headers, "x-claude-code-session-id": self.session}, content=content
        )
        assert came.status_code == 200, came.text
        return list(anthropic_answers.streamed_message(came.content)["content"])


class Model:
    """A model that reads when it is told to, says how many messages it sees, and finds what is `found`."""

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
        if "READ" in json.dumps(body["messages"][-1]):
            calls = (Use(f"toolu_{self.asked}a", "Read", {"at": 1.0}), Use(f"toolu_{self.asked}b", "Read", {}))
            return Reply((Think("To read.", signature), Say(("Reading.",)), *calls), stop="calls")
        return Reply((Think("Hm.", signature), Say((f"I see {len(body['messages'])}.",))))


class Running:
    """A client, the log, and the provider behind the gateway."""

    def __init__(self, folder: Path, wire: AnthropicWire, settings: dict[str, str] | None = None) -> None:
        self.model = Model(wire)
        self.upstream = Loopback(wire, self.model)
        self.path = folder / "live.db"
        self.log: Log = foldmark.open(self.path, settings=settings or {})
        self.begin()
        self.client = Client(self.gateway.url)

    def begin(self, port: int = 0, secret: str = "") -> None:
        self.sessions = Sessions(self.log, "app", self.upstream.url)
        self.gateway = Gateway(self.upstream.url, port=port, secret=secret, sessions=self.sessions)
        self.gateway.__enter__()

    def end(self) -> None:
        self.gateway.__exit__(None, None, None)
        self.sessions.close()

    @property
    def agent(self) -> Agent:
        self.sessions.settle()
        return self.log.agent(f"app · {SESSION[:8]}")

    def kinds(self) -> list[str]:
        return [event.kind for event in self.agent.context().messages]

    def texts(self) -> list[tuple[str, str]]:
        """What the provider was last asked."""
        return self.upstream.wire.texts({"messages": self.upstream.asked[-1].body["messages"]})

    def turn(self, text: str) -> int:
        event = next(each for each in self.agent.context().messages if each.content == text)
        assert event.turn_id is not None
        return event.turn_id


@pytest.fixture
def wire() -> AnthropicWire:
    return AnthropicWire()


@pytest.fixture
def running(tmp_path: Path, wire: AnthropicWire) -> Iterator[Running]:
    made = Running(tmp_path, wire)
    with made.upstream:
        try:
            yield made
        finally:
            made.end()
            made.log.close()
    assert made.upstream.refusals == []


def test_it_is_recorded(running: Running) -> None:
    running.client.say("one")
    running.client.say("READ two")
    assert running.kinds() == [
        *("user", "assistant", "assistant"),
        *("user", "assistant", "assistant", "tool_call", "tool_call", "tool_result", "tool_result"),
        *("assistant", "assistant"),
    ]
    agent = running.agent
    assert agent.standing().config.model == f"anthropic/{FREE}"
    assert [turn.id for turn in agent.context().turns(9)] == [running.turn("one"), running.turn("READ two")]
    assert agent.open_turn is None
    (status,) = statuses(running.log)
    assert (status.session, status.answers, status.operations) == (SESSION, 3, 0)


def test_nothing_is_changed_without_an_operation(running: Running) -> None:
    for text in ("one", "READ two", ":help", "three"):
        running.client.say(text)
    plain = [each.body for each in running.upstream.asked]
    own = [message for message in running.client.messages if "foldmark" not in json.dumps(message)]
    assert [body["messages"][0] for body in plain[1:]] == [own[0]] * 3
    assert all(len(body["messages"]) == wanted for body, wanted in zip(plain, (1, 3, 5, 7), strict=True))


def test_a_drop_and_its_restore(running: Running) -> None:
    client = running.client
    for text in ("one", "READ two", "three"):
        client.say(text)
    whole = running.texts()
    assert "left the context" in client.say(f":drop {running.turn('READ two')} -- it was wrong")
    client.say("four")
    texts = running.texts()
    assert ("user", "READ two") not in texts
    assert not any(kind in ("call", "result") for kind, _ in texts)
    assert (":drop" in json.dumps(texts)) is False
    (operation,) = [event for event in running.agent.events() if event.kind == "drop"]
    assert operation.reason == "it was wrong"
    (status,) = statuses(running.log)
    assert status.taken_out > 500
    assert f"~{status.taken_out:,} tokens taken out" in client.say(":context")
    client.say(f":restore {operation.id}")
    client.say("five")
    assert running.texts()[: len(whole)] == whole


def test_the_injected_blocks_of_a_dropped_turn_stay(running: Running) -> None:
    running.client.say("one")
    running.client.say("two")
    running.client.say(f":drop {running.turn('one')}")
    running.client.say("three")
    assert running.texts()[:2] == [("user", REMINDER["text"]), ("user", "two")]


def test_an_eviction_leaves_a_placeholder(running: Running) -> None:
    client = running.client
    client.say("READ one")
    result = next(event for event in running.agent.context().messages if event.kind == "tool_result")
    client.say(f":evict {result.id}")
    client.say("two")
    results = [text for kind, text in running.texts() if kind == "result"]
    assert results[0].startswith("[Evicted: ")
    assert results[1].startswith("Read: data")


def test_clear_to_a_mark(running: Running) -> None:
    client = running.client
    client.say("one")
    client.say(":mark HERE")
    client.say("READ two")
    client.say(":clear HERE")
    client.say("three")
    assert [text for kind, text in running.texts() if kind == "user"] == [REMINDER["text"], "one", "three"]
    client.say(":clear")
    client.say("four")
    assert [text for kind, text in running.texts() if kind == "user"] == [REMINDER["text"], "four"]


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


@pytest.mark.parametrize("wire", [AnthropicWire(), BoundWire()], ids=["free", "bound"])
def test_thinking_that_an_operation_made_invalid(running: Running, wire: AnthropicWire) -> None:
    client, free = running.client, not isinstance(wire, BoundWire)
    client.model = FREE if free else BOUND
    for text in ("one", "two", "three"):
        client.say(text)
    client.say(f":drop {running.turn('two')}")
    client.say("four")
    signed = [text for kind, text in running.texts() if kind == "thinking"]
    assert len(signed) == (2 if free else 1)
    client.say("five")
    assert len([kind for kind, _ in running.texts() if kind == "thinking"]) == (3 if free else 2)
    (operation,) = [event for event in running.agent.events() if event.kind == "drop"]
    client.say(f":restore {operation.id}")
    client.say("six")
    # The thinking of "four" and "five" was made while "two" was out.
    assert len([kind for kind, _ in running.texts() if kind == "thinking"]) == (5 if free else 3)


def test_forget_asks_the_sessions_own_model(running: Running) -> None:
    client = running.client
    for text in ("the cache experiment", "two", "the cache again"):
        client.say(text)
    asked = len(running.upstream.asked)
    first, last = running.turn("the cache experiment"), running.turn("the cache again")
    shown = client.say(":forget cache")
    assert "Nothing matches" in shown  # the model of the session found nothing
    (question,) = running.upstream.asked[asked:]
    assert question.headers["x-api-key"] == KEY
    running.log.complete = lambda _: json.dumps([first, last])
    shown = client.say(":forget cache")
    assert "Forget" in shown
    assert "/agree" not in shown
    assert "only the" not in client.say(":no")
    client.say("three")
    assert ("user", "the cache again") in running.texts()
    client.say(":forget cache")
    assert "left the context" in client.say(":yes")
    client.say("four")
    assert ("user", "the cache again") not in running.texts()
    assert ":forget" not in json.dumps(running.texts())
    assert "there is no open preview" in client.say(":yes")


@pytest.mark.parametrize("sign", ["%", "!!"])
def test_another_sign(tmp_path: Path, sign: str) -> None:
    running = Running(tmp_path, AnthropicWire(), {"live_sign": sign})
    with running.upstream:
        client = running.client
        try:
            client.say("one")
            assert client.say(":drop 1") == "I see 3."  # a prompt like any other
            assert client.say(f"{sign}help") == help_text(sign)
            assert f"{sign}restore" in client.say(f"{sign}drop {running.turn('one')}")
            client.say(f"{sign}{sign}undo")
            assert [text for kind, text in running.texts() if kind == "user"][-1] == f"{sign}undo"
            assert ("user", "one") not in running.texts()
        finally:
            running.end()
            running.log.close()


def test_the_same_prompt_twice(running: Running) -> None:
    client = running.client
    client.say("one")
    for _ in range(2):
        client.say(":context")
        client.say("again")
    assert [text for kind, text in running.texts() if kind == "user"][1:] == ["one", "again", "again"]


def test_a_command_behind_a_prompt_that_was_not_answered(running: Running) -> None:
    client = running.client
    client.say("one")
    typed = [{"type": "text", "text": text} for text in ("not answered\n", ":mark HERE")]
    client.messages.append({"role": "user", "content": typed})
    answer = client.ask(client.messages)
    assert "'HERE' created" in answer[0]["text"]
    client.messages.append({"role": "assistant", "content": answer})
    client.say("two")
    assert [text for kind, text in running.texts() if kind == "user"][1:] == ["one", "not answered\n", "two"]


def expanded(arguments: str) -> list[dict[str, Any]]:
    """What Claude Code 2.1.197 makes of `/fm`."""
    said = "<command-message>fm</command-message>\n<command-name>/fm</command-name>\n"
    said += f"<command-args>{arguments}</command-args>\n" if arguments else ""
    text = template("fm").split("---\n", 2)[2].replace("$ARGUMENTS", arguments)
    return [{"type": "text", "text": said}, {"type": "text", "text": text}]


def test_the_command_of_claude_code(running: Running) -> None:
    client = running.client

    def ask(arguments: str) -> str:
        client.messages.append({"role": "user", "content": expanded(arguments)})
        answer = client.ask(client.messages)
        client.messages.append({"role": "assistant", "content": answer})
        return str(answer[0]["text"])

    client.say("one")
    client.say("two")
    assert "left the context" in ask(f"drop {running.turn('one')} -- no use")
    (operation,) = [event for event in running.agent.events() if event.kind == "drop"]
    assert operation.reason == "no use"
    assert ask("") == ask("what") == ask("help") == help_text(":")
    client.say("three")
    assert [text for kind, text in running.texts() if kind == "user"][1:] == ["two", "three"]
    assert "fm" not in json.dumps(running.texts())


def test_a_session_that_begins_with_a_command(running: Running) -> None:
    client = running.client
    client.headers["anthropic-beta"] = "mid-conversation-system-2026-04-07"
    asked: list[dict[str, Any]] = [
        {"role": "user", "content": [REMINDER, {"type": "text", "text": ":context"}]},
        {"role": "system", "content": [{"type": "text", "text": "Skills: none."}]},
    ]
    client.messages = [*asked, {"role": "assistant", "content": client.ask(asked)}]
    client.say("one")
    assert [message["role"] for message in running.upstream.asked[-1].body["messages"]] == ["user", "system"]
    client.say("two")
    assert [text for kind, text in running.texts() if kind == "user"] == [REMINDER["text"], "one", "two"]


def test_an_escaped_prompt_goes_to_the_model(running: Running) -> None:
    running.client.say("::mark my words")
    running.client.say("Is ::mark a command?")
    assert running.texts()[1] == ("user", ":mark my words")
    assert running.texts()[-1] == ("user", "Is ::mark a command?")


def test_a_client_that_compacts(running: Running) -> None:
    client = running.client
    client.say("one")
    client.say("READ two")
    whole = running.texts()
    client.messages = []
    client.say("This goes on from a summary.")
    assert [event.content for event in running.agent.context().messages if event.kind == "user"] == [
        "This goes on from a summary."
    ]
    assert len(running.texts()) == 2
    (operation,) = [event for event in running.agent.events() if event.kind == "filter"]
    assert operation.actor == "system"
    (status,) = statuses(running.log)
    assert (status.taken_out, status.operations) == (0, 0)
    running.agent.context()
    running.agent.do(f"/restore {operation.id}")
    client.say("more")
    before = [each for each in whole if each[0] not in ("thinking",) and each[1] != REMINDER["text"]]
    assert [each for each in running.texts() if each in before][: len(before)] == before


def test_a_client_that_goes_back(running: Running) -> None:
    client = running.client
    for text in ("one", "two", "three"):
        client.say(text)
    del client.messages[2:]
    client.say("another two")
    users = [event.content for event in running.agent.context().messages if event.kind == "user"]
    assert users == ["one", "another two"]


def test_another_gateway_goes_on(running: Running) -> None:
    client = running.client
    for text in ("one", "two", ":help", "three"):
        client.say(text)
    client.say(f":drop {running.turn('two')}")
    events = len(running.agent.events(0, 1000))
    running.end()
    running.begin(running.gateway.port, running.gateway.secret)
    client.say("four")
    assert [text for kind, text in running.texts() if kind == "user"][1:] == ["one", "three", "four"]
    assert len(running.agent.events(0, 1000)) < events + 12  # nothing is recorded twice


FAILURES = [Fail("rate"), Fail("busy", 500), Fail("busy", 529), Broken((Say(("I se",)),)), Broken((), event=True)]


@pytest.mark.parametrize("fails", FAILURES, ids=["429", "500", "529", "half a stream", "an error in the stream"])
def test_an_answer_that_failed_is_asked_for_again(running: Running, fails: Answer) -> None:
    client = running.client
    client.say("one")
    client.say(f":drop {running.turn('one')}")
    running.model.fails.append(fails)
    client.messages.append({"role": "user", "content": [{"type": "text", "text": "two"}]})
    with pytest.raises((AssertionError, httpx.HTTPError, ProviderError)):
        client.ask(client.messages)
    answer = client.ask(client.messages)
    client.messages.append({"role": "assistant", "content": answer})
    client.say("three")
    texts = [event.content for event in running.agent.context().messages if event.content]
    assert texts == ["two", "I see 1.", "three", "I see 3."]
    assert [text for kind, text in running.texts() if kind == "user"][1:] == ["two", "three"]


def test_a_client_that_is_killed_while_it_sends(running: Running) -> None:
    client = running.client
    client.say("one")
    events = len(running.agent.events(0, 1000))
    whole = json.dumps({"model": FREE, "messages": [{"role": "user", "content": "half"}], "tools": [TOOL]}).encode()
    head = f"POST /{running.gateway.secret}/v1/messages HTTP/1.1\r\nHost: 127.0.0.1:{running.gateway.port}\r\n"
    head += f"X-Claude-Code-Session-Id: {SESSION}\r\nContent-Length: {len(whole)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", running.gateway.port)) as connection:
        connection.sendall(head.encode() + whole[: len(whole) // 2])
    assert len(running.agent.events(0, 1000)) == events
    client.say("two")
    assert [text for kind, text in running.texts() if kind == "user"][1:] == ["one", "two"]
    assert len(running.upstream.asked) == 2


def slash(running: Running, client: Client, **arguments: str) -> str:
    """Have the model call the tool `slash` of the MCP server, and answer the call with what that says."""
    call = Use(f"toolu_{len(client.messages)}", "mcp__foldmark__slash", arguments)
    running.model.fails.append(Reply((call,), stop="calls"))
    client.messages.append({"role": "user", "content": [{"type": "text", "text": f"Use it: {arguments}"}]})
    client.messages.append({"role": "assistant", "content": client.ask(client.messages)})
    until = time.monotonic() + LIMIT
    while running.kinds()[-1:] != ["tool_call"]:  # an answer is recorded once the client has all of it
        assert time.monotonic() < until
        time.sleep(0.01)
    conversations = Conversations(Setup(str(running.path)), None)
    said = TOOLS["slash"].run(ToolUse(conversations, arguments, lambda *_: None))
    assert isinstance(said, str)
    result = {"type": "tool_result", "tool_use_id": call.call_id, "content": said}
    client.messages.append({"role": "user", "content": [result]})
    client.messages.append({"role": "assistant", "content": client.ask(client.messages)})
    return said


def test_the_models_hand(running: Running) -> None:
    client = running.client
    client.say("one")
    assert "'HERE' created" in slash(running, client, command="mark", args="HERE")
    client.say("two")
    assert "Rewound to 'HERE'" in slash(running, client, command="clear", args="HERE")
    seen = running.texts()
    assert seen[-1][0] == "user"
    assert "Rewound to" in seen[-1][1]  # the call has left, so its result comes as a notice
    client.say("three")
    assert running.texts()[: len(seen)] == seen
    users = [text for kind, text in running.texts() if kind == "user"]
    assert "two" not in users
    assert "one" in users
    assert "three" in users


def test_a_call_that_nobody_waits_for(running: Running) -> None:
    running.client.say("one")
    assert running.agent.id
    call = ToolUse(Conversations(Setup(str(running.path)), None), {"command": "mark", "args": "X"}, lambda *_: None)
    with pytest.raises(CommandError, match="name a conversation"):
        TOOLS["slash"].run(call)


def test_two_clients_at_once(running: Running) -> None:
    clients = [Client(running.gateway.url) for _ in range(2)]
    for number, client in enumerate(clients):
        client.session = f"{number}{SESSION[1:]}"

    def talk(client: Client) -> None:
        for number in range(8):
            client.say(f"{client.session[0]} asks READ {number}")

    threads = [Thread(target=talk, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    running.sessions.settle()
    for client in clients:
        agent = running.log.agent(f"app · {client.session[:8]}")
        users = [event.content for event in agent.context().messages if event.kind == "user"]
        assert users == [f"{client.session[0]} asks READ {number}" for number in range(8)]
        assert agent.context().size.messages == 8 * 9


def test_a_killed_gateway_is_there_again(tmp_path: Path, wire: AnthropicWire) -> None:
    database, own = tmp_path / "live.db", loopback_socket()
    with Loopback(wire, Model(wire)) as upstream, own:
        words = ["--db", str(database), "live", "--upstream", upstream.url]
        with supervised(own, "secret", words, tmp_path / "live.log") as gateway:
            client = Client(f"http://127.0.0.1:{own.getsockname()[1]}/secret")
            for number in range(4):
                client.say(f"prompt {number}")
                before = gateway()
                os.kill(before, signal.SIGKILL)
                until = time.monotonic() + LIMIT
                while gateway() == before:
                    assert time.monotonic() < until
                    time.sleep(0.02)
            client.say("prompt 4")  # brings what a killed gateway had not recorded
        with foldmark.open(database, settings={}) as log:
            (agent,) = log.agents()
            texts = [event.content for event in agent.context().messages if event.kind == "user"]
        assert texts == [f"prompt {number}" for number in range(5)]
        assert upstream.refusals == []


def test_what_somebody_else_records_meanwhile(running: Running) -> None:
    client = running.client
    client.say("one")
    client.say("two")
    turn = running.turn("one")
    with foldmark.open(running.path, settings={}) as other:
        other.agent(f"app · {SESSION[:8]}").do(f"/context drop {turn}")
    client.say("three")
    assert ("user", "one") not in running.texts()
    assert ("user", "two") in running.texts()


def test_a_request_beside_the_conversation(running: Running) -> None:
    client = running.client
    client.say("one")
    client.tools = []
    client.ask([{"role": "user", "content": [{"type": "text", "text": "Name this:\n:mark SECRETLY\nplease"}]}])
    assert ":mark" not in json.dumps(running.texts())
    assert "please" in json.dumps(running.texts())
    assert running.kinds() == ["user", "assistant", "assistant"]


def test_no_key_is_kept(running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    client = running.client
    client.say("one")
    client.say(":forget one")
    client.say(f"my key is {KEY}")  # a person's own words: the log knows no such key
    assert running.agent.id
    assert any(KEY.encode() in path.read_bytes() for path in tmp_path.iterdir())  # the prompt's, and nothing else:
    assert all(b"x-api-key" not in path.read_bytes() for path in tmp_path.iterdir())
    assert KEY not in caplog.text


def test_damaged_bodies_pass(running: Running) -> None:
    for content in (b"{", b"[]", b'{"messages":{}}', b'{"messages":[{"role":"user"}]}', b'{"messages":[]}'):
        came = httpx.post(f"{running.gateway.url}/v1/messages", headers={"x-api-key": KEY}, content=content)
        assert came.status_code in (400, 404, 500)
    running.upstream.refusals.clear()
    assert running.log.agents() == [] or running.kinds() == []
