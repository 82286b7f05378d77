"""The log in an SQLite file [SPEC 2, 9]; `:memory:` is SQLite's own.

Durability: the journal is a WAL and `synchronous` is FULL. A transaction is committed only after the WAL has been
flushed to disk. Once a caller has received an id, the event survives a stop of this process, another one or the
machine. docs/development/format.md has the cost of this, and the losses that a weaker level would permit.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import Condition, Lock, get_ident
from time import monotonic, sleep
from typing import TYPE_CHECKING
from weakref import WeakSet

import apsw

from foldmark.core.errors import StoreError
from foldmark.core.ports import Clock, Limits, QueryScope, Rows
from foldmark.stores.beside import SqlVectors
from foldmark.stores.sqlite.file import BUSY_MILLISECONDS, MEMORY, explain, explained, narrow
from foldmark.stores.sqlite.snapshot import SqliteConnection, SqliteReader, SqliteSnapshot
from foldmark.stores.sqlite.transaction import SqliteTransaction
from foldmark.stores.waiting import PATIENCE

if TYPE_CHECKING:
    from foldmark.stores.sqlite.sandbox import Sandbox

SOONEST, LOOK_SECONDS = 0.005, 0.1
"""Seconds between two checks of a watch for commits of other processes: at first, and after a long wait. A check takes
microseconds."""

AGAIN_SECONDS = 0.01
"""Seconds between two attempts to write while another program is writing."""


class SqliteCommits:
    """The commits of one store: their number, and the number of threads that wait for the next one."""

    def __init__(self) -> None:
        self.number, self.changed = 0, Condition()
        self.waiting = 0

    def one_more(self) -> None:
        """Count a commit. A thread is counted as waiting before it looks at the number, so that it misses none."""
        self.number += 1
        if self.waiting:
            with self.changed:
                self.changed.notify_all()


class SqliteWatch:
    """See `foldmark.core.agents.Watch`. `db` is a separate connection; None for a database in memory, to which no other
    process commits."""

    def __init__(self, commits: SqliteCommits, db: apsw.Connection | None) -> None:
        self._commits, self._db, self._closed = commits, db, False
        self._seen = 0
        self._seen = self._state()
        if db is not None:
            db.set_busy_timeout(0)  # a committing thread would wait for `changed`, which is held meanwhile

    def wait(self, seconds: float) -> bool:
        began = monotonic()
        end = began + seconds
        with self._commits.changed:
            self._commits.waiting += 1
            try:
                while not self._closed:
                    if (state := self._state()) != self._seen:
                        self._seen = state
                        return True
                    now = monotonic()
                    if (left := end - now) <= 0:
                        return False
                    pause = min(max(now - began, SOONEST), LOOK_SECONDS)
                    self._commits.changed.wait(left if self._db is None else min(left, pause))
            finally:
                self._commits.waiting -= 1
        return False

    def close(self) -> None:
        with self._commits.changed:
            self._closed = True
            if self._db is not None:
                self._db.close()
            self._commits.changed.notify_all()

    def _state(self) -> int:
        """Return a number that every commit changes. SQLite's own counts the commits of all other connections."""
        if self._db is None:
            return self._commits.number
        try:
            return int(self._db.pragma("data_version"))
        except apsw.Error:  # busy, or the next reader reports the error
            return self._seen


class SqliteSandbox(SqliteReader):
    """See `foldmark.core.ports.SqlSandbox`. It runs on a separate connection that serves one scope and is reopened for
    another, so that its permissions never change while it is open."""

    dialect = "SQLite"

    def __init__(self, connection: SqliteConnection) -> None:
        super().__init__(connection)
        self._reading = Lock()
        self._sandbox: tuple[QueryScope, Sandbox] | None = None

    def close(self) -> None:
        """Close the connection."""
        with self._reading:
            self._forget_sandbox()

    def query(self, scope: QueryScope, sql: str, limits: Limits) -> Rows:
        memory = self._path == MEMORY
        # A database in memory cannot be read during a write. The holder of `_reading` never waits for the store.
        with self._lock if memory else nullcontext():
            agents = {scope.agent, *(each.agent for each in (*scope.lineage, *scope.visible))}
            keys = {agent: self._key(agent) for agent in sorted(agents)}
            with self._reading, explained(self._path):
                if memory and self._db.txn_state() == apsw.SQLITE_TXN_WRITE:
                    raise StoreError("a database in memory cannot be queried inside a batch; end the batch first")
                try:
                    return self._sandbox_for(scope, keys).query(sql, limits)
                except UnicodeDecodeError:
                    self._forget_sandbox()
                    return self._sandbox_for(scope, keys, mending=True).query(sql, limits)

    def _sandbox_for(self, scope: QueryScope, keys: dict[str, int], *, mending: bool = False) -> "Sandbox":
        if self._sandbox is None or self._sandbox[0] != scope:
            from foldmark.stores.sqlite.sandbox import Sandbox  # takes 3 ms

            self._forget_sandbox()
            self._sandbox = scope, Sandbox(self._connection.beside(), scope, keys, mending=mending)
        return self._sandbox[1]

    def _forget_sandbox(self) -> None:
        if self._sandbox is not None:
            self._sandbox[1].close()
            self._sandbox = None


class _Reading(AbstractContextManager[SqliteSnapshot]):
    """A block of `SqliteStore.read`. Every read opens one, so it is not a generator, which would be slower."""

    __slots__ = ("_mine", "_store")

    def __init__(self, store: "SqliteStore") -> None:
        self._store = store

    def __enter__(self) -> SqliteSnapshot:
        store = self._store
        store._lock.acquire()
        self._mine: SqliteSnapshot | None = None
        if store._open is not None:
            return store._open  # part of the block around it
        store._begin("BEGIN")
        self._mine = store._open = SqliteSnapshot(store._connection)
        return self._mine

    def __exit__(self, *error: object) -> None:
        store, mine = self._store, self._mine
        try:
            if mine is not None:
                mine.expire()
                store._open = None
                try:  # noqa: SIM105 - `suppress` would take a tenth of the time of the whole block
                    store._connection.end()
                except apsw.ConnectionClosedError:
                    pass
        finally:
            store._lock.release()


class _Writing(AbstractContextManager[SqliteTransaction]):
    """A block of `SqliteStore.write` that is a separate transaction. Every append opens one."""

    __slots__ = ("_store", "_transaction")

    def __init__(self, store: "SqliteStore") -> None:
        self._store = store

    def __enter__(self) -> SqliteTransaction:
        store = self._store
        store._lock.acquire()
        if store._open is not None:
            store._lock.release()
            raise StoreError("a block of `read` cannot write; write outside of it")
        store._begin_writing()
        self._transaction = store._open = SqliteTransaction(store._connection)
        return self._transaction

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        store, transaction = self._store, self._transaction
        try:
            try:
                if error is not None:
                    raise error  # noqa: TRY301 - one way out for all errors
                transaction.finish()
                store._connection.files.check(store._path)
                store._connection.run("COMMIT")
            except BaseException:
                store._connection.roll_back()
                transaction.rolled_back()
                raise
            finally:
                transaction.expire()
                store._open = None
            if transaction.has_written:
                transaction.update_known()
                store._commits.one_more()
        except apsw.Error as failed:
            raise explain(failed, store._path) from failed
        finally:
            store._lock.release()


class SqliteStore(SqliteReader):
    """A `Store` over one SQLite database (see `foldmark.core.ports.Store` for the methods)."""

    def __init__(self, path: str, *, create: bool = True, read_only: bool = False, clock: Clock | None = None) -> None:
        """Open `path`, creating the file and its tables if `create`, or only for reading. Raises StoreError.

        `clock` returns `Snapshot.now`, by default SQLite's own clock.
        """
        super().__init__(SqliteConnection(path, create, read_only, clock))
        self.path, self.address = path, path if path == MEMORY else str(Path(path).absolute())
        # A read-only file was probably protected deliberately, to be shared.
        mine = path != MEMORY and os.name == "posix" and not self._db.readonly("main")
        self.narrowed = mine and narrow(path)
        self._open: SqliteSnapshot | None = None
        self._commits, self._watches = SqliteCommits(), WeakSet[SqliteWatch]()
        self.sandbox = SqliteSandbox(self._connection)
        self.vectors = SqlVectors(self.read, self.write)

    def close(self) -> None:
        for watch in list(self._watches):
            watch.close()
        self.sandbox.close()
        with self._lock:
            self._db.close()

    def watch(self) -> SqliteWatch:
        with explained(self._path):
            watch = SqliteWatch(self._commits, None if self._path == MEMORY else self._connection.beside())
        self._watches.add(watch)
        return watch

    def read(self) -> AbstractContextManager[SqliteSnapshot]:
        return _Reading(self)

    def write(self) -> AbstractContextManager[SqliteTransaction]:
        # Every append opens a block. So this is not a generator, and it compares types: `isinstance` would take ten
        # times as long, because the class derives from protocols.
        inside = self._open
        if type(inside) is SqliteTransaction and inside.thread == get_ident():
            return inside.whole()
        return _Writing(self)

    def _begin(self, how: str) -> None:
        """Begin a transaction. Raises StoreError, after releasing the lock."""
        try:
            self._connection.run(how)
        except BaseException as error:
            self._lock.release()
            if isinstance(error, apsw.Error):
                raise explain(error, self._path) from error
            raise

    def _begin_writing(self) -> None:
        """Begin a transaction that writes, once no other program is writing. While this waits, other threads can use
        the store. Raises StoreError, after releasing the lock."""
        until = None
        while (busy := self._tried()) is not None:
            now = monotonic()
            until = now + PATIENCE.get() if until is None else until
            if now >= until:
                raise explain(busy, self._path) from busy
            sleep(min(AGAIN_SECONDS, until - now))
            self._lock.acquire()

    def _tried(self) -> apsw.BusyError | None:
        """Begin a transaction that writes. If another program is writing, release the lock and return the error. Raises
        StoreError, after releasing the lock."""
        busy = None
        try:
            self._db.set_busy_timeout(0)
            try:
                self._connection.run("BEGIN IMMEDIATE")
            except apsw.BusyError as error:
                busy = error
            finally:
                self._db.set_busy_timeout(BUSY_MILLISECONDS)
        except BaseException as error:
            self._lock.release()
            if isinstance(error, apsw.Error):
                raise explain(error, self._path) from error
            raise
        if busy is not None:
            self._lock.release()
        return busy

    # Maintenance

    def forget_erased(self) -> bool:
        try:
            with self._lock:
                if self._open is not None:  # SQLite refuses it inside a transaction
                    return False
                ((busy, *_),) = self._all("PRAGMA wal_checkpoint(TRUNCATE)")
        except StoreError as error:
            # The erasure is committed, but its traces could not be overwritten.
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
