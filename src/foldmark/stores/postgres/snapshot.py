"""A `Snapshot` of a PostgreSQL database (see `foldmark.stores.snapshot`)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from foldmark.core.ports import ANCHORS
from foldmark.core.search import LogIndex, SearchScope
from foldmark.stores.postgres.changes import PostgresChanges
from foldmark.stores.postgres.connection import PostgresSession, Texts, statement
from foldmark.stores.postgres.copying import PostgresCopyingView
from foldmark.stores.postgres.lineage import PostgresLineageView
from foldmark.stores.postgres.memos import PostgresMemosView
from foldmark.stores.postgres.reader import BLOCK, Known, PostgresReader
from foldmark.stores.rows import Row
from foldmark.stores.snapshot import LogSnapshot

Ahead = Callable[[], float]
"""Seconds that the clock of leases is ahead of the database's; for tests."""


class PostgresSnapshot(PostgresReader, PostgresLineageView, PostgresMemosView, PostgresCopyingView, PostgresChanges):
    """The contents of the database during one transaction, which `PostgresStore` begins and ends."""

    _kinds = Texts(ANCHORS)

    def __init__(self, session: PostgresSession, known: Known, ahead: Ahead) -> None:
        super().__init__(session, known)
        self._ahead = ahead

    def now(self) -> str:
        return str(self._run("now", ahead=float(self._ahead()))[0][0])

    _check = LogSnapshot._check

    def _is_broken(self) -> bool:
        return self._session.broken

    def _rows(self, name: str, /, **bindings: Any) -> list[tuple[Row, bool]]:
        rows = super()._rows(name, **bindings)
        # These two return different rows, combined side by side in columns.
        if name == "head":
            nothing = (None, None, None)
            rows = [(row[:17] if row[0] is not None else (None, None, *row[17:], *nothing), bad) for row, bad in rows]
        elif name == "outlines":
            rows = [(row[:5] if row[0] == 0 else (1, *row[5:]), bad) for row, bad in rows]
        return rows

    def index(self, scope: SearchScope) -> LogIndex:
        from foldmark.stores.postgres.search import PostgresIndex

        keys = None if scope.agents is None else list(self.keys(scope.agents).values())
        return PostgresIndex(self._search, self._saw, scope, keys)

    def keys(self, agent_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return the keys of agents, each with that of its root. Raises DamagedError."""
        found = {agent: self._key(agent) for agent in agent_ids}
        return {agent: (key, self._roots[key]) for agent, key in found.items()}

    def _saw(self, event_id: int, root: int) -> None:
        self._blocks[event_id // BLOCK] = root

    def _search(self, sql: str, bindings: Mapping[str, Any]) -> list[Row]:
        """Run a statement made for one search."""
        self._check()
        self._settle()
        return self._session.run(statement(sql), bindings)
