"""The older face of `SqliteStore`: reading outside of any block, and writing methods that begin their own transaction.

It goes when all callers read in `read` and write in `write`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from foldmark.core.errors import ConflictError, StoreError
from foldmark.core.events import Draft
from foldmark.core.leases import Lease
from foldmark.core.lineage import CodingSession
from foldmark.core.ports import AgentRecord, Head, Overview, Size
from foldmark.core.replay import Fold, birth
from foldmark.core.sent import SentRequest
from foldmark.stores.sqlite.snapshot import SqliteSnapshot
from foldmark.stores.sqlite.transaction import SqliteTransaction


class BatchAppender:
    """Appends to one agent inside a transaction (see `foldmark.core.ports.Appender`)."""

    def __init__(self, transaction: SqliteTransaction, agent_id: str) -> None:
        self._transaction, self._agent_id = transaction, agent_id

    @property
    def _appender(self) -> Any:
        return self._transaction._appender(self._agent_id)

    @property
    def head(self) -> int:
        return int(self._appender.head)

    @property
    def open_turn(self) -> int | None:
        turn: int | None = self._appender.open_turn
        return turn

    @property
    def own(self) -> Size:
        size: Size = self._appender.own
        return size

    @property
    def next_id(self) -> int:
        return self._transaction.next_id(self._agent_id)

    def add(self, draft: Draft) -> int:
        return self._transaction.append(self._agent_id, None, [draft])[0]

    def stands_apart(self, call: int) -> bool:
        return self._transaction.stands_apart(self._agent_id, call)

    def erase(self, owner: str, turn: int, last: int, by: int) -> None:
        self._transaction.erase(owner, turn, last, by)


class Bridge(SqliteSnapshot):
    """All methods of `SqliteSnapshot` and the writing ones of `SqliteTransaction`, outside of their blocks as well."""

    rolled_back = 0
    _open: SqliteSnapshot | None
    _batching = False

    def write(self) -> AbstractContextManager[SqliteTransaction]:
        raise NotImplementedError

    @property
    def committed(self) -> bool:
        return not isinstance(self._open, SqliteTransaction)

    def _check(self) -> None:
        pass

    def _settle(self) -> None:
        if isinstance(self._open, SqliteTransaction):
            self._open.settle()

    def _search(self, name: str, bindings: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        with self._lock:
            return super()._search(name, bindings)

    def _record(self, fields: Sequence[Any]) -> AgentRecord:
        return super()._record(fields) if self._open is None else self._open._record(fields)

    def agents(self) -> list[AgentRecord]:
        with self._lock:
            return super().agents()

    def overview(self) -> list[Overview]:
        with self._lock:
            return super().overview()

    def agent(self, agent_id: str) -> AgentRecord | None:
        with self._lock:
            return super().agent(agent_id)

    def named(self, name: str) -> AgentRecord | None:
        with self._lock:
            return super().named(name)

    def children(self, agent_id: str) -> list[AgentRecord]:
        with self._lock:
            return super().children(agent_id)

    def unstarted(self) -> list[AgentRecord]:
        with self._lock:
            return super().unstarted()

    def head(self, agent_id: str) -> Head:
        with self._lock:
            return super().head(agent_id)

    def exclusive(self) -> AbstractContextManager[object]:
        return self._lock

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self.write():
            yield

    @contextmanager
    def appending(
        self, agent_id: str, expected: int | None, newborn: AgentRecord | None = None
    ) -> Iterator[BatchAppender]:
        with self._lock, self.write() as transaction:
            if self._batching:
                raise StoreError("a batch is under way for another agent; append to this one when it has ended")
            if newborn is not None:
                transaction.create_agent(newborn, birth(newborn.id), Size(0, 0))
            appender = BatchAppender(transaction, agent_id)
            if expected is not None and appender.head != expected:
                raise ConflictError(agent_id, expected, appender.head)
            self._batching = True
            try:
                yield appender
            finally:
                self._batching = False

    def create_agent(self, record: AgentRecord, born: Fold, start: Size) -> None:
        with self.write() as transaction:
            transaction.create_agent(record, born, start)

    def save_fold(self, fold: Fold, beside: Size) -> None:
        with self.write() as transaction:
            transaction.save_fold(fold, beside)

    def send(self, sender: str, recipient: str, content: str, actor: str, sent_at: str) -> int:
        with self.write() as transaction:
            return transaction.send(sender, recipient, content, actor, sent_at)

    def carried(self, mail_id: int, event_id: int) -> None:
        with self.write() as transaction:
            transaction.carried(mail_id, event_id)

    def kill(self, agent_id: str, killer: str, actor: str, died_at: str) -> None:
        with self.write() as transaction:
            transaction.kill(agent_id, killer, actor, died_at)

    def delete(self, agent_id: str, actor: str, deleted_at: str) -> None:
        with self.write() as transaction:
            transaction.delete(agent_id, actor, deleted_at)

    def rename(self, agent_id: str, name: str) -> None:
        with self.write() as transaction:
            transaction.rename(agent_id, name)

    def archive(self, agent_id: str, archived_at: str | None) -> None:
        with self.write() as transaction:
            transaction.archive(agent_id, archived_at)

    def lend(self, lease: Lease) -> None:
        with self.write() as transaction:
            transaction.lend(lease)

    def renew(self, holder: str, until: str) -> list[Lease]:
        with self.write() as transaction:
            return transaction.renew(holder, until)

    def lease_state(self, agent_id: str, holder: str, state: str) -> None:
        with self.write() as transaction:
            transaction.lease_state(agent_id, holder, state)

    def give_back(self, agent_id: str, holder: str) -> None:
        with self.write() as transaction:
            transaction.give_back(agent_id, holder)

    def ask_interrupt(self, agent_id: str) -> None:
        with self.write() as transaction:
            transaction.ask_interrupt(agent_id)

    def save_memo(self, content: str, tags: Sequence[str], agent_id: str | None, actor: str, created_at: str) -> int:
        with self.write() as transaction:
            return transaction.save_memo(content, tags, agent_id, actor, created_at)

    def remove_memo(self, memo_id: int) -> None:
        with self.write() as transaction:
            transaction.remove_memo(memo_id)

    def add_sent(self, request: SentRequest, texts: Mapping[str, str]) -> int:
        with self.write() as transaction:
            return transaction.add_sent(request, texts)

    def save_coding_session(self, session: CodingSession) -> int:
        with self.write() as transaction:
            return transaction.save_coding_session(session)
