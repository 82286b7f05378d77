"""Contexts read by several threads at once, some of them inside a transaction."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event, current_thread, main_thread
from typing import Any

import pytest

from foldmark import Agent, Log
from foldmark.stores.sqlite.store import SqliteStore
from patience import LIMIT


def test_a_context_inside_a_transaction_waits_for_no_other_context(
    log: Log, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a property held one lock for all contexts while it reads, it could deadlock: it would wait for the store, held
    by another thread that waits for the same property of another context."""
    agent.append("user", "Hello.")
    first, second = agent.context(), agent.context()
    inside, done = Event(), Event()
    read = SqliteStore.read

    def slow(store: SqliteStore) -> Any:
        if current_thread() is not main_thread():
            inside.set()
            assert done.wait(LIMIT), "the context in the transaction waits for this one"
        return read(store)

    monkeypatch.setattr(SqliteStore, "read", slow)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(lambda: first.segments)
        assert inside.wait(LIMIT)
        with log.store.write():
            mine = second.segments
        done.set()
        assert other.result(LIMIT) == mine
