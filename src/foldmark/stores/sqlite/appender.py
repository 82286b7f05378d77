"""The appends of one transaction to one agent in SQLite, and the index of words of all of them."""

from collections.abc import Callable
from typing import Any

import apsw

from foldmark.core.checksum import checksum
from foldmark.core.codec import count_tokens, encode_data
from foldmark.core.events import ROLES, Draft, is_replayed
from foldmark.core.inbox import End
from foldmark.core.ports import Size
from foldmark.core.turns import place
from foldmark.stores.sqlite.rows import Row

_INDEXED_AT_ONCE = 1000
"""Events: their words fill the part of the index that SQLite keeps in memory about half."""


class Words:
    """The index of words, brought up to date before it is read and at the end of a transaction.

    SQLite writes a piece of it for each statement and merges them later, so that one statement for many messages takes
    a third of the time.
    """

    def __init__(self, db: apsw.Connection, sql: dict[str, str]) -> None:
        self._db, self._sql = db, sql
        # The messages that are not in the index yet, all of which lie in between; whether one of them has parts.
        self._first: int | None = None
        self._last = 0
        self._parts = False
        self._indexed = 0

    def note(self, id: int, draft: Draft) -> None:
        """Take note of a message."""
        if not draft.content:
            return
        apart = id < self._indexed  # its id was reserved, and others are in the index that come behind it
        if apart:
            self.index()
        self._first, self._last = id if self._first is None else min(self._first, id), max(self._last, id)
        if not self._parts:
            from foldmark.recall.parts import has_parts  # reading indexes nothing

            name = draft.data.get("name") if draft.data and draft.kind == "tool_call" else None
            self._parts = has_parts(draft.content) or (isinstance(name, str) and has_parts(name))
        if apart or id - self._first >= _INDEXED_AT_ONCE:
            self.index()

    def index(self) -> None:
        """Bring the index up to date. Raises apsw.Error."""
        if self._first is None:
            return
        span = self._first, self._last
        if self._parts:
            self._db.execute(self._sql["index_parts"], span)
        self._db.execute(self._sql["index"], span)
        self._first, self._last, self._parts, self._indexed = None, 0, False, max(self._indexed, self._last)


class Appender:
    """Appends to one agent; its row is brought up to date once, by `finish`. Raises apsw.Error."""

    def __init__(
        self, db: apsw.Connection, sql: dict[str, str], key: int, draw: Callable[[], int], words: Words, row: Row
    ) -> None:
        """`row` is that of the query `position`; `draw` gives the next event of all its id."""
        self._db, self._sql, self._key, self._draw, self._words = db, sql, key, draw, words
        self._write = db.cursor().execute  # a cursor for each statement takes a tenth of an insert
        self.head, self.open_turn, self._messages, self._tokens, self._run, self.ended, self.newest, *self._sums = row
        self.end: End | None = None
        """How the agent ended, if `ended`."""
        self._newest: tuple[Any, ...] | None = None
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
        check = checksum(checked, content.encode(), None if data is None else data.encode())
        apart = 1 if draft.apart else None
        replayed = int(is_replayed(kind, data))
        self._write(self._sql["append"], (*checked, apart, replayed, tokens, nth, total, content, data, check))
        if is_message:
            self._weigh(id, draft)
            self._words.note(id, draft)
        if kind == "tool_call":
            self._write(self._sql["wait"], (self._key, id))
        elif draft.answers is not None:
            self._write(self._sql["answered"], (self._key, draft.answers))
        elif kind == "turn_ended":
            self._write(self._sql["end_waiting"], (self._key,))
        self._run = self._run_after(id, kind, turn)
        self.head, self._reserved, self.open_turn = id, None, open_turn
        self._messages, self._tokens, self._is_ahead = messages, sum, True
        return id

    def _run_after(self, id: int, kind: str, turn: int | None) -> int | None:
        """The first call of the newest run of calls, if nothing but results stands behind that run."""
        run: int | None = self._run
        if kind == "tool_call":
            before = self._newest or self._db.execute(self._sql["message_before"], (self._key, self.head)).fetchone()
            run = run if before is not None and (before[2], before[3]) == (turn, kind) else id
        elif kind == "turn_ended" or (kind in ROLES and kind != "tool_result"):
            run = None
        if kind in ROLES:
            self._newest = id, self._key, turn, kind, None
        return run

    def stands_apart(self, call: int) -> bool:
        """Whether a result appended now would stand apart from this call."""
        return self._run is None or call < self._run

    def _weigh(self, id: int, draft: Draft) -> None:
        if self._weight_of is None:
            from foldmark.core.weight import weight  # 5 ms, and reading weighs nothing

            self._weight_of = weight

        added = self._weight_of(draft.kind, draft.content, draft.data, draft.interrupted, id)
        self._sums[0] += added
        self._write(self._sql["weigh"], (self._key, id, added, self._sums[0]))

    def lose(self, gone: Size) -> None:
        """Follow what was erased of the agent; its row does already."""
        self._messages, self._tokens = self.own.less(gone)
        self._newest = None
        ((*_, weight, messages, tokens),) = self._db.execute(self._sql["position"], (self._key,))
        self._sums = [weight, messages, tokens]

    def finish(self) -> None:
        """Write down where the agent stands."""
        if self._is_ahead:
            self._db.execute(self._sql["advance"], (self.head, self.open_turn, *self.own, self._run, self._key))
            self._is_ahead = False
