"""The log in a PostgreSQL database [SPEC 2, 9].

Durability: a transaction is committed when the server has flushed its log to the disk (`synchronous_commit`, on by
default). If the connection is lost during a commit, the server is asked for the outcome.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import local
from time import monotonic, sleep
from weakref import WeakSet

import psycopg

from foldmark.core.errors import StoreError
from foldmark.stores.beside import SqlVectors
from foldmark.stores.postgres.address import Address, explained, lost, prepare
from foldmark.stores.postgres.connection import Pool, PostgresSession
from foldmark.stores.postgres.sandbox import PostgresSandbox
from foldmark.stores.postgres.snapshot import Known, PostgresSnapshot
from foldmark.stores.postgres.transaction import PostgresTransaction
from foldmark.stores.postgres.watch import PostgresCommits, PostgresWatch

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"

FATE_SECONDS = 10.0
"""Seconds during which a server is asked for the outcome of a transaction that is still in progress."""


class _Open(local):
    """The block that a thread is in."""

    snapshot: PostgresSnapshot | None = None


class PostgresStore:
    """A `Store` over one PostgreSQL database (see `foldmark.core.ports.Store` for the methods)."""

    narrowed = False

    def __init__(self, address: str, *, create: bool = True, ahead: Callable[[], float] = lambda: 0.0) -> None:
        """Open the database at `address`, `postgresql://…`, creating its tables if `create`. Raises StoreError.

        `ahead` is the number of seconds by which `Snapshot.now` is ahead of the database's clock; for tests.
        """
        place = Address(address)
        self.address, self.shown, self._place = address, place.shown, place
        self.pool, self._known, self._ahead = Pool(place), Known(), ahead
        with explained(place):
            connection = self.pool.take()
            try:
                prepare(connection, place, create=create)
            except BaseException:
                connection.close()
                raise
            finally:
                self.pool.give_back(connection)
        self._open = _Open()
        self._commits, self._watches = PostgresCommits(self.pool), WeakSet[PostgresWatch]()
        self.sandbox = PostgresSandbox(place.conninfo, self.read)
        self.vectors = SqlVectors(self.read, self.write)

    def close(self) -> None:
        for watch in list(self._watches):
            watch.close()
        self._commits.close()
        self.sandbox.close()
        self.pool.close()

    def watch(self) -> PostgresWatch:
        self.pool.check()
        with explained(self._place):
            watch = PostgresWatch(self._commits, self.pool)
        self._watches.add(watch)
        return watch

    @contextmanager
    def read(self) -> Iterator[PostgresSnapshot]:
        if self._open.snapshot is not None:
            yield self._open.snapshot
            return
        self.pool.check()
        session = PostgresSession(self.pool, _READ, writes=False)
        self._open.snapshot = snapshot = PostgresSnapshot(session, self._known, self._ahead)
        try:
            yield snapshot
        finally:
            snapshot.expire()
            self._open.snapshot = None
            with suppress(psycopg.Error, StoreError):  # nothing was written
                session.end(*(() if session.broken else ("COMMIT",)))

    @contextmanager
    def write(self) -> Iterator[PostgresTransaction]:
        inside = self._open.snapshot
        if isinstance(inside, PostgresTransaction):
            with inside.whole():
                yield inside
            return
        if inside is not None:
            raise StoreError("a block of `read` cannot write; write outside of it")
        self.pool.check()
        session = PostgresSession(self.pool, _WRITE, writes=True)
        self._open.snapshot = transaction = PostgresTransaction(session, self.pool, self._known, self._ahead)
        try:
            try:
                yield transaction
                transaction.settle()
                self._commit(transaction, session)
            except BaseException:
                transaction.rolled_back()
                raise
        finally:
            transaction.expire()
            self._open.snapshot = None
            session.drop()

    def _commit(self, transaction: PostgresTransaction, session: PostgresSession) -> None:
        if not transaction.has_written:
            with explained(self._place):
                session.end("COMMIT")
            return
        # Nothing that may have been committed is sent again on another connection; its outcome can be asked for.
        if not session.begun:
            session.flush()
        transaction.identify()
        try:
            session.end("COMMIT", *self._commits.notifications())
        except psycopg.Error as error:
            if not lost(error):
                raise self._place.explain(error) from error
            self._learn(transaction, error)
        self._commits.one_more()

    def _learn(self, transaction: PostgresTransaction, error: psycopg.Error) -> None:
        """Ask for the outcome of a transaction whose connection was lost. Raises StoreError unless it was committed."""
        until, fate = monotonic() + FATE_SECONDS, None
        while True:
            try:
                ((fate,),) = self.pool.run_alone("fate", transaction=transaction.id)
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
            "not say what became of it: it may have been recorded. Look before you repeat it; an append with a key can "
            "be repeated with the same key, and is never recorded twice."
        ) from error

    # Maintenance

    def forget_erased(self) -> bool:
        """Return False if an older moment is still being read. PostgreSQL's VACUUM and its recycling of the write-ahead
        log remove everything that nobody can read any more."""
        ((nobody,),) = self.pool.run_alone("nobody_reads")
        return bool(nobody)

    def damage(self) -> Iterator[str]:
        from foldmark.stores.postgres.damage import PostgresChecks  # rarely needed

        with self.read() as moment:
            if isinstance(moment, PostgresTransaction):
                moment.settle()
            return iter(list(PostgresChecks(moment._session, self._known).found()))

    def unchecked(self) -> int:
        with self.read() as moment:
            ((number,),) = moment._run("wrong_unchecked")
        return int(number)
