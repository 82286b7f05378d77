"""A model's SQL in PostgreSQL (see `foldmark.core.reading`): a part of `PostgresStore`.

It runs on one connection of a login of its own, which is made at the first query; one query after another.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec

from foldmark.core.errors import StoreError
from foldmark.core.reading import Limits, Rows, Scope
from foldmark.core.segments import END, Segments

if TYPE_CHECKING:
    import psycopg

    from foldmark.stores.postgres.sandbox.connection import Reading
    from foldmark.stores.postgres.sandbox.login import Login

Keys = Mapping[str, tuple[int, int]]
"""An agent's uuid -> its key and that of its root."""


class Sandbox:
    """Answers models' statements for one store."""

    def __init__(self, address: str, connected: "Callable[[], AbstractContextManager[psycopg.Connection[Any]]]") -> None:
        """`connected` gives a connection of the store outside of transactions."""
        self._address, self._connected, self._lock = address, connected, Lock()
        self._login: Login | None = None
        self._reading: Reading | None = None
        self._closed = False

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            self._closed = True
            self._forget()

    def query(self, scope: Scope, keys: Keys, sql: str, limits: Limits) -> Rows:
        """As `SqlSandbox.query`; `keys` has every agent of the scope."""
        from foldmark.stores.postgres.sandbox.statements import rewritten  # 70 ms, for whoever queries

        with self._lock:
            if self._closed:
                raise StoreError("the store is closed; open it again")
            if self._login is None:
                from foldmark.stores.postgres.sandbox.login import login

                with self._connected() as db:
                    self._login = login(db)
            statement = rewritten(sql, self._login.role)
            if self._reading is not None and self._reading.closed:
                self._forget()
            if self._reading is None:
                from foldmark.stores.postgres.sandbox.connection import Reading

                self._reading = Reading(self._address, self._login)
            return self._reading.query(_scope(scope, keys), statement, limits)

    def _forget(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None


def _scope(scope: Scope, keys: Keys) -> str:
    """What the views show, as JSON: for each agent its keys, whether it asks itself, and its ranges."""
    rows = []
    for agent in sorted({each.agent for each in scope.lineage}):
        key, root = keys[agent]
        inside = [each for each in scope.lineage if each.agent == agent]
        rows.append(
            {
                "root": root,
                "agent": key,
                "uuid": agent,
                "own": agent == scope.agent,
                "first": min(each.first for each in inside),
                "last": max(each.last for each in inside),
                "lineage": _ranges(inside, agent),
                "visible": _ranges(scope.visible, agent),
            }
        )
    return msgspec.json.encode(rows).decode()


def _ranges(segments: "Segments | list[Any]", agent: str) -> str:
    """An agent's ranges as PostgreSQL writes them."""
    ranges = (f"[{first},{last}]" if last < END else f"[{first},)" for own, first, last in segments if own == agent)
    return f"{{{','.join(ranges)}}}"
