"""One block of a store in SQLite (see `foldmark.stores.block`), and the connection in which it runs its statements.

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
from foldmark.stores.block import Reading
from foldmark.stores.queries import listed, queries
from foldmark.stores.rows import Bindings, Fetched, Row
from foldmark.stores.snapshot import PAGE
from foldmark.stores.sqlite.commits import SqliteCommits
from foldmark.stores.sqlite.events import SqliteEvents
from foldmark.stores.sqlite.file import MEMORY, OpenFiles, explain, open_beside, open_file, place_of
from foldmark.stores.sqlite.known import KnownAgents


class SqliteConnection:
    """An open database. Every reader or writer holds `lock`. `keys`, `ids` and `known` are caches of
    agents. `clock` returns `Snapshot.now`; None for SQLite's own clock."""

    def __init__(self, path: str, create: bool, read_only: bool, clock: Clock | None) -> None:
        """Open the database at `path` (see `open_file`). Raises StoreError."""
        self.path, self.clock, self.sql, self.lock = path, clock, queries("sqlite"), RLock()
        self._place = place_of(path)
        self.db = open_file(path, create, self._place, read_only=read_only)
        self.files, self.commits, self.is_closed = OpenFiles(self.db), SqliteCommits(), False
        # Asked now: while another thread uses the connection, it answers nothing. The name is absolute.
        self._file = "" if path == MEMORY else self.db.db_filename("main")
        self._read_only = self.db.readonly("main")
        self.keys: dict[str, int] = {}
        self.ids: dict[int, str] = {}
        self.known = KnownAgents(self.db)
        self.run = self.db.cursor().execute
        """Runs a statement without rows, on a kept cursor: a new one takes longer than the begin and end of a block."""
        self.events = SqliteEvents(self.sql, self.run)
        # Every operation and every tool result reads its agent's fold, which rarely changes.
        self.fold = lru_cache(maxsize=8)(msgspec.json.Decoder(Fold).decode)

    def forget(self) -> None:
        """Forget what a transaction has added to the caches: it was rolled back."""
        self.keys.clear()
        self.ids.clear()
        self.known.forget()
        self.known.newest = 0
        self.events.forget()

    def beside(self) -> apsw.Connection:
        """Open another, read-only connection to the same database. Raises apsw.Error."""
        if self.is_closed:
            raise apsw.ConnectionClosedError("the store is closed")
        return open_beside(self._file, self._place, read_only=self._read_only)


class SqliteReading(Reading):
    """The contents of the database in one block. Only what the sandbox and the checks read is `unbound`, outside of all
    blocks."""

    kinds = listed(NEWEST_KINDS)
    cursor = pattern(r"[0-9]{1,18}\.[0-9]{1,18}", re.ASCII)
    _begun = False
    """True once SQLite has begun to read and the moment no longer changes."""

    def __init__(self, connection: SqliteConnection, *, unbound: bool = False) -> None:
        self.connection, self._unbound = connection, unbound
        self.db, self.sql, self.path, self._lock = connection.db, connection.sql, connection.path, connection.lock
        self.keys, self.ids, self.fold = connection.keys, connection.ids, connection.fold

    def end(self) -> None:
        try:
            self.roll_back()
        except apsw.ConnectionClosedError:
            pass
        finally:
            self._lock.release()

    def roll_back(self) -> None:
        """End the transaction, unless SQLite has done so: after some errors, such as a full disk, it does."""
        if self.db.in_transaction:
            self.connection.run("ROLLBACK")

    def check(self) -> None:
        # Checked before each statement, so mostly without another call.
        if (self.over or not self.db.in_transaction) and not self._unbound:
            super().check()

    def is_broken(self) -> bool:
        return not self.db.in_transaction  # SQLite has rolled back, and would now commit each statement separately

    # Statements

    def fetched(self, sql: str, bindings: Any = ()) -> Fetched:
        """Return the rows of a query, and the indices of those with invalid text."""
        try:
            with self._lock:
                self.check()
                try:
                    return self.db.execute(sql, bindings).fetchall(), ()
                except UnicodeDecodeError:
                    return self._mended(sql, bindings)
        except apsw.Error as error:
            raise explain(error, self.path) from error

    def rows(self, name: str, /, **bindings: Any) -> Fetched:
        return self.fetched(self.sql[name], bindings)

    def run(self, name: str, /, **bindings: Any) -> list[Row]:
        return self.fetched(self.sql[name], bindings)[0]

    def _mended(self, sql: str, bindings: Any) -> Fetched:
        """Return the rows of a query whose result contains invalid UTF-8. Raises apsw.Error."""
        rows, damaged = list[Row](), set[int]()
        try:
            columns = len(self.db.execute(f"SELECT * FROM ({sql})", bindings).get_description())
        except apsw.ExecutionCompleteError:  # the rows have been erased since
            return rows, damaged
        names = [f"c{number}" for number in range(columns)]
        # Two columns for each: the bytes of texts, and all other values unchanged.
        each = ", ".join(
            f"CASE typeof({n}) WHEN 'text' THEN CAST({n} AS BLOB) END, iif(typeof({n}) = 'text', NULL, {n})"
            for n in names
        )
        query = f"WITH found ({', '.join(names)}) AS ({sql}) SELECT {each} FROM found"
        for values in self.db.execute(query, bindings):
            raws, others = values[::2], values[1::2]
            texts = [None if raw is None else raw.decode(errors="replace") for raw in raws]
            if any(text is not None and text.encode() != raw for text, raw in zip(texts, raws, strict=True)):
                damaged.add(len(rows))
            rows.append(tuple(other if text is None else text for text, other in zip(texts, others, strict=True)))
        return rows, damaged

    def listed(self, values: Iterable[Any]) -> str:
        return listed(values)

    def for_agent(self, agent_id: str) -> Bindings:
        return {"agent": self.key(agent_id)}

    def for_segments(self, segments: Segments) -> Bindings:
        return {"segments": listed((self.key(agent), first, last) for agent, first, last in segments)}

    def for_events(self, event_ids: Iterable[int]) -> Bindings:
        return {"ids": listed(event_ids)}

    def for_messages(self, places: Sequence[Message]) -> Bindings:
        return {"places": listed((self.key(each.agent_id), each.id) for each in places)}

    # Reads

    def kept_head(self, agent_id: str) -> Head | None:
        known = self.connection.known
        if agent_id not in known.heads:
            return None
        if not self._begun:
            try:
                self.connection.run("PRAGMA data_version")
            except apsw.Error as error:
                raise explain(error, self.path) from error
            self._begun = True
        return known.head(agent_id)

    def keep_head(self, agent_id: str, head: Head) -> None:
        self.connection.known.keep(agent_id, head)
        self._begun = True

    def now(self) -> str:
        clock = self.connection.clock
        return str(self.run("now")[0][0]) if clock is None else clock()

    # One writer at a time draws the ids, so they are in the order of commits. A cursor is the newest agent and the
    # newest event seen so far.

    def changes_from_now(self) -> Changes:
        (newest,) = self.run("changes_end")
        return Changes([], ".".join(map(str, newest)))

    def changes_after(self, after: str, limit: int) -> Changes:
        seen = [int(number) for number in after.split(".")]
        found = []
        bound = dict(zip(("born", "event"), seen, strict=True), limit=limit)
        for id, agent, kind, source in self.run("changes", **bound):
            seen[source] = id
            found.append(Change(self.id(agent), id if source else None, kind))
        return Changes(found, ".".join(map(str, seen)))

    def index(self, scope: SearchScope) -> LogIndex:
        from foldmark.stores.sqlite.search import SqliteIndex  # takes 3 ms

        return SqliteIndex(self, scope)

    def memos_before(self, events: Sequence[int]) -> list[Row]:
        return self.run("memo_before", events=listed(events))

    def memos_holding(self, words: Sequence[str], most: int) -> list[Row]:
        return self.run("memos_with", words=listed(map(_expression, words)), most=most)

    def tags(self, stored: str) -> list[str]:
        return msgspec.json.decode(stored, type=list[str])

    def copied_events(self, after: Mapping[int, int]) -> Iterator[Fetched]:
        # No index contains the events of one agent only, so they are read in one pass over the whole log.
        last = min(after.values(), default=0)
        ((end,),) = self.run("newest_head", agents=listed(after))
        while (page := self.rows("copied_events", after=last, end=end, limit=PAGE))[0]:
            yield page
            last = page[0][-1][0]


def _expression(word: str) -> str:
    """Return an FTS5 expression for a word and related words; the word is never read as FTS5 syntax."""
    from foldmark.text.keywords import folded, spellings

    def quoted(spelling: str) -> str:
        return '"' + spelling.replace("\0", " ").replace('"', '""') + '"'

    exact, beginning = spellings(folded(word))
    return " OR ".join((*map(quoted, exact), *(() if beginning is None else (f"{quoted(beginning)} *",))))
