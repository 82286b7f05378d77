"""One transaction of the log in any database (see `foldmark.core.ports.Transaction`)."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from foldmark.core.agents import AgentRecord, Size, refused
from foldmark.core.errors import CommandError, ConflictError
from foldmark.core.events import Draft
from foldmark.core.replay import Fold
from foldmark.stores.appender import Appender
from foldmark.stores.beside.inbox import SqlInbox
from foldmark.stores.beside.leases import SqlLeases
from foldmark.stores.beside.lineage import SqlLineage
from foldmark.stores.beside.memos import SqlMemos
from foldmark.stores.beside.sent import SqlSent
from foldmark.stores.queries import listed
from foldmark.stores.snapshot import LogSnapshot


class LogTransaction(SqlInbox, SqlLeases, SqlLineage, SqlMemos, SqlSent, LogSnapshot):
    """The writes of one transaction, which the store begins and ends."""

    _appenders: dict[str, Any]
    _undoing: list[Callable[[], None]]

    @property
    def committed(self) -> bool:
        return False

    def on_rollback(self, undo: Callable[[], None]) -> None:
        self._undoing.append(undo)

    def rolled_back(self) -> None:
        """Call the registered undo functions, the last one first."""
        while self._undoing:
            self._undoing.pop()()

    def append(
        self, agent_id: str, expected: int | None, drafts: Sequence[Draft], *, key: str | None = None
    ) -> list[int]:
        appender = self._appender(agent_id)
        if key is not None:
            for (before,) in self._run("append_ids", **self._of(agent_id), key=key):
                return msgspec.json.decode(before, type=list[int])
        if expected is not None and appender.head != expected:
            raise ConflictError(agent_id, expected, appender.head)
        if not drafts:
            return []
        with self.whole():
            ids = [self._add(appender, draft) for draft in drafts]
            if key is not None:
                self._write("keep_append", **self._of(agent_id), key=key, ids=listed(ids))
            return ids

    def _add(self, appender: Appender, draft: Draft) -> int:
        if appender.end is not None and (why := refused(appender.end, draft, appender.open_turn)):
            raise CommandError(why)
        return appender.add(draft)

    def next_id(self, agent_id: str) -> int:
        return self._appender(agent_id).next_id

    def stands_apart(self, agent_id: str, call: int) -> bool:
        return self._appender(agent_id).stands_apart(call)

    def create_agent(self, record: AgentRecord, born: Fold, start: Size) -> None:
        with self.whole():
            self._create(record)
            self.save_fold(born, start)

    def save_fold(self, fold: Fold, beside: Size) -> None:
        body = msgspec.json.encode(fold).decode()
        self._write("save_fold", **self._of(fold.agent), body=body, messages=beside.messages, tokens=beside.tokens)

    def kill(self, agent_id: str, killer: str, actor: str, died_at: str) -> None:
        super().kill(agent_id, killer, actor, died_at)
        self._end_appends(agent_id)

    def delete(self, agent_id: str, actor: str, deleted_at: str) -> None:
        super().delete(agent_id, actor, deleted_at)
        self._end_appends(agent_id)

    def _end_appends(self, agent_id: str) -> None:
        if agent_id in self._appenders:
            self._appenders[agent_id].end = self.end(agent_id)

    def _record(self, fields: Sequence[Any]) -> AgentRecord:
        record = super()._record(fields)
        appender = self._appenders.get(record.id)
        if appender is None:
            return record
        messages, tokens = appender.own
        return msgspec.structs.replace(
            record, head=appender.head, open_turn=appender.open_turn, messages=messages, tokens=tokens
        )

    # Implemented by each database

    def _appender(self, agent_id: str) -> Appender:
        """Return the appender of an agent in this transaction."""
        raise NotImplementedError

    def _create(self, record: AgentRecord, place: int | None = None) -> None:
        """Add an agent. Raises StoreError if its name is taken."""
        raise NotImplementedError
