"""One block of a store in SQLite that writes (see `foldmark.stores.block`).

Agents' rows and the index of words are written once, when `settle` is called, instead of with every event.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import apsw

from foldmark.core.agents import AgentRecord, Size
from foldmark.core.errors import StoreError
from foldmark.core.ports import Head
from foldmark.core.records import CopiedEvent
from foldmark.core.replay import Fold
from foldmark.stores.appender import Appender
from foldmark.stores.block import Writing
from foldmark.stores.queries import listed
from foldmark.stores.rows import Bindings, Row, fault
from foldmark.stores.sqlite.file import explain
from foldmark.stores.sqlite.reading import SqliteConnection, SqliteReading


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

    def __init__(self, connection: SqliteConnection) -> None:
        super().__init__(connection)
        self._events = connection.events
        self.appenders: dict[str, Appender] = {}
        self.undoing: list[Callable[[], None]] = []
        self._known = connection.known
        self._known.check()
        self._changes_before = self.db.total_changes()

    # The block

    def commit(self) -> None:
        try:
            self._finish()
            self.connection.files.check(self.path)
            self.connection.run("COMMIT")
            self._is_committed = True
            if self.db.total_changes() != self._changes_before:
                for agent_id, appender in self.appenders.items():
                    if appender.outdates_heads:
                        self._known.heads.pop(agent_id, None)
                    appender.heads_were_read()
                self._known.committed()
                self.connection.commits.one_more()
        except BaseException as error:
            # A signal may interrupt it after the commit, of which the cache then knows nothing.
            self._known.forget()
            if isinstance(error, apsw.Error):
                raise explain(error, self.path) from error
            raise

    def roll_back(self) -> None:
        """Roll back, unless the transaction was committed."""
        if self.db.in_transaction or not self._is_committed:
            super().roll_back()
            self.connection.forget()

    # Statements

    def run(self, name: str, /, **bindings: Any) -> list[Row]:
        before = self.db.total_changes()
        rows, _ = self.fetched(self.sql[name], bindings)
        if self.db.total_changes() != before:
            self._known.forget(self.appenders)  # something other than an event was written
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
        self._events.index()
        for appender in self.appenders.values():
            appender.finish()

    def fold_saved(self, fold: Fold, beside: Size, save: Callable[[], None]) -> None:
        known = self._known
        before = known.heads, known.appenders
        save()
        known.heads, known.appenders = before
        if fold.agent in known.heads:
            known.heads[fold.agent] = known.heads[fold.agent]._replace(cache=(fold, beside))
        if fold.agent in self.appenders:
            self.appenders[fold.agent].has_replayed = False

    def appender(self, agent_id: str) -> Appender:
        appender = self.appenders.get(agent_id)
        if appender is not None:
            self.check()
            return appender
        known = self._known
        if agent_id not in known.appenders:
            key = self.key(agent_id)
            (found,) = self.run("position", agent=key)
            known.newest = max(known.newest, found[-1] or 0)
            known.appenders[agent_id] = Appender(key, known.draw, self._events, found[:-1])
        appender = self.appenders[agent_id] = known.appenders[agent_id]
        return appender

    def kept_head(self, agent_id: str) -> Head | None:
        appender = self.appenders.get(agent_id)
        return None if appender is not None and appender.outdates_heads else self._known.head(agent_id)

    def keep_head(self, agent_id: str, head: Head) -> None:
        self._known.heads[agent_id] = head
        if agent_id in self.appenders:
            self.appenders[agent_id].heads_were_read()

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
            self._known.newest = max(self._known.newest, *(event.id for event in events))

    def take_memo(self, row: Bindings) -> None:
        self.write("take_memo", **row)

    def reserve_memos(self, highest: int) -> None:
        for query in ("raise_memos", "begin_memos"):
            self.write(query, number=highest)
