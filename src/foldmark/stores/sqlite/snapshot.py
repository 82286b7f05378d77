"""One moment of the log in SQLite (see `foldmark.stores.snapshot`)."""

from collections.abc import Mapping
from typing import Any

from foldmark.core.ports import ANCHORS, Clock, LogIndex
from foldmark.core.search import SearchScope
from foldmark.stores.queries import listed
from foldmark.stores.rows import Row
from foldmark.stores.snapshot import LogSnapshot
from foldmark.stores.sqlite.beside.changes import SqliteChanges
from foldmark.stores.sqlite.beside.memos import SqliteMemosView
from foldmark.stores.sqlite.copying import SqliteCopyingView
from foldmark.stores.sqlite.reader import SqliteConnection, SqliteReader


class SqliteSnapshot(SqliteReader, SqliteCopyingView, SqliteChanges, SqliteMemosView):
    """The contents of the database during one transaction, which `SqliteStore` begins and ends."""

    _kinds = listed(ANCHORS)

    def __init__(self, connection: SqliteConnection, clock: Clock | None = None) -> None:
        super().__init__(connection)
        self._clock = clock

    def now(self) -> str:
        return str(self._run("now")[0][0]) if self._clock is None else self._clock()

    _check = LogSnapshot._check

    def _is_broken(self) -> bool:
        return not self._db.in_transaction  # SQLite has rolled back, and would now record each statement by itself

    def index(self, scope: SearchScope) -> LogIndex:
        from foldmark.stores.sqlite.search import SqliteIndex  # takes 3 ms

        keys = None if scope.agents is None else [self._key(agent) for agent in scope.agents]
        return SqliteIndex(self._search, scope, keys)

    def _search(self, name: str, bindings: Mapping[str, Any]) -> list[Row]:
        self._settle()
        return self._all(self._sql[name], bindings)
