"""Running the named statements of the database, and the values that their rows stand for."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat, starmap
from threading import RLock
from typing import Any

import apsw
import msgspec

from foldmark.core.codec import decode_data
from foldmark.core.errors import DamagedError
from foldmark.core.events import Event
from foldmark.core.ports import AgentRecord
from foldmark.core.replay import Fold
from foldmark.core.segments import Segments
from foldmark.core.turns import Message
from foldmark.stores.queries import listed
from foldmark.stores.sqlite.file import explain
from foldmark.stores.sqlite.rows import fetch, mended, unknown_agent, well_typed

Row = tuple[Any, ...]

Run = Callable[..., list[Row]]
"""Runs the statement of a name with what is bound to it."""


class Connection:
    """An open database: whoever reads or writes holds `lock`. `keys` and `ids` are those of agents that were seen."""

    def __init__(self, db: apsw.Connection, sql: dict[str, str], path: str) -> None:
        self.db, self.sql, self.path, self.lock = db, sql, path, RLock()
        self.keys: dict[str, int] = {}
        self.ids: dict[int, str] = {}
        # Every operation and every tool result looks at its agent's fold, which seldom changes.
        self.fold = lru_cache(maxsize=8)(msgspec.json.Decoder(Fold).decode)

    def end(self) -> None:
        """End the transaction under way. After some errors, a full disk among them, SQLite has done so by itself."""
        if self.db.in_transaction:
            self.db.execute("ROLLBACK")

    def roll_back(self) -> None:
        """End the transaction under way, and forget the keys of agents that were made in it."""
        self.end()
        self.keys.clear()
        self.ids.clear()


class Reader:
    """Runs statements on a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._db, self._sql, self._path, self._lock = connection.db, connection.sql, connection.path, connection.lock
        self._keys, self._ids, self._fold = connection.keys, connection.ids, connection.fold

    def _check(self) -> None:
        """Raise StoreError if nothing may be read or written any more."""

    def _all(self, sql: str, bindings: Any = ()) -> list[Row]:
        try:
            with self._lock:
                self._check()
                return fetch(self._db, sql, bindings)
        except apsw.Error as error:
            raise explain(error, self._path) from error

    def _events(self, sql: str, bindings: Any = ()) -> list[Event]:
        """The events of a query; one that holds what is not UTF-8 is marked as damaged."""
        return list(starmap(self._event, self._rows(sql, bindings)))

    def _rows(self, sql: str, bindings: Any = ()) -> list[tuple[Row, bool]]:
        """The rows of a query, each with whether it holds what is not UTF-8."""
        try:
            with self._lock:
                self._check()
                try:
                    return list(zip(self._db.execute(sql, bindings).fetchall(), repeat(False)))
                except UnicodeDecodeError:
                    return list(mended(self._db, sql, bindings))
        except apsw.Error as error:
            raise explain(error, self._path) from error

    def _run(self, name: str, *bindings: Any) -> list[Row]:
        return self._all(self._sql[name], bindings)

    def _run_named(self, name: str, bindings: Mapping[str, Any]) -> list[Row]:
        return self._all(self._sql[name], bindings)

    def _key(self, agent_id: str) -> int:
        if agent_id not in self._keys:
            for (key,) in self._run("agent_key", agent_id):
                self._keys[agent_id], self._ids[key] = key, agent_id
        try:
            return self._keys[agent_id]
        except KeyError:
            raise unknown_agent(agent_id) from None

    def _keyed(self, segments: Segments) -> str:
        return listed((self._key(agent), first, last) for agent, first, last in segments)

    def _id(self, key: int) -> str:
        if key not in self._ids:
            for (agent_id,) in self._run("agent_id", key):
                self._ids[key] = agent_id
        if key not in self._ids:
            return f"unknown agent {key}"  # the event is damaged; nobody's lineage holds it
        return self._ids[key]

    def _agent(self, row: Sequence[Any]) -> AgentRecord:
        *fields, key = row
        record = self._record(fields)
        self._keys[record.id], self._ids[key] = key, record.id
        return record

    def _record(self, fields: Sequence[Any]) -> AgentRecord:
        return AgentRecord(*fields)

    def _event(self, row: Sequence[Any], damaged: bool = False) -> Event:
        row, mistyped = well_typed(row)
        damaged = damaged or mistyped
        id, key, turn, kind, content, data, dialect, actor, tokens, created_at, interrupted, answers = row
        try:
            read = decode_data(kind, data)
        except DamagedError:
            read, damaged = None, True  # of an operation, whoever replays it finds that it is not there
        return Event(
            id,
            self._id(key),
            turn,
            kind,
            content,
            read,
            dialect,
            actor,
            tokens,
            created_at,
            bool(interrupted),
            answers,
            damaged,
        )

    def _message(self, row: Sequence[Any]) -> Message:
        id, key, turn, kind, answers = row
        return Message(id, self._id(key), turn, kind, answers)


class Writer(Reader):
    """Runs statements inside a transaction."""

    _late = 0
    """How many rows were written late, for what had been recorded before."""

    def whole(self) -> "Whole":
        """All that is written inside the block. If it raises after it has written something, the whole transaction is
        rolled back, and `_check` says so to whoever goes on: half of the block is never committed."""
        return Whole(self)

    @property
    def _written(self) -> int:
        return self._db.total_changes() - self._late

    def _fail(self, error: BaseException | None, before: int) -> None:
        if isinstance(error, apsw.Error):
            # Whatever failed, the disk may be full: what comes next could be recorded without what came before.
            self._connection.roll_back()
            raise explain(error, self._path) from error
        if self._written != before:
            self._connection.roll_back()


class Whole:
    """See `Writer.whole`. Every append takes one, so it is no generator."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def __enter__(self) -> None:
        self._writer._check()
        self._before = self._writer._written

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None:
            self._writer._fail(error, self._before)
