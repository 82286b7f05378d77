"""The log in an SQLite file [SPEC 2, 9]; `:memory:` is SQLite's own.

Durability: the journal is a WAL and `synchronous` is FULL, so that a transaction is committed only after the WAL has
been flushed to the disk. A caller that got an id back keeps the event when this process, another one or the machine
stops. docs/format.md says what that costs and what a weaker level would lose.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import get_ident
from weakref import WeakSet

import apsw

from foldmark.core.errors import StoreError
from foldmark.core.ports import Clock
from foldmark.stores.queries import queries
from foldmark.stores.sqlite.beside.changes import SqliteCommits, SqliteWatch
from foldmark.stores.sqlite.beside.vectors import SqliteVectors
from foldmark.stores.sqlite.file import MEMORY, explain, narrow, open_beside, open_file, place_of
from foldmark.stores.sqlite.reader import SqliteConnection, SqliteReader
from foldmark.stores.sqlite.sandbox.queries import SqliteSandbox
from foldmark.stores.sqlite.snapshot import SqliteSnapshot
from foldmark.stores.sqlite.transaction import SqliteTransaction


class SqliteStore(SqliteReader):
    """A `Store` over one SQLite database (see `foldmark.core.ports.Store` for the methods)."""

    def __init__(self, path: str, *, create: bool = True, read_only: bool = False, clock: Clock | None = None) -> None:
        """Open `path`, creating the file and its tables if `create`, or only for reading. Raises StoreError.

        `clock` returns `Snapshot.now`, by default SQLite's own clock.
        """
        place = place_of(path)
        super().__init__(SqliteConnection(open_file(path, create, place, read_only=read_only), queries("sqlite"), path))
        self.path, self.address = path, path if path == MEMORY else str(Path(path).absolute())
        # A file that is not writable was made so to be shared.
        mine = path != MEMORY and os.name == "posix" and not self._db.readonly("main")
        self.narrowed = mine and narrow(path)
        self._clock = clock
        self._open: SqliteSnapshot | None = None
        self._commits, self._watches = SqliteCommits(), WeakSet[SqliteWatch]()
        self._place = place
        self.sandbox = SqliteSandbox(self._connection, place)
        self.vectors = SqliteVectors(self._connection, self.write)

    def close(self) -> None:
        for watch in list(self._watches):
            watch.close()
        self.sandbox.close()
        with self._lock:
            self._db.close()

    def watch(self) -> SqliteWatch:
        try:
            beside = None if self._path == MEMORY else open_beside(self._db, self._path, self._place)
            watch = SqliteWatch(self._commits, beside)
        except apsw.Error as error:
            raise explain(error, self._path) from error
        self._watches.add(watch)
        return watch

    @contextmanager
    def read(self) -> Iterator[SqliteSnapshot]:
        with self._lock:
            if self._open is not None:
                yield self._open
                return
            self._all("BEGIN")
            self._open = SqliteSnapshot(self._connection, self._clock)
            try:
                yield self._open
            finally:
                self._open.expire()
                self._open = None
                with suppress(apsw.ConnectionClosedError):
                    self._connection.end()

    def write(self) -> AbstractContextManager[SqliteTransaction]:
        # Each append opens a block, mostly inside another one: so it is not a generator.
        if isinstance(inside := self._open, SqliteTransaction) and inside.thread == get_ident():
            return inside.whole()
        return self._begun()

    @contextmanager
    def _begun(self) -> Iterator[SqliteTransaction]:
        with self._lock:
            if self._open is not None:
                raise StoreError("a moment is for reading; write outside of its block")
            try:
                self._db.execute("BEGIN IMMEDIATE")
                before = self._db.total_changes()
                self._connection.heads.clear()
                self._open = transaction = SqliteTransaction(self._connection, self._clock)
                try:
                    yield transaction
                    transaction.finish()
                    self._db.execute("COMMIT")
                except BaseException:
                    self._connection.roll_back()
                    transaction.rolled_back()
                    raise
                finally:
                    transaction.expire()
                    self._open = None
                if self._db.total_changes() != before:
                    self._commits.one_more()
            except apsw.Error as error:
                raise explain(error, self._path) from error

    # Maintenance

    def forget_erased(self) -> bool:
        try:
            ((busy, *_),) = self._all("PRAGMA wal_checkpoint(TRUNCATE)")
        except StoreError as error:
            # The erasure is committed; only its traces could not be overwritten.
            if isinstance(error.__cause__, apsw.FullError | apsw.IOError):
                return False
            raise
        return not busy

    def damage(self) -> Iterator[str]:
        from foldmark.stores.sqlite.damage import SqliteChecks  # rarely needed

        with self._lock:
            if isinstance(self._open, SqliteTransaction):
                self._open.settle()
        return SqliteChecks(self._connection).found()

    def unchecked(self) -> int:
        ((number,),) = self._run("wrong_unchecked")
        return int(number)
