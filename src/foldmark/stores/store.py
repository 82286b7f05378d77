"""A store of any database over its connector (see `foldmark.core.ports.Store` for the methods)."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import local
from typing import Protocol
from weakref import WeakSet

from foldmark.core.agents import Watch
from foldmark.core.errors import StoreError
from foldmark.core.ports import SqlSandbox
from foldmark.stores.block import Reading, Writing
from foldmark.stores.snapshot import SqlSnapshot
from foldmark.stores.transaction import SqlTransaction
from foldmark.stores.vectors import SqlVectors

Blocks = Callable[[], AbstractContextManager[Reading]]
"""Opens a block of `read`."""


class Connector(Protocol):
    """A database as it is connected: all that a store needs of it. Every method raises StoreError when it fails."""

    address: str
    narrowed: bool
    """True if other users could read the database until it was opened, and no longer can."""

    def read(self) -> Reading:
        """Begin a moment."""

    def write(self) -> Writing:
        """Begin a transaction."""

    def watch(self) -> Watch:
        """See `Store.watch`."""

    def sandbox(self, read: Blocks) -> "Sandbox":
        """Return the sandbox of the store whose moments `read` opens."""

    def forget_erased(self) -> bool:
        """See `Maintenance.forget_erased`."""

    def damage(self, read: Blocks) -> Iterator[str]:
        """See `Maintenance.damage`."""

    def close(self) -> None:
        """Release the database."""


class Sandbox(SqlSandbox, Protocol):
    """A sandbox that is closed with its store."""

    def close(self) -> None:
        """Close its connections."""


class _Open(local):
    """The block that a thread is in."""

    moment: SqlSnapshot | None = None


class _Reading(AbstractContextManager[SqlSnapshot]):
    """A block of `SqlStore.read`. Every read opens one, so it is not a generator, which would be slower."""

    __slots__ = ("_mine", "_store")

    def __init__(self, store: "SqlStore") -> None:
        self._store = store

    def __enter__(self) -> SqlSnapshot:
        self._mine: SqlSnapshot | None = None
        store = self._store
        if (around := store.open.moment) is not None:
            return around
        self._mine = store.open.moment = SqlSnapshot(store.connector.read())
        return self._mine

    def __exit__(self, *error: object) -> None:
        if self._mine is not None:
            try:
                self._store.open.moment = None
                self._mine.block.expire()
            finally:
                self._mine.block.end()


class _Writing(AbstractContextManager[SqlTransaction]):
    """A block of `SqlStore.write` that is a separate transaction. Every append opens one."""

    __slots__ = ("_store", "_transaction")

    def __init__(self, store: "SqlStore") -> None:
        self._store = store

    def __enter__(self) -> SqlTransaction:
        self._transaction = self._store.open.moment = SqlTransaction(self._store.connector.write())
        return self._transaction

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        block, is_committed = self._transaction.block, False
        try:
            if error is None:
                block.commit()
                is_committed = True
        finally:
            try:
                self._store.open.moment = None
                block.expire()
                if not is_committed:
                    block.undo()
            finally:
                block.end()


class _Part(AbstractContextManager[SqlTransaction]):
    """A block of `SqlStore.write` inside another one."""

    __slots__ = ("_atomic", "_transaction")

    def __init__(self, transaction: SqlTransaction) -> None:
        self._transaction, self._atomic = transaction, transaction.block.atomic()

    def __enter__(self) -> SqlTransaction:
        self._atomic.__enter__()
        return self._transaction

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._atomic.__exit__(kind, error, trace)  # type: ignore[arg-type]


class SqlStore:
    """A `Store` over one database."""

    def __init__(self, connector: Connector) -> None:
        self.connector, self.address, self.narrowed = connector, connector.address, connector.narrowed
        self.open, self._watches = _Open(), WeakSet[Watch]()
        self.sandbox = connector.sandbox(self._blocks)
        self.vectors = SqlVectors(self._blocks, self._writing_blocks)

    def close(self) -> None:
        for watch in list(self._watches):
            watch.close()
        self.sandbox.close()
        self.connector.close()

    def watch(self) -> Watch:
        watch = self.connector.watch()
        self._watches.add(watch)
        return watch

    def read(self) -> AbstractContextManager[SqlSnapshot]:
        return _Reading(self)

    def write(self) -> AbstractContextManager[SqlTransaction]:
        around = self.open.moment
        if isinstance(around, SqlTransaction):
            return _Part(around)
        if around is not None:
            raise StoreError("a block of `read` cannot write; write outside of it")
        return _Writing(self)

    @contextmanager
    def _blocks(self) -> Iterator[Reading]:
        with self.read() as moment:
            yield moment.block

    @contextmanager
    def _writing_blocks(self) -> Iterator[Writing]:
        with self.write() as transaction:
            yield transaction.block

    # Maintenance

    def forget_erased(self) -> bool:
        return self.connector.forget_erased()

    def damage(self) -> Iterator[str]:
        if self.open.moment is not None:
            self.open.moment.block.settle()
        return self.connector.damage(self._blocks)
