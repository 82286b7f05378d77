"""Writes events to an SQLite file (see `foldmark.stores.appender.EventWriter`)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from foldmark.core.assembly.sent import Owner
from foldmark.stores.queries import listed
from foldmark.stores.rows import Row

_KIND, _NTH, _CONTENT = 3, 13, 15
"""The places of these columns in a row of `EventWriter.record`; `nth` is the running count of messages."""

_INDEXED_AT_ONCE = 1000
"""Number of messages whose words fill about half of the memory in which SQLite's index collects new words."""


class SqliteEvents:
    """Writes the events of a connection's transactions; its methods raise apsw.Error.

    The index of words is updated before it is read and at the end of a transaction. SQLite writes a piece of it for
    each statement and merges the pieces later, so one statement for many messages takes a third of the time.
    """

    def __init__(self, sql: Mapping[str, str], run: Callable[..., Any]) -> None:
        self._sql, self._run = sql, run
        # The messages not yet in the index, and whether any of them has parts.
        self._ids: list[int] = []
        self._parts = False
        self._has_parts: Callable[[str], bool] | None = None

    def forget(self) -> None:
        """Drop the messages that are not yet in the index, after a rollback."""
        self._ids, self._parts = [], False

    def record(self, row: Row, read: Mapping[str, Any] | None) -> None:
        self._run(self._sql["append"], row)
        if row[_NTH] is not None and row[_CONTENT]:
            self._note(row[0], row[_CONTENT], (read or {}).get("name") if row[_KIND] == "tool_call" else None)

    def _note(self, id: int, text: str, tool: object) -> None:
        """Add a message to those not yet in the index."""
        self._ids.append(id)
        if not self._parts:
            if (has_parts := self._has_parts) is None:
                from foldmark.text import tokens  # only needed for indexing

                has_parts = self._has_parts = tokens.has_parts
            self._parts = has_parts(text) or (isinstance(tool, str) and has_parts(tool))
        if len(self._ids) >= _INDEXED_AT_ONCE:
            self.index()

    def index(self) -> None:
        """Update the index."""
        if self._ids:
            first, last = min(self._ids), max(self._ids)
            follow = last - first == len(self._ids) - 1  # each other, without a gap
            ids = first, last, None if follow else listed(self._ids)
            if self._parts:
                self._run(self._sql["index_parts"], ids)
            self._run(self._sql["index"], ids)
            self.forget()

    def own(self, agent: int, texts: Sequence[tuple[str, Owner]]) -> None:
        self._run(self._sql["own"], (agent, listed((hash, *owner) for hash, owner in texts)))

    def bury(self, id: int, by: int) -> None:
        self._run(self._sql["bury"], (by, id))

    def newest_message(self, agent: int, until: int) -> Row | None:
        return next(iter(self._run(self._sql["newest_message"], (agent, until)).fetchall()), None)

    def arrive(self, agent: int, mail: int) -> None:
        self._run(self._sql["arrive"], (agent, mail))

    def carried(self, agent: int, mail: Sequence[int]) -> None:
        self._run(self._sql["carried"], (agent, listed(mail)))

    def wait(self, agent: int, call: int) -> None:
        self._run(self._sql["wait"], (agent, call))

    def answered(self, agent: int, call: int) -> None:
        self._run(self._sql["answered"], (agent, call))

    def end_waiting(self, agent: int) -> None:
        self._run(self._sql["end_waiting"], (agent,))

    def advance(self, agent: int, state: Row, newest: Row | None) -> None:
        self._run(self._sql["advance"], (*state, agent))
