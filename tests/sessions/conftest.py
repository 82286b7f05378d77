"""Shared by the tests of imports: a log in memory, and the import of a file that a test writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from session_records import jsonl

import foldmark
from foldmark.core import selections
from foldmark.core.events import ROLES
from foldmark.sessions.conversion.importing import import_session
from foldmark.sessions.conversion.writer import ImportReport
from stored import stored


@dataclass
class Imported:
    """An imported conversation: its report, its agent and all its events in order."""

    report: ImportReport
    agent: foldmark.Agent
    events: list[foldmark.Event]

    @property
    def messages(self) -> list[foldmark.Event]:
        return [event for event in self.events if event.kind in ROLES]

    @property
    def said(self) -> list[tuple[str, str]]:
        """Kind and content of every message, in the context or not."""
        return [(event.kind, event.content) for event in self.messages]

    @property
    def shown(self) -> list[str]:
        """Contents in the context; for calls and results, their call id."""
        return [event.call_id or event.content for event in self.agent.context().messages]

    @property
    def turns(self) -> list[list[str]]:
        """Contents of each turn, in the context or not; for calls and results, their call id."""
        turns: dict[int | None, list[str]] = {}
        for event in self.messages:
            turns.setdefault(event.turn_id, []).append(event.call_id or event.content)
        return list(turns.values())

    def of(self, kind: str) -> list[foldmark.Event]:
        return [event for event in self.events if event.kind == kind]

    @property
    def kept(self) -> list[Any]:
        """The records that were kept as data."""
        return [(event.data or {})["record"] for event in self.of("record")]


@pytest.fixture
def log() -> Iterator[foldmark.Log]:
    with foldmark.open(":memory:") as log:
        yield log


@pytest.fixture
def load(log: foldmark.Log) -> Callable[[Path], Imported]:
    """A function that imports a file."""

    def load(path: Path, name: str | None = None) -> Imported:
        report = import_session(log, path, name)
        agent = log.agent(report.agent_id)
        found = (selections.event(stored(log), id) for id in range(1, agent.context().at + 1))
        return Imported(report, agent, [event for event in found if event and event.agent_id == agent.id])

    return load


@pytest.fixture
def session(load: Callable[[Path], Imported], tmp_path: Path) -> Callable[..., Imported]:
    """A function that writes records (bytes unchanged) to a new file and imports it."""
    numbers = count(1)

    def session(*records: Any) -> Imported:
        path = tmp_path / f"session-{next(numbers)}.jsonl"
        path.write_bytes(jsonl(*records))
        return load(path)

    return session
