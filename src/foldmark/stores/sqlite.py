"""The log in an SQLite file [SPEC 2, 9]; `:memory:` is SQLite's own.

Durability: the journal is a WAL and `synchronous` is FULL, so that an append returns only after the WAL has been
flushed to the disk. A caller that got an id back keeps the event when this process, another one or the machine stops.
docs/format.md says what that costs and what a weaker level would lose.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from threading import RLock
from typing import Any

import apsw
import msgspec

from foldmark.core.codec import decode_data
from foldmark.core.errors import ConflictError, DamagedError
from foldmark.core.events import Event
from foldmark.core.ports import ANCHORS, AgentRecord, Head, Hit, Overview, Size
from foldmark.core.recall import Index, Scope
from foldmark.core.replay import Fold, birth
from foldmark.core.segments import END, Segment, Segments
from foldmark.core.turns import Message
from foldmark.stores.queries import listed, queries
from foldmark.stores.sqlite_appender import Appender
from foldmark.stores.sqlite_damage import SqliteDamage, fetch, mended, unknown_agent, well_typed
from foldmark.stores.sqlite_file import MEMORY, explain, narrow, open_file, place_of
from foldmark.stores.sqlite_leases import SqliteLeases
from foldmark.stores.sqlite_lineage import SqliteLineage
from foldmark.stores.sqlite_memos import SqliteMemos
from foldmark.stores.sqlite_reading import SqliteReading
from foldmark.stores.sqlite_sent import SqliteSent
from foldmark.stores.sqlite_towards import SqliteTowards
from foldmark.stores.sqlite_vectors import SqliteVectors

_FIRST_PAGE, _PAGE = 8, 256
_KINDS = listed(ANCHORS)


class SqliteStore(
    SqliteTowards, SqliteLeases, SqliteMemos, SqliteReading, SqliteSent, SqliteLineage, SqliteVectors, SqliteDamage
):
    """A `Store` over one SQLite database (see `foldmark.core.ports.Store` for the methods)."""

    def __init__(self, path: str, *, create: bool = True) -> None:
        """Open `path`, creating the file and its tables if `create`. Raises StoreError."""
        self.path, self.rolled_back = path, 0
        self._lock = RLock()
        self._place = place_of(path)
        self._db = open_file(path, create, self._place)
        # A file that nobody may write to was made so to be shared.
        mine = path != MEMORY and os.name == "posix" and not self._db.readonly("main")
        self.narrowed = mine and narrow(path)
        self._begin_reading()
        self._sql = queries("sqlite")
        self._appender: Appender | None = None
        self._keys: dict[str, int] = {}
        self._ids: dict[int, str] = {}
        # Every operation and every tool result looks at its agent's fold, which seldom changes.
        self._fold = lru_cache(maxsize=8)(msgspec.json.Decoder(Fold).decode)

    def close(self) -> None:
        self._end_reading()
        with self._lock:
            self._db.close()

    def exclusive(self) -> AbstractContextManager[object]:
        return self._lock

    @contextmanager
    def read(self) -> Iterator["SqliteStore"]:
        with self._lock:
            if self._in_transaction:
                yield self
                return
            self._db.execute("BEGIN")
            try:
                yield self
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    @property
    def committed(self) -> bool:
        return self._appender is None

    # Appending

    @contextmanager
    def appending(self, agent_id: str, expected: int | None, newborn: AgentRecord | None = None) -> Iterator[Appender]:
        with self._lock, self._batching():
            if newborn is not None:
                self.create_agent(newborn, birth(newborn.id), Size(0, 0))
            appender = Appender(self._db, self._sql, self._key(agent_id), self.path)
            if expected is not None and appender.head != expected:
                raise ConflictError(agent_id, expected, appender.head)
            appender.end = self.end(agent_id) if appender.ended else None
            self._appender = appender
            try:
                yield appender
                appender.finish()
            finally:
                self._appender = None

    def create_agent(self, record: AgentRecord, born: Fold, start: Size) -> None:
        with self._lock, nullcontext() if self._in_transaction else self._transaction():
            parent = None if record.parent is None else self._key(record.parent)
            self._run("create_agent", record.id, record.name, parent, record.fork_event, record.created_at)
            self.save_fold(born, start)

    def save_fold(self, fold: Fold, beside: Size) -> None:
        self._run("save_fold", self._key(fold.agent), msgspec.json.encode(fold).decode(), *beside)

    @property
    def _in_transaction(self) -> bool:
        try:
            return self._db.in_transaction
        except apsw.Error as error:  # it is closed
            raise explain(error, self.path) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # Callers hold the lock from before they look whether a transaction is under way.
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                # After some errors, a full disk among them, SQLite has rolled back by itself.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                self._keys.clear()
                self._ids.clear()
                self.rolled_back += 1
                raise
        except apsw.Error as error:
            raise explain(error, self.path) from error

    # Agents

    def agents(self) -> list[AgentRecord]:
        return [self._agent(row) for row in self._run("agents")]

    def overview(self) -> list[Overview]:
        found = []
        for *row, last_used, archived, body, messages, tokens in self._run("overview"):
            record = self._agent(row)
            fold = None if body is None else self._decoded(body, record.id)
            size = Size(messages, tokens).plus(record.own) if fold is not None and fold.grows else None
            found.append(Overview(record, last_used, archived, size))
        return found

    def agent(self, agent_id: str) -> AgentRecord | None:
        return next((self._agent(row) for row in self._run("agent_by_id", agent_id)), None)

    def root_of(self, agent_id: str) -> str:
        ((root,),) = self._run("root_of", self._key(agent_id))
        return str(root)

    def named(self, name: str) -> AgentRecord | None:
        return next((self._agent(row) for row in self._run("agent_by_name", name)), None)

    def children(self, agent_id: str) -> list[AgentRecord]:
        return [self._agent(row) for row in self._run("children", self._key(agent_id))]

    def unstarted(self) -> list[AgentRecord]:
        return [self._agent(row) for row in self._run("unstarted")]

    def head(self, agent_id: str) -> Head:
        bindings = {"agent": self._key(agent_id), "kinds": _KINDS}
        rows = [(which, row, damaged) for (which, *row), damaged in self._rows(self._sql["head"], bindings)]
        ((*own, body, messages, tokens),) = (row for which, row, _ in rows if which == 0)
        cache = None if body is None else (self._decoded(body, agent_id), Size(messages, tokens))
        events = [self._event(row, damaged) for which, row, damaged in rows if which == 1]
        return Head(AgentRecord(*own), cache, {event.kind: event for event in events})

    def _decoded(self, body: str, agent_id: str) -> Fold:
        try:
            return self._fold(body)
        except (msgspec.MsgspecError, RecursionError):
            raise DamagedError(
                f"the stored segments of {agent_id[:8]} are not readable; `foldmark doctor --repair` rebuilds them"
            ) from None

    # Events

    def event(self, event_id: int) -> Event | None:
        return next(iter(self.events([event_id])), None)

    def events(self, event_ids: Sequence[int]) -> list[Event]:
        found = self._events(self._sql["events"], (listed(event_ids),)) if event_ids else []
        return sorted(found, key=lambda event: event.id)

    def operations(self, agent_id: str, *, after: int = 0, until: int = END) -> list[Event]:
        return self._events(self._sql["operations"], (self._key(agent_id), after, until))

    def messages(self, segments: Segments, *, newest_first: bool = False) -> Iterator[Event]:
        query = "messages_newest_first" if newest_first else "messages"
        for agent, first, last in reversed(segments) if newest_first else segments:
            key, page = self._key(agent), _FIRST_PAGE
            # Pages instead of an open cursor: a reader that stops half-way must not hold up the WAL's checkpoint. The
            # first is small, for whoever wants the newest message only.
            while True:
                found = self._events(self._sql[query], (key, first, last, page))
                yield from found
                if len(found) < page:
                    break
                first, last = (first, found[-1].id - 1) if newest_first else (found[-1].id + 1, last)
                page = min(8 * page, _PAGE)

    def newest(self, kind: str, segments: Segments) -> Event | None:
        bindings = {"kind": kind, "segments": self._keyed(segments)}
        return next(iter(self._events(self._sql["newest"], bindings)), None)

    def recent(self, kind: str, agent_id: str, until: int, limit: int) -> list[Event]:
        return self._events(self._sql["recent"], (self._key(agent_id), kind, until, limit))

    def of_kind(self, kind: str, segments: Segments) -> list[int]:
        bindings = {"kind": kind, "segments": self._keyed(segments)}
        return sorted(id for (id,) in self._all(self._sql["of_kind"], bindings))

    def size(self, segments: Segments) -> Size:
        if not segments:
            return Size(0, 0)
        ((messages, tokens),) = self._run("size", self._keyed(segments))
        return Size(messages, tokens)

    def weight(self, segments: Segments) -> int:
        return int(self._run("weight", self._keyed(segments))[0][0]) if segments else 0

    def weights(self, segments: Segments) -> Iterator[tuple[int, int]]:
        for agent, first, last in reversed(segments):
            key = self._key(agent)
            while True:
                rows = self._run("weights", key, first, last, _PAGE)
                yield from rows
                if len(rows) < _PAGE:
                    break
                last = rows[-1][0] - 1

    def bounds(self, segments: Segments) -> Segments:
        pairs = zip(segments, self._run("bounds", self._keyed(segments)) if segments else (), strict=True)
        return tuple(
            Segment(agent, oldest, newest)
            for (agent, _, _), (oldest, newest) in pairs
            if oldest is not None and newest is not None and oldest <= newest
        )

    def _keyed(self, segments: Segments) -> str:
        return listed((self._key(agent), first, last) for agent, first, last in segments)

    def message_before(self, agent_id: str, event_id: int) -> Message | None:
        return next((self._message(row) for row in self._run("message_before", self._key(agent_id), event_id)), None)

    def message_after(self, agent_id: str, event_id: int) -> Message | None:
        return next((self._message(row) for row in self._run("message_after", self._key(agent_id), event_id)), None)

    def turns(self, turn_ids: Sequence[int]) -> dict[int, list[Message]]:
        found: dict[int, list[Message]] = {turn: [] for turn in turn_ids}
        for row in sorted(self._run("turns", listed(turn_ids))):
            found[row[2]].append(self._message(row))
        return found

    def results(self, calls: Sequence[Message], *, erased: bool = False) -> list[Message]:
        ids = listed(call.id for call in calls)
        return [self._message(row) for row in sorted(self._run("results_of", ids, erased))] if calls else []

    def next_to(self, places: Sequence[Message], count: int) -> list[list[Message]]:
        found: list[list[Message]] = [[] for _ in places]
        ends = listed((self._key(each.agent_id), each.id) for each in places)
        for number, *row in sorted(self._run_named("next_to", {"places": ends, "count": count})):
            found[number].append(self._message(row))
        return found

    def apart_results(self, agent_id: str, event_id: int) -> list[Message]:
        return [self._message(row) for row in self._run("apart_results", self._key(agent_id), event_id, event_id)]

    def waiting(self, agent_id: str) -> list[Message]:
        return [self._message(row) for row in self._run("waiting", self._key(agent_id))]

    def waiting_call(self, agent_id: str, turn: int, call_id: str) -> Message | None:
        bindings = {"agent": self._key(agent_id), "turn": turn, "call_id": call_id}
        return next((self._message(row) for row in self._run_named("waiting_call", bindings)), None)

    def calls(self, agent_id: str, call_id: str) -> list[Message]:
        return [self._message(row) for row in self._run("calls_with_id", self._key(agent_id), call_id)]

    def lookup(self, event_ids: Iterable[int]) -> list[Message]:
        ids = list(event_ids)
        found = {row[0]: self._message(row) for row in self._run("lookup", listed(ids))} if ids else {}
        return [found[each] for each in ids if each in found]

    def erased_by(self, event_id: int) -> Event | None:
        return next(iter(self._events(self._sql["erased_by"], (event_id,))), None)

    def forget_erased(self) -> bool:
        ((busy, *_),) = self._all("PRAGMA wal_checkpoint(TRUNCATE)")
        return not busy

    # Searching

    def index(self, scope: Scope) -> Index:
        from foldmark.stores.sqlite_search import SqliteIndex  # 3 ms, for whoever searches

        keys = None if scope.agents is None else [self._key(agent) for agent in scope.agents]
        return SqliteIndex(self._search, self._id, scope, keys)

    def _search(self, name: str, bindings: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        with self._lock:
            if self._appender is not None:
                try:
                    self._appender.index()
                except apsw.Error as error:
                    raise explain(error, self.path) from error
            return self._run_named(name, bindings)

    def hits(self, event_ids: Sequence[int]) -> list[Hit]:
        found = {
            id: Hit(id, agent, name, kind, turn, at, 0.0, "", False, tool)
            for id, agent, name, kind, turn, at, tool in self._run("hits", listed(event_ids))
        }
        return [found[each] for each in event_ids if each in found]

    def has_planned(self, agent_id: str) -> bool:
        return bool(self._run_named("has_planned", {"agent": self._key(agent_id)})[0][0])

    def opened(self, segments: Segments) -> list[int]:
        return sorted(id for (id,) in self._run("opened", self._keyed(segments)))

    def turns_after(self, agent_id: str, event_id: int, limit: int) -> list[int]:
        return [id for (id,) in self._run("turns_after", self._key(agent_id), event_id, limit)]

    # Rows to values

    def _all(self, sql: str, bindings: Any = ()) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return fetch(self._db, sql, bindings)
        except apsw.Error as error:
            raise explain(error, self.path) from error

    def _events(self, sql: str, bindings: Any = ()) -> list[Event]:
        """The events of a query; one that holds what is not UTF-8 is marked as damaged."""
        return [self._event(row, damaged) for row, damaged in self._rows(sql, bindings)]

    def _rows(self, sql: str, bindings: Any = ()) -> list[tuple[tuple[Any, ...], bool]]:
        """The rows of a query, each with whether it holds what is not UTF-8."""
        try:
            with self._lock:
                try:
                    return [(row, False) for row in self._db.execute(sql, bindings)]
                except UnicodeDecodeError:
                    return list(mended(self._db, sql, bindings))
        except apsw.Error as error:
            raise explain(error, self.path) from error

    def _run(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]:
        return self._all(self._sql[name], bindings)

    def _run_named(self, name: str, bindings: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return self._all(self._sql[name], bindings)

    def _key(self, agent_id: str) -> int:
        if agent_id not in self._keys:
            for (key,) in self._run("agent_key", agent_id):
                self._keys[agent_id], self._ids[key] = key, agent_id
        try:
            return self._keys[agent_id]
        except KeyError:
            raise unknown_agent(agent_id) from None

    def _id(self, key: int) -> str:
        if key not in self._ids:
            for (agent_id,) in self._run("agent_id", key):
                self._ids[key] = agent_id
        if key not in self._ids:
            return f"unknown agent {key}"  # the event is damaged; nobody's lineage holds it
        return self._ids[key]

    def _agent(self, row: Sequence[Any]) -> AgentRecord:
        *fields, key = row
        record = AgentRecord(*fields)
        self._keys[record.id], self._ids[key] = key, record.id
        return record

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
