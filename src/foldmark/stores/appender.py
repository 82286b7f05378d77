"""The appends of one transaction to one agent: what each event gets beside what was given."""

from collections.abc import Callable
from typing import Any

from foldmark.core.checksum import checksum
from foldmark.core.codec import count_tokens, encode_data
from foldmark.core.events import ROLES, Draft, is_replayed
from foldmark.core.inbox import End
from foldmark.core.ports import Size
from foldmark.core.turns import place
from foldmark.stores.rows import Row


class Appender:
    """Appends to one agent. Each database writes in its own way (`_record` and what follows it)."""

    def __init__(self, key: int, draw: Callable[[], int], row: Row) -> None:
        """`row` says where the agent stands: its head, open turn, messages, tokens, its run of calls, whether it has
        ended, the sum of its weights, the messages and tokens that were erased. `draw` gives the next event its id."""
        self._key, self._draw = key, draw
        self.head, self.open_turn, self._messages, self._tokens, self._run, self.ended, *self._sums = row
        self.end: End | None = None
        """How the agent ended, if `ended`."""
        self._newest: tuple[Any, ...] | None = None
        """The turn and the kind of the newest message, as far as they are known."""
        self._reserved: int | None = None
        self._is_ahead = False  # of its row
        self._weight_of: Callable[..., int] | None = None

    @property
    def own(self) -> Size:
        """The size of all the agent's own messages."""
        return Size(self._messages, self._tokens)

    @property
    def next_id(self) -> int:
        """The id of the next event, which nobody else gets."""
        if self._reserved is None:
            self._reserved = self._draw()
        return self._reserved

    def add(self, draft: Draft) -> int:
        """Append one event and return its id."""
        kind, content = draft.kind, draft.content
        data = encode_data(kind, draft.data)
        tokens = count_tokens(content, data)
        text, raw = content.encode(), None if data is None else data.encode()
        id = self.next_id
        turn, open_turn = place(kind, id, self.open_turn)
        messages, sum = self._messages, self._tokens
        nth = total = call_id = None
        if is_message := kind in ROLES:
            messages, sum = messages + 1, sum + tokens
            # Sums that are stored include what was erased; `own` does not.
            _, erased_messages, erased_tokens = self._sums
            nth, total = messages + erased_messages, sum + erased_tokens
            if draft.data and kind in ("tool_call", "tool_result"):
                call_id = draft.data["call_id"]
        fixed = (id, self._key, turn, kind, draft.dialect, draft.actor, draft.created_at, int(draft.interrupted))
        checked = (*fixed, call_id, draft.answers)
        check = checksum(checked, text, raw)
        apart = 1 if draft.apart else None
        replayed = int(is_replayed(kind, data))
        weight = self._weight(id, draft) if is_message else None
        self._record((*checked, apart, replayed, tokens, nth, total, content, data, check), draft, weight)
        if kind == "tool_call":
            self._wait(id)
        elif draft.answers is not None:
            self._answered(draft.answers)
        elif kind == "turn_ended":
            self._end_waiting()
        self._run = self._run_after(id, kind, turn)
        self.head, self._reserved, self.open_turn = id, None, open_turn
        self._messages, self._tokens, self._is_ahead = messages, sum, True
        return id

    def _run_after(self, id: int, kind: str, turn: int | None) -> int | None:
        """The first call of the newest run of calls, if nothing but results stands behind that run."""
        run: int | None = self._run
        if kind == "tool_call":
            run = run if (self._newest or self._newest_message()) == (turn, kind) else id
        elif kind == "turn_ended" or (kind in ROLES and kind != "tool_result"):
            run = None
        if kind in ROLES:
            self._newest = turn, kind
        return run

    def stands_apart(self, call: int) -> bool:
        """Whether a result appended now would stand apart from this call."""
        return self._run is None or call < self._run

    def _weight(self, id: int, draft: Draft) -> int:
        """What a message weighs; the sum of weights goes on with it."""
        if self._weight_of is None:
            from foldmark.core.weight import weight  # 5 ms, and reading weighs nothing

            self._weight_of = weight

        added = self._weight_of(draft.kind, draft.content, draft.data, draft.interrupted, id)
        self._sums[0] += added
        return added

    # What a database writes

    def _record(self, row: Row, draft: Draft, weight: int | None) -> None:
        """Write an event: its id, agent, turn, kind, dialect, actor, time, whether it was interrupted, call id, what it
        answers, whether apart, whether replayed, tokens, running count and sum, content, data, checksum. `weight` is a
        message's, up to which `_sums` count."""
        raise NotImplementedError

    def _newest_message(self) -> tuple[Any, ...] | None:
        """The turn and the kind of the agent's newest message."""
        raise NotImplementedError

    def _wait(self, call: int) -> None:
        """A call waits for its result."""
        raise NotImplementedError

    def _answered(self, call: int) -> None:
        """A call waits no more."""
        raise NotImplementedError

    def _end_waiting(self) -> None:
        """No call waits beyond the end of its turn."""
        raise NotImplementedError
