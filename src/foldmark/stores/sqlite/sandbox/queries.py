"""A model's SQL in SQLite (see `foldmark.core.ports`).

It runs on a connection of its own (`Sandbox`), which is opened for one scope and reopened for another, so that its
permissions never change while it is open.
"""

from contextlib import nullcontext
from threading import Lock
from typing import TYPE_CHECKING

import apsw

from foldmark.core.errors import StoreError
from foldmark.core.ports import Limits, QueryScope, Rows
from foldmark.stores.sqlite.file import MEMORY, explain, open_beside
from foldmark.stores.sqlite.reader import SqliteConnection, SqliteReader

if TYPE_CHECKING:
    from foldmark.stores.sqlite.sandbox.connection import Sandbox


class SqliteSandbox(SqliteReader):
    """See `foldmark.core.ports.SqlSandbox`."""

    dialect = "SQLite"

    def __init__(self, connection: SqliteConnection, place: str) -> None:
        super().__init__(connection)
        self._place, self._reading = place, Lock()
        self._sandbox: tuple[QueryScope, Sandbox] | None = None

    def close(self) -> None:
        """Close the connection."""
        with self._reading:
            self._forget_sandbox()

    def query(self, scope: QueryScope, sql: str, limits: Limits) -> Rows:
        memory = self._path == MEMORY
        # A database in memory cannot be read while somebody writes. The holder of `_reading` never waits for the store.
        with self._lock if memory else nullcontext():
            agents = {scope.agent, *(each.agent for each in (*scope.lineage, *scope.visible))}
            keys = {agent: self._key(agent) for agent in sorted(agents)}
            with self._reading:
                try:
                    if memory and self._db.txn_state() == apsw.SQLITE_TXN_WRITE:
                        raise StoreError("a database in memory cannot be queried inside a batch; end the batch first")
                    try:
                        return self._sandbox_for(scope, keys).query(sql, limits)
                    except UnicodeDecodeError:
                        self._forget_sandbox()
                        return self._sandbox_for(scope, keys, mending=True).query(sql, limits)
                except apsw.Error as error:
                    raise explain(error, self._path) from error

    def _sandbox_for(self, scope: QueryScope, keys: dict[str, int], *, mending: bool = False) -> "Sandbox":
        if self._sandbox is None or self._sandbox[0] != scope:
            from foldmark.stores.sqlite.sandbox.connection import Sandbox  # takes 3 ms

            self._forget_sandbox()
            beside = open_beside(self._db, self._path, self._place)
            self._sandbox = scope, Sandbox(beside, scope, keys, mending=mending)
        return self._sandbox[1]

    def _forget_sandbox(self) -> None:
        if self._sandbox is not None:
            self._sandbox[1].close()
            self._sandbox = None
