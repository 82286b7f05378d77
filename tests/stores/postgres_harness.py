"""The harness of the store contract for PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from foldmark.core.ports import Store
from foldmark.stores.postgres.store import PostgresStore
from foldmark.testing import Damage, Harness

if TYPE_CHECKING:
    from postgres_server import Databases

_moved = 0.0


def ahead() -> float:
    """Return the number of seconds that the clock of leases is ahead."""
    return _moved


# The statement that plants each kind of damage.
_PLANTED = {
    Damage.CONTENT: "UPDATE events SET content = 'x' || substr(content, 2) WHERE id = %(id)s",
    Damage.DATA: "UPDATE events SET data = substr(data, 1, 5) WHERE id = %(id)s",
    Damage.SIZE: "UPDATE events SET tokens = tokens + 1 WHERE id = %(id)s",
    Damage.SUM: "UPDATE events SET sum = sum + 1 WHERE id = %(id)s",
    Damage.COUNT: "UPDATE events SET nth = nth + 1 WHERE id = %(id)s",
    Damage.HEAD: "UPDATE agents SET head = %(id)s WHERE key = (SELECT agent FROM events WHERE id = %(id)s)",
    Damage.INDEX: "DELETE FROM words WHERE id = %(id)s",
    Damage.FOLD: "UPDATE folds SET body = substr(body, 1, 5) "
    "WHERE agent = (SELECT agent FROM events WHERE id = %(id)s)",
}


class PostgresHarness(Harness):
    """Databases on one server."""

    def __init__(self, databases: Databases | None, store: type[PostgresStore] = PostgresStore) -> None:
        """`databases` is None in another process, which only opens existing databases."""
        self._databases, self._store = databases, store
        self._taken: list[str] = []
        self._opened: list[PostgresStore] = []

    def __reduce__(self) -> Any:
        return PostgresHarness, (None, self._store)

    def fresh(self) -> PostgresStore:
        assert self._databases is not None
        address = self._databases.take()
        self._taken.append(address)
        return self.open(address)

    def release(self) -> None:
        """Close all stores and give the databases back, each of them once."""
        assert self._databases is not None
        while self._opened:
            self._opened.pop().close()
        while self._taken:
            self._databases.give_back(self._taken.pop())

    def open(self, address: str) -> PostgresStore:
        self._opened.append(self._store(address, create=False, ahead=ahead))
        return self._opened[-1]

    @contextmanager
    def counting(self, store: Store) -> Iterator[list[str]]:
        assert isinstance(store, PostgresStore)
        found: list[str] = []
        execute = psycopg.RawCursor.execute

        def counted(cursor: psycopg.Cursor[Any], query: Any, *rest: Any, **more: Any) -> Any:
            # One notification covers many commits, so it belongs to none of them.
            if cursor.connection in store.connector.pool.connections and "notify" not in str(query).lower():
                found.append(str(query))
            return execute(cursor, query, *rest, **more)

        psycopg.RawCursor.execute = counted  # type: ignore[assignment, method-assign]
        try:
            yield found
        finally:
            psycopg.RawCursor.execute = execute  # type: ignore[method-assign]

    def plant(self, store: Store, damage: Damage, event_id: int) -> None:
        if damage not in _PLANTED:
            pytest.skip("not planted yet")
        with psycopg.connect(store.address, autocommit=True) as db:
            db.execute("SET search_path = foldmark")
            assert db.execute(_PLANTED[damage], {"id": event_id}).rowcount

    @contextmanager
    def move_clock(self, store: Store, seconds: float) -> Iterator[None]:
        global _moved
        before, _moved = _moved, _moved + seconds
        try:
            yield
        finally:
            _moved = before
