"""Another program holds the lock of the database: requests go out with the edits, and recording is made up for
(SPEC 5.7)."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import psycopg
import pytest
from claude_client import BOUND, SESSION, ClaudeRunning
from gemini_client import Client as GeminiClient
from gemini_client import GeminiRunning
from plan import Reply, Use
from running import Running, entered
from wire_anthropic import AnthropicWire
from wire_bound import BoundWire

import foldmark
from foldmark.live import executing, recording
from foldmark.live.status import status
from postgres_server import database_of

if TYPE_CHECKING:
    from postgres_server import Databases

NOT_DONE, OURS = "nothing was done", (":mark", ":help", ":drop", "foldmark")


@pytest.fixture(autouse=True)
def _sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a shorter time for the lock, which is held until the test releases it."""
    monkeypatch.setattr(recording, "EDIT_SECONDS", 0.02)
    monkeypatch.setattr(executing, "COMMAND_SECONDS", 0.02)


@contextmanager
def locked(running: Running[Any, Any]) -> Iterator[None]:
    """Hold the lock of the database, as soon as everything before is recorded."""
    running.settle()
    other = apsw.Connection(str(running.path))
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def sent(running: Running[Any, Any], since: int) -> str:
    return json.dumps([each.body[running.member] for each in running.upstream.asked[since:]])


def talked(running: Running[Any, Any]) -> list[str]:
    """Return the recorded texts of the conversation, without tools."""
    messages = running.agent.context().messages
    return [event.content for event in messages if event.kind in ("user", "assistant") and event.content]


@pytest.mark.parametrize("client", ["running", "codex", "gemini"])
def test_edits_hold_and_recording_waits(client: str, request: pytest.FixtureRequest) -> None:
    running: Running[Any, Any] = request.getfixturevalue(client)
    say = running.client.say
    for text in ("TANGERINE", "two"):
        say(text)
    say(f":drop {running.turn('TANGERINE')}")
    operations = say(":operations")
    since = len(running.upstream.asked)
    with locked(running):
        say("three READ")
        assert NOT_DONE in say(":mark HERE")
        assert ":drop" in say(":help")
        assert NOT_DONE in say(f":drop {running.log.agents()[0].context().messages[0].id}")
        answers = [say(f"go on {number}") for number in range(3)]
        assert running.sessions._worker.blocked is not None
    texts = sent(running, since)
    assert not [each for each in ("TANGERINE", *OURS) if each in texts]
    said = talked(running)
    assert "TANGERINE" not in said
    assert said[-6:] == [each for number in range(3) for each in (f"go on {number}", answers[number])]
    assert status(running.agent, "").answers == len(running.upstream.asked)
    assert say(":operations") == operations  # neither command was carried out
    say("four")
    assert sent(running, len(running.upstream.asked) - 1).count("go on") == 3
    assert "TANGERINE" not in sent(running, since)
    events = len(running.agent.events(0, 1000))
    running.agent.context()
    running.end()
    running.begin(running.gateway.port, running.gateway.secret)
    say("five")
    assert not [each for each in ("TANGERINE", *OURS) if each in sent(running, since)]
    assert len(running.agent.events(0, 1000)) < events + 12  # nothing is recorded twice


@pytest.mark.parametrize("client", ["running", "codex", "gemini"])
def test_a_session_that_begins_meanwhile(client: str, request: pytest.FixtureRequest) -> None:
    running: Running[Any, Any] = request.getfixturevalue(client)
    say = running.client.say
    with locked(running):
        answers = [say("one"), say("two")]
        assert NOT_DONE in say(":mark HERE")
        assert ":drop" in say(":help")
        answers.append(say("three"))
        assert running.log.agents() == []
    assert not [each for each in OURS if each in sent(running, 0)]
    assert talked(running) == [each for pair in zip(("one", "two", "three"), answers, strict=True) for each in pair]
    assert status(running.agent, "").answers == 3
    say(":drop " + str(running.turn("two")))
    say("four")
    assert "two" not in running.users()


@pytest.mark.parametrize("wire", [BoundWire()])
def test_bound_thinking(running: ClaudeRunning, wire: AnthropicWire) -> None:
    """Thinking stays bound to what the provider has seen, although the answers are not recorded yet."""
    client = running.client
    client.model = BOUND
    for text in ("one", "two", "three"):
        client.say(text)
    client.say(f":drop {running.turn('one')}")
    client.say("four")
    with locked(running):
        client.say("five")
        client.say("READ six")
        client.say("seven")
    thinking = [kind for kind, _ in running.texts() if kind == "thinking"]
    assert len(thinking) == 4  # for four, five and six
    client.say("eight")
    assert len([kind for kind, _ in running.texts() if kind == "thinking"]) == 5


def test_a_result_whose_call_has_left(running: ClaudeRunning) -> None:
    client = running.client
    client.say("one")
    call = Use("toolu_x", "Read", {})
    running.model.fails.append(Reply((call,), stop="calls"))
    client.messages.append({"role": "user", "content": [{"type": "text", "text": "look"}]})
    client.messages.append({"role": "assistant", "content": client.ask(client.messages)})
    running.settle()
    with foldmark.open(running.path, settings={}) as other:
        other.agent(f"app · {SESSION[:8]}").do("/clear")
    result = {"type": "tool_result", "tool_use_id": "toolu_x", "content": "A FIND"}
    client.messages.append({"role": "user", "content": [result]})
    with locked(running):
        client.messages.append({"role": "assistant", "content": client.ask(client.messages)})
        ((_, notice),) = running.texts()[1:]
        assert "Context cleared" in notice
        assert "A FIND" in notice
    assert notice in talked(running)
    client.say("two")
    assert ("user", notice) in running.texts()


def test_sub_agents_meanwhile(gemini: GeminiRunning) -> None:
    gemini.client.say("one")
    with locked(gemini):
        for number in range(2):
            inner = GeminiClient(gemini.gateway.url)
            inner.functions = ["read_file", "complete_task"]
            inner.contents = [{"role": "user", "parts": [{"text": f"Your task: READ {number}."}]}]
            inner.go_on()
        gemini.client.say("two")
    assert gemini.recorded() == ["one", "two"]
    children = gemini.agent.children
    assert [gemini.recorded(child) for child in children] == [["Your task: READ 0."], ["Your task: READ 1."]]
    assert [child.context().size.messages for child in children] == [7, 7]


def test_a_gateway_that_ends_meanwhile(running: ClaudeRunning, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for the lock forever. Another one takes up what the client still sends."""
    monkeypatch.setattr(recording, "LAST_SECONDS", 0.0)
    client = running.client
    client.say("one")
    client.say(f":drop {running.turn('one')}")
    with locked(running):
        client.say("two")
        assert NOT_DONE in client.say(":mark HERE")
        running.end()
        running.begin(running.gateway.port, running.gateway.secret)
        client.say("three")
        assert running.users()[1:] == ["two", "three"]
    client.say("four")
    assert talked(running)[::2] == ["two", "three", "four"]
    assert running.users()[1:] == ["two", "three", "four"]


def test_a_server_that_is_away(tmp_path: Path, postgres: "Databases", monkeypatch: pytest.MonkeyPatch) -> None:
    address, opened = postgres.take(), foldmark.open
    monkeypatch.setattr("running.foldmark.open", lambda path, settings: opened(address, settings=settings))
    name = database_of(address)
    with entered(ClaudeRunning(tmp_path, AnthropicWire())) as running:
        say = running.client.say
        for text in ("TANGERINE", "two"):
            say(text)
        say(f":drop {running.turn('TANGERINE')}")
        say("three")
        running.settle()
        since = len(running.upstream.asked)
        with psycopg.connect(postgres._server, autocommit=True) as server:
            server.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")
            server.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'")
            say("READ four")
            assert NOT_DONE in say(":mark HERE")
            say("five")
            server.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")
        assert not [each for each in ("TANGERINE", *OURS) if each in sent(running, since)]
        users = [event.content for event in running.agent.context().messages if event.kind == "user"]
        assert users == ["two", "three", "READ four", "five"]
        assert status(running.agent, "").answers == len(running.upstream.asked)
    postgres.give_back(address)


def test_a_command_says_for_whom_to_wait(running: ClaudeRunning) -> None:
    running.client.say("one")
    with locked(running):
        said = running.client.say(":mark HERE")
        assert "is locked by another program" in said
        assert f"process {os.getpid()})" in said or not Path("/proc/locks").exists()
