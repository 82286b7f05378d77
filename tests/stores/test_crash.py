"""A database can be used even if its creator was killed (SPEC 2); `tests/torture` kills its writers."""

import signal
import sys
from pathlib import Path

import pytest

import foldmark
import forked
from foldmark.log.doctor import examine
from sampled import sampled

pytestmark = pytest.mark.usefixtures("made_databases")

# This process creates a database, and is killed before statement number `sys.argv[2]`. If it is not, it prints the
# number of statements.
CREATOR = """
import os, signal, sys
import apsw
import foldmark

begun = 0

def trace(*_):
    global begun
    if begun == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    begun += 1
    return True

apsw.connection_hooks.append(lambda db: db.set_exec_trace(trace))
with foldmark.open(sys.argv[1]) as log:
    log.agent("default")
print(begun)
"""


def created(path: Path, statements: int) -> tuple[int, str]:
    """Create a database in a process that is killed after so many statements. Return its exit code and its output."""
    command = [sys.executable, "-c", CREATOR, str(path), str(statements)]
    done = forked.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_a_process_killed_while_it_creates_the_database_leaves_one_that_opens(tmp_path: Path) -> None:
    """The file can be opened again in any state."""
    code, count = created(tmp_path / "whole.db", sys.maxsize)
    assert (code, int(count) > 30) == (0, True)
    for statements in sampled(range(int(count)), 12):
        path = tmp_path / f"log-{statements}.db"
        assert created(path, statements) == (-signal.SIGKILL, "")
        with foldmark.open(str(path)) as log:
            log.agent("default").append("user", "hello")
            assert list(examine(log)) == []
            assert len(log.agent("default").context().messages) == 1
