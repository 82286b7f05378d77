"""Lines of the line mode that reach the working folder: `@path` attaches a file, and `!command` runs a command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import sleep

from command_line import Cli

import foldmark
from terminal import CTRL_C, CTRL_D, Terminal

Start = Callable[..., Terminal]
PROMPT = "⚪\n> "


def said(log: foldmark.Log) -> list[str]:
    return [each.content for each in log.agent("default").context().messages if each.kind == "user"]


def test_a_typed_path_is_completed_and_attached(log: foldmark.Log, terminal: Start) -> None:
    Path("notes.md").write_text("Use tabs.\n")
    with terminal("chat", "--plain") as chat:
        chat.until(PROMPT)
        chat.type("see @no\t")
        chat.until("see @notes.md ")
        chat.type("\r")
        chat.until("I am the offline model")
        chat.until(PROMPT)
        chat.type(CTRL_D)
        assert chat.end() == 0
    assert said(log) == ["see @notes.md ", "File notes.md:\n```\nUse tabs.\n```"]


def test_a_line_that_cannot_be_sent_is_back_at_the_prompt(log: foldmark.Log, terminal: Start) -> None:
    Path("folder").mkdir()
    with terminal("chat", "--plain") as chat:
        chat.until(PROMPT)
        chat.type("see @folder\r")
        chat.until("folder is no file; name a text, an image or a PDF")
        chat.until("> see @folder")
        chat.type("\x7f" * 7 + "\r")
        chat.until("I am the offline model")
        chat.until(PROMPT)
        chat.type(CTRL_D)
        assert chat.end() == 2  # that of the error
    assert said(log) == ["see "]


def test_lines_of_a_pipe_attach_nothing(log: foldmark.Log, cli: Cli) -> None:
    Path("notes.md").write_text("Use tabs.\n")
    assert cli("chat", stdin="see @notes.md\n").code == 0
    assert said(log) == ["see @notes.md"]


def test_a_typed_command_runs_and_is_recorded(log: foldmark.Log, terminal: Start) -> None:
    Path("notes.md").touch()
    with terminal("chat", "--plain") as chat:
        chat.until(PROMPT)
        chat.type("!ls; seq 9\r")
        chat.until("notes.md\n1\n2\n3\n4\n5\n6\n7\n8\n9\n[exit code 0]")
        chat.until(PROMPT)
        chat.type("!touch begun; sleep 600\r")
        chat.until("[bash ")
        while not Path("begun").exists():
            sleep(0.01)
        chat.press(CTRL_C, "[interrupted before it was done]")
        chat.until(PROMPT)
        chat.type(CTRL_D)
        assert chat.end() == 0
    first, second = said(log)
    assert first.startswith("I ran: ls; seq 9\n```\n$ ls; seq 9\nnotes.md\n1\n")
    assert second.endswith("$ touch begun; sleep 600\n[interrupted before it was done]\n```")


def test_lines_of_a_pipe_run_nothing(log: foldmark.Log, cli: Cli) -> None:
    assert cli("chat", stdin="!touch made\n").code == 0
    assert said(log) == ["!touch made"]
    assert not Path("made").exists()
