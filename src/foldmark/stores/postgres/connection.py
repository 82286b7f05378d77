"""Connections to PostgreSQL that send many statements in one round trip."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from logging import NullHandler, getLogger
from threading import Condition, Lock
from typing import Any, NamedTuple
from weakref import WeakSet

import psycopg
from psycopg.adapt import AdaptersMap, Dumper, Loader
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8Dumper

from foldmark.core.errors import StoreError
from foldmark.stores.postgres.address import Address, lost
from foldmark.stores.queries import queries
from foldmark.stores.rows import Row

# Failures are raised as errors. psycopg also logs warnings, which reach the terminal if logging is not configured.
getLogger("psycopg").addHandler(NullHandler())

MOST = 20
"""Maximum number of connections that a store opens for blocks; further threads wait for a free one."""

WAIT_SECONDS = 30.0
"""Maximum time in seconds that a thread waits for a connection."""


# PostgreSQL's texts can contain every character except NUL. NUL becomes two characters: the escape (U+0010, Data Link
# Escape, which hardly any text has) and `0`. An escape in the text becomes two escapes. So the mapping is one to one.

_ESCAPE = "\x10"
_ESCAPED = re.compile(f"{_ESCAPE}(.|$)", re.DOTALL)


def escaped(text: str) -> str:
    """Return the stored form of a text."""
    if "\0" not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, _ESCAPE * 2).replace("\0", f"{_ESCAPE}0")


def unescaped(text: str) -> str:
    """Return the text of a stored form; drop an escape that was cut in half."""
    return _ESCAPED.sub(lambda match: "\0" if match[1] == "0" else match[1], text)


class _TextDumper(Dumper):
    oid = 25

    def dump(self, obj: str) -> bytes:
        return escaped(obj).encode()


class _TextLoader(Loader):
    def load(self, data: Any) -> str:
        text = str(data, "utf-8")
        return unescaped(text) if _ESCAPE in text else text  # each value of each row is loaded


class Ints(list[int | None]):
    """Numbers for one statement. The type of an array must not depend on its content: each type would need its own
    prepared statement."""


class Texts(list[str | None]):
    """Texts for one statement."""


class _IntsDumper(Dumper):
    oid = 1016

    def dump(self, obj: Ints) -> bytes:
        return ("{" + ",".join(["NULL" if each is None else str(each) for each in obj]) + "}").encode()


class _TextsDumper(Dumper):
    oid = 1009

    def dump(self, obj: Texts) -> bytes:
        # All texts are escaped at once: no stored form contains NUL, and none is a single escape.
        texts = "\0".join([_ESCAPE if each is None else escaped(each) for each in obj])
        quoted = texts.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
        return f'{{"{quoted}"}}'.replace(f'"{_ESCAPE}"', "NULL").encode() if obj else b"{}"


class _Adapted:
    """Adapts values to PostgreSQL's types and back."""

    adapters = AdaptersMap(psycopg.adapters)
    connection = None


for _type, _dumper in ((str, _TextDumper), (int, Int8Dumper), (Ints, _IntsDumper), (Texts, _TextsDumper)):
    _Adapted.adapters.register_dumper(_type, _dumper)
for _name in ("text", "varchar"):
    _Adapted.adapters.register_loader(_name, _TextLoader)


class Statement(NamedTuple):
    """A named query in PostgreSQL's form, the names of its parameters, and whether it writes."""

    sql: str
    names: tuple[str, ...]
    writes: bool

    def bound(self, bindings: Mapping[str, Any]) -> list[Any]:
        """Return the values bound to the parameters."""
        return [bindings[name] for name in self.names]


def statement(sql: str) -> Statement:
    """Convert SQL with `:name` for parameters to PostgreSQL's form."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    text = re.sub(r"(?<!:):([a-z_][a-z0-9_]*)", number, sql)
    return Statement(text, tuple(names), sql.startswith(("INSERT", "UPDATE", "DELETE")))


STATEMENTS = {name: statement(sql) for name, sql in queries("postgres").items()}


Then = Callable[[list[Row]], object]
"""Receives the rows of a statement that was sent with a later one."""


class Pool:
    """Connections to one database, each used by one block at a time."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._idle: list[psycopg.Connection[Row]] = []
        self._used, self._free = 0, Condition()
        self.connections = WeakSet[psycopg.Connection[Row]]()
        """All open connections."""
        self._alone: psycopg.Connection[Row] | None = None
        self._alone_lock = Lock()
        self.closed = False

    def connect(self) -> psycopg.Connection[Row]:
        """Return a new connection. Raises psycopg.Error."""
        connection = psycopg.connect(
            self.address.conninfo,
            autocommit=True,
            prepare_threshold=0,
            context=_Adapted(),
            cursor_factory=psycopg.RawCursor[Row],
        )
        self.connections.add(connection)
        return connection

    def take(self) -> psycopg.Connection[Row]:
        """Take a connection for one block. Raises psycopg.Error, or StoreError if there are too many blocks."""
        with self._free:
            if not self._free.wait_for(lambda: self._used < MOST or self.closed, WAIT_SECONDS):
                raise StoreError(
                    f"{MOST} threads have been using the database for {WAIT_SECONDS:.0f} seconds; repeat it"
                )
            self.check()
            self._used += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self.connect()
        except BaseException:
            self._release()
            raise

    def anew(self) -> psycopg.Connection[Row]:
        """Return a new connection to replace a lost one. Close the idle ones, which may be lost as well."""
        with self._free:
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()
        return self.connect()

    def give_back(self, connection: psycopg.Connection[Row]) -> None:
        """Return a connection to the pool at the end of a block; close it if the block did not leave it idle."""
        sound = not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE
        if sound and not self.closed:
            with self._free:
                self._idle.append(connection)
        else:
            connection.close()
        self._release()

    def _release(self) -> None:
        with self._free:
            self._used -= 1
            self._free.notify()

    def run_alone(self, name: str, /, **bindings: Any) -> list[Row]:
        """Run a statement in a separate transaction and commit it. Raises StoreError."""
        wanted = STATEMENTS[name]
        with self._alone_lock:
            for attempt in range(2):
                try:
                    if self._alone is None or self._alone.closed:
                        self._alone = self.connect()
                    return self._alone.execute(wanted.sql, wanted.bound(bindings)).fetchall()
                except psycopg.Error as error:
                    if attempt or not lost(error):
                        raise self.address.explain(error, writing=False) from error
                    self._alone = None
        raise AssertionError

    def check(self) -> None:
        """Raise StoreError if the store was closed."""
        if self.closed:
            raise StoreError(f"{self.address.shown} was closed by this program; open it again")

    def close(self) -> None:
        """Close all connections, those in use at the end of their blocks."""
        with self._free:
            self.closed = True
            idle, self._idle = self._idle, []
            self._free.notify_all()
        with self._alone_lock:
            for each in (*idle, *([self._alone] if self._alone else ())):
                each.close()


class Pipeline:
    """The statements of one block. A statement without a result is sent with the next one that has a result.

    A connection is taken when the first statement runs. If it turns out to be lost, another one replaces it, because
    nothing has been done yet.
    """

    def __init__(self, pool: Pool, begin: str, *, writes: bool) -> None:
        self.pool, self._writes = pool, writes
        self._queue: list[tuple[str, Sequence[Any], Then | None]] = [(begin, (), None)]
        self._connection: psycopg.Connection[Row] | None = None
        self.begun = False
        """True if anything was sent."""
        self.broken = False
        """True if the transaction has failed."""

    def later(self, wanted: Statement, bindings: Mapping[str, Any], then: Then | None = None) -> None:
        """Send a statement with the next one."""
        self._queue.append((wanted.sql, wanted.bound(bindings), then))

    def run(self, wanted: Statement, bindings: Mapping[str, Any]) -> list[Row]:
        """Run a statement after the pending ones. Raises StoreError."""
        found: list[list[Row]] = []
        self._queue.append((wanted.sql, wanted.bound(bindings), found.append))
        self.flush()
        return found[0]

    def flush(self) -> None:
        """Send the pending statements. Raises StoreError."""
        try:
            self.send()
        except psycopg.Error as error:
            raise self.pool.address.explain(error, writing=self._writes) from error

    def send(self) -> None:
        """Send the pending statements. Raises psycopg.Error."""
        if not self._queue:
            return
        self.pool.check()
        queue, self._queue = self._queue, []
        try:
            if self._connection is None:
                self._connection = self.pool.take()
            try:
                results = self._sent(self._connection, queue)
            except psycopg.Error as error:
                if self.begun or not lost(error):
                    raise
                self._connection.close()
                self._connection = self.pool.anew()
                results = self._sent(self._connection, queue)
        except BaseException as error:
            self.broken = True
            if self._connection is not None and not isinstance(error, Exception):
                self._connection.close()  # a signal interrupted it: results may be left that belong to no statement
            raise
        self.begun = True
        for (_, _, then), rows in zip(queue, results, strict=True):
            if then is not None:
                then(rows)

    def _sent(
        self, connection: psycopg.Connection[Row], queue: Sequence[tuple[str, Sequence[Any], Then | None]]
    ) -> list[list[Row]]:
        if len(queue) == 1:
            ((sql, bound, _),) = queue
            cursors = [connection.execute(sql, bound)]
        else:
            with connection.pipeline():
                cursors = [connection.execute(sql, bound) for sql, bound, _ in queue]
        # To ask for `description` would create an object for each column, a tenth of the time of a statement.
        return [[] if cursor.rownumber is None else cursor.fetchall() for cursor in cursors]

    def end(self, *how: str) -> None:
        """End the whole transaction with the given statements, and return the connection to the pool, even when this
        raises psycopg.Error."""
        try:
            if self.begun or len(self._queue) > 1:
                self._queue += [(sql, (), None) for sql in how]
                self.send()
        finally:
            self.drop()

    def drop(self) -> None:
        """Roll back an open transaction, and return the connection to the pool."""
        connection, self._connection, self._queue = self._connection, None, []
        if connection is not None:
            try:
                with suppress(psycopg.Error):
                    if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
                        connection.execute("ROLLBACK")
            except BaseException:
                connection.close()
                raise
            finally:
                self.pool.give_back(connection)
