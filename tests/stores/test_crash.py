"""A database can be used even if its creator was killed (SPEC 2); `tests/torture` kills its writers."""

import sys
import time
from pathlib import Path
from subprocess import PIPE

import foldmark
import forked
from foldmark.log.doctor import examine

WRITER = Path(__file__).parent / "writer.py"


def writer(path: Path) -> forked.Popen:
    return forked.Popen(
        [sys.executable, str(WRITER), str(path), "default", "1"],
        stdin=PIPE,
        stdout=PIPE,
        text=True,
    )


def go(process: forked.Popen) -> None:
    """Wait until the process has opened its conversation, then let it begin."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("\n")
    process.stdin.flush()


def finish(process: forked.Popen) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.read()
    process.stdin.close()
    process.stdout.close()
    process.wait()


def test_a_process_killed_while_it_creates_the_database_leaves_one_that_opens(tmp_path: Path) -> None:
    """The file can be opened again in any state."""
    started = time.perf_counter()
    process = writer(tmp_path / "probe.db")
    go(process)
    finish(process)
    whole = time.perf_counter() - started
    for run in range(10):
        path = tmp_path / f"log-{run}.db"
        process = writer(path)
        time.sleep(whole * (0.4 + run * 0.06))
        process.kill()
        finish(process)
        with foldmark.open(str(path)) as log:
            log.agent("default").append("user", "hello")
            assert list(examine(log)) == []
            assert len(log.agent("default").context().messages) == 1
