"""One moment of the log in PostgreSQL (see `foldmark.stores.snapshot`)."""

from collections.abc import Callable
from typing import Any

from foldmark.core.ports import LogIndex
from foldmark.core.recall import Scope
from foldmark.stores.postgres.changes import ChangesView
from foldmark.stores.postgres.connection import Session
from foldmark.stores.postgres.lineage import LineageView
from foldmark.stores.postgres.memos import MemosView
from foldmark.stores.postgres.reader import Known, Reader
from foldmark.stores.rows import Row
from foldmark.stores.snapshot import LogSnapshot

Ahead = Callable[[], float]
"""Seconds that the clock of leases is ahead of the database's; for tests."""


class PostgresSnapshot(Reader, LineageView, MemosView, LogSnapshot, ChangesView):
    """What the database holds as long as one transaction lasts, which `PostgresStore` begins and ends."""

    def __init__(self, session: Session, known: Known, ahead: Ahead) -> None:
        super().__init__(session, known)
        self._ahead = ahead

    def now(self) -> str:
        return str(self._run("now", ahead=float(self._ahead()))[0][0])

    def _check(self) -> None:
        LogSnapshot._check(self)

    def _is_broken(self) -> bool:
        return self._session.broken

    def _rows(self, name: str, /, **bindings: Any) -> list[tuple[Row, bool]]:
        rows = super()._rows(name, **bindings)
        # These two say different things one after the other, in columns one beside the other.
        if name == "head":
            nothing = (None, None, None)
            rows = [(row[:17] if row[0] is not None else (None, None, *row[17:], *nothing), bad) for row, bad in rows]
        elif name == "outlines":
            rows = [(row[:5] if row[0] == 0 else (1, *row[5:]), bad) for row, bad in rows]
        return rows

    def index(self, scope: Scope) -> LogIndex:
        from foldmark.stores.postgres.search import PostgresIndex

        self._settle()
        keys = None if scope.agents is None else [self._key(agent) for agent in scope.agents]
        return PostgresIndex(self._run, scope, keys)
