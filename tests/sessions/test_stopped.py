"""A stopped trim or rollover leaves nothing or the whole session and reports which [SPEC 8].

The process sends real signals to itself at given steps.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from session_records import assistant, call, jsonl, result, user
from test_handoff import GOOD
from trim_check import at, compare

import forked
from foldmark.sessions.new_file import PREFIX, SUFFIX

OLD = "99999999-2222-4333-8444-555555555555"
SESSION = b"".join(
    jsonl(
        user(f"question {number}", sessionId=OLD),
        assistant([call(f"c{number}", "Bash")], sessionId=OLD),
        user([result(f"c{number}", f"line {number} of the output\n" * 100)], sessionId=OLD),
    )
    for number in range(30)
)

PROGRAM = """
import os, signal, sys
number, step = int(sys.argv[1]), sys.argv[2]
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
if step == "ignored":
    signal.signal(number, signal.SIG_IGN)

def watched(call):
    def calling(*given, **named):
        if step in ("before", "ignored"):
            os.kill(os.getpid(), number)
        done = call(*given, **named)
        if step == "after":
            os.kill(os.getpid(), number)
        return done
    return calling

import foldmark.sessions.new_file
os.link = watched(os.link)
from foldmark.cli.program import main
main(sys.argv[3:])
"""
STOPS = [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "ended by SIGTERM"), (signal.SIGHUP, "ended by SIGHUP")]
EACH = pytest.mark.parametrize(("number", "told"), STOPS, ids=["INT", "TERM", "HUP"])


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = at(folder, OLD, SESSION)
        self.summary = folder / "summary.md"
        self.summary.write_text(GOOD)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "FOLDMARK_ARCHIVE": str(folder / "archive"),
            "FOLDMARK_DB": str(folder / "log.db"),
        }

    def stopped(self, number: signal.Signals, step: str, *words: str) -> tuple[int, str]:
        """Return the exit code and the standard error of a command that gets a signal at a step."""
        done = forked.run(
            [sys.executable, "-c", PROGRAM, str(int(number)), step, *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr

    @property
    def others(self) -> list[Path]:
        return [each for each in self.path.parent.iterdir() if each != self.path]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@EACH
def test_a_trim_that_is_ended_before_the_file_is_there(place: Place, number: signal.Signals, told: str) -> None:
    code, said = place.stopped(number, "before", "trim", str(place.path))
    assert code == 128 + number
    assert said == f"foldmark: {told}; no new session was written\n"
    assert (place.path.read_bytes(), place.others) == (SESSION, [])


@EACH
def test_a_trim_that_is_ended_once_the_file_is_there(place: Place, number: signal.Signals, told: str) -> None:
    code, said = place.stopped(number, "after", "trim", str(place.path))
    (new,) = place.others
    assert code == 128 + number
    assert said.startswith(f"foldmark: {told}; the new session is whole: {new}\n")
    assert f"claude --resume {new}" in said
    assert compare(SESSION, new.read_bytes(), new.stem) == 30


@EACH
def test_a_stopped_rollover_leaves_a_whole_file_or_none(place: Place, number: signal.Signals, told: str) -> None:
    words = ("rollover", str(place.path), "--summary-file", str(place.summary))
    code, said = place.stopped(number, "before", *words)
    assert (code, said) == (128 + number, f"foldmark: {told}; no new session was written\n")
    assert place.others == []
    code, said = place.stopped(number, "after", *words)
    (new,) = place.others
    assert code == 128 + number
    assert said.startswith(f"foldmark: {told}; the new session is whole: {new}\n")
    assert GOOD.splitlines()[0] in new.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["TERM", "HUP"])
def test_an_ignored_signal_stays_ignored(place: Place, number: signal.Signals) -> None:
    assert place.stopped(number, "ignored", "trim", str(place.path)) == (0, "")
    assert len(place.others) == 1


def test_the_next_run_removes_the_files_of_a_killed_one(place: Place) -> None:
    code, _ = place.stopped(signal.SIGKILL, "before", "trim", str(place.path))
    assert code == -signal.SIGKILL
    (left,) = place.others
    assert left.name.startswith(PREFIX)
    assert left.name.endswith(SUFFIX)
    code, _ = place.stopped(signal.SIGTERM, "never", "rollover", str(place.path), "--summary-file", str(place.summary))
    assert code == 0
    (new,) = place.others
    assert new.suffix == ".jsonl"
