"""Run the named statements of an SQLite database (see `foldmark.stores.reader`)."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from itertools import repeat
from threading import RLock
from typing import Any, Self, TypeVar

import apsw
import msgspec

from foldmark.core.ports import Head
from foldmark.core.replay import Fold
from foldmark.core.segments import Segments
from foldmark.core.turns import Message
from foldmark.stores import reader
from foldmark.stores.queries import listed
from foldmark.stores.reader import Bindings
from foldmark.stores.rows import Row
from foldmark.stores.sqlite.file import explain
from foldmark.stores.sqlite.rows import fetch, mended


class SqliteConnection:
    """An open database: every reader or writer holds `lock`. `keys` and `ids` are caches of agents; `heads` has the
    head of each that was read since this connection's last commit, with the version of the database at that time."""

    def __init__(self, db: apsw.Connection, sql: dict[str, str], path: str) -> None:
        self.db, self.sql, self.path, self.lock = db, sql, path, RLock()
        self.keys: dict[str, int] = {}
        self.ids: dict[int, str] = {}
        self.heads: dict[str, tuple[int, Head]] = {}
        # Every operation and every tool result reads its agent's fold, which seldom changes.
        self.fold = lru_cache(maxsize=8)(msgspec.json.Decoder(Fold).decode)

    def end(self) -> None:
        """End the open transaction. After some errors, such as a full disk, SQLite has done so by itself."""
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")

    def roll_back(self) -> None:
        """Roll back the open transaction, and forget the keys of agents created in it."""
        self.end()
        self.keys.clear()
        self.ids.clear()


class SqliteReader(reader.SqlReader):
    """Runs statements on a connection."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection
        self._db, self._sql, self._path, self._lock = connection.db, connection.sql, connection.path, connection.lock
        self._keys, self._ids, self._fold = connection.keys, connection.ids, connection.fold

    def _check(self) -> None:
        """Raise StoreError if the block has ended or failed."""

    def _all(self, sql: str, bindings: Any = ()) -> list[Row]:
        try:
            with self._lock:
                self._check()
                return fetch(self._db, sql, bindings)
        except apsw.Error as error:
            raise explain(error, self._path) from error

    def _rows(self, name: str, /, **bindings: Any) -> list[tuple[Row, bool]]:
        try:
            with self._lock:
                self._check()
                try:
                    return list(zip(self._db.execute(self._sql[name], bindings).fetchall(), repeat(False)))
                except UnicodeDecodeError:
                    return list(mended(self._db, self._sql[name], bindings))
        except apsw.Error as error:
            raise explain(error, self._path) from error

    def _run(self, name: str, /, *bound: Any, **bindings: Any) -> list[Row]:
        return self._all(self._sql[name], bindings or bound)

    def _list(self, values: Iterable[Any]) -> str:
        return listed(values)

    def _of(self, agent_id: str) -> Bindings:
        return {"agent": self._key(agent_id)}

    def _within(self, segments: Segments) -> Bindings:
        return {"segments": listed((self._key(agent), first, last) for agent, first, last in segments)}

    def _these(self, event_ids: Iterable[int]) -> Bindings:
        return {"ids": listed(event_ids)}

    def _places(self, places: Sequence[Message]) -> Bindings:
        return {"places": listed((self._key(each.agent_id), each.id) for each in places)}


class SqliteWriter(SqliteReader, reader.SqlWriter):
    """Runs statements inside a transaction."""

    _late = 0
    """Number of rows written late, for earlier records."""

    def _write(self, name: str, /, **bindings: Any) -> None:
        self._run(name, **bindings)

    def whole(self) -> "AtomicBlock[Self]":
        return AtomicBlock(self)

    @property
    def _written(self) -> int:
        return self._db.total_changes() - self._late

    def _fail(self, error: BaseException | None, before: int) -> None:
        if isinstance(error, apsw.Error):
            # Whatever failed, the disk may be full: later writes could be recorded without earlier ones.
            self._connection.roll_back()
            raise explain(error, self._path) from error
        if self._written != before:
            self._connection.roll_back()


W = TypeVar("W", bound=SqliteWriter)


class AtomicBlock(AbstractContextManager[W, None]):
    """See `SqliteWriter.whole`. Every append uses one, so it is not a generator."""

    def __init__(self, writer: W) -> None:
        self._writer = writer

    def __enter__(self) -> W:
        self._writer._check()
        self._before = self._writer._written
        return self._writer

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None:
            self._writer._fail(error, self._before)
