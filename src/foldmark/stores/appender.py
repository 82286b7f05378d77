"""Appending to one agent in any database: what a store computes for each event, and the state of the agent."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

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


_READ = frozenset(("user", "tool_call", "summary", "request", "command", "filter"))
"""Kinds whose data a store looks at: mail, texts of requests, and what it repeats in columns or indexes."""


class EventWriter(Protocol):
    """Writes the events of agents, given by their keys. Each database implements it."""

    def record(self, row: Row, read: Mapping[str, Any] | None) -> None:
        """Write an event: its id, agent, turn, kind, dialect, actor, time, whether it was interrupted, call id, the
        call that it answers, whether apart, whether replayed, tokens, running count and sum, content, data, checksum.
        Only a message that is not erased has a count and a sum. `read` is the decoded data, at least that of `_READ`.
        """

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
        """Note that every cached head includes all appended events."""
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
        kind, read = draft.kind, draft.data
        data = encode_data(kind, read)
        call_id = read["call_id"] if read and kind in ("tool_call", "tool_result") else None
        id = self._draw()
        turn, _ = place(kind, id, self.open_turn)
        apart = draft.answers is not None and (self._run is None or draft.answers < self._run)
        fixed = (id, self._key, turn, kind, draft.dialect, draft.actor, draft.created_at, int(draft.interrupted))
        self._append((*fixed, call_id, draft.answers), apart, draft.content, data, read)
        return id

    def take(self, event: CopiedEvent, answered: Collection[int]) -> None:
        """Append an event copied from another store; the calls that are `answered` in the same page never wait. Raises
        ConflictError unless its id is above all of the agent's."""
        if event.id <= self.last:
            raise ConflictError(event.agent, event.id - 1, self.last)
        read = decode_data(event.kind, event.data) if event.kind in _READ else None
        fixed = (event.id, self._key, event.turn, event.kind, event.dialect, event.actor, event.created_at)
        checked = (*fixed, int(event.interrupted), event.call_id, event.answers)
        self._append(checked, event.apart, event.content, event.data, read, event.redacted, answered)

    def _append(
        self,
        checked: Row,
        apart: bool,
        content: str,
        data: str | None,
        read: Mapping[str, Any] | None,
        by: int | None = None,
        answered: Collection[int] = (),
    ) -> None:
        """Write an event and update the state. `checked` are the columns of its checksum, and `read` is its decoded
        data; `by` is the operation that has erased it, in the source of a copy. Nothing waits for the result of a call
        that is `answered`."""
        id, turn, kind, answers = checked[0], checked[2], checked[3], checked[9]
        replayed = is_replayed(kind, data)
        self.has_replayed |= replayed
        self._has_newest |= kind in NEWEST_KINDS
        tokens, nth, total, check = 0, None, None, None
        if by is None:
            tokens, check = count_tokens(content, data), checksum(checked, content, data)
            if kind in ROLES:
                self._messages, self._tokens = self._messages + 1, self._tokens + tokens
                # Stored sums include erased messages, unlike `own`.
                nth, total = self._messages + self._erased.messages, self._tokens + self._erased.tokens
        row = (*checked, 1 if apart else None, int(replayed), tokens, nth, total, content, data, check)
        self._writer.record(row, read)
        if by is not None:
            self._writer.bury(id, by)
        elif kind == "request" and (texts := list(owners(turn, read))):
            self._writer.own(self._key, texts)
        self.last, self._is_ahead = id, True
        if kind in METADATA_KINDS:
            self._note(id, kind, by is None)
            return
        if kind == "user" and (mail := mail_of(read)):
            self.carry(mail)
        if kind == "tool_call" and by is None and id not in answered:
            self._writer.wait(self._key, id)
        elif answers is not None and answers not in answered:
            self._writer.answered(self._key, answers)
        elif kind == "turn_ended":
            self._writer.end_waiting(self._key)
        self._run = self._run_after(id, kind, turn)
        self.head = id
        _, self.open_turn = place(kind, id, self.open_turn)

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
