"""One transaction of the log in any database (see `foldmark.core.ports.Transaction`)."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from typing import Any, ClassVar

import msgspec

from foldmark.core.agents import AgentRecord, Size, refused
from foldmark.core.codec import without_content
from foldmark.core.errors import CommandError, ConflictError
from foldmark.core.events import Draft
from foldmark.core.replay import Fold
from foldmark.stores.appender import Appender
from foldmark.stores.beside import Beside
from foldmark.stores.queries import listed
from foldmark.stores.reader import Bindings, Row
from foldmark.stores.snapshot import LogSnapshot


class LogTransaction(Beside, LogSnapshot):
    """The writes of one transaction, which the store begins and ends."""

    _appenders: dict[str, Any]
    _undoing: list[Callable[[], None]]

    _index_tables: ClassVar[tuple[str, ...]]
    """Statements that remove the rows of messages from indices and vectors."""

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
        # The key comes first: whoever repeats an append still expects the head of the first attempt.
        if key is not None:
            for (before,) in self._run("append_ids", **self._for_agent(agent_id), key=key):
                return msgspec.json.decode(before, type=list[int])
        if expected is not None and appender.head != expected:
            raise ConflictError(agent_id, expected, appender.head)
        if not drafts:
            return []
        with self.whole():
            ids = [self._add(appender, draft) for draft in drafts]
            if key is not None:
                self._write("keep_append", **self._for_agent(agent_id), key=key, ids=listed(ids))
            return ids

    def _add(self, appender: Appender, draft: Draft) -> int:
        if appender.end is not None and (why := refused(appender.end, draft, appender.open_turn)):
            raise CommandError(why)
        return appender.add(draft)

    def next_id(self, agent_id: str) -> int:
        return self._appender(agent_id).next_id

    def stands_apart(self, agent_id: str, call: int) -> bool:
        return self._appender(agent_id).stands_apart(call)

    def erase(self, owner: str, turn: int, last: int, by: int) -> None:
        agent, appender = self._for_agent(owner), self._appender(owner)
        with self.whole():
            # Words that are to be indexed late could not be removed from the index.
            self.settle()
            rows = self._run("to_erase", **agent, turn=turn, last=last)
            messages = [row for row in rows if row[2] is not None]
            gone = Size(len(messages), sum(row[4] for row in messages))
            ids = [row[0] for row in messages]
            with self._unindexed(ids):
                for name in self._index_tables:
                    self._write(name, **agent, ids=self._list(ids))
                calls = [id for id, kind, *_ in messages if kind == "tool_call"]
                self._write("erase_waiting", **agent, calls=self._list(calls))
                remains = [(id, without_content(kind, data, handed_down=turn > 0)) for id, kind, _, data, *_ in rows]
                self._write("erase", **agent, by=by, **self._rows_of(remains))
            if turn:
                self._write("erase_questions", **agent, turn=turn)
                self._write("lower_totals", **agent, messages=gone.messages, tokens=gone.tokens)
                self._note_erased(agent, messages)
            else:
                self._erase_sent(agent)
                self._write("forget_totals", **agent)
                self._write("forget_erased_sums", **agent)
            appender.lose(gone, whole=not turn)

    def _unindexed(self, ids: Sequence[int]) -> AbstractContextManager[None]:
        """Erase the content of messages inside the block, which are in the index before it and not behind it."""
        return nullcontext()

    def _erase_sent(self, agent: Bindings) -> None:
        """Remove the requests of an agent, and the texts that only these needed."""
        self._write("erase_sent", **agent)
        self._write("erase_texts")

    def _note_erased(self, agent: Bindings, messages: Sequence[Row]) -> None:
        """Record the sizes of erased messages, so that no sum stored with a later message has to change."""
        # Neighbours have neighbouring counts; one row for each run of them hides the length of each message.
        for _, each in groupby(enumerate(messages), lambda item: item[1][2] - item[0]):
            run = [message for _, message in each]
            last, sums = run[-1][0], (len(run), sum(row[4] for row in run), sum(row[5] for row in run))
            before = next(iter(self._run("erased_up_to", **agent, event=last)), (0, 0, 0))
            names = ("messages", "tokens", "weight")
            self._write("add_erased", **agent, event=last, **dict(zip(names, sums, strict=True)))
            after = (a + b for a, b in zip(before, sums, strict=True))
            self._write("note_erased", **agent, event=last, **dict(zip(names, after, strict=True)))

    def create_agent(self, record: AgentRecord, born: Fold, start: Size) -> None:
        with self.whole():
            self._create(record)
            self.save_fold(born, start)

    def save_fold(self, fold: Fold, beside: Size) -> None:
        body = msgspec.json.encode(fold).decode()
        self._write(
            "save_fold", **self._for_agent(fold.agent), body=body, messages=beside.messages, tokens=beside.tokens
        )

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

    def _rows_of(self, datas: Sequence[tuple[int, str | None]]) -> Bindings:
        """Return bindings for events, each with its data."""
        raise NotImplementedError

    def _create(self, record: AgentRecord, place: int | None = None) -> None:
        """Add an agent. Raises StoreError if its name is taken."""
        raise NotImplementedError
