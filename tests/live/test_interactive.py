"""Agents in a real terminal, run by `foldmark live` (SPEC 5.7); skipped without `make clients` or tmux."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from codex_wire import CodexWire
from plan import Answer, Reply, Say
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
        return Reply((Say((f"Answer number {next(numbers)}.",)),))

    with Loopback(AnthropicWire(), answering) as server:
        yield server


def test_commands_and_a_compaction(upstream: Loopback, tmp_path: Path) -> None:
    if not (BIN / "claude").exists() or shutil.which("tmux") is None:
        pytest.skip("claude or tmux is not there: `make clients` installs the one")
    screen = ClaudeScreen(tmp_path, upstream.url)
    try:
        screen.wait("? for shortcuts")
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
        texts = [event.content.strip() for event in agent.context().messages if event.kind != "system"]
    assert texts[0].startswith("This session is being continued")
    assert texts[-2:] == ["The fourth prompt", "Answer number 5."]


def test_a_chat_beside_it(upstream: Loopback, tmp_path: Path) -> None:
    """A chat in another terminal shows the session grow, and the agent's next request omits the turn that it drops."""
    if not (BIN / "claude").exists() or shutil.which("tmux") is None:
        pytest.skip("claude or tmux is not there: `make clients` installs the one")
    screen = ClaudeScreen(tmp_path, upstream.url)
    try:
        screen.wait("? for shortcuts")
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
            chat.until("left the context")
            screen.type("The third prompt", "Answer number 3.")
            chat.until("The third prompt", "Answer number 3.")
            assert "The second prompt" not in json.dumps(upstream.asked[-1].body["messages"])
            chat.press("Tab")
            chat.until("u undo")
            chat.press("u")
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
            screen.wait("? for shortcuts")
            screen.type("The first prompt", "Answer number 1.")
            screen.type("The second prompt", "Answer number 2.")
            with foldmark.open(tmp_path / "live.db", settings={}) as log:
                (agent,) = log.agents()
                turn = next(each for each in agent.context().messages if each.content == "The second prompt").turn_id
            screen.type(f":drop {turn}", "left the context")
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
