"""Agents in a real terminal, run by `foldmark live` (SPEC 5.7); skipped without `make clients` or tmux."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from codex_wire import CodexWire
from plan import Answer, Http, Reply, Say, Use
from screens import BIN, KEY, ClaudeScreen, CodexScreen
from server import Loopback
from tmux import Tmux
from wire_anthropic import AnthropicWire

import foldmark
from foldmark.log.live_session import client_session
from patience import LIMIT


@pytest.fixture
def upstream() -> Iterator[Loopback]:
    numbers = count(1)

    def answering(body: Any) -> Answer:
        if not body.get("tools"):
            return Reply((Say(('{"title": "A title"}',)),))
        answer = f"Answer number {next(numbers)}."
        asks = json.dumps(body["messages"][-1])
        if "<summary> block" in asks:  # newer versions of Claude Code ask again for any other form
            answer = f"<analysis>It went on.</analysis>\n<summary>{answer}</summary>"
        return Reply((Say((answer,)),))

    with Loopback(AnthropicWire(), answering) as server:
        yield server


def test_commands_and_a_compaction(upstream: Loopback, tmp_path: Path) -> None:
    if not (BIN / "claude").exists() or shutil.which("tmux") is None:
        pytest.skip("claude or tmux is not there: `make clients` installs the one")
    screen = ClaudeScreen(tmp_path, upstream.url)
    try:
        screen.wait_for_prompt()
        screen.type(":context", "nothing taken out")
        screen.type("The first prompt", "Answer number 1.")
        screen.type(":mark HERE", "Checkpoint 'HERE' created.")
        screen.type("The second prompt", "Answer number 2.")
        screen.type(":clear HERE", "Rewound to 'HERE'.")
        screen.type("The third prompt", "Answer number 3.")
        assert "The second prompt" not in json.dumps(upstream.asked[-1].body)
        screen.type("/compact", "Compacted", stays=False)
        screen.type("The fourth prompt", "Answer number 5.")
        screen.type(":operations", "the client no longer sends it")
    finally:
        screen.close()
    assert upstream.refusals == []
    sent = json.dumps([each.body["messages"] for each in upstream.requests])
    assert not any(command in sent for command in (":context", ":mark", ":clear", "Rewound", "Checkpoint 'HERE'"))
    with foldmark.open(tmp_path / "live.db", settings={}) as log:
        (agent,) = log.agents()
        said = [event for event in agent.context().messages if event.kind not in ("system", "client")]
    texts = [event.content.strip() for event in said]
    assert texts[0].startswith("This session is being continued")
    assert texts[-2:] == ["The fourth prompt", "Answer number 5."]


def test_a_chat_beside_it(upstream: Loopback, tmp_path: Path) -> None:
    """A chat in another terminal shows the session grow, and the agent's next request omits the turn that it drops."""
    if not (BIN / "claude").exists() or shutil.which("tmux") is None:
        pytest.skip("claude or tmux is not there: `make clients` installs the one")
    screen = ClaudeScreen(tmp_path, upstream.url)
    try:
        screen.wait_for_prompt()
        screen.type("The first prompt", "Answer number 1.")
        screen.type("The second prompt", "Answer number 2.")
        with foldmark.open(screen.database, settings={}) as log:
            (agent,) = log.agents()
            turn = next(each for each in agent.context().messages if each.content == "The second prompt").turn_id
            session = client_session(agent)
        assert agent.name is not None
        variables = {"FOLDMARK_DB": str(screen.database), "HOME": str(tmp_path), "LANG": "C.UTF-8"}
        variables["TERM"] = "xterm-256color"
        with Tmux(tmp_path, sys.executable, "-m", "foldmark", "chat", agent.name, env=variables, rows=40) as chat:
            chat.until("Answer number 2.", "F1 keys")
            chat.line(f"/context drop {turn}")
            back = re.search(r"/restore \d+", chat.until("brings them back"))
            screen.type("The third prompt", "Answer number 3.")
            chat.until("The third prompt", "Answer number 3.")
            assert "The second prompt" not in json.dumps(upstream.asked[-1].body["messages"])
            assert back is not None
            chat.line(back[0])
            chat.until("came back into the context")
            screen.type("The fourth prompt", "Answer number 4.")
            assert "The second prompt" in json.dumps(upstream.asked[-1].body["messages"])
            chat.until("The fourth prompt", "Answer number 4.")
        shell = {**variables, "HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
        asked = len(upstream.asked)
        forget = [sys.executable, "-m", "foldmark", "do", agent.name, "/forget cranes"]
        told = subprocess.run(forget, env=shell, capture_output=True, text=True, timeout=LIMIT)
        assert told.stdout.strip() == "Nothing matches “cranes”, and nothing has changed. Try other words.", told.stderr
        (question,) = upstream.asked[asked:]
        assert question.headers["x-api-key"] == KEY
        line = [sys.executable, "-m", "foldmark", "statusline"]
        given = json.dumps({"session_id": session})
        told = subprocess.run(line, env=shell, input=given, capture_output=True, text=True, timeout=LIMIT)
        assert told.stdout == "live: 2 operations\n"
    finally:
        screen.close()
    assert upstream.refusals == []


def test_going_back_to_a_prompt_that_has_left(tmp_path: Path) -> None:
    """A person who takes Codex back to a prompt and sends it unchanged gets an answer to it."""
    if not (BIN / "codex").exists() or shutil.which("tmux") is None:
        pytest.skip("codex or tmux is not there: `make clients` installs the one")
    numbers = count(1)

    def answering(body: Any) -> Answer:
        return Reply((Say((f"Answer number {next(numbers)}." if body.get("tools") else '{"title": "A title"}',)),))

    with Loopback(CodexWire(), answering) as upstream:
        screen = CodexScreen(tmp_path, upstream.url, live=True)
        try:
            screen.wait_for_prompt()
            screen.type("The first prompt", "Answer number 1.")
            screen.type("The second prompt", "Answer number 2.")
            with foldmark.open(tmp_path / "live.db", settings={}) as log:
                (agent,) = log.agents()
                turn = next(each for each in agent.context().messages if each.content == "The second prompt").turn_id
            screen.type(f":drop {turn}", "left the context")
            screen.wait("Worked for", f":drop {turn}")  # until then, the key interrupts the turn
            screen.press("Escape")
            screen.wait("esc again")
            screen.press("Escape")
            screen.wait("Browsing transcript")
            screen.press("Left")
            screen.press("Enter")
            screen.wait("Conversation reverted to this point.")
            screen.press("Enter")
            screen.wait("Answer number 3.", "The second prompt")
            assert upstream.refusals == []
            asked = next(each.body for each in reversed(upstream.asked) if each.body.get("tools"))
            said = [text for kind, text in upstream.wire.texts(asked) if kind in ("user", "assistant")]
            assert said[-3:] == ["The first prompt", "Answer number 1.", "The second prompt"]
        finally:
            screen.close()


class Held:
    """A model that waits in an answer that begins with HELD until it is released. `held` is set meanwhile."""

    def __init__(self) -> None:
        self.held, self.released = Event(), Event()
        self._numbers = count(1)

    def __call__(self, body: Any) -> Answer:
        if not body.get("tools"):
            return Reply((Say(('{"title": "A title"}',)),))
        return Reply((Say((f"Answer number {next(self._numbers)}.",)),))

    def holding(self, events: Iterator[bytes]) -> Iterator[bytes]:
        for event in events:
            yield event
            if b"HELD" in event and b".delta" in event.replace(b"_delta", b".delta"):
                self.held.set()
                self.released.wait(LIMIT)


def waits(folder: Path) -> str:
    """Return a shell command that waits for the file `go`."""
    return f"touch {folder}/begun; while [ ! -e {folder}/go ]; do sleep 0.1; done; echo done"


def until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not there():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.parametrize("model", ["claude-opus-4-8", "claude-sonnet-4-6"])
def test_commands_while_claude_code_works(model: str, tmp_path: Path) -> None:
    """Typed while a tool runs, and while an answer arrives, with prompts before and after them."""
    if not (BIN / "claude").exists() or shutil.which("tmux") is None:
        pytest.skip("claude or tmux is not there: `make clients` installs the one")
    played = Held()

    class Wire(AnthropicWire):
        def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Http | None:
            # Claude Code sets a temperature for this model, which the newest models refuse.
            return super().refuse(path, headers, {name: value for name, value in body.items() if name != "temperature"})

        def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
            return played.holding(super().stream(reply, body))

    def answering(body: Any) -> Answer:
        last = json.dumps([each for each in body["messages"] if each["role"] != "system"][-1])
        if body.get("tools") and "tool_result" not in last and "USE" in last:
            call = Use("toolu_1", "Bash", {"command": waits(tmp_path), "description": "wait"})
            return Reply((Say(("Running.",)), call), stop="calls")
        if body.get("tools") and "HOLD" in last:
            return Reply((Say(("HELD ", "answer.\n")),))
        return played(body)

    with Loopback(Wire(), answering) as upstream:
        screen = ClaudeScreen(tmp_path, upstream.url, "--allowedTools=Bash", model=model)
        try:
            screen.wait_for_prompt()
            screen.type("The first prompt", "Answer number 1.")
            screen.type("USE a tool", "Running.")
            until((tmp_path / "begun").exists)
            for line in ("queued alpha", ":mark HERE", "queued beta"):
                screen.queue(line)
            (tmp_path / "go").touch()
            screen.wait("Checkpoint 'HERE' created.")
            screen.wait("Answer number 2.")
            screen.queue("HOLD it")
            until(played.held.is_set)
            for line in ("queued gamma", ":marks", ":mark THERE", "queued delta"):
                screen.queue(line)
            played.released.set()
            screen.wait("Checkpoint 'THERE' created.")
            screen.type("The last prompt", "Answer number")
        finally:
            (tmp_path / "go").touch()
            played.released.set()
            screen.close()
    assert upstream.refusals == []
    asked = json.dumps([each.body["messages"] for each in upstream.requests])
    assert not any(command in asked for command in (":mark", "Checkpoint", "HERE", "THERE"))
    last = json.dumps(upstream.asked[-1].body["messages"])
    assert [each in last for each in ("alpha", "beta", "gamma", "delta", "done")] == [True] * 5
    with foldmark.open(tmp_path / "live.db", settings={}) as log:
        (agent,) = log.agents()
        events = agent.events(0, 1000)
        typed = [event.content.strip() for event in agent.context().messages if event.kind == "user"]
    assert [event.kind for event in events].count("mark") == 2
    assert not any(event.kind == "filter" for event in events)
    queued = [each for each in typed if each.startswith("queued")]
    assert queued == ["queued alpha", "queued beta", "queued gamma", "queued delta"]


def test_commands_while_codex_works(tmp_path: Path) -> None:
    """A command steers the answer to a prompt, which is given all the same; another one is typed while a tool runs."""
    if not (BIN / "codex").exists() or shutil.which("tmux") is None:
        pytest.skip("codex or tmux is not there: `make clients` installs the one")
    played = Held()

    class Wire(CodexWire):
        def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
            return played.holding(super().stream(reply, body))

    def answering(body: Any) -> Answer:
        last = json.dumps(body["input"][-1])
        if body.get("tools") and "USE" in last:
            return Reply((Use("call_1", "exec_command", {"cmd": waits(tmp_path)}),), stop="calls")
        if body.get("tools") and "HOLD" in last and not played.held.is_set():
            return Reply((Say(("HELD ", "answer.\n")),))
        return played(body)

    with Loopback(Wire(), answering) as upstream:
        options = ("-c", 'approval_policy="never"', "-c", 'sandbox_mode="danger-full-access"')
        screen = CodexScreen(tmp_path, upstream.url, *options, live=True)
        try:
            screen.wait_for_prompt()
            screen.type("The first prompt", "Answer number 1.")
            screen.queue("HOLD it")
            until(played.held.is_set)
            screen.type(":mark HERE", "Checkpoint 'HERE' created.")
            screen.wait("Answer number 2.")
            screen.queue("USE a tool")
            until((tmp_path / "begun").exists)
            for line in ("queued alpha", ":mark THERE"):
                screen.queue(line)
            (tmp_path / "go").touch()
            screen.wait("Checkpoint 'THERE' created.")
            screen.wait("Answer number 3.")
            screen.type("The last prompt", "Answer number 4.")
        finally:
            (tmp_path / "go").touch()
            played.released.set()
            screen.close()
    assert upstream.refusals == []
    asked = json.dumps([each.body["input"] for each in upstream.requests])
    assert not any(command in asked for command in (":mark", "Checkpoint", "HERE", "THERE"))
    last = json.dumps(upstream.asked[-1].body["input"])
    assert [each in last for each in ("HOLD it", "queued alpha", "done")] == [True] * 3
    with foldmark.open(tmp_path / "live.db", settings={}) as log:
        (agent,) = log.agents()
        assert [event.kind for event in agent.events(0, 1000)].count("mark") == 2
