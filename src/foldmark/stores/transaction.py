"""One transaction of the log in any database (see `foldmark.core.ports.Transaction`).

An `Appender` appends to one agent and computes the columns that the store adds to each event. `LogTransaction` keeps an
appender for each agent that it appends to; it also erases, and receives records copied from another store.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from typing import Any, ClassVar, Protocol

import msgspec
from msgspec import structs

from foldmark.core.agents import AgentRecord, Changes, End, Size, mail_of, refused
from foldmark.core.assembly.sent import Owner, owners
from foldmark.core.codec import checksum, count_tokens, decode_data, encode_data, outlives, without_content
from foldmark.core.errors import CommandError, ConflictError, StoreError
from foldmark.core.events import METADATA_KINDS, ROLES, Draft, is_replayed
from foldmark.core.ports import NEWEST_KINDS
from foldmark.core.records import CopiedEvent, CopiedMemo
from foldmark.core.replay import Fold
from foldmark.core.turns import place
from foldmark.stores.beside import BesideWriter
from foldmark.stores.queries import listed
from foldmark.stores.reader import Bindings, Row, carried_mail
from foldmark.stores.snapshot import LogSnapshot

STATE = ("head", "last", "open_turn", "messages", "tokens", "run", "killed", "deleted", "archived")
"""The columns of the state of an agent, with which a row of `Appender` begins."""


class EventWriter(Protocol):
    """Writes the events of agents, given by their keys. Each database implements it."""

    def record(self, row: Row, draft: Draft) -> None:
        """Write an event: its id, agent, turn, kind, dialect, actor, time, whether it was interrupted, call id, the
        call that it answers, whether apart, whether replayed, tokens, running count and sum, content, data, checksum.
        Only a message that is not erased has a count and a sum."""

    def own(self, agent: int, texts: Sequence[tuple[str, Owner]]) -> None:
        """Record the owners of the texts of a request, by the hashes of these."""

    def bury(self, id: int, by: int) -> None:
        """Record that a new event has been erased by an operation."""

    def newest_message(self, agent: int, until: int) -> Row | None:
        """Return the turn and the kind of an agent's newest message up to event `until`, the agent's head."""

    def arrive(self, agent: int, mail: int) -> None:
        """Record that mail is unread."""

    def carried(self, agent: int, mail: Sequence[int]) -> None:
        """Record that some mail is no longer unread."""

    def wait(self, agent: int, call: int) -> None:
        """Record that a call waits for its result."""

    def answered(self, agent: int, call: int) -> None:
        """Record that a call no longer waits."""

    def end_waiting(self, agent: int) -> None:
        """Record that no call waits any longer, because its turn has ended."""

    def advance(self, agent: int, state: Row, newest: Row | None) -> None:
        """Update the row of an agent (see `Appender`)."""


class Appender:
    """Appends events to one agent; its row is updated once, by `finish`."""

    def __init__(
        self, key: int, draw: Callable[[], int], writer: EventWriter, row: Row, newest: Row | None = None
    ) -> None:
        """`row` is the stored state of the agent (`STATE`), then its erased messages and their tokens. `draw` returns
        the next id. `newest` is the turn and the kind of the newest message, if they are known."""
        self._key, self._draw, self._writer = key, draw, writer
        self.head, self.last, self.open_turn, self._messages, self._tokens, self._run, *more = row
        self._fates: dict[str, int] = dict(zip(STATE[6:], more, strict=False))
        self._sums = more[3:]
        self.has_replayed = False
        """True if an appended event changed the agent's fold and the new fold is not stored yet."""
        self._has_newest = False
        """True if a head shows one of the appended events."""
        self.has_moved = False
        """True once something was appended."""
        self.newest = newest
        self._reserved: int | None = None
        self._is_ahead = False  # of the stored row

    @property
    def outdates_heads(self) -> bool:
        """True if events appended since the head was read affect more of it than the agent's row and stored fold."""
        return self.has_replayed or self._has_newest

    def heads_were_read(self) -> None:
        """Record that the head was read with all appended events."""
        self.has_replayed = self._has_newest = False

    @property
    def own(self) -> Size:
        """The size of all the agent's own messages."""
        return Size(self._messages, self._tokens)

    @property
    def row(self) -> Row:
        """The state of the agent as it will be stored."""
        counted = (self.head, self.last, self.open_turn, self._messages, self._tokens, self._run)
        return (*counted, *self._fates.values(), *self._sums)

    @property
    def ended(self) -> int:
        """The event that ended the agent, 0 if it is alive."""
        return self._fates["deleted"] or self._fates["killed"]

    @property
    def next_id(self) -> int:
        """The id of the next event, reserved for it."""
        if self._reserved is None:
            self._reserved = self._draw()
        return self._reserved

    def add(self, draft: Draft) -> int:
        """Append one event and return its id."""
        kind, id = draft.kind, self._reserved or self._draw()
        call_id = draft.data["call_id"] if draft.data and kind in ("tool_call", "tool_result") else None
        turn, open_turn = place(kind, id, self.open_turn)
        apart = draft.answers is not None and (self._run is None or draft.answers < self._run)
        self._append(id, turn, draft, encode_data(kind, draft.data), call_id, apart)
        self._follow(id, turn, draft, open_turn)
        self._reserved = None
        return id

    def take(self, event: CopiedEvent, answered: Collection[int]) -> None:
        """Append an event copied from another store; the calls that are `answered` in the same page never wait. Raises
        ConflictError unless its id is above all of the agent's."""
        if event.id <= self.last:
            raise ConflictError(event.agent, event.id - 1, self.last)
        draft = Draft(
            kind=event.kind,
            created_at=event.created_at,
            content=event.content,
            data=decode_data(event.kind, event.data),
            dialect=event.dialect,
            actor=event.actor,
            interrupted=event.interrupted,
            answers=event.answers,
        )
        self._append(event.id, event.turn, draft, event.data, event.call_id, event.apart, event.redacted)
        _, open_turn = place(event.kind, event.id, self.open_turn)
        self._follow(event.id, event.turn, draft, open_turn, event.redacted is None, answered)

    def _append(
        self,
        id: int,
        turn: int | None,
        draft: Draft,
        data: str | None,
        call_id: str | None,
        stands_apart: bool,
        by: int | None = None,
    ) -> None:
        """Write an event; `by` is the operation that has erased it."""
        kind, content = draft.kind, draft.content
        fixed = (id, self._key, turn, kind, draft.dialect, draft.actor, draft.created_at, int(draft.interrupted))
        checked = (*fixed, call_id, draft.answers)
        apart, replayed = 1 if stands_apart else None, int(is_replayed(kind, data))
        if kind in NEWEST_KINDS:
            self._has_newest = True
        if replayed:
            self.has_replayed = True
        if by is not None:
            self._writer.record((*checked, apart, replayed, 0, None, None, content, data, None), draft)
            self._writer.bury(id, by)
            return
        tokens = count_tokens(content, data)
        nth = total = None
        if kind in ROLES:
            self._messages, self._tokens = self._messages + 1, self._tokens + tokens
            # Stored sums include erased messages, unlike `own`.
            erased_messages, erased_tokens = self._sums
            nth, total = self._messages + erased_messages, self._tokens + erased_tokens
        check = checksum(checked, content.encode(), None if data is None else data.encode())
        row = (*checked, apart, replayed, tokens, nth, total, content, data, check)
        self._writer.record(row, draft)
        if kind == "request" and (texts := list(owners(turn, draft.data))):
            self._writer.own(self._key, texts)

    def _follow(
        self,
        id: int,
        turn: int | None,
        draft: Draft,
        open_turn: int | None,
        present: bool = True,
        answered: Collection[int] = (),
    ) -> None:
        """Update the state after a recorded event. `present` is False for an event that was erased in the source;
        nothing waits for the result of a call that is `answered`."""
        kind = draft.kind
        self.last, self._is_ahead, self.has_moved = id, True, True
        if kind in METADATA_KINDS:
            self._note(id, kind, present)
            return
        if kind == "user" and (mail := mail_of(draft.data)):
            self._has_newest = True
            self._writer.carried(self._key, mail)
        if kind == "tool_call" and present and id not in answered:
            self._writer.wait(self._key, id)
        elif draft.answers is not None and draft.answers not in answered:
            self._writer.answered(self._key, draft.answers)
        elif kind == "turn_ended":
            self._writer.end_waiting(self._key)
        self._run = self._run_after(id, kind, turn)
        self.head, self.open_turn = id, open_turn

    def _note(self, id: int, kind: str, present: bool) -> None:
        """Update the state after mail, or after an event about what became of the agent."""
        if kind == "mail" and present:
            self._has_newest = True  # heads say whether there is unread mail
            self._writer.arrive(self._key, id)
        elif kind in self._fates:
            self._fates[kind] = id
        if kind in ("unarchived", "deleted"):
            self._fates["archived"] = 0

    def _run_after(self, id: int, kind: str, turn: int | None) -> int | None:
        """Return the first call of the newest run of calls, if only results follow that run."""
        run: int | None = self._run
        if kind == "tool_call":
            newest = self.newest or self._writer.newest_message(self._key, self.head)
            run = run if newest == (turn, kind) else id
        elif kind == "turn_ended" or (kind in ROLES and kind != "tool_result"):
            run = None
        if kind in ROLES:
            self.newest = turn, kind
        return run

    def name_eraser(self, ids: Sequence[int], by: int) -> None:
        """Record that operation `by` erased these events."""
        for id in ids:
            self._writer.bury(id, by)

    def finish(self) -> None:
        """Update the agent's row."""
        if self._is_ahead:
            self._writer.advance(self._key, self.row, self.newest)
            self._is_ahead = False

    def lose(self, gone: Size, *, whole: bool) -> None:
        """Update the sizes after the erasure of a turn or the `whole` agent; the stored row is already updated."""
        self._messages, self._tokens = self.own.less(gone)
        self.newest = None
        messages, tokens = self._sums
        self._sums = [0, 0] if whole else [messages + gone.messages, tokens + gone.tokens]


def moved(record: AgentRecord, row: Row) -> AgentRecord:
    """Return an agent's record after appends that led to this state (see `Appender`)."""
    state = {name: value for name, value in zip(STATE, row, strict=False) if name != "run"}
    return structs.replace(record, **state)


class LogTransaction(BesideWriter, LogSnapshot, Protocol):
    """The writes of one transaction, which the store begins and ends."""

    _appenders: dict[str, Any]
    _undoing: list[Callable[[], None]]

    _index_tables: ClassVar[tuple[str, ...]]
    """Statements that remove messages from the indices and their vectors."""

    def changes(self, after: str | None, limit: int) -> Changes:
        raise StoreError("changes are committed events; read them outside of the transaction")

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
        # The key is checked first, because a repeated append still expects the head of the first attempt.
        if key is not None:
            for (before,) in self._run("append_ids", **self._for_agent(agent_id), key=key):
                return msgspec.json.decode(before, type=list[int])
        is_expected = not drafts or any(draft.kind not in METADATA_KINDS for draft in drafts)
        if expected is not None and is_expected and appender.head != expected:
            raise ConflictError(agent_id, expected, appender.head)
        if not drafts:
            return []
        ids = []
        with self.whole():
            for draft in drafts:
                if appender.ended and (why := refused(self._end(appender.ended), draft, appender.open_turn)):
                    raise CommandError(why)
                if draft.kind in ("renamed", "deleted"):
                    self._name(agent_id, draft.content or None)
                ids.append(appender.add(draft))
            if key is not None:
                self._write("keep_append", **self._for_agent(agent_id), key=key, ids=listed(ids))
        return ids

    def _end(self, event_id: int) -> End:
        """Return the end that an event of this database records."""
        (event,) = self.events([event_id])
        return End.of(event)

    def _name(self, agent_id: str, name: str | None) -> None:
        """Set or remove an agent's name. Raises StoreError if another agent has it."""
        self._write("rename_agent", **self._for_agent(agent_id), name=name)

    def next_id(self, agent_id: str) -> int:
        return self._appender(agent_id).next_id

    def erase(self, owner: str, turn: int, last: int, by: int) -> None:
        agent, appender = self._for_agent(owner), self._appender(owner)
        with self.whole():
            # Pending words could not be removed from the index.
            self.settle()
            rows = self._run("to_erase", **agent, turn=turn, last=last)
            if turn:
                mail = [id for _, kind, _, data, _ in rows if kind == "user" for id in carried_mail(data)]
                rows = [row for row in rows if not outlives(row[1], row[3])]
                # Mail that was read belongs to the turn. A message may name other events, which are not erased.
                own = [each for each in self.events(mail) if each.kind == "mail" and each.agent_id == owner]
                rows += [(each.id, "mail", None, None, 0) for each in own]
            else:
                self._write("forget_unread", **agent)
            messages = [row for row in rows if row[2] is not None]
            gone = Size(len(messages), sum(row[4] for row in messages))
            ids = [row[0] for row in messages]
            with self._unindexed(ids):
                for name in self._index_tables:
                    self._write(name, **agent, ids=self._list(ids))
                if calls := [id for id, kind, *_ in messages if kind == "tool_call"]:
                    self._write("erase_waiting", **agent, calls=self._list(calls))
                remains = [(id, without_content(kind, data, handed_down=turn > 0)) for id, kind, _, data, *_ in rows]
                self._write("erase", **agent, by=by, **self._rows_of(remains))
            if turn:
                self._erase_texts([hash for (hash,) in self._run("disown_turn", **agent, turn=turn)])
                self._write("lower_totals", **agent, **gone._asdict())
                self._note_erased(agent, messages)
            else:
                self._erase_texts([hash for (hash,) in self._run("disown_agent", **agent)])
                self._write("forget_totals", **agent)
                self._write("forget_erased_sums", **agent)
            appender.lose(gone, whole=not turn)

    def _unindexed(self, ids: Sequence[int]) -> AbstractContextManager[None]:
        """Take messages out of the index of words; their content is erased inside the block."""
        return nullcontext()

    def _note_erased(self, agent: Bindings, messages: Sequence[Row]) -> None:
        """Record the sizes of erased messages. The sums stored with later messages do not change."""
        # Adjacent messages have adjacent counts; one row per run of them hides the length of each message.
        for _, each in groupby(enumerate(messages), lambda item: item[1][2] - item[0]):
            run = [message for _, message in each]
            last, tokens = run[-1][0], sum(row[4] for row in run)
            for name in ("add_erased", "note_erased"):
                self._write(name, **agent, event=last, messages=len(run), tokens=tokens)

    def create_agent(self, record: AgentRecord, born: Fold, start: Size) -> None:
        with self.whole():
            self._create(record)
            self.save_fold(born, start)

    def save_fold(self, fold: Fold, beside: Size) -> None:
        body = msgspec.json.encode(fold).decode()
        self._write("save_fold", **self._for_agent(fold.agent), body=body, **beside._asdict())

    def _record(self, fields: Sequence[Any]) -> AgentRecord:
        record = super()._record(fields)
        appender = self._appenders.get(record.id)
        if appender is None:
            return record
        return moved(record, appender.row)

    # Records copied from another store

    def take_agents(self, agents: Mapping[int, AgentRecord]) -> None:
        with self.whole():
            for place, record in agents.items():
                self._create(record, place)

    def take_events(self, events: Sequence[CopiedEvent]) -> None:
        self.settle()
        with self.whole():
            self._take_ids(events)
            calls = {event.id for event in events if event.kind == "tool_call"}
            answered = calls.intersection(event.answers for event in events if event.answers is not None)
            for event in events:
                self._appender(event.agent).take(event, answered)
                if event.kind == "deleted":
                    self._name(event.agent, None)
            self.settle()
            for agent in sorted({event.agent for event in events if is_replayed(event.kind, event.data)}):
                self._write("forget_fold", **self._for_agent(agent))

    def take_names(self, names: Mapping[str, str | None]) -> None:
        with self.whole():
            for agent in names:
                self._name(agent, None)
            for agent, name in names.items():
                if name is not None:
                    self._name(agent, name)

    def take_erased(self, agent: str, event_ids: Sequence[int], by: int) -> None:
        self._appender(agent).name_eraser(event_ids, by)

    def _take_ids(self, events: Sequence[CopiedEvent]) -> None:
        """Reserve the ids of these events. Raises StoreError if they are taken."""

    def disown(self, agent: str, hashes: Collection[str]) -> None:
        with self.whole():
            self._write("disown_texts", **self._for_agent(agent), hashes=self._list(sorted(hashes)))
            self._erase_texts(list(hashes))

    def take_memos(self, memos: Sequence[CopiedMemo]) -> None:
        with self.whole():
            for memo in memos:
                agent = None if memo.agent is None else self._key(memo.agent)
                self._take_memo({**structs.asdict(memo), "agent": agent})
                self._mark_memo(memo.id, memo.content, memo.tags)

    def _take_memo(self, row: Bindings) -> None:
        """Record a memo without its tags and words; `event` is the newest event before it."""

    # To be implemented

    def _appender(self, agent_id: str) -> Appender:
        """Return the appender of an agent in this transaction."""

    def _rows_of(self, datas: Sequence[tuple[int, str | None]]) -> Bindings:
        """Return bindings for events, each with its data."""

    def _create(self, record: AgentRecord, place: int | None = None) -> None:
        """Add an agent. Raises StoreError if its name is taken."""
