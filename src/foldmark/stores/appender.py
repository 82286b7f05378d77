"""The appends of one transaction to one agent: the columns that the store adds to each event."""

from collections.abc import Callable
from typing import Any

from foldmark.core.agents import End, Size
from foldmark.core.codec import checksum, count_tokens, decode_data, encode_data
from foldmark.core.errors import ConflictError
from foldmark.core.events import ROLES, Draft, is_replayed
from foldmark.core.records import CopiedEvent
from foldmark.core.turns import place
from foldmark.stores.reader import Row


class Appender:
    """Appends to one agent. Each database writes in its own way (`_record` and the methods after it)."""

    def __init__(self, key: int, draw: Callable[[], int], row: Row) -> None:
        """`row` is where the agent stands: its head, open turn, messages, tokens, its run of calls, whether it has
        ended, the sum of its weights, the messages and tokens that were erased. `draw` returns the next event's id."""
        self._key, self._draw = key, draw
        self.head, self.open_turn, self._messages, self._tokens, self._run, self.ended, *self._sums = row
        self.end: End | None = None
        """How the agent ended, if `ended`."""
        self._newest: tuple[Any, ...] | None = None
        """The turn and the kind of the newest message, if they are known."""
        self._reserved: int | None = None
        self._is_ahead = False  # of the stored row
        self._weight_of: Callable[..., int] | None = None

    @property
    def own(self) -> Size:
        """The size of all the agent's own messages."""
        return Size(self._messages, self._tokens)

    @property
    def next_id(self) -> int:
        """The id of the next event, reserved for it."""
        if self._reserved is None:
            self._reserved = self._draw()
        return self._reserved

    def add(self, draft: Draft) -> int:
        """Append one event and return its id."""
        kind, id = draft.kind, self.next_id
        call_id = draft.data["call_id"] if draft.data and kind in ("tool_call", "tool_result") else None
        turn, open_turn = place(kind, id, self.open_turn)
        self._append(id, turn, draft, encode_data(kind, draft.data), call_id)
        self._follow(id, turn, draft, open_turn)
        self._reserved = None
        return id

    def take(self, event: CopiedEvent) -> None:
        """Append an event copied from another store. Raises ConflictError unless its id is above the agent's head."""
        if event.id <= self.head:
            raise ConflictError(event.agent, event.id - 1, self.head)
        draft = Draft(
            kind=event.kind,
            created_at=event.created_at,
            content=event.content,
            data=decode_data(event.kind, event.data),
            dialect=event.dialect,
            actor=event.actor,
            interrupted=event.interrupted,
            answers=event.answers,
            apart=event.apart,
        )
        self._append(event.id, event.turn, draft, event.data, event.call_id, event.redacted)
        _, open_turn = place(event.kind, event.id, self.open_turn)
        self._follow(event.id, event.turn, draft, open_turn, there=event.redacted is None)

    def _append(
        self, id: int, turn: int | None, draft: Draft, data: str | None, call_id: str | None, by: int | None = None
    ) -> None:
        """Write an event; `by` is the operation that has erased it."""
        kind, content = draft.kind, draft.content
        fixed = (id, self._key, turn, kind, draft.dialect, draft.actor, draft.created_at, int(draft.interrupted))
        checked = (*fixed, call_id, draft.answers)
        apart, replayed = 1 if draft.apart else None, int(is_replayed(kind, data))
        if by is not None:
            self._record((*checked, apart, replayed, 0, None, None, content, data, None), draft, None)
            self._bury(id, by)
            return
        tokens = count_tokens(content, data)
        nth = total = weight = None
        if kind in ROLES:
            self._messages, self._tokens = self._messages + 1, self._tokens + tokens
            # Stored sums include erased messages; `own` does not.
            _, erased_messages, erased_tokens = self._sums
            nth, total = self._messages + erased_messages, self._tokens + erased_tokens
        check = checksum(checked, content.encode(), None if data is None else data.encode())
        weight = self._weight(id, draft) if kind in ROLES else None
        self._record((*checked, apart, replayed, tokens, nth, total, content, data, check), draft, weight)

    def _follow(self, id: int, turn: int | None, draft: Draft, open_turn: int | None, *, there: bool = True) -> None:
        """Update the state after a recorded event; it is not `there` if it was erased meanwhile."""
        kind = draft.kind
        if kind == "tool_call" and there:
            self._wait(id)
        elif draft.answers is not None:
            self._answered(draft.answers)
        elif kind == "turn_ended":
            self._end_waiting()
        self._run = self._run_after(id, kind, turn)
        self.head, self.open_turn, self._is_ahead = id, open_turn, True

    def _run_after(self, id: int, kind: str, turn: int | None) -> int | None:
        """Return the first call of the newest run of calls, if only results follow that run."""
        run: int | None = self._run
        if kind == "tool_call":
            run = run if (self._newest or self._newest_message()) == (turn, kind) else id
        elif kind == "turn_ended" or (kind in ROLES and kind != "tool_result"):
            run = None
        if kind in ROLES:
            self._newest = turn, kind
        return run

    def stands_apart(self, call: int) -> bool:
        """Return True if a result appended now would stand apart from this call."""
        return self._run is None or call < self._run

    def lose(self, gone: Size, *, whole: bool) -> None:
        """Update the sizes after an erasure, of the `whole` agent or a turn; the stored row is updated already."""
        self._messages, self._tokens = self.own.less(gone)
        self._newest = None
        weights, messages, tokens = self._sums
        self._sums = [0, 0, 0] if whole else [weights, messages + gone.messages, tokens + gone.tokens]

    def _weight(self, id: int, draft: Draft) -> int:
        """Return the weight of a message, and add it to the sum of weights."""
        if self._weight_of is None:
            from foldmark.core.assembly.wire import weight  # takes 5 ms, and reads do not need it

            self._weight_of = weight

        added = self._weight_of(draft.kind, draft.content, draft.data, draft.interrupted, id)
        self._sums[0] += added
        return added

    # Writes of each database

    def _record(self, row: Row, draft: Draft, weight: int | None) -> None:
        """Write an event: its id, agent, turn, kind, dialect, actor, time, whether it was interrupted, call id, the
        call that it answers, whether apart, whether replayed, tokens, running count and sum, content, data, checksum.
        `weight` is a message's, included in `_sums`."""
        raise NotImplementedError

    def _bury(self, id: int, by: int) -> None:
        """Record that a new event has been erased by an operation."""
        raise NotImplementedError

    def _newest_message(self) -> tuple[Any, ...] | None:
        """Return the turn and the kind of the agent's newest message."""
        raise NotImplementedError

    def _wait(self, call: int) -> None:
        """Record that a call waits for its result."""
        raise NotImplementedError

    def _answered(self, call: int) -> None:
        """Record that a call no longer waits."""
        raise NotImplementedError

    def _end_waiting(self) -> None:
        """Record that no call waits beyond the end of its turn."""
        raise NotImplementedError
