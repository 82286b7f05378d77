from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import foldmark
from foldmark.core.errors import CommandError


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "log.db")


@pytest.fixture
def log(request: pytest.FixtureRequest) -> Iterator[foldmark.Log]:
    """A log, in the file at `path` if the test asks for that."""
    with foldmark.open(request.getfixturevalue("path") if "path" in request.fixturenames else ":memory:") as log:
        yield log


@pytest.fixture
def say() -> Callable[..., list[int]]:
    """A function that appends each text as a separate turn; a pair is the person's message and the answer."""

    def say(agent: Any, *texts: str | tuple[str, str], day: int = 15) -> list[int]:
        ids = []
        for text in texts:
            for kind, each in zip(("user", "assistant"), (text,) if isinstance(text, str) else text, strict=False):
                ids.append(agent.append(kind, each, created_at=f"2026-03-{day:02}T12:00:00"))
            agent.end_turn()
        return ids

    return say


@pytest.fixture
def found(log: foldmark.Log) -> Callable[..., list[int] | None]:
    """A function that returns the ids that a query finds, best first, or None if it is refused for lack of a word."""

    def found(query: str, limit: int = 10) -> list[int] | None:
        try:
            return [hit.event_id for hit in log.search(query, limit)]
        except CommandError as error:
            if not str(error).startswith("there is no word to search for; type some, as in: "):
                raise
            return None

    return found
