"""One transaction of the log in SQLite (see `foldmark.core.ports.Transaction`)."""

from collections.abc import Callable
from threading import get_ident

from foldmark.core.ports import Clock
from foldmark.stores.sqlite.appender import SqliteAppender, WordIndex
from foldmark.stores.sqlite.copying import SqliteCopying
from foldmark.stores.sqlite.erasing import Eraser
from foldmark.stores.sqlite.reader import SqliteConnection, SqliteWriter
from foldmark.stores.sqlite.snapshot import SqliteSnapshot


class SqliteTransaction(SqliteWriter, SqliteCopying, SqliteSnapshot):
    """The writes of one transaction, which `SqliteStore` begins and ends.

    Agents' rows and the index of words are written late: once, when `settle` is called, instead of with every event.
    """

    def __init__(self, connection: SqliteConnection, clock: Clock | None) -> None:
        super().__init__(connection, clock)
        self._words = WordIndex(self._db, self._sql)
        self._appenders: dict[str, SqliteAppender] = {}
        self.thread = get_ident()
        """The thread that began it: its blocks of `write` are parts of this one, all others wait."""
        self._next = 1
        self._undoing: list[Callable[[], None]] = []

    def erase(self, owner: str, turn: int, last: int, by: int) -> None:
        key = self._key(owner)
        with self.whole():
            self._words.index()
            gone = Eraser(self._db, self._sql).erase(key, turn, last, by)
            if owner in self._appenders:
                self._appenders[owner].lose(gone)

    # Pending writes

    def settle(self) -> None:
        """Write pending changes."""
        with self.whole():
            before = self._written
            self.finish()
            self._late += self._written - before

    def finish(self) -> None:
        """Settle at the end of the transaction. Raises apsw.Error, and StoreError if it has failed before."""
        self._check()
        self._words.index()
        for appender in self._appenders.values():
            appender.finish()

    def _settle(self) -> None:
        self.settle()

    def _appender(self, agent_id: str) -> SqliteAppender:
        self._check()
        appender = self._appenders.get(agent_id)
        if appender is None:
            key = self._key(agent_id)
            ((*row, newest, weight, messages, tokens),) = self._run("position", key)
            row += weight, messages, tokens
            appender = SqliteAppender(self._db, self._sql, key, self._draw, self._words, tuple(row))
            appender.end = self.end(agent_id) if appender.ended else None
            self._next = max(self._next, (newest or 0) + 1)
            self._appenders[agent_id] = appender
        return appender

    def _draw(self) -> int:
        self._next += 1
        return self._next - 1
