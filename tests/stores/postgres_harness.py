"""What the store contract needs to know of PostgreSQL, and the server that all tests of a run share."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from foldmark.core.ports import Store
from foldmark.stores.postgres.store import PostgresStore
from foldmark.testing import Damage, Harness

_moved = 0.0


def ahead() -> float:
    """How many seconds the clock of leases is ahead."""
    return _moved


# What the damaged row is, and what becomes of it.
_PLANTED = {
    Damage.CONTENT: "UPDATE events SET content = 'x' || substr(content, 2) WHERE id = %(id)s",
    Damage.DATA: "UPDATE events SET data = substr(data, 1, 5) WHERE id = %(id)s",
    Damage.SIZE: "UPDATE events SET tokens = tokens + 1 WHERE id = %(id)s",
    Damage.SUM: "UPDATE events SET sum = sum + 1 WHERE id = %(id)s",
    Damage.COUNT: "UPDATE events SET nth = nth + 1 WHERE id = %(id)s",
    Damage.WEIGHT: "UPDATE events SET weights = weights + 1 WHERE id = %(id)s",
    Damage.HEAD: "UPDATE agents SET head = %(id)s WHERE key = (SELECT agent FROM events WHERE id = %(id)s)",
    Damage.FOLD: "UPDATE folds SET body = substr(body, 1, 5) WHERE agent = (SELECT agent FROM events WHERE id = %(id)s)",
}


class PostgresHarness(Harness):
    """Databases on one server; each is made as a copy of one with all tables."""

    def __init__(self, server: str) -> None:
        """`server` is the address of a database on it, in which others are made."""
        self._server = server
        self._made: list[str] = []

    def fresh(self) -> PostgresStore:
        name = f"t_{uuid4().hex}"
        with psycopg.connect(self._server, autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        self._made.append(name)
        return self.open(address_of(self._server, name))

    def open(self, address: str) -> PostgresStore:
        return PostgresStore(address, create=False, ahead=ahead)

    @contextmanager
    def counting(self, store: Store) -> Iterator[list[str]]:
        assert isinstance(store, PostgresStore)
        found: list[str] = []
        name = database_of(store.address)
        execute = psycopg.RawCursor.execute

        def counted(cursor: psycopg.Cursor[Any], query: Any, *rest: Any, **more: Any) -> Any:
            if cursor.connection.info.dbname == name and getattr(cursor.connection, "store", None) in (None, store):
                found.append(str(query))
            return execute(cursor, query, *rest, **more)

        psycopg.RawCursor.execute = counted  # type: ignore[method-assign]
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

    def remove(self) -> None:
        """Take the databases away that were made."""
        with psycopg.connect(self._server, autocommit=True) as db:
            for name in self._made:
                db.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


TEMPLATE = "foldmark_template"


def address_of(server: str, name: str) -> str:
    """The address of another database of the same server."""
    where, _, rest = server.partition("?")
    return f"{where.rpartition('/')[0]}/{name}?{rest}"


def database_of(address: str) -> str:
    """The name of a database."""
    return address.partition("?")[0].rpartition("/")[2]
