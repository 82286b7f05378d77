"""Concurrent clients of an agent see a linearizable history; `make torture` records more histories."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from history import Client, Noted, Recorded, histories

import foldmark
from foldmark.stores.snapshot import SqlSnapshot
from foldmark.stores.transaction import SqlTransaction


def test_concurrent_clients(fresh: Callable[[], str]) -> None:
    recorded = histories(fresh(), 15, 2, "sample")
    assert recorded.faults == []
    assert recorded.kills == 2
    assert recorded.answers["done"] > 50
    assert recorded.metadata > 30
    assert recorded.answers["conflict"] > 0


def side_by_side(path: Path) -> Recorded:
    """Let two clients of one process call in turn, each with its own connection, and return the judged history."""
    recorded, noted = Recorded(), list[Noted]()
    with foldmark.open(path, settings={}) as one, foldmark.open(path, settings={}) as two:
        clients = [Client(log, noted.append, number, 0, random.Random(number)) for number, log in enumerate((one, two))]
        for _ in range(40):
            for client in clients:
                client.call()
        recorded.judge(one, noted)
    return recorded


def test_a_store_that_breaks_nothing(tmp_path: Path) -> None:
    recorded = side_by_side(tmp_path / "log.db")
    assert recorded.faults == []
    assert {"done", "conflict", "refused"} == recorded.answers.keys()
    assert recorded.metadata > 20


def _ignores_expected(append: Any) -> Any:
    return lambda self, agent_id, expected, drafts, **more: append(self, agent_id, None, drafts, **more)


def _always_refuses(append: Any) -> Any:
    return lambda self, agent_id, expected, *rest, **more: append(
        self, agent_id, expected and expected - 1, *rest, **more
    )


def _forgets_the_newest(read: Any) -> Any:
    return lambda self, *given, **how: iter(list(read(self, *given, **how))[:-1])


def _shows_every_other_time(read: Any) -> Any:
    times = iter(range(1_000_000))
    return lambda self, *given, **how: read(self, *given, **how) if next(times) % 3 else iter(())


@pytest.mark.parametrize(
    ("where", "method", "broken"),
    [
        (SqlTransaction, "append", _ignores_expected),
        (SqlTransaction, "append", _always_refuses),
        (SqlSnapshot, "select", _forgets_the_newest),
        (SqlSnapshot, "select", _shows_every_other_time),
    ],
)
def test_a_broken_store_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: type, method: str, broken: Callable[[Any], Any]
) -> None:
    monkeypatch.setattr(where, method, broken(getattr(where, method)))
    assert side_by_side(tmp_path / "log.db").faults != []
