"""One moment of the log in SQLite (see `foldmark.stores.snapshot`), and the statements that it runs.

SQLite accepts any bytes as text, and a flipped bit on the disk can produce bytes that are not UTF-8. They are read as
U+FFFD, so that one wrong byte stops nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from threading import RLock
from typing import Any

import apsw
import msgspec

from foldmark.core.agents import Change, Changes
from foldmark.core.patterns import pattern
from foldmark.core.ports import NEWEST_KINDS, Clock, Head
from foldmark.core.replay import Fold
from foldmark.core.search import LogIndex, SearchScope
from foldmark.core.segments import Segments
from foldmark.core.turns import Message
from foldmark.stores import reader
from foldmark.stores.queries import listed, queries
from foldmark.stores.reader import Bindings, Fetched, Row
from foldmark.stores.snapshot import PAGE, LogSnapshot
from foldmark.stores.sqlite.file import OpenFiles, explain, open_beside, open_file, place_of
from foldmark.stores.sqlite.known import KnownAgents


class SqliteConnection:
    """An open database. Every reader or writer holds `lock`. `keys`, `ids` and `known` are caches of
    agents. `clock` returns `Snapshot.now`; None for SQLite's own clock."""

    def __init__(self, path: str, create: bool, read_only: bool, clock: Clock | None) -> None:
        """Open the database at `path` (see `open_file`). Raises StoreError."""
        self.path, self.clock, self.sql, self.lock = path, clock, queries("sqlite"), RLock()
        self._place = place_of(path)
        self.db = open_file(path, create, self._place, read_only=read_only)
        self.files = OpenFiles(self.db)
        self.keys: dict[str, int] = {}
        self.ids: dict[int, str] = {}
        self.known = KnownAgents(self.db)
        self.run = self.db.cursor().execute
        """Runs a statement without rows, on a kept cursor: a new one takes longer than the begin and end of a block."""
        # Every operation and every tool result reads its agent's fold, which rarely changes.
        self.fold = lru_cache(maxsize=8)(msgspec.json.Decoder(Fold).decode)

    def beside(self) -> apsw.Connection:
        """Open another, read-only connection to the same database. Raises apsw.Error."""
        return open_beside(self.db, self.path, self._place)

    def end(self) -> None:
        """End the open transaction. After some errors, such as a full disk, SQLite has already done so."""
        if self.db.in_transaction:
            self.run("ROLLBACK")

    def roll_back(self) -> None:
        """Roll back the open transaction, and forget the keys of agents created in it."""
        self.end()
        self.keys.clear()
        self.ids.clear()


class SqliteReader(reader.SqlReader):
    """Runs statements on a connection."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection
        self._db, self._sql, self._path, self._lock = connection.db, connection.sql, connection.path, connection.lock
        self._keys, self._ids, self._fold = connection.keys, connection.ids, connection.fold

    def _fetched(self, sql: str, bindings: Any) -> Fetched:
        try:
            with self._lock:
                self._check()
                try:
                    return self._db.execute(sql, bindings).fetchall(), ()
                except UnicodeDecodeError:
                    return self._mended(sql, bindings)
        except apsw.Error as error:
            raise explain(error, self._path) from error

    def _all(self, sql: str, bindings: Any = ()) -> list[Row]:
        return self._fetched(sql, bindings)[0]

    def _rows(self, name: str, /, **bindings: Any) -> Fetched:
        return self._fetched(self._sql[name], bindings)

    def _mended(self, sql: str, bindings: Any) -> Fetched:
        """Return the rows of a query whose result contains invalid UTF-8. Raises apsw.Error."""
        rows, damaged = list[Row](), set[int]()
        try:
            columns = len(self._db.execute(f"SELECT * FROM ({sql})", bindings).get_description())
        except apsw.ExecutionCompleteError:  # the rows have been erased since
            return rows, damaged
        names = [f"c{number}" for number in range(columns)]
        # Two columns for each: the bytes of texts, and all other values unchanged.
        each = ", ".join(
            f"CASE typeof({n}) WHEN 'text' THEN CAST({n} AS BLOB) END, iif(typeof({n}) = 'text', NULL, {n})"
            for n in names
        )
        query = f"WITH found ({', '.join(names)}) AS ({sql}) SELECT {each} FROM found"
        for values in self._db.execute(query, bindings):
            raws, others = values[::2], values[1::2]
            texts = [None if raw is None else raw.decode(errors="replace") for raw in raws]
            if any(text is not None and text.encode() != raw for text, raw in zip(texts, raws, strict=True)):
                damaged.add(len(rows))
            rows.append(tuple(other if text is None else text for text, other in zip(texts, others, strict=True)))
        return rows, damaged

    def _run(self, name: str, /, **bindings: Any) -> list[Row]:
        return self._fetched(self._sql[name], bindings)[0]

    def _list(self, values: Iterable[Any]) -> str:
        return listed(values)

    def _for_agent(self, agent_id: str) -> Bindings:
        return {"agent": self._key(agent_id)}

    def _for_segments(self, segments: Segments) -> Bindings:
        return {"segments": listed((self._key(agent), first, last) for agent, first, last in segments)}

    def _for_events(self, event_ids: Iterable[int]) -> Bindings:
        return {"ids": listed(event_ids)}

    def _for_messages(self, places: Sequence[Message]) -> Bindings:
        return {"places": listed((self._key(each.agent_id), each.id) for each in places)}


class SqliteSnapshot(SqliteReader, LogSnapshot):
    """The contents of the database during one transaction, which `SqliteStore` begins and ends."""

    _kinds = listed(NEWEST_KINDS)
    _cursor = pattern(r"[0-9]{1,18}\.[0-9]{1,18}", re.ASCII)
    _begun = False
    """True once SQLite has begun to read and the moment no longer changes."""

    def head(self, agent_id: str) -> Head:
        head = self._kept_head(agent_id)
        if head is None:
            head = super().head(agent_id)
            self._keep_head(agent_id, head)
        return head

    def _kept_head(self, agent_id: str) -> Head | None:
        """Return the head of an agent in this moment if the connection has kept it."""
        known = self._connection.known
        if agent_id not in known.heads:
            return None
        if not self._begun:
            try:
                self._connection.run("PRAGMA data_version")
            except apsw.Error as error:
                raise explain(error, self._path) from error
            self._begun = True
        return known.head(agent_id)

    def _keep_head(self, agent_id: str, head: Head) -> None:
        """Keep a head that was read in this moment."""
        self._connection.known.keep(agent_id, head)
        self._begun = True

    def now(self) -> str:
        clock = self._connection.clock
        return str(self._run("now")[0][0]) if clock is None else clock()

    def _check(self) -> None:
        if self._over or not self._db.in_transaction:  # checked before each statement, so without another call
            super()._check()

    def _is_broken(self) -> bool:
        return not self._db.in_transaction  # SQLite has rolled back, and would now commit each statement separately

    # Changes: one writer at a time draws the ids, so they are in the order of commits. A cursor is the newest agent and
    # the newest event seen so far.

    def _changes_from_now(self) -> Changes:
        (newest,) = self._run("changes_end")
        return Changes([], ".".join(map(str, newest)))

    def _changes_after(self, after: str, limit: int) -> Changes:
        seen = [int(number) for number in after.split(".")]
        found = []
        bound = dict(zip(("born", "event"), seen, strict=True), limit=limit)
        for id, agent, kind, source in self._run("changes", **bound):
            seen[source] = id
            found.append(Change(self._id(agent), id if source else None, kind))
        return Changes(found, ".".join(map(str, seen)))

    # Search

    def index(self, scope: SearchScope) -> LogIndex:
        from foldmark.stores.sqlite.search import SqliteIndex  # takes 3 ms

        return SqliteIndex(self, scope)

    def _holding(self, words: Sequence[str], most: int) -> list[Row]:
        return self._run("memos_with", words=listed(map(_expression, words)), most=most)

    # Copying: no index contains the events of one agent only, so they are read in one pass over the whole log.

    def _copied_events(self, after: Mapping[int, int]) -> Iterator[Fetched]:
        last = min(after.values(), default=0)
        ((end,),) = self._run("newest_head", agents=listed(after))
        while (page := self._rows("copied_events", after=last, end=end, limit=PAGE))[0]:
            yield page
            last = page[0][-1][0]


def _expression(word: str) -> str:
    """Return an FTS5 expression for a word and related words; the word is never read as FTS5 syntax."""
    from foldmark.text.keywords import folded, spellings

    def quoted(spelling: str) -> str:
        return '"' + spelling.replace("\0", " ").replace('"', '""') + '"'

    exact, beginning = spellings(folded(word))
    return " OR ".join((*map(quoted, exact), *(() if beginning is None else (f"{quoted(beginning)} *",))))
