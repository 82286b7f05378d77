"""A caller that got its id back never loses the event, whatever is killed next (SPEC 2).

Real processes and a real SIGKILL.
"""

import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from logs import everything

import foldmark
from foldmark.log.doctor import examine

WRITER = Path(__file__).parent / "writer.py"


def writer(path: Path, name: str, mode: str, count: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(WRITER), str(path), name, mode, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def go(process: "subprocess.Popen[str]", run: str) -> None:
    """Wait until the process has opened its conversation, and let it begin."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write(f"{run}\n")
    process.stdin.flush()


def finish(process: "subprocess.Popen[str]", already: Sequence[str] = ()) -> list[tuple[int, str]]:
    """The ids and contents that were acknowledged, `already` read or not; a line cut off by the kill is none."""
    assert process.stdin is not None
    assert process.stdout is not None
    lines = [*already, *process.stdout.read().splitlines(keepends=True)]
    process.stdin.close()
    process.stdout.close()
    process.wait()
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
    found = [line.rstrip("\n").partition(" ") for line in lines]
    return [(int(id), text) for id, _, text in found if id.isdigit()]


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Among marks, forks and clears; the contract has the appends alone."""
    path, chance = tmp_path / "log.db", random.Random("mixed")
    acknowledged: list[tuple[int, str]] = []
    for run in range(5):
        process = writer(path, "default", "mixed", 1_000_000)
        go(process, str(run))
        assert process.stdout is not None
        already = [process.stdout.readline() for _ in range(run)]  # however slow the machine is
        time.sleep(chance.uniform(0.0, 0.25))
        process.kill()
        acknowledged += finish(process, already)
        with foldmark.open(str(path), create=False) as log:
            events = everything(log.store)
            contents = {event.id: event.content for event in events}
            assert all(contents[id] == text for id, text in acknowledged)
            assert list(examine(log)) == []
            # At most what was under way when it was killed is there without having been told.
            beyond = [
                event for event in events if event.kind == "user" and event.id > (acknowledged or [(0, "")])[-1][0]
            ]
            assert len(beyond) <= 1
            forks = [event for event in events if event.kind == "fork"]  # a fork and the child's birth are one
            assert {agent.id for agent in log.agents() if agent.parent} == {e.data["child"] for e in forks if e.data}
            log.agent("default").append("user", "and on")
    assert len(acknowledged) >= 10


def test_killed_while_the_database_is_made(tmp_path: Path) -> None:
    """Whatever is there then can be opened again."""
    started = time.perf_counter()
    process = writer(tmp_path / "probe.db", "default", "each", 1)
    go(process, "0")
    finish(process)
    whole = time.perf_counter() - started
    for run in range(10):
        path = tmp_path / f"log-{run}.db"
        process = writer(path, "default", "each", 1)
        time.sleep(whole * (0.4 + run * 0.06))
        process.kill()
        finish(process)
        with foldmark.open(str(path)) as log:
            log.agent("default").append("user", "hello")
            assert list(examine(log)) == []
            assert len(log.agent("default").context().messages) == 1
