"""Output taller than the terminal goes in full to `$EDITOR`, or else to `$PAGER` (SPEC 4, S2)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from shlex import quote

import pytest
from command_line import PROGRAM, Cli

import foldmark
from sampled import DEEP
from terminal import Terminal

LINES = [("context", "show", "default"), ("do", "default", "/context show"), ("do", "default", "/message show 1")]


@pytest.fixture
def long(log: foldmark.Log) -> str:
    """The last line of a context that is taller than the terminal."""
    agent = log.agent("default")
    agent.append("user", "\n".join(f"line {number}" for number in range(200)))
    agent.end_turn()
    return "line 199"


@pytest.fixture
def tool(tmp_path: Path) -> str:
    """The command of a program that saves its input, from a file or from standard input."""
    script = tmp_path / "keep"
    script.write_text(f'#!/bin/sh\ncat "$@" > {quote(str(tmp_path / "kept"))}\necho kept\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return quote(str(script))


Start = Callable[..., Terminal]


@pytest.fixture
def start(db: str) -> Start:
    def start(*arguments: str, env: Mapping[str, str]) -> Terminal:
        return Terminal(PROGRAM, *arguments, env={**os.environ, **env})

    return start


NAMES = [("EDITOR",), ("PAGER",), ("EDITOR", "PAGER")]
PAIRS = [*product(LINES, NAMES)] if DEEP else [*zip(LINES, NAMES, strict=True)]


@pytest.mark.parametrize(("words", "names"), PAIRS)
def test_long(
    start: Start, cli: Cli, tmp_path: Path, tool: str, long: str, words: tuple[str, ...], names: tuple[str, ...]
) -> None:
    env = {name: tool if name == names[0] else "false" for name in names}
    with start(*words, env=env) as screen:
        screen.until("kept")
        assert screen.end() == 0
        assert long not in screen.screen
    assert (tmp_path / "kept").read_text().rstrip("\n") == cli(*words).out.rstrip("\n")


@pytest.mark.parametrize("words", [("do", "default", "/context window 0"), ("do", "default", "/model")])
def test_short(start: Start, tmp_path: Path, tool: str, long: str, words: tuple[str, ...]) -> None:
    with start(*words, env={"EDITOR": tool, "PAGER": tool}) as screen:
        assert screen.end() == 0
        assert "kept" not in screen.screen
    assert not (tmp_path / "kept").exists()


def test_in_the_chat(start: Start, tmp_path: Path, tool: str, long: str) -> None:
    with start("chat", env={"PAGER": tool}) as screen:
        screen.until("> ")
        screen.type("/context show\n")
        screen.until("kept")
        screen.type("/exit\n")
        assert screen.end() == 0
    assert long in (tmp_path / "kept").read_text()


def test_json_and_pipes_are_never_paged(cli: Cli, start: Start, tmp_path: Path, tool: str, long: str) -> None:
    with start("context", "show", "default", "--json", env={"EDITOR": tool, "PAGER": tool}) as screen:
        assert screen.end() == 0
        assert long in screen.screen
    assert long in cli("context", "show", "default").out
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("editor", ["no-such-editor", "false"])
def test_an_editor_that_fails(start: Start, long: str, editor: str) -> None:
    """The output is printed instead, because the command has already run."""
    with start("context", "show", "default", env={"EDITOR": editor}) as screen:
        assert screen.end() == 0
        assert long in screen.screen
