"""Pasted text with libedit as the line editor, as on macOS. libedit returns a paste line by line."""

import builtins
import os
import pty
import sys
import tty
from collections.abc import Iterator

import pytest

from foldmark.chat.lines import keyboard
from foldmark.chat.lines.keyboard import GOES_ON, PROMPT, Typed


class Terminal:
    """A pipe that replaces a terminal and is read byte by byte."""

    def __init__(self, typed: Typed) -> None:
        self.typed, self.prompts = typed, list[str]()
        self.source, self.sink = os.pipe()

    def write(self, text: str) -> None:
        os.write(self.sink, text.encode())

    def input(self, prompt: str) -> str:
        """Read a line as `input` does, with the line begun so far after the prompt."""
        self.prompts.append(prompt)
        line, self.typed._rest = self.typed._rest, b""
        if prompt == GOES_ON:
            self.write(" and edited\n")
        while not line.endswith(b"\n"):
            if not (byte := os.read(self.source, 1)):
                raise EOFError
            line += byte
        return line.decode().rstrip("\n")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    terminal = Terminal(Typed())
    with os.fdopen(terminal.source, closefd=False) as source:
        monkeypatch.setattr(sys, "stdin", source)
        monkeypatch.setattr(builtins, "input", terminal.input)
        yield terminal
    os.close(terminal.source)
    os.close(terminal.sink)


@pytest.mark.parametrize(
    ("pasted", "taken", "prompts"),
    [
        ("one\n", "one", [PROMPT]),
        ("one\ntwo\nthree\n", "one\ntwo\nthree", [PROMPT]),
        ("one\n\nthree\n", "one\n\nthree", [PROMPT]),
        ("one\ntwo\nthr", "one\ntwo\nthr and edited", [PROMPT, GOES_ON]),
    ],
)
def test_lines_that_come_together_are_one_text(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, pasted: str, taken: str, prompts: list[str]
) -> None:
    monkeypatch.setattr(keyboard, "_libedit", lambda: True)
    terminal.write(pasted)
    assert next(iter(terminal.typed)) == taken
    assert terminal.prompts == prompts


def test_with_readline_a_paste_is_marked_and_lines_stay_apart(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyboard, "_libedit", lambda: False)
    terminal.write("one\ntwo\n")
    lines = iter(terminal.typed)
    assert [next(lines), next(lines)] == ["one", "two"]


@pytest.mark.parametrize("entered", [True, False])
def test_a_line_entered_just_before_a_question_is_not_lost(monkeypatch: pytest.MonkeyPatch, entered: bool) -> None:
    """Line editing releases the terminal when a line is entered; the signal may come before `input` returns it."""
    main, terminal = pty.openpty()
    typed, reads = Typed(), list[str]()

    def read(prompt: str) -> str:
        reads.append(prompt)
        typed._edits = True
        if not entered:
            tty.setraw(terminal)
        typed._taken = True
        typed._woken()
        return "one"

    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(builtins, "input", read)
        lines = iter(typed)
        found = [next(lines), next(lines)] if entered else [next(lines)]
        assert found == (["one", ""] if entered else [""])
        assert len(reads) == 1, "the question comes before the next line is read"
    os.close(main)
