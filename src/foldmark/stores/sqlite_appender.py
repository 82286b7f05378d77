"""The appends of one transaction to one agent in SQLite, and the erasing that may be among them."""

from collections.abc import Callable
from itertools import groupby
from typing import Any

import apsw

from foldmark.core.checksum import checksum
from foldmark.core.codec import count_tokens, encode_data, without_content
from foldmark.core.errors import CommandError, StoreError
from foldmark.core.events import ROLES, Draft, is_replayed
from foldmark.core.inbox import End, refused
from foldmark.core.ports import Size
from foldmark.core.turns import place
from foldmark.stores.sqlite_damage import fetch, is_damaged, unknown_agent
from foldmark.stores.sqlite_file import explain

_INDEXED_AT_ONCE = 1000
"""Events: their words fill the part of the index that SQLite keeps in memory about half."""


class Appender:
    """The appends of one transaction; the agent's row is brought up to date once, at its end."""

    def __init__(self, db: apsw.Connection, sql: dict[str, str], key: int, path: str) -> None:
        self._db, self._sql, self._key, self._path = db, sql, key, path
        self._write = db.cursor().execute  # a cursor for each statement takes a tenth of an insert
        ((self.head, self.open_turn, self._messages, self._tokens, self._run, newest, self.ended),) = db.execute(
            sql["position"], (key,)
        )
        self._stored: tuple[int, Size] | None = None  # read with the first message: most operations append none
        self._newest: tuple[Any, ...] | None = None
        self.end: End | None = None
        self._next = (newest or 0) + 1
        # The first message that is not in the index of words yet; whether one from there on has parts.
        self._unindexed: int | None = None
        self._parts = False
        self._weight_of: Callable[..., int] | None = None

    @property
    def own(self) -> Size:
        return Size(self._messages, self._tokens)

    def add(self, draft: Draft) -> int:
        self._check()
        if self.end is not None and (why := refused(self.end, draft, self.open_turn)):
            raise CommandError(why)
        try:
            return self._add(draft)
        except apsw.Error as error:
            self._abandon()
            raise explain(error, self._path) from error

    def _add(self, draft: Draft) -> int:
        id, kind, content = self._next, draft.kind, draft.content
        data = encode_data(kind, draft.data)
        tokens = count_tokens(content, data)
        turn, open_turn = place(kind, id, self.open_turn)
        messages, sum = self._messages, self._tokens
        nth = total = call_id = None
        if is_message := kind in ROLES:
            messages, sum = messages + 1, sum + tokens
            _, erased = self._sums()
            nth, total = messages + erased.messages, sum + erased.tokens
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
            self._note_words(id, draft)
        if kind == "tool_call":
            self._write(self._sql["wait"], (self._key, id))
        elif draft.answers is not None:
            self._write(self._sql["answered"], (self._key, draft.answers))
        elif kind == "turn_ended":
            self._write(self._sql["end_waiting"], (self._key,))
        self._run = self._run_after(id, kind, turn)
        self.head, self._next, self.open_turn = id, id + 1, open_turn
        self._messages, self._tokens = messages, sum
        if self._unindexed is not None and id - self._unindexed >= _INDEXED_AT_ONCE:
            self.index()
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
        return self._run is None or call < self._run

    def _note_words(self, id: int, draft: Draft) -> None:
        if not draft.content:
            return
        if self._unindexed is None:
            self._unindexed = id
        name = draft.data.get("name") if draft.data and draft.kind == "tool_call" else None
        if not self._parts:
            from foldmark.recall.parts import has_parts  # reading indexes nothing

            self._parts = has_parts(draft.content) or (isinstance(name, str) and has_parts(name))

    def index(self) -> None:
        """Bring the index of words up to date, before it is read. SQLite writes a piece of it for each statement and
        merges them later, so that one statement for many messages takes a third of the time."""
        if self._unindexed is None:
            return
        span = self._unindexed, self._next - 1
        if self._parts:
            self._db.execute(self._sql["index_parts"], span)
        self._db.execute(self._sql["index"], span)
        self._unindexed, self._parts = None, False

    def _weigh(self, id: int, draft: Draft) -> None:
        if self._weight_of is None:
            from foldmark.core.weight import weight  # 5 ms, and reading weighs nothing

            self._weight_of = weight

        added = self._weight_of(draft.kind, draft.content, draft.data, draft.interrupted, id)
        before, erased = self._sums()
        self._stored = before + added, erased
        self._write(self._sql["weigh"], (self._key, id, added, before + added))

    def _sums(self) -> tuple[int, Size]:
        """Return the agent's total weight and the size of its erased messages. Stored sums include these; `own` does
        not."""
        if self._stored is None:
            ((weight, *erased),) = self._db.execute(self._sql["weighed"], {"agent": self._key})
            self._stored = weight, Size(*erased)
        return self._stored

    @property
    def next_id(self) -> int:
        return self._next

    def erase(self, owner: str, turn: int, last: int, by: int) -> None:
        self._check()
        try:
            self._erase(owner, turn, last, by)
        except apsw.Error as error:
            self._abandon()
            raise explain(error, self._path) from error

    def _erase(self, owner: str, turn: int, last: int, by: int) -> None:
        self.index()
        key = next((key for (key,) in self._db.execute(self._sql["agent_key"], (owner,))), None)
        if key is None:
            raise unknown_agent(owner)
        turn_of: dict[str, Any] = {"agent": key, "turn": turn, "last": last}
        indexed = True
        rows = list(fetch(self._db, self._sql["to_erase"], turn_of))
        messages = [row for row in rows if row[2] is not None]
        for id, kind, nth, data, *_ in rows:
            if nth is not None:
                indexed = self._unindex(id) and indexed
                for also in ("unindex_parts", "erase_vectors", "erase_signatures"):
                    self._db.execute(self._sql[also], (id,))
                self._db.execute(self._sql["unweigh"], (key, id))
                if kind == "tool_call":
                    self._db.execute(self._sql["answered"], (key, id))
            self._db.execute(self._sql["erase"], (without_content(kind, data, handed_down=turn > 0), by, id))
        if not indexed:
            self._db.execute(self._sql["rebuild_index"])
        if turn:
            self._db.execute(self._sql["erase_questions"], (turn,))
        else:
            self._db.execute(self._sql["erase_sent"], (key,))
            self._db.execute(self._sql["erase_texts"])
        gone = Size(len(messages), sum(tokens for *_, tokens, _ in messages))
        self._db.execute(self._sql["lower_totals"], (*gone, key))
        if turn:
            self._note_erased(key, messages)
        else:
            self._db.execute(self._sql["forget_erased_sums"], (key,))
        if key == self._key:
            self._messages, self._tokens = self.own.less(gone)
            self._stored = None

    def _note_erased(self, key: int, messages: list[tuple[Any, ...]]) -> None:
        """Note what erased messages counted, so that no sum that is stored with a later message has to change."""
        # Neighbours have neighbouring counts; one row for each run of them does not say how long each message was.
        for _, each in groupby(enumerate(messages), lambda item: item[1][2] - item[0]):
            run = [message for _, message in each]
            last, sums = run[-1][0], (len(run), sum(row[4] for row in run), sum(row[5] for row in run))
            before = next(iter(self._db.execute(self._sql["erased_up_to"], (key, last))), (0, 0, 0))
            self._db.execute(self._sql["add_erased"], (*sums, key, last))
            self._db.execute(self._sql["note_erased"], (key, last, *(a + b for a, b in zip(before, sums, strict=True))))

    def _unindex(self, id: int) -> bool:
        """Take a message out of the index of words; False if that takes making it anew, because the words that it was
        indexed with are not known."""
        rows: list[tuple[Any, ...]] = self._db.execute(self._sql["checksums"], (id - 1, 1)).fetchall()
        if is_damaged(*rows[0][1:]):
            return False
        try:
            self._db.execute(self._sql["unindex"], (id,))
        except apsw.CorruptError:  # there was no checksum to tell
            return False
        return True

    def finish(self) -> None:
        """Write down where the agent stands."""
        self._check()
        self.index()
        self._db.execute(self._sql["advance"], (self.head, self.open_turn, *self.own, self._run, self._key))

    def _abandon(self) -> None:
        """Roll back the transaction, as SQLite itself does after some errors: half an event must not be committed by
        whoever goes on after the error."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _check(self) -> None:
        # Outside of a transaction SQLite would record each statement by itself.
        if not self._db.in_transaction:
            raise StoreError("the database failed earlier in this batch; nothing of it was recorded")
