"""One transaction of the log (see `foldmark.core.ports.Transaction`)."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from foldmark.core.errors import CommandError, ConflictError
from foldmark.core.events import Draft
from foldmark.core.inbox import refused
from foldmark.core.ports import AgentRecord, Clock, Size
from foldmark.core.replay import Fold
from foldmark.stores.sqlite.appender import Appender, Words
from foldmark.stores.sqlite.beside.inbox import Inbox
from foldmark.stores.sqlite.beside.leases import Leases
from foldmark.stores.sqlite.beside.lineage import Lineage
from foldmark.stores.sqlite.beside.memos import Memos
from foldmark.stores.sqlite.beside.sent import Sent
from foldmark.stores.sqlite.erasing import Eraser
from foldmark.stores.sqlite.reader import Connection
from foldmark.stores.sqlite.snapshot import SqliteSnapshot


class SqliteTransaction(Inbox, Leases, Lineage, Memos, Sent, SqliteSnapshot):
    """What is written in one transaction, which `SqliteStore` begins and ends.

    Agents' rows and the index of words are written late: once, when `settle` is called, instead of with every event.
    """

    def __init__(self, connection: Connection, clock: Clock | None) -> None:
        super().__init__(connection, clock)
        self._words = Words(self._db, self._sql)
        self._appenders: dict[str, Appender] = {}
        self._next = 1
        self._undoing: list[Callable[[], None]] = []

    @property
    def committed(self) -> bool:
        return False

    def on_rollback(self, undo: Callable[[], None]) -> None:
        self._undoing.append(undo)

    def rolled_back(self) -> None:
        """Undo what was meant to be undone with the transaction, what was done last first."""
        while self._undoing:
            self._undoing.pop()()

    def append(self, agent_id: str, expected: int | None, drafts: Sequence[Draft]) -> list[int]:
        appender = self._appender(agent_id)
        if expected is not None and appender.head != expected:
            raise ConflictError(agent_id, expected, appender.head)
        with self.whole():
            return [self._add(appender, draft) for draft in drafts]

    def _add(self, appender: Appender, draft: Draft) -> int:
        if appender.end is not None and (why := refused(appender.end, draft, appender.open_turn)):
            raise CommandError(why)
        return appender.add(draft)

    def next_id(self, agent_id: str) -> int:
        return self._appender(agent_id).next_id

    def stands_apart(self, agent_id: str, call: int) -> bool:
        return self._appender(agent_id).stands_apart(call)

    def erase(self, owner: str, turn: int, last: int, by: int) -> None:
        key = self._key(owner)
        with self.whole():
            self._words.index()
            gone = Eraser(self._db, self._sql).erase(key, turn, last, by)
            if owner in self._appenders:
                self._appenders[owner].lose(gone)

    def create_agent(self, record: AgentRecord, born: Fold, start: Size) -> None:
        with self.whole():
            parent = None if record.parent is None else self._key(record.parent)
            self._run("create_agent", record.id, record.name, parent, record.fork_event, record.created_at)
            self.save_fold(born, start)

    def save_fold(self, fold: Fold, beside: Size) -> None:
        self._run("save_fold", self._key(fold.agent), msgspec.json.encode(fold).decode(), *beside)

    def kill(self, agent_id: str, killer: str, actor: str, died_at: str) -> None:
        super().kill(agent_id, killer, actor, died_at)
        self._end_appends(agent_id)

    def delete(self, agent_id: str, actor: str, deleted_at: str) -> None:
        super().delete(agent_id, actor, deleted_at)
        self._end_appends(agent_id)

    def _end_appends(self, agent_id: str) -> None:
        if agent_id in self._appenders:
            self._appenders[agent_id].end = self.end(agent_id)

    # What is written late

    def settle(self) -> None:
        """Write down what is written late."""
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

    def _record(self, fields: Sequence[Any]) -> AgentRecord:
        record = super()._record(fields)
        appender = self._appenders.get(record.id)
        if appender is None:
            return record
        messages, tokens = appender.own
        return msgspec.structs.replace(
            record, head=appender.head, open_turn=appender.open_turn, messages=messages, tokens=tokens
        )

    def _appender(self, agent_id: str) -> Appender:
        self._check()
        appender = self._appenders.get(agent_id)
        if appender is None:
            key = self._key(agent_id)
            (row,) = self._run("position", key)
            appender = Appender(self._db, self._sql, key, self._draw, self._words, row)
            appender.end = self.end(agent_id) if appender.ended else None
            self._next = max(self._next, (appender.newest or 0) + 1)
            self._appenders[agent_id] = appender
        return appender

    def _draw(self) -> int:
        self._next += 1
        return self._next - 1
