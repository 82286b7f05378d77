"""After a killed trim the original is unchanged, and the new file is complete or absent [SPEC 8].

Real processes get a real SIGKILL, at steps that change a file and at random moments.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from session_records import assistant, call, jsonl, result, user
from trim_check import at, compare
from trim_killed import ID

import forked
from sampled import DEEP, sampled

PROGRAM = Path(__file__).with_name("trim_killed.py")
NAME = "99999999-2222-4333-8444-555555555555"
SESSION = b"".join(
    jsonl(
        assistant([call(f"c{number}", "Bash")], sessionId=NAME, usage={"input_tokens": number}),
        user([result(f"c{number}", f"line {number} of the output\n" * 100)], sessionId=NAME),
    )
    for number in range(60)
)


def started(path: Path, step: int) -> subprocess.Popen[str]:
    return forked.Popen(
        [sys.executable, str(PROGRAM), str(path), str(step)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def steps(path: Path) -> int:
    """Return the number of steps of a complete trim."""
    process = started(path, 0)
    told, wrong = process.communicate()
    assert not wrong
    return int(told)


def outcomes(folder: Path) -> Iterator[Path]:
    """Yield the session after each killed trim: at a sample of its steps (all in a deep run), then at random."""
    whole = at(folder / "whole", NAME, SESSION)
    for step in sampled(range(1, steps(whole) + 1), 6):
        path = at(folder / str(step), NAME, SESSION)
        process = started(path, step)
        process.communicate()
        assert process.returncode == -9
        yield path
    chance = random.Random(7)
    for number in range(5 if DEEP else 2):
        path = at(folder / f"random {number}", NAME, SESSION * 20)
        process = started(path, 0)
        time.sleep(chance.uniform(0.1, 0.5))
        process.kill()
        process.communicate()
        yield path


def test_the_new_file_is_whole_or_not_there(tmp_path: Path) -> None:
    seen = set()
    for path in outcomes(tmp_path):
        original = path.read_bytes()
        assert original in (SESSION, SESSION * 20)
        new = path.with_name(f"{ID}.jsonl")
        assert {each.name for each in path.parent.glob("*.jsonl")} <= {path.name, new.name}
        if new.exists():
            assert compare(original, new.read_bytes(), ID) == original.count(b'"tool_result"')
        seen.add(new.exists())
    assert seen == {True, False}


def test_a_trim_has_several_steps(tmp_path: Path) -> None:
    assert steps(at(tmp_path, NAME, SESSION)) >= 10
