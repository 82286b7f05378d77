"""The appends of one transaction in PostgreSQL: pending events are written before the next read."""

from collections.abc import Callable, Mapping
from typing import Any

from foldmark.core.agents import Size
from foldmark.core.events import Draft
from foldmark.stores.appender import Appender
from foldmark.stores.postgres.connection import STATEMENTS, Ints, PostgresSession, Texts
from foldmark.stores.rows import Row

_COLUMNS = (
    *("id", "agent", "turn", "kind", "dialect", "actor", "created_at", "interrupted", "call_id", "answers"),
    *("apart", "replayed", "tokens", "nth", "sum", "content", "data", "checksum"),
    *("weight", "weights", "tool", "planning", "stateful"),
)
_NTH = _COLUMNS.index("nth")
_TEXTS = frozenset(("kind", "dialect", "actor", "created_at", "call_id", "content", "data", "tool"))


def facts(kind: str, data: Mapping[str, Any] | None) -> tuple[str | None, bool, bool]:
    """Return facts stored beside an event's data, whose JSON PostgreSQL cannot always read: the tool that a call calls,
    whether a command or a filter records where a planning conversation lay, whether a summary holds a state."""
    data = data or {}
    name = data.get("name") if kind == "tool_call" else None
    planning = kind in ("command", "filter") and data.get("planning") is not None
    return name if isinstance(name, str) else None, planning, kind == "summary" and data.get("state") is not None


class Tree:
    """A conversation and its forks in one transaction, which holds the lock of its root agent's row: its counters, and
    the pending events."""

    def __init__(self, root: int) -> None:
        self.root = root
        self.next_id, self.last_id, self.stamp, self.memos = 0, -1, 0, 0
        self.newest_memo = 0
        """The newest memo."""
        self.position: Row | None = None
        """Where the root agent stands."""
        self.is_ahead = False  # of the stored row
        self.unindexed: list[tuple[int, Draft]] = []
        """Messages that are not in the index of words yet."""
        self._recorded = 0
        self._rows: list[Row] = []
        self._buried: dict[int, int] = {}
        self._waiting: dict[int, list[int]] = {}
        self._answered: dict[int, list[int]] = {}
        self._ended: set[int] = set()

    def locked(self, rows: list[Row]) -> None:
        """Take the values of the root agent's row, which is locked now."""
        for row in rows:
            self.position = row[:11]
            self.next_id, self.last_id, self.stamp, self.memos, self.newest_memo, _ = row[11:]

    @property
    def recorded(self) -> int:
        """The number of events to write so far."""
        return self._recorded

    def draw(self, take_block: Callable[["Tree"], None]) -> int:
        """Return the next id of the tree."""
        if self.next_id > self.last_id:
            take_block(self)
        self.next_id, self.is_ahead = self.next_id + 1, True
        return self.next_id - 1

    def record(self, row: Row, draft: Draft) -> None:
        """Add an event to write."""
        self._rows.append(row)
        self._recorded += 1
        if row[_NTH] is not None and draft.content:
            self.unindexed.append((row[0], draft))

    def bury(self, id: int, by: int) -> None:
        """Mark a pending event as erased by an operation."""
        self._buried[id] = by

    def wait(self, agent: int, call: int) -> None:
        """Record that a call waits for its result."""
        self._waiting.setdefault(agent, []).append(call)

    def answered(self, agent: int, call: int) -> None:
        """Record that a call no longer waits."""
        if call in (calls := self._waiting.get(agent, [])):
            calls.remove(call)
        else:
            self._answered.setdefault(agent, []).append(call)

    def end_waiting(self, agent: int) -> None:
        """Record that no call of an agent waits any more."""
        self._waiting.pop(agent, None)
        self._answered.pop(agent, None)
        self._ended.add(agent)

    def write(self, session: PostgresSession) -> None:
        """Send the pending events with the next statement."""
        if self._rows:
            columns = zip(_COLUMNS, zip(*self._rows, strict=True), strict=True)
            bound = {name: Texts(each) if name in _TEXTS else Ints(each) for name, each in columns}
            session.later(STATEMENTS["append"], {**bound, "root": self.root, "stamp": self.stamp})
            if self.newest_memo != self.memos:
                mark = {"root": self.root, "event": self._rows[0][0], "memos": self.newest_memo}
                session.later(STATEMENTS["mark_memos"], mark)
                self.memos, self.is_ahead = self.newest_memo, True
            self._rows = []
        if self._buried:
            bound = {"ids": Ints(self._buried), "by": Ints(self._buried.values())}
            session.later(STATEMENTS["bury"], {**bound, "root": self.root})
            self._buried.clear()
        for agent in self._ended:
            session.later(STATEMENTS["end_waiting"], {"root": self.root, "agent": agent})
        for name, each in (("answered", self._answered), ("wait", self._waiting)):
            for agent, calls in each.items():
                if calls:
                    session.later(STATEMENTS[name], {"root": self.root, "agent": agent, "calls": Ints(calls)})
            each.clear()
        self._ended.clear()

    def finish(self, session: PostgresSession) -> None:
        """Update the root agent's row with the tree's counters."""
        if self.is_ahead:
            self.is_ahead = False
            session.later(STATEMENTS["advance_tree"], {**self.counts, "root": self.root})

    @property
    def counts(self) -> dict[str, int]:
        """The tree's counters, as columns of the row of its root agent."""
        counted = {"next_id": self.next_id, "last_id": self.last_id, "stamp": self.stamp}
        return {**counted, "memos": self.memos}


class PostgresAppender(Appender):
    """Appends to one agent; its row is updated once, by `finish`."""

    def __init__(self, tree: Tree, key: int, draw: Callable[[], int], row: Row, newest: Callable[[int], Any]) -> None:
        """`newest` reads the turn and kind of the agent's newest message up to an id."""
        *stands, turn, kind = row
        super().__init__(key, draw, tuple(stands))
        self._tree, self._read_newest = tree, newest
        self._newest = None if kind is None else (turn, kind)

    def _record(self, row: Row, draft: Draft, weight: int | None) -> None:
        tool, planning, stateful = facts(draft.kind, draft.data)
        weights = None if weight is None else self._sums[0]
        self._tree.record((*row, weight, weights, tool, int(planning), int(stateful)), draft)

    def _bury(self, id: int, by: int) -> None:
        self._tree.bury(id, by)

    def _newest_message(self) -> Any:
        return self._read_newest(self.head)

    def _wait(self, call: int) -> None:
        self._tree.wait(self._key, call)

    def _answered(self, call: int) -> None:
        self._tree.answered(self._key, call)

    def _end_waiting(self) -> None:
        self._tree.end_waiting(self._key)

    def lose(self, gone: Size, *, whole: bool) -> None:
        """Update the sizes after an erasure; the row is updated already."""
        self._messages, self._tokens = self.own.less(gone)
        self._newest = None
        weights, messages, tokens = self._sums
        self._sums = [0, 0, 0] if whole else [weights, messages + gone.messages, tokens + gone.tokens]

    def finish(self, session: PostgresSession) -> None:
        """Update the agent's row."""
        if not self._is_ahead:
            return
        self._is_ahead = False
        messages, tokens = self.own
        turn, kind = self._newest or (None, None)
        row = {"head": self.head, "open_turn": self.open_turn, "messages": messages, "tokens": tokens, "run": self._run}
        row |= {"weights": self._sums[0], "newest_turn": turn, "newest_kind": kind, "root": self._tree.root}
        if self._key == self._tree.root:
            self._tree.is_ahead = False
            session.later(STATEMENTS["advance_root"], row | self._tree.counts)
        else:
            session.later(STATEMENTS["advance"], {**row, "agent": self._key})
