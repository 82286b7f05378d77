"""Copies that are refused change nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from foldmark.copying import copy
from foldmark.core import selections
from foldmark.core.errors import CommandError
from foldmark.core.ports import Store
from foldmark.core.segments import END, Segment

sys.path.append(str(Path(__file__).parents[1] / "stores"))

from copies import fill
from sqlite_harness import SqliteHarness

from foldmark.testing.suite import append, draft, request, root, save_memo, send


@pytest.fixture
def harness(tmp_path: Path) -> SqliteHarness:
    return SqliteHarness(tmp_path)


@pytest.fixture
def store(harness: SqliteHarness) -> Iterator[Store]:
    with closing(harness.fresh()) as store:
        yield store


@pytest.fixture
def target(harness: SqliteHarness) -> Iterator[Store]:
    with closing(harness.fresh()) as target:
        yield target


def all_of(store: Store) -> list[Any]:
    """Return all events and memos."""
    with store.read() as moment:
        logs = [(agent, selections.events_after(moment, agent.id, 0, 1000)) for agent in moment.agents()]
        return [logs, moment.memos(100)]


def test_an_unknown_name_is_refused(store: Store, target: Store) -> None:
    with pytest.raises(CommandError, match="no conversation 'x' to copy; it has no conversation"):
        copy(store, target, ["x"])
    root(store, "there")
    with pytest.raises(CommandError, match="no conversation 'x' to copy; conversations: there"):
        copy(store, target, ["x"])
    with pytest.raises(CommandError, match="is the source of the copy"):
        copy(store, store)


def test_a_target_with_its_own_contents_is_refused(store: Store, harness: SqliteHarness) -> None:
    agents = fill(store)

    def went_on(target: Store) -> None:
        append(target, agents["work"], draft(content="there"))
        append(store, agents["work"], draft(content="here"))

    def sent(target: Store) -> None:
        append(target, agents["work"], request())

    def erased(target: Store) -> None:
        with target.write() as writing:
            (message, *_) = writing.select((Segment(agents["quiet"], 1, END),))
            writing.erase(agents["quiet"], message.turn_id or 0, message.id, message.id)

    append(store, agents["quiet"], draft(content="quiet"), draft("turn_ended", ""))
    refused: list[tuple[Callable[[Store], object], str]] = [
        (lambda target: root(target, "own"), "conversations that .* does not have: 'own'"),
        (went_on, "conversations that went on differently"),
        (lambda target: send(target, agents["work"], agents["child"], "there"), "went on differently"),
        (lambda target: save_memo(target, "there"), "memos of its own: memo 4"),
        (sent, "conversations that went on differently"),
        (erased, "erased events that were not erased here"),
    ]
    for spoil, says in refused:
        with closing(harness.fresh()) as target:
            copy(store, target)
            spoil(target)
            append(store, agents["quiet"], draft(content="new"))
            before = all_of(target)
            with pytest.raises(CommandError, match=says):
                copy(store, target)
            assert all_of(target) == before
