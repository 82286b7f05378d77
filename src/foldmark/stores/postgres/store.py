"""The log in a PostgreSQL database [SPEC 2, 9].

Durability: a transaction is committed once the server has flushed its log to disk (`synchronous_commit`, on by
default). If the connection is lost during a commit, the server is asked for the outcome.
"""

import os
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Condition, Lock, Timer
from time import monotonic, sleep
from typing import Any

import psycopg

from foldmark.core.errors import StoreError
from foldmark.stores.postgres.address import Address, explained, lost, prepare
from foldmark.stores.postgres.connection import STATEMENTS, Pipeline, Pool
from foldmark.stores.postgres.reading import Known, PostgresReading
from foldmark.stores.postgres.sandbox import PostgresSandbox
from foldmark.stores.postgres.writing import PostgresWriting
from foldmark.stores.rows import Row
from foldmark.stores.store import Blocks, SqlStore

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"

FATE_SECONDS = 10.0
"""Seconds for which a server is asked for the outcome of a transaction that is still in progress."""


LOOK_SECONDS = 1.0
"""Seconds between two checks of a watch without a notification: a killed program may have committed without notifying,
and events held back by an open transaction become readable when it ends in any way."""

NOTIFY_SECONDS = 0.05
"""Minimum seconds between two notifications of a store: PostgreSQL serializes commits that notify."""

CHANNEL = "foldmark"


class PostgresCommits:
    """Counts the commits of one store, wakes waiting threads, and notifies other programs."""

    def __init__(self, pool: Pool) -> None:
        self.number, self.changed = 0, Condition()
        self.name = os.urandom(8).hex()
        """Distinguishes this store's notifications from those of others."""
        self.wakers: set[socket.socket] = set()
        self._pool, self._lock = pool, Lock()
        self._notified_at = 0.0
        self._timer: Timer | None = None

    def notifications(self) -> tuple[str, ...]:
        """Return the statements that notify others of a commit; none if a later notification covers it."""
        with self._lock:
            if self._timer is not None:
                return ()
            now = monotonic()
            if now - self._notified_at >= NOTIFY_SECONDS:
                self._notified_at = now
                return (f"NOTIFY {CHANNEL}, '{self.name}'",)
            self._timer = Timer(self._notified_at + NOTIFY_SECONDS - now, self._notify)
            self._timer.daemon = True
            self._timer.start()
            return ()

    def _notify(self) -> None:
        with self._lock:
            self._timer, self._notified_at = None, monotonic()
        with suppress(StoreError):
            self._pool.run_alone("notify", name=self.name)

    def one_more(self) -> None:
        """Count a commit."""
        with self.changed:
            self.number += 1
            for waker in self.wakers:
                with suppress(BlockingIOError):
                    waker.send(b"x")

    def close(self) -> None:
        """Send the pending notification."""
        with self._lock:
            timer = self._timer
        if timer is not None:
            timer.cancel()
            self._notify()


class PostgresWatch:
    """See `foldmark.core.agents.Watch`. It listens on a separate connection."""

    def __init__(self, commits: PostgresCommits, pool: Pool) -> None:
        self._commits, self._pool, self._closed = commits, pool, False
        self._lock = Lock()
        self._db: psycopg.Connection[Row] | None = self._listen()
        self._state, self._next_look = self._look(), monotonic() + LOOK_SECONDS
        self._awake, self._waker = socket.socketpair()
        for end in (self._awake, self._waker):
            end.setblocking(False)
        with commits.changed:
            self._seen = commits.number
            commits.wakers.add(self._waker)

    def wait(self, seconds: float) -> bool:
        end = monotonic() + seconds
        with self._lock:
            while not self._closed:
                if self._was_woken():
                    return True
                now = monotonic()
                if now >= self._next_look:
                    self._next_look = now + LOOK_SECONDS
                    if (state := self._look()) != self._state:
                        self._state = state
                        return True
                if now >= end:
                    return False
                sources: list[Any] = [self._awake] if self._db is None else [self._awake, self._db.fileno()]
                select.select(sources, [], [], min(end, self._next_look) - now)
            return False

    def close(self) -> None:
        self._closed = True
        with self._commits.changed:
            if self._waker in self._commits.wakers:
                self._commits.wakers.remove(self._waker)
                self._waker.send(b"x")
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None
            for end in (self._awake, self._waker):
                end.close()

    def _was_woken(self) -> bool:
        with suppress(BlockingIOError):
            self._awake.recv(4096)
        committed = self._commits.number != self._seen
        self._seen = self._commits.number
        return self._was_notified() or committed

    def _was_notified(self) -> bool:
        """Return True if another store has announced a commit."""
        if self._db is None:
            return False
        try:
            return [each for each in self._db.notifies(timeout=0) if each.payload != self._commits.name] != []
        except psycopg.Error:
            self._db = None  # the next check listens again
            return False

    def _listen(self) -> psycopg.Connection[Row]:
        connection = self._pool.connect()
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def _look(self) -> object:
        """Return the newest readable place."""
        try:
            if self._db is None:
                self._db = self._listen()
            return self._db.execute(STATEMENTS["newest_changes"].sql).fetchall()
        except psycopg.Error:  # the next reader reports the error
            self._db = None
            return self._state


class PostgresConnector:
    """See `foldmark.stores.store.Connector`."""

    narrowed = False

    def __init__(self, address: str, create: bool, ahead: Callable[[], float]) -> None:
        """Open the database at `address`, creating its tables if `create`. Raises StoreError."""
        place = Address(address)
        self.address, self.shown, self._place = address, place.shown, place
        self.pool, self._known = Pool(place), Known(ahead)
        with explained(place):
            connection = self.pool.take()
            try:
                prepare(connection, place, create=create)
            except BaseException:
                connection.close()
                raise
            finally:
                self.pool.give_back(connection)
        self._commits = PostgresCommits(self.pool)

    def close(self) -> None:
        self._commits.close()
        self.pool.close()

    def read(self) -> PostgresReading:
        self.pool.check()
        return PostgresReading(Pipeline(self.pool, _READ, writes=False), self._known)

    def write(self) -> PostgresWriting:
        self.pool.check()
        return PostgresWriting(Pipeline(self.pool, _WRITE, writes=True), self._known, self._commit)

    def watch(self) -> PostgresWatch:
        self.pool.check()
        with explained(self._place):
            return PostgresWatch(self._commits, self.pool)

    def sandbox(self, read: Blocks) -> PostgresSandbox:
        return PostgresSandbox(self._place.conninfo, read)

    def _commit(self, writing: PostgresWriting) -> None:
        pipeline = writing.pipeline
        if not writing.written:
            with explained(self._place):
                pipeline.end("COMMIT")
            return
        # Statements that may have been committed are not sent again on another connection: `_learn_outcome` asks.
        if not pipeline.begun:
            pipeline.flush()
        transaction = writing.identify()
        try:
            pipeline.end("COMMIT", *self._commits.notifications())
        except psycopg.Error as error:
            if not lost(error):
                raise self._place.explain(error) from error
            self._learn_outcome(transaction, error)
        self._commits.one_more()

    def _learn_outcome(self, transaction: str, error: psycopg.Error) -> None:
        """Ask for the outcome of a transaction whose connection was lost. Raises StoreError unless it was committed."""
        until, fate = monotonic() + FATE_SECONDS, None
        while True:
            try:
                ((fate,),) = self.pool.run_alone("fate", transaction=transaction)
            except StoreError:
                fate = None  # the server is not back yet
            if fate in ("committed", "aborted") or monotonic() >= until:
                break
            sleep(0.1)
        if fate == "committed":
            return
        cause = self._place.hidden(" ".join(str(error).split()))
        if fate == "aborted":
            raise StoreError(
                f"the connection to {self.shown} was lost before the transaction was committed ({cause}). "
                "Nothing was recorded; repeat it."
            ) from error
        raise StoreError(
            f"the connection to {self.shown} was lost while a transaction was committed ({cause}), and the server does "
            "not report its outcome: it may have been recorded. Check before you repeat it; an append with a key can "
            "be repeated with the same key, and is never recorded twice."
        ) from error

    # Maintenance

    def forget_erased(self) -> bool:
        """Return False if an older moment is still being read. PostgreSQL's VACUUM and its recycling of the write-ahead
        log remove everything that transactions can no longer read."""
        ((nobody,),) = self.pool.run_alone("nobody_reads")
        return bool(nobody)

    def damage(self, read: Blocks) -> Iterator[str]:
        from foldmark.stores.postgres.damage import PostgresChecks  # rarely needed

        with read() as block:
            return iter(list(PostgresChecks(block).found()))


class PostgresStore(SqlStore):
    """A store over one PostgreSQL database."""

    connector: PostgresConnector
    sandbox: PostgresSandbox

    def __init__(self, address: str, *, create: bool = True, ahead: Callable[[], float] = lambda: 0.0) -> None:
        """Open the database at `address`, `postgresql://…`, creating its tables if `create`. Raises StoreError.

        `ahead` is the number of seconds by which `Snapshot.now` is ahead of the database's clock; for tests.
        """
        super().__init__(PostgresConnector(address, create, ahead))
