"""A log in memory and its root agent. Tests that need other ones create their own."""

from collections.abc import Iterator

import pytest

import foldmark
from foldmark import Agent, Log


@pytest.fixture
def log() -> Iterator[Log]:
    with foldmark.open(":memory:") as log:
        yield log


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("root")
