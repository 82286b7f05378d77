"""A model's SQL in PostgreSQL (see `foldmark.core.ports`).

It runs on one connection of a login of its own, opened at the first query; one query after another.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from foldmark.core.errors import StoreError
from foldmark.core.ports import Limits, QueryScope, Rows
from foldmark.core.segments import END, Segment
from foldmark.stores.postgres.snapshot import PostgresSnapshot

if TYPE_CHECKING:
    from foldmark.stores.postgres.sandbox.connection import SandboxConnection
    from foldmark.stores.postgres.sandbox.login import Login

Keys = Mapping[str, tuple[int, int]]
"""An agent's uuid -> its key and that of its root."""


class PostgresSandbox:
    """See `foldmark.core.ports.SqlSandbox`."""

    dialect = "PostgreSQL"

    def __init__(self, conninfo: str, read: Callable[[], AbstractContextManager[PostgresSnapshot]]) -> None:
        """`conninfo` connects the store's user; `read` opens the store's moments."""
        self.conninfo, self._read, self._lock, self._over = conninfo, read, Lock(), False
        self._login: Login | None = None
        self._reading: SandboxConnection | None = None

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._over = True
            self._forget_reading()

    def query(self, scope: QueryScope, sql: str, limits: Limits) -> Rows:
        from foldmark.stores.postgres.sandbox.statements import rewritten  # the parser takes long to import

        with self._read() as moment:
            keys = moment.keys({scope.agent, *(each.agent for each in (*scope.lineage, *scope.visible))})
        with self._lock:
            if self._over:
                raise StoreError("the log is closed; open it again")
            if self._login is None:
                from foldmark.stores.postgres.sandbox.login import login

                self._login = login(self.conninfo)
            statement = rewritten(sql, self._login.role)
            if self._reading is not None:
                try:
                    return self._reading.query(_scope(scope, keys), statement, limits)
                except StoreError:
                    # The server may have ended the connection meanwhile, for example by a restart.
                    if not self._reading.closed:
                        raise
                    self._forget_reading()
            from foldmark.stores.postgres.sandbox.connection import SandboxConnection

            self._reading = SandboxConnection(self.conninfo, self._login)
            return self._reading.query(_scope(scope, keys), statement, limits)

    def _forget_reading(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None


def _scope(scope: QueryScope, keys: Keys) -> str:
    """Return the content of the views as JSON: for each agent its keys, whether it is the one that asks, and its
    ranges."""
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


def _ranges(segments: Sequence[Segment], agent: str) -> str:
    """Return an agent's ranges in PostgreSQL's syntax."""
    ranges = (f"[{first},{last}]" if last < END else f"[{first},)" for own, first, last in segments if own == agent)
    return f"{{{','.join(ranges)}}}"
