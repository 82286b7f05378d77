"""Sessions recorded through a gateway, with all that may happen to a client, a model and a gateway (SPEC 5.7).

The provider checks each request as the real one does. Real agents: test_clients.py.
"""

import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx2 as httpx
import pytest
from claude_client import FREE, KEY, REMINDER, SESSION, TOOL, ClaudeRunning, Client, Model
from plan import Answer, Broken, Fail, Reply, Say, Use
from server import Loopback
from wire_anthropic import AnthropicWire

import foldmark
from foldmark.app import Setup
from foldmark.core.errors import CommandError, ProviderError
from foldmark.core.ports import Store
from foldmark.live.gateway import loopback_socket
from foldmark.live.running import supervised
from foldmark.live.status import statuses
from foldmark.live.tally import Tally
from foldmark.log.listening import wait_for
from foldmark.mcp.conversations import Conversations, ToolUse
from foldmark.mcp.tools import TOOLS
from patience import LIMIT
from sampled import DEEP


def test_it_is_recorded(running: ClaudeRunning) -> None:
    running.client.say("one")
    running.client.say("READ two")
    assert running.kinds() == [
        *("user", "assistant", "assistant"),
        *("user", "assistant", "assistant", "tool_call", "tool_call", "tool_result", "tool_result"),
        *("assistant", "assistant"),
    ]
    agent = running.agent
    assert running.told() == [REMINDER["text"]]
    assert agent.standing().config.model == f"anthropic/{FREE}"
    assert [turn.id for turn in agent.context().turns(9)] == [running.turn("one"), running.turn("READ two")]
    assert agent.open_turn is None
    (status,) = statuses(running.log)
    assert (status.session, status.answers, status.operations) == (SESSION, 3, 0)


def test_nothing_is_changed_without_an_operation(running: ClaudeRunning) -> None:
    for text in ("one", "READ two", ":help", "three"):
        running.client.say(text)
    plain = [each.body for each in running.upstream.asked]
    own = [message for message in running.client.messages if "foldmark" not in json.dumps(message)]
    assert [body["messages"][0] for body in plain[1:]] == [own[0]] * 3
    assert all(len(body["messages"]) == wanted for body, wanted in zip(plain, (1, 3, 5, 7), strict=True))


def test_a_client_that_compacts(running: ClaudeRunning) -> None:
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


@pytest.mark.parametrize("command", [":clear A", ":rewind A", ":rewind"])
def test_a_mark_before_a_compaction(running: ClaudeRunning, command: str) -> None:
    """To go back behind a compaction would empty the context: the way goes over the restore of what it replaced."""
    client = running.client
    client.say("one")
    client.say(":mark A")
    client.say("two")
    client.messages = []
    client.say("This goes on from a summary.")
    (compaction,) = [event.id for event in running.agent.events(0, 1000) if event.kind == "filter"]
    refused = client.say(command)
    assert (
        f"the agent has replaced messages before this mark since, as in a compaction (operation {compaction})"
        in refused
    )
    assert f":restore {compaction} brings them back" in refused
    client.say(f":restore {compaction}")
    assert "Rewound to 'A'" in client.say(command)
    client.say("three")
    assert [text for text in running.users() if text != REMINDER["text"]] == ["one", "three"]


def test_a_mark_after_a_compaction(running: ClaudeRunning) -> None:
    client = running.client
    client.say("one")
    client.messages = []
    client.say("This goes on from a summary.")
    client.say(":mark A")
    client.say("two")
    assert "Rewound to 'A'" in client.say(":clear A")
    client.say("three")
    assert running.users()[1:] == ["This goes on from a summary.", "three"]


def test_a_client_that_rewrites_a_message(running: ClaudeRunning) -> None:
    """The messages after one that the client replaces remain the same messages: a turn that has left stays out."""
    client = running.client
    for text in ("one", "two", "three"):
        client.say(text)
    client.say(f":drop {running.turn('two')}")
    client.messages[0]["content"][1]["text"] = "one, shorter"
    client.say("four")
    assert running.users()[1:] == ["one, shorter", "three", "four"]
    running.settle()
    users = [event.content for event in running.agent.events(0, 1000) if event.kind == "user"]
    assert users == ["one", "two", "three", "one, shorter", "four"]


def test_a_client_that_sends_another_result_in_place_of_one(running: ClaudeRunning) -> None:
    """Claude Code makes up a result for a tool that is being interrupted, and later sends the true one."""
    client = running.client
    client.say("one")
    client.messages.append({"role": "user", "content": [{"type": "text", "text": "READ two"}]})
    answer = client.ask(client.messages)
    calls = [block["id"] for block in answer if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call, "content": "missing", "is_error": True} for call in calls]
    prompt = {"type": "text", "text": "three"}
    client.messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": [*results, prompt]}]
    client.messages.append({"role": "assistant", "content": client.ask(client.messages)})
    for each in results:
        each["content"] = "rejected"
    client.say("four")
    whole = running.texts()
    shown = [each for each in running.agent.context().messages if each.kind == "tool_result"]
    assert [each.content for each in shown] == ["rejected", "rejected"]
    left = next(event.id for event in running.agent.events(0, 1000) if event.kind == "filter")
    client.say(f":drop {shown[0].turn_id}")
    client.say("five")
    assert not re.search(r"toolu_|rejected|three", json.dumps(running.upstream.asked[-1].body))
    dropped = next(event.id for event in running.agent.events(0, 1000) if event.kind == "drop")
    client.say(f":restore {dropped}")
    client.say("six")
    assert running.texts()[: len(whole)] == whole
    client.say(f":restore {left}")
    client.say("seven")
    assert "missing" not in json.dumps(running.upstream.asked[-1].body)
    (status,) = statuses(running.log)
    assert status.prevented == 0


def test_the_prompt_that_is_asked_is_new(running: ClaudeRunning) -> None:
    """A client that goes back and repeats a prompt that has left asks a new prompt."""
    client = running.client
    for text in ("one", "two", "three", "two"):
        client.say(text)
    client.say(f":drop {running.turn('two')}")
    del client.messages[2:]
    client.say("two")
    client.say("three")
    assert running.users()[1:] == ["one", "two", "three"]


def test_a_client_that_goes_back(running: ClaudeRunning) -> None:
    client = running.client
    for text in ("one", "two", "three"):
        client.say(text)
    del client.messages[2:]
    client.say("another two")
    users = [event.content for event in running.agent.context().messages if event.kind == "user"]
    assert users == ["one", "another two"]


def test_another_gateway_goes_on(running: ClaudeRunning) -> None:
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
def test_an_answer_that_failed_is_asked_for_again(running: ClaudeRunning, fails: Answer) -> None:
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


def test_a_client_that_is_killed_while_it_sends(running: ClaudeRunning) -> None:
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


def slash(running: ClaudeRunning, client: Client, **arguments: str) -> str:
    """Have the model call the tool `slash` of the MCP server. Answer the call with the tool's text, and return it."""
    call = Use(f"toolu_{len(client.messages)}", "mcp__foldmark__slash", arguments)
    running.model.fails.append(Reply((call,), stop="calls"))
    client.messages.append({"role": "user", "content": [{"type": "text", "text": f"Use it: {arguments}"}]})
    client.messages.append({"role": "assistant", "content": client.ask(client.messages)})
    conversations = Conversations(Setup(str(running.path)), None)
    said = TOOLS["slash"].run(ToolUse(conversations, arguments, lambda *_: None))
    assert isinstance(said, str)
    result = {"type": "tool_result", "tool_use_id": call.call_id, "content": said}
    client.messages.append({"role": "user", "content": [result]})
    client.messages.append({"role": "assistant", "content": client.ask(client.messages)})
    return said


def test_the_models_hand(running: ClaudeRunning) -> None:
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


def test_a_call_that_comes_before_it_is_recorded(running: ClaudeRunning, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request's messages are recorded after it is passed on: the server waits for the call until then."""
    client, sessions, released = running.client, running.sessions, Event()
    client.say("one")
    running.settle()
    later = sessions._later

    def behind(act: Callable[[], object]) -> Any:
        sessions._worker.submit(released.wait, LIMIT)
        return later(act)

    def looking(store: Store, look: Callable[[], Any], seconds: float) -> Any:
        assert released.is_set() or not look()
        released.set()
        return wait_for(store, look, seconds)

    monkeypatch.setattr(sessions, "_later", behind)
    monkeypatch.setattr("foldmark.mcp.conversations.wait_for", looking)
    assert "'HERE' created" in slash(running, client, command="mark", args="HERE")


def test_a_call_that_nobody_waits_for(running: ClaudeRunning) -> None:
    running.client.say("one")
    assert running.agent.id
    call = ToolUse(Conversations(Setup(str(running.path)), None), {"command": "mark", "args": "X"}, lambda *_: None)
    with pytest.raises(CommandError, match="does not record this chat"):
        TOOLS["slash"].run(call)


def test_two_clients_at_once(running: ClaudeRunning) -> None:
    clients, turns = [Client(running.gateway.url) for _ in range(2)], 8 if DEEP else 4
    for number, client in enumerate(clients):
        client.session = f"{number}{SESSION[1:]}"

    def talk(client: Client) -> None:
        for number in range(turns):
            client.say(f"{client.session[0]} asks READ {number}")

    threads = [Thread(target=talk, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    running.settle()
    for client in clients:
        agent = running.log.agent(f"app · {client.session[:8]}")
        users = [event.content for event in agent.context().messages if event.kind == "user"]
        assert users == [f"{client.session[0]} asks READ {number}" for number in range(turns)]
        own = [event for event in agent.context().messages if event.kind != "client"]
        assert len(own) == turns * 9


def test_a_killed_gateway_is_there_again(tmp_path: Path, wire: AnthropicWire) -> None:
    database, own, kills = tmp_path / "live.db", loopback_socket(), 4 if DEEP else 2
    with Loopback(wire, Model(wire)) as upstream, own:
        words = ["--db", str(database), "live", "--upstream", upstream.url]
        with supervised(own, "secret", words, tmp_path / "live.log", (tally := Tally()).read) as gateway:
            client = Client(f"http://127.0.0.1:{own.getsockname()[1]}/secret")
            for number in range(kills):
                client.say(f"prompt {number}")
                before = gateway()
                os.kill(before, signal.SIGKILL)
                until = time.monotonic() + LIMIT
                while gateway() == before:
                    assert time.monotonic() < until
                    time.sleep(0.02)
            client.say(f"prompt {kills}")  # brings the messages that a killed gateway had not recorded
        with foldmark.open(database, settings={}) as log:
            (agent,) = log.agents()
            texts = [event.content for event in agent.context().messages if event.kind == "user"]
        assert texts == [f"prompt {number}" for number in range(kills + 1)]
        assert f"recorded '{agent.name}' (" in tally.closing(str)
        assert upstream.refusals == []


def test_what_somebody_else_records_meanwhile(running: ClaudeRunning) -> None:
    client = running.client
    client.say("one")
    client.say("two")
    turn = running.turn("one")
    with foldmark.open(running.path, settings={}) as other:
        other.agent(f"app · {SESSION[:8]}").do(f"/context drop {turn}")
    client.say("three")
    assert ("user", "one") not in running.texts()
    assert ("user", "two") in running.texts()


def test_a_request_beside_the_conversation(running: ClaudeRunning) -> None:
    client = running.client
    client.say("one")
    client.tools = []
    client.ask([{"role": "user", "content": [{"type": "text", "text": "Name this:\n:mark SECRETLY\nplease"}]}])
    assert ":mark" not in json.dumps(running.texts())
    assert "please" in json.dumps(running.texts())
    assert running.kinds() == ["user", "assistant", "assistant"]


def test_no_key_is_kept(running: ClaudeRunning, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    client = running.client
    client.say("one")
    client.say(":forget one")
    client.say(f"my key is {KEY}")  # a person's own words: the log does not know the key
    assert running.agent.id
    assert any(KEY.encode() in path.read_bytes() for path in tmp_path.iterdir())  # from the prompt only:
    assert all(b"x-api-key" not in path.read_bytes() for path in tmp_path.iterdir())
    assert KEY not in caplog.text


def test_damaged_bodies_pass(running: ClaudeRunning) -> None:
    for content in (b"{", b"[]", b'{"messages":{}}', b'{"messages":[{"role":"user"}]}', b'{"messages":[]}'):
        came = httpx.post(
            f"{running.gateway.url}/v1/messages", headers={"x-api-key": KEY}, content=content, timeout=LIMIT
        )
        assert came.status_code in (400, 404, 500)
    running.upstream.refusals.clear()
    assert running.log.agents() == [] or running.kinds() == []
