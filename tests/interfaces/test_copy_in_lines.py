"""`/copy` in a chat line by line, and a bare `foldmark chat` without a full screen (SPEC 4, 9)."""

from __future__ import annotations

import base64
import os

import pytest
from command_line import PROGRAM, Cli

import foldmark
from terminal import Terminal


@pytest.fixture
def talk(log: foldmark.Log) -> foldmark.Agent:
    agent = log.agent("talk")
    agent.append("user", "Tabs?")
    agent.append("assistant", "Spaces — \x1b]0;evil\x07 four.")
    agent.end_turn()
    return agent


def test_a_terminal_gets_the_text_for_its_clipboard(talk: foldmark.Agent) -> None:
    with Terminal(PROGRAM, "chat", "talk", "--plain", env=dict(os.environ)) as screen:
        screen.until("> ")
        screen.type("/copy\r")
        screen.until("Copied message 2: 24 characters.")
        assert screen.leave() == 0
    text = base64.b64encode(r"Spaces — \x1b]0;evil\x07 four.".encode()).decode()
    assert f"\x1b]52;c;{text}\x07Copied" in screen.screen


def test_a_pipe_gets_the_text(cli: Cli, talk: foldmark.Agent) -> None:
    said = r"Spaces — \x1b]0;evil\x07 four."
    assert said in cli("chat", "talk", stdin="/copy\n").lines
    assert cli("do", "talk", "/copy 1").out == "Tabs?\n"


def test_a_bare_chat_through_a_pipe_asks_nothing_and_is_in_default(cli: Cli, talk: foldmark.Agent) -> None:
    talk.log.agent("other")
    done = cli("chat", stdin="/resume\n/resume other\n/rename elsewhere\n/theme dark\n")
    assert done.code == 0
    assert done.lines[0].startswith("Conversation 'default', no messages yet")
    assert "/resume NAME goes to one." in done.lines
    assert "Conversation 'other' is now named 'elsewhere'." in done.lines
    assert any(line.startswith("Only the full-screen chat has a theme") for line in done.lines)
