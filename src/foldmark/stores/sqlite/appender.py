"""The appends of one transaction to one agent in SQLite, and the index of words of all of them."""

from collections.abc import Callable
from typing import Any

import apsw

from foldmark.core.agents import Size
from foldmark.core.events import Draft
from foldmark.stores.appender import Appender
from foldmark.stores.queries import listed
from foldmark.stores.rows import Row

_INDEXED_AT_ONCE = 1000
"""Number of events whose words fill about half of the part of the index that SQLite keeps in memory."""


class WordIndex:
    """The index of words, updated before it is read and at the end of a transaction.

    SQLite writes a piece of it for each statement and merges them later, so that one statement for many messages takes
    a third of the time.
    """

    def __init__(self, db: apsw.Connection, sql: dict[str, str]) -> None:
        self._db, self._sql = db, sql
        # The range of messages that are not in the index yet; whether one of them has parts.
        self._first: int | None = None
        self._last = 0
        self._parts = False
        self._indexed = 0

    def note(self, id: int, draft: Draft) -> None:
        """Add a message to the pending ones."""
        if not draft.content:
            return
        apart = id < self._indexed  # its id was reserved, and later ones are in the index already
        if apart:
            self.index()
        self._first, self._last = id if self._first is None else min(self._first, id), max(self._last, id)
        if not self._parts:
            from foldmark.text.tokens import has_parts  # only needed for indexing

            name = draft.data.get("name") if draft.data and draft.kind == "tool_call" else None
            self._parts = has_parts(draft.content) or (isinstance(name, str) and has_parts(name))
        if apart or id - self._first >= _INDEXED_AT_ONCE:
            self.index()

    def index(self) -> None:
        """Update the index. Raises apsw.Error."""
        if self._first is None:
            return
        span = self._first, self._last
        if self._parts:
            self._db.execute(self._sql["index_parts"], span)
        self._db.execute(self._sql["index"], span)
        self._first, self._last, self._parts, self._indexed = None, 0, False, max(self._indexed, self._last)


class ImportedWordIndex(WordIndex):
    """The index for messages between which others may be in the index already."""

    def __init__(self, db: apsw.Connection, sql: dict[str, str]) -> None:
        super().__init__(db, sql)
        self._ids: list[int] = []

    def note(self, id: int, draft: Draft) -> None:
        if draft.content:
            self._ids.append(id)

    def index(self) -> None:
        if self._ids:
            self._db.execute(self._sql["index_those_parts"], (listed(self._ids),))
            self._db.execute(self._sql["index_those"], (listed(self._ids),))
            self._ids.clear()


class SqliteAppender(Appender):
    """Appends to one agent; its row is updated once, by `finish`. Raises apsw.Error."""

    def __init__(
        self, db: apsw.Connection, sql: dict[str, str], key: int, draw: Callable[[], int], words: WordIndex, row: Row
    ) -> None:
        super().__init__(key, draw, row)
        self._db, self._sql, self._words = db, sql, words
        self._write = db.cursor().execute  # a cursor for each statement takes a tenth of an insert

    def _record(self, row: Row, draft: Draft, weight: int | None) -> None:
        self._write(self._sql["append"], row)
        if weight is not None:
            self._write(self._sql["weigh"], (self._key, row[0], weight, self._sums[0]))
            self._words.note(row[0], draft)

    def _bury(self, id: int, by: int) -> None:
        self._write(self._sql["bury"], (by, id))

    def _newest_message(self) -> tuple[Any, ...] | None:
        found = self._db.execute(self._sql["message_before"], {"agent": self._key, "id": self.head}).fetchone()
        return None if found is None else (found[2], found[3])

    def _wait(self, call: int) -> None:
        self._write(self._sql["wait"], (self._key, call))

    def _answered(self, call: int) -> None:
        self._write(self._sql["answered"], (self._key, call))

    def _end_waiting(self) -> None:
        self._write(self._sql["end_waiting"], (self._key,))

    def lose(self, gone: Size) -> None:
        """Update the sizes after an erasure; the row is updated already."""
        self._messages, self._tokens = self.own.less(gone)
        self._newest = None
        ((*_, weight, messages, tokens),) = self._db.execute(self._sql["position"], (self._key,))
        self._sums = [weight, messages, tokens]

    def finish(self) -> None:
        """Write where the agent stands."""
        if self._is_ahead:
            self._db.execute(self._sql["advance"], (self.head, self.open_turn, *self.own, self._run, self._key))
            self._is_ahead = False
