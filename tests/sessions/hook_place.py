"""A folder in which a test runs hooks: environment, transcripts, events, and the installed hooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from session_records import TIME, assistant, jsonl

import forked
from foldmark.sessions.hook import answering
from foldmark.sessions.hook.process import SessionState

PROGRAM = str(Path(sys.executable).with_name("foldmark"))
ID = "0a1b2c3d-0000-4000-8000-000000000001"


def usage(tokens: int, **more: int) -> dict[str, int]:
    """Return the usage that Claude Code records for a context of this many tokens."""
    return {
        "input_tokens": 7,
        "cache_creation_input_tokens": 1_000,
        "cache_read_input_tokens": tokens - 1_107,
        "output_tokens": 100,
        **more,
    }


def answer(tokens: int, model: str = "claude-sonnet-4-5-20250929", **fields: Any) -> dict[str, Any]:
    return assistant([{"type": "text", "text": "Done."}], "a", usage=usage(tokens), model=model, **fields)


def boundary(**metadata: Any) -> dict[str, Any]:
    return {"type": "system", "subtype": "compact_boundary", "timestamp": TIME, "compactMetadata": metadata}


class HookPlace:
    """A folder for hooks: `session` is the transcript. With `patch`, this process has the hooks' `environment`, too."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch | None = None) -> None:
        self.folder, self.state = folder, folder / "state" / "foldmark"
        self.session = folder / "project" / f"{ID}.jsonl"
        self.archive = folder / "data" / "foldmark" / "archive"
        self.session.parent.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_DATA_HOME": str(folder / "data"),
        }
        if patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)

    def write(self, *records: Any) -> Path:
        self.session.write_bytes(jsonl(*records))
        return self.session

    def event(self, name: str, **more: Any) -> dict[str, Any]:
        return {
            "session_id": ID,
            "transcript_path": str(self.session),
            "cwd": str(self.session.parent),
            "hook_event_name": name,
            **more,
        }

    def answered(self, name: str, environment: Mapping[str, str] = {}, **more: Any) -> str | None:
        """Handle an event in this process and return the text for the model."""
        told = answering.answered(self.event(name, **more), {**self.environment, **environment})
        if told is None:
            return None
        inner = json.loads(told)["hookSpecificOutput"]
        assert inner["hookEventName"] == name
        assert json.loads(told) == {"hookSpecificOutput": {"hookEventName": name, **inner}}
        return str(inner["additionalContext"])

    def forget_reminder(self) -> None:
        """Forget the last reminder, so that another one may follow at once."""
        for file in self.state.glob("session-*"):
            file.unlink()

    def ran(
        self, stdin: Any, *words: str, program: str = "hook", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the installed `foldmark hook`; the input is an event, bytes, or None for no input."""
        given = stdin if isinstance(stdin, bytes) else b"" if stdin is None else json.dumps(stdin).encode()
        done = forked.run(
            [PROGRAM, program, *words],
            input=given,
            capture_output=True,
            env={**self.environment, **environment},
            cwd=self.folder,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    @property
    def logged(self) -> list[str]:
        """The lines of the hooks' log, without their times."""
        path = self.state / "hook.log"
        return [line.partition(" ")[2] for line in path.read_text().splitlines()] if path.exists() else []

    def remembered(self, session: str = ID) -> SessionState:
        return SessionState(self.environment, session)


@contextmanager
def fed(data: bytes, folder: Path) -> Iterator[Path]:
    """Make `data` the standard input, and yield the file that receives the standard output."""
    given, written = folder / "stdin", folder / "stdout"
    given.write_bytes(data)
    saved = os.dup(0), os.dup(1)
    try:
        with given.open("rb") as source, written.open("wb") as target:
            os.dup2(source.fileno(), 0)
            os.dup2(target.fileno(), 1)
        yield written
    finally:
        os.dup2(saved[0], 0)
        os.dup2(saved[1], 1)
        for descriptor in saved:
            os.close(descriptor)
