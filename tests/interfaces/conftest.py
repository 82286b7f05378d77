"""The command line in this process and as a separate program, without the settings of the person who runs the tests."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import PROGRAM, Cli, Outcome
from plan import Answer
from server import Loopback
from wire_openai import OpenAIWire

import foldmark
import forked
from foldmark.cli.program import run
from patience import LIMIT
from terminal import Terminal


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder and a private data folder for each test."""
    for name in [name for name in os.environ if name.startswith(("FOLDMARK", "LC_", "PYTHON"))]:
        if name != "PYTHONPATH":
            monkeypatch.delenv(name)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path in FOLDMARK_DB, where no file exists yet."""
    path = str(tmp_path / "log.db")
    monkeypatch.setenv("FOLDMARK_DB", path)
    return path


@pytest.fixture
def log(db: str) -> Iterator[foldmark.Log]:
    with foldmark.open(db) as log:
        yield log


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A function that runs a command line in this process, with `stdin` as piped input."""

    def cli(*arguments: str, stdin: str | bytes = b"") -> Outcome:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        capsys.readouterr()
        code = run(list(arguments))
        shown = capsys.readouterr()
        return Outcome(code, shown.out, shown.err)

    return cli


@pytest.fixture
def program() -> Cli:
    """A function that runs a command line as a separate program. `stdout` may be a file for its output."""

    def program(*arguments: str, stdin: str | bytes = b"", stdout: Any = None, start: tuple[str, ...] = ()) -> Outcome:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        done = forked.run(
            [*start, PROGRAM, *arguments],
            input=raw,
            stdout=stdout or subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=LIMIT,
        )
        return Outcome(done.returncode, *(text.decode(errors="replace") for text in (done.stdout or b"", done.stderr)))

    return program


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Loopback]]:
    """A function that starts a provider on the loopback interface, for `--model openai/gpt-5`."""
    servers: list[Loopback] = []

    def provider(played: Callable[[Any], Answer], pause: float = 0.0) -> Loopback:
        server = Loopback(OpenAIWire(), played, pause=pause)
        monkeypatch.setenv("OPENAI_API_KEY", "test-key-7f3a91c2")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        servers.append(server.__enter__())
        return server

    yield provider
    for server in servers:
        server.__exit__(None, None, None)
        assert server.refusals == []


@pytest.fixture
def terminal(db: str) -> Callable[..., Terminal]:
    """A function that starts a command line in a terminal. The offline model waits `delay` seconds between words."""

    def terminal(*arguments: str, delay: float = 0.0) -> Terminal:
        return Terminal(PROGRAM, *arguments, env={**os.environ, "FOLDMARK_OFFLINE_DELAY": str(delay)})

    return terminal
