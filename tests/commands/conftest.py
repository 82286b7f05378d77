"""A log in memory, and one with a fixed clock and agents with known uuids."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from two_trees import NOW, Open, fork, said

import foldmark
from foldmark import Log


@pytest.fixture
def log() -> Iterator[Log]:
    """A log that no settings file changes."""
    with foldmark.open(":memory:", settings={}) as log:
        yield log


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[Open]:
    """A function that opens connections to one file; new agents are 1000…, 2000… and so on, in order of creation."""
    numbers, logs = count(1), []

    def opened() -> Log:
        log = foldmark.open(tmp_path / "log.db")
        log.clock, log.new_id = lambda: NOW, lambda: f"{next(numbers)}0000000-0000-4000-8000-000000000000"
        logs.append(log)
        return log

    yield opened
    for log in logs:
        log.close()


@pytest.fixture
def talk(open_log: Open) -> Log:
    """Conversation `default` (1) with its fork 2 and that one's fork 3; conversation `other` (4) with its fork 5."""
    log = open_log()
    default = log.agent("default")
    said(default, "hello", "hi")
    child = fork(default)
    said(child, "more", "yes")
    fork(child)
    said(log.agent("other"), "elsewhere")
    fork(log.agent("other"))
    return log
