"""`!command` at the prompt: it runs without an approval, and the model sees it with the next message."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from driven import Driven, prompts, run

from foldmark.log import Log

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="bash is not available on Windows")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def test_a_command_and_its_output_are_a_message_that_an_undo_takes_out(log: Log) -> None:
    Path("here.txt").touch()

    async def act(chat: Driven) -> None:
        await chat.type("!ls; printf '```\\033[2J'")
        await chat.until("[exit code 0]")
        await chat.until(r"\x1b[2J")
        await chat.until("! shell")  # the hint does not say that an answer failed
        await chat.type("What is here?")
        await chat.until("I am the offline model")
        await chat.type("/undo")
        await chat.type("/undo")
        await chat.until("Turn 1 left the context")

    run(log.agent("notes"), act)
    agent = log.agent("notes")
    assert prompts(agent) == []
    shown = agent.do("/message show 1").text
    assert "I ran: ls; printf" in shown
    assert "````\n" in shown  # longer than the fence in the output
    assert "[exit code 0]" in shown


def test_an_exclamation_mark_alone_says_what_it_does(log: Log) -> None:
    async def act(chat: Driven) -> None:
        await chat.type(" ! ")
        await chat.until("!COMMAND runs a shell command in the working folder.")

    run(agent := log.agent("notes"), act)
    assert prompts(agent) == []


def test_a_command_is_interrupted_and_what_it_wrote_is_kept(log: Log) -> None:
    async def act(chat: Driven) -> None:
        await chat.type("!echo begun; sleep 600")
        await chat.until("bash is running")
        await chat.type("/marks")
        await chat.until("No checkpoint yet")
        await chat.type("waits")
        await chat.until("waits  › waits")
        await chat.press("ctrl+c")
        await chat.until("1 waiting line dropped")
        await chat.until("[interrupted before it was done]")
        await chat.until(lambda: chat.app.idle)

    run(log.agent("notes"), act)
    assert prompts(log.agent("notes")) == [
        "I ran: echo begun; sleep 600\n```\n$ echo begun; sleep 600\nbegun\n[interrupted before it was done]\n```"
    ]


def test_paths_are_not_completed_in_a_command(log: Log) -> None:
    Path("here.txt").touch()

    async def act(chat: Driven) -> None:
        await chat.press(*"!ls @he")
        await chat.still()
        assert "here.txt" not in chat.screen
        chat.app.chat.prompt.editor.put("ls @he")
        await chat.until("here.txt")

    run(log.agent("notes"), act)
