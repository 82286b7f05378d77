"""A naive model of replay (SPEC 3): plain lists of events, folded by brute force.

It knows no segments, ranges or caches. The ids of events are given to it from outside; it says what
an operation resolves to when it is recorded, whether it is an error, and what is visible afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


class RefusedError(Exception):
    """The operation is expected to be an error, and nothing is written (SPEC 4)."""


@dataclass(frozen=True)
class Message:
    """One message. `turn` is its GID; `exchange` the id of the first call of the exchange it belongs to (SPEC 1)."""

    id: int
    kind: str
    turn: int | None
    call_id: str | None = None
    exchange: int | None = None
    answers: int | None = None  # of a tool_result: the id of its call's event


@dataclass(frozen=True)
class Operation:
    """An operation with what it resolved to when it was recorded (SPEC 3, "resolved when recorded")."""

    kind: str
    id: int = 0
    name: str = ""  # mark: its name
    mark: int = 0  # rewind: the event of the mark it went to
    position: int = 0  # rewind: own events with a greater id are cut
    messages: frozenset[int] = frozenset()  # filter, drop, undo: what they subtract; fork: the child's start
    target: int = 0  # restore: the operation it takes back


class NaiveAgent:
    """One agent's timeline: the messages its fork gave it, then its own events in log order."""

    def __init__(self, inherited: Iterable[Message] = ()) -> None:
        self.inherited = list(inherited)
        self.own: list[Message] = []
        self.events: list[Message | Operation] = []
        self.turn: int | None = None  # the open turn; a child is born with none

    # -- messages ---------------------------------------------------------------------------------

    def lineage(self) -> list[Message]:
        """Every message this agent could ever see: its start and its own, visible or not."""
        return self.inherited + self.own

    def append(self, kind: str, event_id: int, call_id: str | None = None) -> None:
        """SPEC 2: a message opens a turn if none is open (a system message does not), otherwise it joins it."""
        if self.turn is None and kind != "system":
            self.turn = event_id
        message = Message(event_id, kind, self.turn, call_id)
        if kind == "tool_call":
            before = self.own[-1] if self.own else None
            same_run = before is not None and before.kind == "tool_call" and before.turn == self.turn
            message = replace(message, exchange=before.exchange if before and same_run else event_id)
        elif kind == "tool_result" and call_id is not None and (call := self.awaiting(call_id)):
            message = replace(message, exchange=call.exchange, answers=call.id)
        self.own.append(message)
        self.events.append(message)

    def end_turn(self) -> None:
        """The agent is idle again (SPEC 1)."""
        self.turn = None

    def awaiting(self, call_id: str) -> Message | None:
        """The call a result with this id belongs to: the newest one that has no result yet."""
        calls = [m for m in self.unanswered() if m.call_id == call_id]
        return calls[-1] if calls else None

    def unanswered(self) -> list[Message]:
        """The calls of the lineage that have no result."""
        answered = {m.answers for m in self.lineage()}
        return [m for m in self.lineage() if m.kind == "tool_call" and m.id not in answered]

    def result_kind(self, call_id: str) -> str:
        """SPEC 3: a result whose call is no longer visible becomes a notice, which is a user message."""
        call = self.awaiting(call_id)
        return "user" if call and call.id not in self.visible() else "tool_result"

    # -- the fold ---------------------------------------------------------------------------------

    def taken_back(self) -> set[int]:
        """Operations that do not count. Newest first: a restore that is itself taken back has no effect."""
        gone: set[int] = set()
        for event in reversed(self.events):
            if isinstance(event, Operation) and event.kind == "restore" and event.id not in gone:
                gone.add(event.target)
        return gone

    def fold(self) -> tuple[list[int], dict[str, int]]:
        """SPEC 3's table, row by row: the ids of the visible messages and the marks in force."""
        start = {m.id for m in self.inherited}
        visible, marks = sorted(start), dict[str, int]()
        skip = self.taken_back()
        for event in self.events:
            if isinstance(event, Message):
                visible.append(event.id)
            elif event.id in skip:
                continue
            elif event.kind == "mark":
                marks[event.name] = event.id
            elif event.kind == "clear":
                visible, marks = [], {}
            elif event.kind == "rewind":
                visible = [i for i in visible if i <= event.position or i in start]
                marks = {name: i for name, i in marks.items() if i <= event.mark}
            elif event.kind in ("filter", "drop", "undo"):
                visible = [i for i in visible if i not in event.messages]
        return visible, marks

    def visible(self) -> list[int]:
        """The ids of the visible messages, in log order."""
        return self.fold()[0]

    def marks(self) -> dict[str, int]:
        """The marks in force: name and event id."""
        return self.fold()[1]

    # -- exchanges and positions ------------------------------------------------------------------

    def exchanges(self) -> list[list[Message]]:
        """SPEC 1: runs of consecutive calls of one turn, each with every result of theirs."""
        keys = dict.fromkeys(m.exchange for m in self.lineage() if m.exchange is not None)
        return [[m for m in self.lineage() if m.exchange == key] for key in keys]

    def open_exchanges(self) -> list[list[Message]]:
        """Those that wait, in the turn that is open, for the result of a call that is still visible.

        A call that left the context can get no result any more (its result becomes a notice).
        """
        visible = self.visible()
        waiting = {m.exchange for m in self.unanswered() if m.turn == self.turn and m.id in visible}
        return [x for x in self.exchanges() if x[0].exchange in waiting]

    def response(self, exchange: list[Message]) -> list[Message]:
        """An exchange and the text of that response: the assistant message directly before its first call."""
        at = self.own.index(exchange[0])
        text = self.own[at - 1 : at] if at else []
        return [m for m in text if m.kind == "assistant" and m.turn == exchange[0].turn] + exchange

    def position(self, at: int) -> int:
        """SPEC 3: inside an open exchange means before its response, inside a closed one behind its last result."""
        for exchange in self.open_exchanges():
            if exchange[0].id < at:
                return self.response(exchange)[0].id - 1
        while around := [x[-1].id for x in self.exchanges() if x[0].id < at < x[-1].id]:
            at = max(around)
        return at

    def whole(self, ids: Iterable[int]) -> frozenset[int]:
        """SPEC 3: what a filter, drop or undo names is widened to whole exchanges."""
        named = set(ids)
        touched = {m.exchange for m in self.lineage() if m.id in named} - {None}
        return frozenset(named | {m.id for m in self.lineage() if m.exchange in touched})

    # -- operations: each returns what is to be recorded, or raises RefusedError ----------------------

    def record(self, operation: Operation, event_id: int) -> None:
        """Writes an operation to the timeline under the id the log gave it."""
        self.events.append(replace(operation, id=event_id))

    def mark(self, name: str | None = None) -> Operation:
        """A name, or `mark-N` with the smallest N not in force."""
        numbered = (f"mark-{n}" for n in range(1, len(self.events) + 2))
        return Operation("mark", name=name or next(n for n in numbered if n not in self.marks()))

    def clear(self) -> Operation:
        """Empties the list and forgets all marks."""
        return Operation("clear")

    def rewind(self, name: str | None = None) -> Operation:
        """To a mark, the newest by default. Without such a mark it is an error."""
        mark = self._mark(name)
        return Operation("rewind", mark=mark, position=self.position(mark))

    def fork(self, name: str | None = None) -> Operation:
        """The child's start: what is visible (with a mark: own messages behind it), without open exchanges."""
        behind = self.position(self._mark(name)) if name else 0
        out = {m.id for x in self.open_exchanges() for m in self.response(x)}
        out |= {m.id for m in self.inherited} if name else set()
        return Operation("fork", messages=frozenset(i for i in self.visible() if i > behind and i not in out))

    def child(self, fork: Operation) -> NaiveAgent:
        """The agent a fork gives birth to."""
        return NaiveAgent(m for m in self.lineage() if m.id in fork.messages)

    def forget(self, ids: Iterable[int], planning: tuple[int, int] | None = None) -> Operation:
        """Subtracts the listed ids and the planning conversation."""
        return Operation("filter", messages=self.whole(ids) | self._planning(planning))

    def remember(self, ids: Iterable[int], planning: tuple[int, int] | None = None) -> Operation:
        """Subtracts everything else that is visible at that moment, but no system message, and the planning."""
        keep = self.whole(ids) | {m.id for m in self.lineage() if m.kind == "system"}
        return Operation("filter", messages=(frozenset(self.visible()) - keep) | self._planning(planning))

    def drop(self, turn: int, kind: str = "drop") -> Operation:
        """Subtracts a whole turn of the lineage; one with nothing visible is an error."""
        ids = [m.id for m in self.lineage() if m.turn == turn]
        if not set(ids) & set(self.visible()):
            raise RefusedError(f"turn {turn} has nothing visible")
        return Operation(kind, messages=self.whole(ids))

    def undo(self) -> Operation:
        """Drops the turn of the newest visible message that has one."""
        visible = self.visible()
        turns = [m.turn for m in self.lineage() if m.id in visible and m.turn is not None]
        if not turns:
            raise RefusedError("nothing to undo")
        return self.drop(turns[-1], "undo")

    def restore(self, target: int) -> Operation:
        """Any operation of this agent but a fork, unless it is taken back already."""
        operations = [e.id for e in self.events if isinstance(e, Operation) and e.kind != "fork"]
        if target not in operations or target in self.taken_back():
            raise RefusedError(f"{target} cannot be restored")
        return Operation("restore", target=target)

    def _mark(self, name: str | None) -> int:
        """The event id of a mark in force; without a name, of the newest."""
        marks = self.marks()
        if not marks or (name and name not in marks):
            raise RefusedError(f"no mark {name or ''}")
        return marks[name] if name else max(marks.values())

    def _planning(self, planning: tuple[int, int] | None) -> frozenset[int]:
        """The planning conversation: every message from its first to its last id, whole exchanges."""
        first, last = planning or (1, 0)
        return self.whole(m.id for m in self.lineage() if first <= m.id <= last)
