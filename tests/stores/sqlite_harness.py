"""The harness of the store contract for SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from foldmark.core.codec import timestamp
from foldmark.core.ports import Store
from foldmark.stores.sqlite.store import SqliteStore
from foldmark.testing import Damage, Harness

_moved = timedelta()


def clock() -> str:
    """Return the time of this machine, moved by `move_clock`."""
    return timestamp(datetime.now(UTC) + _moved)


@contextmanager
def move_clock(seconds: float) -> Iterator[None]:
    """Move `clock` while the block runs."""
    global _moved
    before = _moved
    _moved = before + timedelta(seconds=seconds)
    try:
        yield
    finally:
        _moved = before


# The statement that plants each kind of damage.
_PLANTED = {
    Damage.CONTENT: "UPDATE events SET content = 'x' || substr(content, 2) WHERE id = :id",
    Damage.DATA: "UPDATE events SET data = substr(data, 1, 5) WHERE id = :id",
    Damage.SIZE: "UPDATE events SET tokens = tokens + 1 WHERE id = :id",
    Damage.SUM: "UPDATE events SET sum = sum + 1 WHERE id = :id",
    Damage.COUNT: "UPDATE events SET nth = nth + 1 WHERE id = :id",
    Damage.HEAD: "UPDATE agents SET head = :id WHERE key = (SELECT agent FROM events WHERE id = :id)",
    Damage.FOLD: "UPDATE folds SET body = substr(body, 1, 5) WHERE agent = (SELECT agent FROM events WHERE id = :id)",
    Damage.INDEX: "INSERT INTO search (search, rowid, text, parts) "
    "SELECT 'delete', id, text, parts FROM searchable WHERE id = :id",
}


class SqliteHarness(Harness):
    """Databases in a folder; `store` is the class under test."""

    def __init__(self, folder: Path, store: type[SqliteStore] = SqliteStore) -> None:
        self._folder, self._store, self._number = folder, store, 0

    def fresh(self) -> SqliteStore:
        self._number += 1
        return self._store(str(self._folder / f"{self._number}.db"), clock=clock)

    def open(self, address: str) -> SqliteStore:
        return self._store(address, create=False, clock=clock)

    @contextmanager
    def counting(self, store: Store) -> Iterator[list[str]]:
        found: list[str] = []

        def trace(_: object, sql: str, __: object) -> bool:
            found.append(sql)
            return True

        connections = [each for each in apsw.connections() if each.filename == store.address]
        for each in connections:
            each.exec_trace = trace
        try:
            yield found
        finally:
            for each in connections:
                each.exec_trace = None

    def plant(self, store: Store, damage: Damage, event_id: int) -> None:
        db = apsw.Connection(store.address)
        db.execute(_PLANTED[damage], {"id": event_id})
        assert db.changes()
        db.close()

    def move_clock(self, store: Store, seconds: float) -> AbstractContextManager[None]:
        return move_clock(seconds)


class MemoryHarness(SqliteHarness):
    """Databases in memory, which only their own connection can use."""

    def fresh(self) -> SqliteStore:
        return SqliteStore(":memory:", clock=clock)

    def open(self, address: str) -> SqliteStore:
        pytest.skip("a database in memory has one connection")

    def plant(self, store: Store, damage: Damage, event_id: int) -> None:
        pytest.skip("nobody else reaches a database in memory")
