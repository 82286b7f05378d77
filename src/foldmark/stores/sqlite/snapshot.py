"""One moment of the log in SQLite (see `foldmark.stores.snapshot`)."""

from collections.abc import Mapping
from typing import Any

from foldmark.core.ports import ANCHORS, Clock, Head
from foldmark.core.search import LogIndex, SearchScope
from foldmark.stores.queries import listed
from foldmark.stores.rows import Row
from foldmark.stores.snapshot import LogSnapshot
from foldmark.stores.sqlite.beside.changes import SqliteChanges
from foldmark.stores.sqlite.beside.memos import SqliteMemosView
from foldmark.stores.sqlite.copying import SqliteCopyingView
from foldmark.stores.sqlite.reader import SqliteConnection, SqliteReader

KEPT_HEADS = 64
"""Maximum number of agents whose heads are kept."""


class SqliteSnapshot(SqliteReader, SqliteCopyingView, SqliteChanges, SqliteMemosView):
    """The contents of the database during one transaction, which `SqliteStore` begins and ends."""

    _kinds = listed(ANCHORS)
    _begun = False
    """True once SQLite has begun to read, and the moment no longer changes."""

    def __init__(self, connection: SqliteConnection, clock: Clock | None = None) -> None:
        super().__init__(connection)
        self._clock = clock

    def head(self, agent_id: str) -> Head:
        # A head takes several times as long to read and decode as the question whether anybody has committed since.
        # SQLite counts commits of all connections, but looks at those of others only when it begins to read: the
        # pragma makes it begin. Inside a transaction nothing is kept, as it may be rolled back.
        heads = self._connection.heads
        if agent_id in heads:
            if not self._begun:
                self._all("PRAGMA data_version")
            version, kept = heads[agent_id]
            if version == self._db.data_version():
                self._begun = True
                return kept
        found = super().head(agent_id)
        if self.committed:
            if len(heads) >= KEPT_HEADS:
                heads.clear()
            heads[agent_id], self._begun = (self._db.data_version(), found), True
        return found

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
