"""One block of a store in SQLite that writes (see `foldmark.stores.block`).

Agents' rows and the index of words are written once, when `settle` is called, instead of with every event.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import apsw

from foldmark.core.agents import AgentRecord, Size
from foldmark.core.assembly.sent import Owner
from foldmark.core.errors import StoreError
from foldmark.core.events import Draft
from foldmark.core.ports import Head
from foldmark.core.records import CopiedEvent
from foldmark.core.replay import Fold
from foldmark.stores.appender import STATE, Appender
from foldmark.stores.block import Writing
from foldmark.stores.queries import listed
from foldmark.stores.rows import Bindings, Row, fault
from foldmark.stores.sqlite.file import explain
from foldmark.stores.sqlite.known import changed
from foldmark.stores.sqlite.reading import SqliteConnection, SqliteReading

_NTH = 13
"""The place of the running count of messages in a row of `EventWriter.record`."""

_INDEXED_AT_ONCE = 1000
"""Number of messages whose words fill about half of the memory in which SQLite's index collects new words."""


class SqliteEvents:
    """Writes the events of one transaction; its methods raise apsw.Error (see `EventWriter`).

    The index of words is updated before it is read and at the end of the transaction. SQLite writes a piece of it for
    each statement and merges the pieces later, so one statement for many messages takes a third of the time.
    """

    def __init__(self, connection: SqliteConnection) -> None:
        self._sql, self._run = connection.sql, connection.run
        # The messages not yet in the index, and whether any of them has parts.
        self._ids: list[int] = []
        self._parts = False

    def record(self, row: Row, draft: Draft) -> None:
        self._run(self._sql["append"], row)
        if row[_NTH] is not None and draft.content:
            self._note(row[0], draft)

    def _note(self, id: int, draft: Draft) -> None:
        """Add a message to those not yet in the index."""
        self._ids.append(id)
        if not self._parts:
            from foldmark.text.tokens import has_parts  # only needed for indexing

            name = draft.data.get("name") if draft.data and draft.kind == "tool_call" else None
            self._parts = has_parts(draft.content) or (isinstance(name, str) and has_parts(name))
        if len(self._ids) >= _INDEXED_AT_ONCE:
            self.index()

    def index(self) -> None:
        """Update the index. Raises apsw.Error."""
        if self._ids:
            first, last = min(self._ids), max(self._ids)
            follow = last - first == len(self._ids) - 1  # each other, without a gap
            ids = first, last, None if follow else listed(self._ids)
            if self._parts:
                self._run(self._sql["index_parts"], ids)
            self._run(self._sql["index"], ids)
            self._ids, self._parts = [], False

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
        self._run(self._sql["advance"], (*state[: len(STATE)], agent))


class AtomicBlock(AbstractContextManager["SqliteWriting", None]):
    """See `Writing.atomic`. Every append uses one, so it is not a generator."""

    def __init__(self, writing: "SqliteWriting") -> None:
        self._writing = writing

    def __enter__(self) -> "SqliteWriting":
        self._writing.check()
        self._before = self._writing.written
        return self._writing

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None:
            self._writing.fail(error, self._before)


class SqliteWriting(SqliteReading, Writing):
    """The statements of one transaction."""

    index_tables = ("unindex_parts", "erase_vectors", "erase_signatures")

    _late = 0
    """Number of rows that `settle` wrote for earlier records."""

    _is_committed = False

    _only_appends = True
    """True as long as only events and folds were written."""

    def __init__(self, connection: SqliteConnection) -> None:
        super().__init__(connection)
        self._writer = SqliteEvents(connection)
        self.appenders: dict[str, Appender] = {}
        self.undoing: list[Callable[[], None]] = []
        self._known = connection.known
        self._known.check()
        self._changes_before = self.db.total_changes()
        self._folds: dict[str, tuple[Fold, Size]] = {}
        """The folds stored since the last write that was neither an append nor a fold."""
        self._read_heads: dict[str, Head] = {}
        """The heads read since that write; `changed` brings them up to date."""
        self._next = 1

    # The block

    def commit(self) -> None:
        try:
            self._finish()
            self.connection.files.check(self.path)
            self.connection.run("COMMIT")
            self._is_committed = True
            if self.db.total_changes() != self._changes_before:
                self._update_known()
                self.connection.commits.one_more()
        except BaseException as error:
            # A signal may interrupt it after the commit, of which the cache then knows nothing.
            self._known.forget()
            if isinstance(error, apsw.Error):
                raise explain(error, self.path) from error
            raise

    def roll_back(self) -> None:
        """Roll back, and forget the keys of agents that were created."""
        if self.db.in_transaction or not self._is_committed:
            super().roll_back()
            self.keys.clear()
            self.ids.clear()

    # Statements

    def run(self, name: str, /, **bindings: Any) -> list[Row]:
        before = self.db.total_changes()
        rows, _ = self.fetched(self.sql[name], bindings)
        if self.db.total_changes() != before:
            # Something other than an event was written.
            self._only_appends, self._folds, self._read_heads = False, {}, {}
        return rows

    def write(self, name: str, /, **bindings: Any) -> None:
        self.run(name, **bindings)

    def atomic(self) -> AtomicBlock:
        return AtomicBlock(self)

    @property
    def written(self) -> int:
        """The number of rows written so far, without late ones."""
        return self.db.total_changes() - self._late

    def fail(self, error: BaseException | None, before: int) -> None:
        """Roll back after an error in a part of the transaction, unless it has written nothing. `before` is what was
        `written` before it."""
        if isinstance(error, apsw.Error):
            # The disk may be full, and later writes could be recorded without earlier ones.
            self.roll_back()
            raise explain(error, self.path) from error
        if self.written != before:
            self.roll_back()

    # Pending writes

    def settle(self) -> None:
        with self.atomic():
            before = self.written
            self._finish()
            self._late += self.written - before

    def _finish(self) -> None:
        """Write everything that is pending. Raises apsw.Error, and StoreError if the transaction has failed."""
        self.check()
        self._writer.index()
        for appender in self.appenders.values():
            appender.finish()

    def _update_known(self) -> None:
        """Update the connection's cache of agents after the commit."""
        if not self._only_appends:
            self._known.forget()
        self._known.committed(self.appenders)
        outdated = [agent_id for agent_id, appender in self.appenders.items() if appender.outdates_heads]
        for agent_id in {*outdated, *self._folds, *self._read_heads}:
            self._known.keep(agent_id, self.kept_head(agent_id))

    def fold_saved(self, fold: Fold, beside: Size, save: Callable[[], None]) -> None:
        before = self._only_appends, self._folds, self._read_heads
        save()
        self._only_appends, self._folds, self._read_heads = before
        self._folds[fold.agent] = fold, beside
        if fold.agent in self.appenders:
            self.appenders[fold.agent].has_replayed = False

    def appender(self, agent_id: str) -> Appender:
        appender = self.appenders.get(agent_id)
        if appender is not None:
            self.check()
            return appender
        key, known = self.key(agent_id), self._known.positions.get(agent_id) if self._only_appends else None
        if known is not None:
            (row, newest), next_id = known, self._known.next_id
        else:
            (found,) = self.run("position", agent=key)
            row, newest, next_id = found[:-1], None, (found[-1] or 0) + 1
        appender = Appender(key, self._draw, self._writer, row, newest)
        self._next = max(self._next, next_id)
        self.appenders[agent_id] = appender
        return appender

    def kept_head(self, agent_id: str) -> Head | None:
        appender, fold = self.appenders.get(agent_id), self._folds.get(agent_id)
        if appender is not None and appender.outdates_heads:
            return None
        head = self._read_heads.get(agent_id) or (self._known.head(agent_id) if self._only_appends else None)
        if head is None or (fold is None and (appender is None or not appender.has_moved)):
            return head
        return changed(head, appender, fold)

    def keep_head(self, agent_id: str, head: Head) -> None:
        self._read_heads[agent_id] = head
        if agent_id in self.appenders:
            self.appenders[agent_id].heads_were_read()

    def _draw(self) -> int:
        self._next += 1
        return self._next - 1

    def create(self, record: AgentRecord, at: int | None) -> None:
        parent = None if record.parent is None else self.key(record.parent)
        each = {"id": record.id, "name": record.name, "fork_event": record.fork_event, "created_at": record.created_at}
        self.write("create_agent", **each, parent=parent, place=at)

    # Erasing

    def with_data(self, events: Sequence[tuple[int, str | None]]) -> Bindings:
        return {"rows": listed(events)}

    @contextmanager
    def unindexed(self, ids: Sequence[int]) -> Iterator[None]:
        # The index can only forget a message whose text has not changed since it was indexed.
        rows = self.run("checksums_of", ids=listed(ids))
        is_known = not any(fault(*row[1:]) for row in rows)
        if is_known:
            try:
                self.run("unindex", ids=listed(ids))
            except StoreError as error:
                if not isinstance(error.__cause__, apsw.CorruptError):
                    raise
                is_known = False  # damage without a checksum to detect it
        yield
        if not is_known:
            self.run("rebuild_index")

    # Memos, copied records

    def save_memo(self, row: Bindings) -> int:
        ((memo_id,),) = self.run("save_memo", **row)
        return int(memo_id)

    def index_memo(self, memo_id: int, content: str, tags: str) -> None:
        self.write("index_memo", memo=memo_id, content=content, tags=tags)

    def take_ids(self, events: Sequence[CopiedEvent]) -> None:
        if events:
            self.write("embed_again", until=min(event.id for event in events) - 1)
            self._next = max(self._next, max(event.id for event in events) + 1)

    def take_memo(self, row: Bindings) -> None:
        self.write("take_memo", **row)

    def reserve_memos(self, highest: int) -> None:
        for query in ("raise_memos", "begin_memos"):
            self.write(query, number=highest)
