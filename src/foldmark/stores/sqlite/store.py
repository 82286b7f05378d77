"""The log in an SQLite file [SPEC 2, 9]; `:memory:` is SQLite's own.

Durability: the journal is a WAL and `synchronous` is FULL. A transaction is committed only after the WAL has been
flushed to disk. Once a caller has received an id, the event survives a stop of this process, another one or the
machine. docs/development/format.md has the cost of this, and the losses that a weaker level would permit.
"""

import os
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import TYPE_CHECKING, NoReturn

import apsw

from foldmark.core.errors import StoreError
from foldmark.core.ports import Clock, Limits, QueryScope, Rows
from foldmark.stores.sqlite.commits import SqliteWatch
from foldmark.stores.sqlite.file import BUSY_MILLISECONDS, MEMORY, explain, explained, narrow
from foldmark.stores.sqlite.reading import SqliteConnection, SqliteReading
from foldmark.stores.sqlite.writing import SqliteWriting
from foldmark.stores.store import Blocks, SqlStore
from foldmark.stores.waiting import PATIENCE

if TYPE_CHECKING:
    from foldmark.stores.sqlite.sandbox import Sandbox

AGAIN_SECONDS = 0.01
"""Seconds between two attempts to write while another program is writing."""


class SqliteSandbox:
    """See `foldmark.core.ports.SqlSandbox`. It runs on a separate connection that serves one scope and is reopened for
    another, so that its permissions never change while it is open."""

    dialect = "SQLite"

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection, self._reading = connection, Lock()
        self._sandbox: tuple[QueryScope, Sandbox] | None = None

    def close(self) -> None:
        """Close the connection."""
        with self._reading:
            self._forget_sandbox()

    def query(self, scope: QueryScope, sql: str, limits: Limits) -> Rows:
        path, memory = self._connection.path, self._connection.path == MEMORY
        block = SqliteReading(self._connection, unbound=True)
        # A database in memory cannot be read during a write. The holder of `_reading` never waits for the store.
        with self._connection.lock if memory else nullcontext():
            agents = {scope.agent, *(each.agent for each in (*scope.lineage, *scope.visible))}
            keys = {agent: block.key(agent) for agent in sorted(agents)}
            with self._reading, explained(path):
                if memory and self._connection.db.txn_state() == apsw.SQLITE_TXN_WRITE:
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


class SqliteConnector(SqliteConnection):
    """See `foldmark.stores.store.Connector`."""

    def __init__(self, path: str, create: bool, read_only: bool, clock: Clock | None) -> None:
        super().__init__(path, create, read_only, clock)
        self.address = path if path == MEMORY else str(Path(path).absolute())
        # A read-only file was probably protected deliberately, to be shared.
        mine = path != MEMORY and os.name == "posix" and not self.db.readonly("main")
        self.narrowed = mine and narrow(path)

    def read(self) -> SqliteReading:
        self.lock.acquire()
        try:
            self._end_left()
            self.run("BEGIN")
            return SqliteReading(self)
        except BaseException as error:
            self._fail(error)

    def write(self) -> SqliteWriting:
        self.lock.acquire()
        until = None
        # Once no other program is writing; while this waits, other threads can use the store.
        while (busy := self._begin_writing()) is not None:
            now = monotonic()
            until = now + PATIENCE.get() if until is None else until
            if now >= until:
                raise explain(busy, self.path) from busy
            sleep(min(AGAIN_SECONDS, until - now))
            self.lock.acquire()
        try:
            return SqliteWriting(self)
        except BaseException as error:
            self._fail(error)

    def _begin_writing(self) -> apsw.BusyError | None:
        """Begin a transaction that writes. If another program is writing, release the lock and return the error. Raises
        StoreError, after releasing the lock."""
        busy = None
        try:
            self._end_left()
            self.db.set_busy_timeout(0)
            try:
                self.run("BEGIN IMMEDIATE")
            except apsw.BusyError as error:
                busy = error
            finally:
                self.db.set_busy_timeout(BUSY_MILLISECONDS)
        except BaseException as error:
            self._fail(error)
        if busy is not None:
            self.lock.release()
        return busy

    def _end_left(self) -> None:
        """Roll back what an interrupted block has left open. A signal may interrupt its end anywhere."""
        if self.db.in_transaction:
            self.run("ROLLBACK")
            self.forget()

    def _fail(self, error: BaseException) -> NoReturn:
        """Release the lock after a block could not begin, and raise."""
        try:
            with suppress(apsw.Error):
                self._end_left()
        finally:
            self.lock.release()
        if isinstance(error, apsw.Error):
            raise explain(error, self.path) from error
        raise error

    def watch(self) -> SqliteWatch:
        with explained(self.path):
            return SqliteWatch(self.commits, None if self.path == MEMORY else self.beside())

    def sandbox(self, read: Blocks) -> SqliteSandbox:
        return SqliteSandbox(self)

    def forget_erased(self) -> bool:
        try:
            with self.lock:
                if self.db.in_transaction:  # SQLite refuses it inside a transaction
                    return False
                (((busy, *_),), _) = SqliteReading(self, unbound=True).fetched("PRAGMA wal_checkpoint(TRUNCATE)")
        except StoreError as error:
            # The erasure is committed, but its traces could not be overwritten.
            if isinstance(error.__cause__, apsw.FullError | apsw.IOError):
                return False
            raise
        return not busy

    def damage(self, read: Blocks) -> Iterator[str]:
        from foldmark.stores.sqlite.damage import SqliteChecks  # rarely needed

        return SqliteChecks(SqliteReading(self, unbound=True), read).found()

    def close(self) -> None:
        with self.lock:
            self.is_closed = True
            self.db.close()


class SqliteStore(SqlStore):
    """A store over one SQLite database."""

    connector: SqliteConnector
    sandbox: SqliteSandbox

    def __init__(self, path: str, *, create: bool = True, read_only: bool = False, clock: Clock | None = None) -> None:
        """Open `path`, creating the file and its tables if `create`, or only for reading. Raises StoreError.

        `clock` returns `Snapshot.now`, by default SQLite's own clock.
        """
        super().__init__(SqliteConnector(path, create, read_only, clock))
        self.path = path
