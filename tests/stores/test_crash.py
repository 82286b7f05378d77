"""A caller that got its id back never loses the event, whatever is killed next (SPEC 2).

Real processes and a real SIGKILL.
"""

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
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


def ready(process: "subprocess.Popen[str]") -> None:
    """Wait until the process has opened its conversation."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def begin(process: "subprocess.Popen[str]", run: str) -> None:
    """Let a process that is ready begin."""
    assert process.stdin is not None
    process.stdin.write(f"{run}\n")
    process.stdin.flush()


def go(process: "subprocess.Popen[str]", run: str) -> None:
    """Wait until the process is ready and let it begin."""
    ready(process)
    begin(process, run)


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


@pytest.mark.parametrize("mode", ["each", "batch", "mixed"])
def test_killed_at_any_moment(tmp_path: Path, mode: str) -> None:
    path, chance = tmp_path / "log.db", random.Random(mode)
    acknowledged: list[tuple[int, str]] = []
    for run in range(5):
        process = writer(path, "default", mode, 1_000_000)
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
            assert len(beyond) <= (50 if mode == "batch" else 1)
            if mode == "batch":
                sizes = Counter(event.content.rpartition("/")[0] for event in events if "/" in event.content)
                assert set(sizes.values()) <= {50}
            if mode == "mixed":  # a fork and the child's birth are one
                forks = [event for event in events if event.kind == "fork"]
                assert {agent.id for agent in log.agents() if agent.parent} == {
                    e.data["child"] for e in forks if e.data
                }
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


def test_two_processes_write_to_different_agents(tmp_path: Path) -> None:
    """One agent has one writer; two agents may have two (SPEC 2, 6). Ids are unique and without a gap."""
    path = tmp_path / "log.db"
    foldmark.open(str(path)).close()
    processes = [writer(path, name, mode, count) for name, mode, count in (("a", "each", 100), ("b", "batch", 10))]
    for process in processes:
        go(process, "0")
    told = [finish(process) for process in processes]
    assert [len(each) for each in told] == [100, 10]
    with foldmark.open(str(path), create=False) as log:
        events = everything(log.store)
        assert len(events) == 600
        contents = {event.id: event.content for event in events}
        assert all(contents[id] == text for id, text in (*told[0], *told[1]))
        assert [event.content for event in events if event.content.startswith("a")] == [text for _, text in told[0]]
        # A batch is one commit: its ids follow one another.
        last = [id for id, _ in told[1]]
        assert all(contents[id - part].endswith(f"/{49 - part}") for id in last for part in range(50))
        assert list(examine(log)) == []


def test_two_writers_of_one_agent_never_interleave(tmp_path: Path) -> None:
    """Both read the same head; the second to append gets a clear error and writes nothing."""
    path = tmp_path / "log.db"
    with foldmark.open(str(path)) as log:
        log.agent("default").append("user", "first")
    processes = [writer(path, "default", "each", 60) for _ in "ab"]
    output = []
    for process in processes:
        ready(process)
    for process, run in zip(processes, "ab", strict=True):
        begin(process, run)
    for process in processes:
        output.append(process.communicate()[0].splitlines())
    (lost, won) = sorted(output, key=len)
    assert len(lost) == 1
    assert lost[0].startswith("error ConflictError agent ")
    assert "written by somebody else" in lost[0]
    assert len(won) == 60
    with foldmark.open(str(path), create=False) as log:
        events = everything(log.store)
        assert [f"{event.id} {event.content}" for event in events[1:]] == won
        assert list(examine(log)) == []
