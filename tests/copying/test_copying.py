"""Copies of whole databases: people and models see the same in them (SPEC 2, 3)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import foldmark
from foldmark.copying import copy
from foldmark.log.doctor import examine

sys.path.append(str(Path(__file__).parents[1] / "stores"))

from copied_tables import tables

from every_kind import fill, shown


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database with every kind of message and operation."""
    path = tmp_path_factory.mktemp("filled") / "log.db"
    with foldmark.open(path, settings={}) as log:
        fill(log)
        for agent in log.agents():
            agent.call_tool("query_db", {"sql": "SELECT 1"})
    return path.read_bytes()


@pytest.fixture
def original(filled: bytes, tmp_path: Path) -> Iterator[foldmark.Log]:
    """A log in that database."""
    path = tmp_path / "original.db"
    path.write_bytes(filled)
    with foldmark.open(path, settings={}) as log:
        yield log


def everything_shown(log: foldmark.Log) -> list[Any]:
    """Return the contexts of all agents, and the requests that would be sent."""
    found: list[Any] = []
    for agent in log.agents():
        found.append(shown(agent))
        for provider, model in (("openai", "gpt-5"), ("anthropic", "claude-sonnet-4-5")):
            request = agent.request(provider, model)
            found += [request.bytes, request.tokens]
    return found


def test_contexts_and_requests_are_the_same(original: foldmark.Log, tmp_path: Path) -> None:
    with foldmark.open(tmp_path / "copy.db", settings={}) as other:
        copy(original.store, other.store)
        assert everything_shown(other) == everything_shown(original)
        assert list(examine(other)) == []
        for query in ("parser", "日本語", "café"):
            assert [hit.event_id for hit in other.search(query, 50)] == [
                hit.event_id for hit in original.search(query, 50)
            ]


def test_the_tables_of_a_fresh_copy_are_the_same(original: foldmark.Log, tmp_path: Path) -> None:
    """They are equal row by row, except for sums of messages that follow erased ones."""
    with foldmark.open(tmp_path / "copy.db", settings={}) as other:
        copy(original.store, other.store)
    ours, theirs = tables(tmp_path / "original.db"), tables(tmp_path / "copy.db")
    different = {name for name in ours if ours[name] != theirs[name]}
    assert different <= {"events", "agents"}
    assert len(ours["events"]) > 50
    # Without the one erased turn, a copy of the copy does not differ.
    third = tmp_path / "third.db"
    with foldmark.open(tmp_path / "copy.db", settings={}) as log, foldmark.open(third, settings={}) as other:
        copy(log.store, other.store)
    assert tables(third) == theirs


def test_repeated_copies_follow_a_growing_original(original: foldmark.Log, tmp_path: Path) -> None:
    with foldmark.open(tmp_path / "copy.db", settings={}) as other:
        copy(original.store, other.store)
        agent = original.agent("work")
        agent.append_tool_result("waits", "text", dialect="anthropic")
        agent.end_turn()
        for line in (
            "/mark LATER",
            "/undo",
            "/restore 20",
            "/fork",
            "/session new late",
            "/config set TRUNCATE_RECENT=9",
        ):
            try:
                agent.do(line)
            except foldmark.CommandError:
                assert line == "/restore 20"
        copy(original.store, other.store)
        assert everything_shown(other) == everything_shown(original)
        assert list(examine(other)) == []


def test_messages_appended_during_a_copy_are_not_part_of_it(original: foldmark.Log, tmp_path: Path) -> None:
    """The original is read at one moment; the next copy includes the rest."""
    path, told = tmp_path / "original.db", 0
    before = original.agent("work").context().size
    with foldmark.open(path, settings={}) as writing, foldmark.open(tmp_path / "copy.db", settings={}) as other:
        busy = writing.agent("busy")

        def write(done: int, total: int) -> None:
            nonlocal told
            told += 1
            busy.append("user", "meanwhile")
            assert 0 < done <= total

        for _ in range(120):
            busy.append("user", "before")
        first = copy(original.store, other.store, progress=write)
        assert told > 1
        assert [message.content for message in other.agent("busy").context().messages] == ["before"] * 120
        second = copy(original.store, other.store)
        assert second.compared == first.compared + told
        assert other.agent("work").context().size == before
