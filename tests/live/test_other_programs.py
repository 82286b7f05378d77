"""Other programs see the state of a live session, and put questions to its gateway (SPEC 5.7)."""

import asyncio
import json
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx2 as httpx
import pytest
from claude_client import KEY, SESSION, ClaudeRunning
from click.testing import CliRunner
from driven import driven
from plan import Fail, Reply, Say
from wire_anthropic import AnthropicWire

import foldmark
from foldmark.app import Setup
from foldmark.cli.program import cli
from foldmark.core.errors import CommandError
from foldmark.core.request import Usage
from foldmark.live.sessions import Sessions
from foldmark.live.status import statuses
from foldmark.mcp.conversations import Conversations, ToolUse
from foldmark.mcp.tools import TOOLS
from foldmark.sessions.hook import live_state, statusline
from foldmark.sessions.session_model import NO_GATEWAY
from patience import LIMIT

NAME = f"app · {SESSION[:8]}"


class Told(ClaudeRunning):
    """A gateway that informs other programs of its sessions by files in the environment's folders."""

    def made_sessions(self) -> Sessions:
        self.environment = {"HOME": str(self.path.parent), "XDG_STATE_HOME": str(self.path.parent / "state")}
        return Sessions(self.log, "app", self.upstream.url, self.environment)

    @property
    def state(self) -> dict[str, object]:
        self.settle()
        return live_state.read(self.environment, SESSION)

    @property
    def line(self) -> str:
        with suppress(RuntimeError):  # the gateway has ended
            self.settle()
        return statusline.line({"session_id": SESSION, "model": "Opus"}, self.environment)

    def do(self, command: str, *options: str) -> str:
        """Run `foldmark do` with a separate log object once everything so far is recorded, and return its output."""
        with suppress(RuntimeError):  # the gateway has ended
            self.settle()
        words = ["--db", str(self.path), "do", NAME, command, *options]
        done = CliRunner().invoke(cli, words, env={**self.environment, "ANTHROPIC_API_KEY": ""})
        assert done.exit_code == 0, done.output
        return done.output


@pytest.fixture
def running(tmp_path: Path, wire: AnthropicWire, monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    made = Told(tmp_path, wire)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    with made.upstream:
        try:
            yield made
        finally:
            made.end()
            made.log.close()
    assert made.upstream.refusals == []


def test_the_status_line(running: Told) -> None:
    assert running.line == "Opus"
    running.client.say("one")
    assert running.line == "Opus · live: nothing taken out"
    running.client.say("READ two")
    running.client.say(f":drop {running.turn('READ two')}")
    assert running.line == "Opus · live: ~124 taken out, 1 operation"
    running.client.say("three")
    assert running.state["operations"] == 1
    running.end()
    assert running.line == "Opus"
    running.begin()


def test_the_file_is_its_users(running: Told) -> None:
    running.client.say("one")
    running.settle()
    (file,) = (running.path.parent / "state" / "foldmark").glob("session-live-*")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert KEY not in file.read_text()
    file.write_text(json.dumps({**json.loads(file.read_text()), "process": 1 << 22}))  # killed, and its id is free
    assert running.line == "Opus"


def test_files_of_killed_gateways_are_removed(running: Told) -> None:
    running.client.say("one")
    running.settle()
    folder = running.path.parent / "state" / "foldmark"
    (file,) = folder.glob("session-live-*")
    killed = {**json.loads(file.read_text()), "process": 1 << 22}
    (folder / "session-live-killed").write_text(json.dumps(killed))
    (folder / f"session-live-killed.{1 << 22}").write_text("{")
    (folder / "session-other").write_text(json.dumps(killed))
    Sessions(running.log, "app", running.upstream.url, running.environment).close()
    assert sorted(path.name for path in folder.iterdir()) == [file.name, "session-other"]
    running.settle()
    assert running.line.startswith("Opus · live:")


def test_a_session_that_its_client_compacts_once_it_is_idle(running: Told) -> None:
    client = running.client
    client.headers["user-agent"], client.ttl = "claude-cli/2.1.332 (external, cli)", "1h"
    for tokens, shown in ((250_000, True), (150_000, False)):
        running.model.fails.append(Reply((Say(("Yes.",)),), usage=Usage(0, tokens, 0, 0)))
        client.say("grow")
        running.settle()
        client.say(":context")  # the settings of the client are known with a request after that
        assert running.line.endswith("compacts when idle") == shown


def test_what_was_prevented(running: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    client = running.client
    for text in ("one", "two"):
        client.say(text)
    client.say(f":drop {running.turn('one')}")

    def fails(*_: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as broken:
        broken.setattr("foldmark.live.sessions.edited", fails)
        for text in ("three", "four"):
            client.say(text)
            assert ("user", "one") in running.texts()
    assert running.state["prevented"] == 2
    assert running.line.endswith("1 operation, 2 prevented")
    running.end()
    running.begin(running.gateway.port, running.gateway.secret)
    client.say("five")
    assert ("user", "one") not in running.texts()
    assert running.state["prevented"] == 2
    (status,) = statuses(running.log)
    assert status.prevented == 2
    assert status.line.endswith("2 requests passed on unedited, since an edit failed")


def asking(running: Told) -> list[int]:
    """Send prompts, two of them about the cache, and return the messages of those two."""
    texts = ["the cache experiment", "two", "three", "four", "the cache again"]
    for text in texts:
        running.client.say(text)
    return [running.message(texts[0]), running.message(texts[-1])]


def test_forget_from_elsewhere_asks_the_sessions_own_model(running: Told) -> None:
    found, asked = asking(running), len(running.upstream.asked)
    running.model.found = found
    shown = running.do("/forget cache")
    assert "Forget 2 messages" in shown
    assert NO_GATEWAY not in shown
    assert "matched by words" not in shown
    (question,) = running.upstream.asked[asked:]
    assert question.headers["x-api-key"] == KEY
    assert question.body["model"] == running.client.model
    running.client.say(":only 1")
    running.client.say("six")
    users = [text for kind, text in running.texts() if kind == "user"]
    assert "the cache experiment" not in users
    assert "the cache again" in users
    shown = running.do("/forget cache", "--yes")
    assert "left the context" in shown
    running.client.say("seven")
    assert ("user", "the cache again") not in running.texts()


def test_the_chat_asks_it_too(running: Told) -> None:
    found, asked = asking(running), len(running.upstream.asked)
    running.model.found = found
    running.settle()

    async def talk() -> None:
        with foldmark.open(running.path, settings={}) as log:
            async with driven(log.agent(NAME)) as chat:
                await chat.type("/forget cache")
                await chat.until("Esc keep all")
                assert NO_GATEWAY not in chat.screen
                await chat.press("end", "enter")
                await chat.until("left the context")

    asyncio.run(talk())
    assert len(running.upstream.asked) == asked + 1
    running.client.say("six")
    assert [text for kind, text in running.texts() if kind == "user"][1:] == ["two", "three", "four", "six"]


def test_an_agent_at_work(running: Told) -> None:
    """Messages that it records during a preview would become part of the planning conversation."""
    running.client.say("one")
    agent = running.agent
    agent.context()
    agent.append("user", "it is at work", dialect="anthropic")
    words = ["--db", str(running.path), "do", NAME, "/forget one"]
    done = CliRunner().invoke(cli, words, env=running.environment)
    assert isinstance(done.exception, CommandError)
    assert "is at work; repeat this when it waits for a prompt, or type :forget in it" in str(done.exception)
    done = CliRunner().invoke(cli, words, env={**running.environment, "FOLDMARK_LIVE_SIGN": "%"})
    assert "or type %forget in it" in str(done.exception)
    assert agent.open_turn is not None
    assert "Nothing matches" in running.client.say(":forget one")  # a person who types it waits for no answer


@pytest.mark.parametrize("command", ["/retry", "/note Read it."])
def test_prompts_belong_in_the_agent(running: Told, command: str) -> None:
    """Foldmark does not answer instead of the session's own model, and a person's note would not reach that model."""
    running.client.say("one")
    running.model.fails.append(Fail("busy", 500))
    running.client.messages.append({"role": "user", "content": [{"type": "text", "text": "two"}]})
    with pytest.raises(AssertionError):
        running.client.ask(running.client.messages)
    events, asked = len(running.agent.events(0, 1000)), len(running.upstream.asked)
    words = ["--db", str(running.path), "do", NAME, command]
    done = CliRunner().invoke(cli, words, env=running.environment)
    assert isinstance(done.exception, CommandError)
    assert "in the agent" in str(done.exception)
    assert (len(running.agent.events(0, 1000)), len(running.upstream.asked)) == (events, asked)


def test_the_mcp_server_asks_it_too(running: Told) -> None:
    found = asking(running)
    running.model.found = found
    with foldmark.open(running.path, settings={}) as log:
        log.agent(NAME).do("/forget cache")
    asked = len(running.upstream.asked)
    call = ToolUse(
        Conversations(Setup(str(running.path)), NAME), {"action": "preview", "criteria": "cache"}, lambda *_: None
    )
    assert str(found[0]) in str(TOOLS["filter_context"].run(call))
    assert len(running.upstream.asked) == asked + 1


def test_without_a_gateway(running: Told) -> None:
    asking(running)
    running.end()
    asked = len(running.upstream.asked)
    shown = running.do("/forget cache")
    assert NO_GATEWAY in shown
    assert "matched by words" in shown
    assert len(running.upstream.asked) == asked
    running.begin()
    assert NO_GATEWAY in running.do("/forget cache")  # another gateway has seen no request of the session yet


def test_a_model_that_cannot_answer(running: Told) -> None:
    asking(running)
    running.model.fails.append(Fail("rate"))
    shown = running.do("/forget cache")
    assert "matched by words: the provider refused the question with status 429" in shown
    assert NO_GATEWAY not in shown


def test_nobody_else_may_ask(running: Told) -> None:
    running.client.say("one")
    url = str(running.state["url"])
    asked = len(running.upstream.asked)
    wrong = url.replace("/ask/", "x/ask/")
    assert httpx.post(wrong, content=b"x", timeout=LIMIT).status_code == 404
    assert httpx.post(url, content=b"x", headers={"host": "evil.example"}, timeout=LIMIT).status_code == 404
    assert httpx.get(url, timeout=LIMIT).status_code == 404
    assert httpx.post(url, content=b"x", timeout=LIMIT).status_code == 400
    assert httpx.post(f"{url}x", content=b"x", timeout=LIMIT).status_code == 409
    assert running.gateway.secret not in url
    assert len(running.upstream.asked) == asked
