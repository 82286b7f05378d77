"""Appending to one agent in any database: what a store computes for each event, and the state of the agent."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from msgspec import structs

from foldmark.core.agents import AgentRecord, Size, mail_of
from foldmark.core.assembly.sent import Owner, owners
from foldmark.core.codec import checksum, count_tokens, decode_data, encode_data
from foldmark.core.errors import ConflictError
from foldmark.core.events import METADATA_KINDS, ROLES, Draft, is_replayed
from foldmark.core.ports import NEWEST_KINDS
from foldmark.core.records import CopiedEvent
from foldmark.core.turns import place
from foldmark.stores.rows import Row

STATE = ("head", "last", "open_turn", "messages", "tokens", "run", "asked", "killed", "deleted", "archived")
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
        *state, erased_messages, erased_tokens = row
        self.head, self.last, self.open_turn, self._messages, self._tokens, self._run, *more = state
        self._by_kind: dict[str, int] = dict(zip(STATE[6:], more, strict=True))
        self._erased = Size(erased_messages, erased_tokens)
        self.has_replayed = False
        """True if an appended event changed the agent's fold and the new fold is not stored yet."""
        self._has_newest = False
        """True if a head contains one of the appended events."""
        self.newest = newest
        self._is_ahead = False  # of the stored row

    @property
    def outdates_heads(self) -> bool:
        """True if appends have changed parts of the head other than the agent's row and its stored fold."""
        return self.has_replayed or self._has_newest

    def heads_were_read(self) -> None:
        """Record that no cached head lacks any appended event."""
        self.has_replayed = self._has_newest = False

    @property
    def own(self) -> Size:
        """The size of all the agent's own messages."""
        return Size(self._messages, self._tokens)

    @property
    def state(self) -> Row:
        """The state of the agent as it will be stored (`STATE`)."""
        counted = (self.head, self.last, self.open_turn, self._messages, self._tokens, self._run)
        return (*counted, *self._by_kind.values())

    @property
    def ended(self) -> int:
        """The event that ended the agent, 0 if it is alive."""
        return self._by_kind["deleted"] or self._by_kind["killed"]

    def add(self, draft: Draft) -> int:
        """Append one event and return its id."""
        kind, data = draft.kind, encode_data(draft.kind, draft.data)
        call_id = draft.data["call_id"] if draft.data and kind in ("tool_call", "tool_result") else None
        id = self._draw()
        turn, open_turn = place(kind, id, self.open_turn)
        apart = draft.answers is not None and (self._run is None or draft.answers < self._run)
        self._append(id, turn, draft, data, call_id, apart)
        self._follow(id, turn, draft, open_turn)
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
            nth, total = self._messages + self._erased.messages, self._tokens + self._erased.tokens
        check = checksum(checked, content, data)
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
        self.last, self._is_ahead = id, True
        if kind in METADATA_KINDS:
            self._note(id, kind, present)
            return
        if kind == "user" and (mail := mail_of(draft.data)):
            self.carry(mail)
        if kind == "tool_call" and present and id not in answered:
            self._writer.wait(self._key, id)
        elif draft.answers is not None and draft.answers not in answered:
            self._writer.answered(self._key, draft.answers)
        elif kind == "turn_ended":
            self._writer.end_waiting(self._key)
        self._run = self._run_after(id, kind, turn)
        self.head, self.open_turn = id, open_turn

    def _note(self, id: int, kind: str, present: bool) -> None:
        """Update the state after the record of a request, mail, or an event about what became of the agent."""
        if kind == "request":
            self._by_kind["asked"] = id
        if kind == "mail" and present:
            self._has_newest = True  # heads say whether there is unread mail
            self._writer.arrive(self._key, id)
        elif kind in self._by_kind:
            self._by_kind[kind] = id
        if kind in ("unarchived", "deleted"):
            self._by_kind["archived"] = 0

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

    def carry(self, mail: Sequence[int]) -> None:
        """Record that some mail is no longer unread."""
        if mail:
            self._has_newest = True
            self._writer.carried(self._key, mail)

    def name_eraser(self, ids: Sequence[int], by: int) -> None:
        """Record that operation `by` erased these events."""
        for id in ids:
            self._writer.bury(id, by)

    def finish(self) -> None:
        """Update the agent's row."""
        if self._is_ahead:
            self._writer.advance(self._key, self.state, self.newest)
            self._is_ahead = False

    def lose(self, gone: Size, *, whole: bool) -> None:
        """Update the sizes after the erasure of a turn or the `whole` agent; the stored row is already updated."""
        self._messages, self._tokens = self.own.less(gone)
        self.newest = None
        self._erased = Size(0, 0) if whole else self._erased.plus(gone)


def moved(record: AgentRecord, state: Row) -> AgentRecord:
    """Return an agent's record after appends that led to this state (`STATE`)."""
    return structs.replace(record, **{name: value for name, value in zip(STATE, state, strict=True) if name != "run"})
