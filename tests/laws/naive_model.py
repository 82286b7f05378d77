"""A naive model of replay (SPEC 3): plain lists of events, folded by brute force.

It has no segments, ranges or segment caches. Event ids come from outside. The model resolves an operation when it is
recorded, decides whether it is an error, and computes the messages that are visible afterwards.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

SUBTRACTING = ("filter", "drop", "undo", "summary")


class RefusedError(Exception):
    """The operation must be an error, and nothing is written (SPEC 4)."""


@dataclass(frozen=True)
class Message:
    """One message. `turn` is its GID; `exchange` is the id of the first call of its exchange (SPEC 1)."""

    id: int
    kind: str
    turn: int | None
    call_id: str | None = None
    exchange: int | None = None
    answers: int | None = None  # for a tool_result: the event id of its call


@dataclass(frozen=True)
class State:
    """A state event, or the state block of a summary. It leaves with its message, the `owner` (SPEC 3)."""

    id: int
    owner: int
    turn: int | None
    text: str


@dataclass(frozen=True)
class Operation:
    """An operation with the exact ids that it meant when it was recorded (SPEC 3, "resolved when recorded")."""

    kind: str
    id: int = 0
    name: str = ""  # mark: its name
    mark: int = 0  # rewind: the event id of its mark
    position: int = 0  # rewind: own events with a greater id are cut
    messages: frozenset[int] = frozenset()  # filter, drop, undo, summary: subtracted; rewind: kept; fork: inherited
    states: frozenset[int] = frozenset()  # the states that leave, or are inherited, with these messages
    target: int = 0  # restore: the operation to undo; drop, undo, pin, unpin, redact: the turn
    planning: int = 0  # filter that ends a planning conversation: its first message
    until: int | None = None  # ... and its last message, set when the turn of the filter ends
    text: str | None = None  # summary: its state block; fork: the child's scratchpad
    pins: frozenset[int] = frozenset()  # fork: the child's pins
    evicted: frozenset[int] = frozenset()  # evict: the results; fork: those that the child inherits


@dataclass
class Folded:
    """The result of folding an agent's events."""

    visible: list[int]
    marks: dict[str, int] = field(default_factory=dict)
    pins: set[int] = field(default_factory=set)
    evicted: set[int] = field(default_factory=set)
    states: list[State] = field(default_factory=list)


class NaiveAgent:
    """One agent's timeline: the messages inherited at its fork, then its own events in log order."""

    def __init__(self, inherited: Iterable[Message] = (), states: Iterable[State] = ()) -> None:
        self.inherited = list(inherited)
        self.inherited_states = list(states)
        self.inherited_pins: frozenset[int] = frozenset()
        self.inherited_evicted: frozenset[int] = frozenset()
        self.own: list[Message] = []
        self.events: list[Message | State | Operation] = []
        self.turn: int | None = None  # the open turn; a new child has none
        self.planning: int | None = None  # the first message of the open planning conversation (SPEC 4.2)
        self.scratchpad: str | None = None
        self.erased: dict[int, int] = {}  # turn -> the redaction that erased it; shared by all agents of a database
        self._folded: tuple[object, Folded] | None = None
        self.placed: dict[int, int] = {}  # summary -> the place where the messages it replaced began
        self.summaries: list[Operation] = []

    # -- messages ---------------------------------------------------------------------------------

    def lineage(self) -> list[Message]:
        """Return all messages of this agent, inherited and own, visible or not."""
        return self.inherited + self.own

    def append(self, kind: str, event_id: int, call_id: str | None = None) -> None:
        """Append a message. It joins the open turn, or opens one unless it is a system message (SPEC 2)."""
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

    def record_state(self, event_id: int, text: str) -> None:
        """Record a state event after the newest message."""
        self.events.append(State(event_id, self.own[-1].id, self.turn, text))

    def end_turn(self) -> None:
        """Make the agent idle (SPEC 1). A planning conversation that was applied or cancelled ends here."""
        self.turn = None
        last = self.own[-1].id if self.own else 0
        self.events = [replace(e, until=last) if self._lasts(e) else e for e in self.events]  # type: ignore[arg-type]

    def settling(self) -> bool:
        """Return True if a planning conversation was applied or cancelled in the open turn. It lasts until that turn
        ends."""
        return any(self._lasts(e) and not self._enders(e) for e in self.events)

    @staticmethod
    def _lasts(event: Message | State | Operation) -> bool:
        return isinstance(event, Operation) and event.planning > 0 and event.until is None

    def awaiting(self, call_id: str) -> Message | None:
        """Return the call that a result with this id answers: the newest one without a result."""
        calls = [m for m in self.unanswered() if m.call_id == call_id]
        return calls[-1] if calls else None

    def unanswered(self) -> list[Message]:
        """Return the calls of the lineage that have no result."""
        answered = {m.answers for m in self.lineage()}
        return [m for m in self.lineage() if m.kind == "tool_call" and m.id not in answered]

    def result_kind(self, call_id: str) -> str:
        """Return the kind of a result. If its call is no longer visible, it becomes a notice, a user message (SPEC 3).

        The exception is a settled planning conversation: the call is hidden because its result will be hidden as well.
        """
        call = self.awaiting(call_id)
        if call is None or call.id in self.visible():
            return "tool_result"
        lasting = {e.id for e in self.events if self._lasts(e)}
        return "tool_result" if self.reasons(call) <= lasting else "user"

    # -- the fold ---------------------------------------------------------------------------------

    def taken_back(self) -> set[int]:
        """Return the operations that a restore has undone. They are read newest first, because a restore that is itself
        undone has no effect."""
        gone: set[int] = set()
        for event in reversed(self.events):
            if isinstance(event, Operation) and event.kind == "restore" and event.id not in gone:
                gone.add(event.target)
        return gone

    def folded(self) -> Folded:
        """Fold by SPEC 3's table, row by row. The same events are folded only once."""
        key = len(self.events), self.turn, len(self.erased)
        if self._folded is None or self._folded[0] != key:
            self._folded = key, self._fold()
        return self._folded[1]

    def _fold(self) -> Folded:
        start, skip = {m.id for m in self.inherited}, self.taken_back()
        now = Folded(sorted(start), pins=set(self.inherited_pins), states=list(self.inherited_states))
        now.evicted = set(self.inherited_evicted)
        born = {s.id for s in now.states}
        for event in self.events:
            if isinstance(event, Message):
                now.visible.append(event.id)
            elif isinstance(event, State):
                now.states.append(event)
            elif event.id in skip:
                continue
            elif event.kind == "mark":
                now.marks[event.name] = event.id
            elif event.kind == "clear":
                now.visible, now.marks, now.states = [], {}, []
            elif event.kind == "rewind":
                until = event.target or event.id  # what was inherited before a turn stays
                stay = event.messages | {i for i in (*start, *born) if i < until}
                now.visible = [i for i in now.visible if i <= event.position or i in stay]
                now.states = [s for s in now.states if s.id <= event.position or s.id in stay]
                now.marks = {name: i for name, i in now.marks.items() if i <= event.mark}
            elif event.kind in SUBTRACTING:
                now.visible = [i for i in now.visible if i not in event.messages]
                now.states = [s for s in now.states if s.id not in event.states]
                if event.kind == "summary":
                    now.visible.append(event.id)
                    now.states += [State(event.id, event.id, event.id, event.text)] if event.text else []
            elif event.kind == "pin":
                now.pins.add(event.target)
            elif event.kind == "unpin":
                now.pins.discard(event.target)
            elif event.kind == "evict":
                now.evicted |= event.evicted
        out = {m.id for m in self.lineage() if m.turn in self.erased or any(self._plans(m.id, skip))}
        now.visible = [i for i in now.visible if i not in out]
        now.states = [s for s in now.states if s.owner not in out and s.turn not in self.erased]
        return now

    def _plans(self, message: int, skip: set[int]) -> Iterable[int]:
        """Yield the filters in force whose planning conversation includes a message, even one yet to be appended."""
        own = bool(self.own) and message >= self.own[0].id
        for e in self.events:
            if isinstance(e, Operation) and own and e.planning and e.id not in skip:
                until = message if e.until is None else e.until
                # A clear or a rewind ends it before its turn ends.
                until = min([until, *self._enders(e)])
                if e.planning <= message <= until:
                    yield e.id

    def _enders(self, event: Message | State | Operation) -> list[int]:
        """Return the clears and rewinds in force that were recorded after an event."""
        skip, kinds = self.taken_back(), ("clear", "rewind")
        operations = [e for e in self.events if isinstance(e, Operation) and e.id not in skip]
        return [e.id for e in operations if e.kind in kinds and e.id > event.id]

    def fold(self) -> tuple[list[int], dict[str, int]]:
        """Return the ids of the visible messages and the marks in force."""
        return self.folded().visible, self.folded().marks

    def visible(self) -> list[int]:
        """Return the ids of the visible messages, in log order."""
        return self.folded().visible

    def marks(self) -> dict[str, int]:
        """Return the marks in force, name -> event id."""
        return self.folded().marks

    def state(self) -> str | None:
        """Return the newest visible state."""
        return max(self.folded().states, key=lambda s: s.id).text if self.folded().states else None

    def turns(self) -> set[int]:
        """Return the turns with at least one visible message."""
        visible = set(self.visible())
        return {m.turn for m in self.lineage() if m.id in visible and m.turn is not None}

    def reasons(self, message: Message) -> set[int]:
        """Return the operations in force that each remove this message, whatever the others do."""
        skip, own = self.taken_back(), message in self.own
        gone = set(self._plans(message.id, skip))
        for e in self.events:
            if not isinstance(e, Operation) or e.id in skip:
                continue
            if (
                (e.kind == "clear" and message.id < e.id)
                or (e.kind == "rewind" and own and e.position < message.id < e.id and message.id not in e.messages)
                or (e.kind == "rewind" and not own and 0 < e.target <= message.id and message.id not in e.messages)
                or (e.kind in SUBTRACTING and message.id in e.messages)
                or (e.kind == "restore" and message.id == e.target)
            ):
                gone.add(e.id)
        return gone | {self.erased[t] for t in (message.turn,) if t in self.erased}

    # -- exchanges and positions ------------------------------------------------------------------

    def exchanges(self) -> list[list[Message]]:
        """Return the exchanges (SPEC 1): runs of consecutive calls of one turn, with all their results. Erased messages
        belong to no exchange."""
        there = [m for m in self.lineage() if m.exchange is not None and m.turn not in self.erased]
        return [[m for m in there if m.exchange == key] for key in dict.fromkeys(m.exchange for m in there)]

    def open_exchanges(self) -> list[list[Message]]:
        """Return the exchanges of the open turn that wait for the result of a visible call.

        A call that has left the context can no longer get a result: its result becomes a notice.
        """
        visible = self.visible()
        waiting = {m.exchange for m in self.unanswered() if m.turn == self.turn and m.id in visible}
        return [x for x in self.exchanges() if x[0].exchange in waiting]

    def response(self, exchange: list[Message]) -> list[Message]:
        """Return an exchange with the text of its response: the assistant message directly before its first call."""
        at = self.own.index(exchange[0])
        text = self.own[at - 1 : at] if at else []
        return [m for m in text if m.kind == "assistant" and m.turn == exchange[0].turn] + exchange

    def position(self, at: int) -> int:
        """Return the position of a cut (SPEC 3). Inside an open exchange it moves before the response, inside a closed
        one after the last result."""
        for exchange in self.open_exchanges():
            if exchange[0].id < at:
                return self.response(exchange)[0].id - 1
        while around := [x[-1].id for x in self.exchanges() if x[0].id < at < x[-1].id]:
            at = max(around)
        return at

    def whole(self, ids: Iterable[int]) -> frozenset[int]:
        """Widen the messages that a filter, drop or undo names to whole exchanges (SPEC 3)."""
        named = set(ids)
        touched = {m.exchange for m in self.lineage() if m.id in named} - {None}
        return frozenset(named | {m.id for m in self.lineage() if m.exchange in touched})

    def going_on(self) -> set[int]:
        """Return the ids of the open exchange and its text."""
        return {m.id for x in self.open_exchanges() for m in self.response(x)}

    # -- operations: each returns the operation to record, or raises RefusedError ---------------------

    def record(self, operation: Operation, event_id: int) -> None:
        """Record an operation in the timeline under the id that the log gave it."""
        operation = replace(operation, id=event_id)
        if operation.planning and self.turn is None:
            operation = replace(operation, until=self.own[-1].id)
        self.events.append(operation)
        if operation.kind == "summary":
            self.own.append(Message(event_id, "summary", event_id))
            self.placed[event_id] = min(operation.messages)
            self.summaries.append(operation)
        if self.planning and self._ends_planning(operation, self.planning):
            self.planning = None

    def _ends_planning(self, operation: Operation, first: int) -> bool:
        """Return True if the operation ends planning (SPEC 4.2): it applies or cancels it, or clears, rewinds or drops
        its first message."""
        turn = next(m.turn for m in self.own if m.id == first)
        return (
            operation.kind == "clear"
            or operation.planning > 0
            or (operation.kind == "rewind" and operation.position < first)
            or (operation.kind in ("drop", "undo") and operation.target == turn)
        )

    def mark(self, name: str | None = None) -> Operation:
        """Mark the present position, by default as `mark-N` with the smallest N not in force."""
        numbered = (f"mark-{n}" for n in range(1, len(self.events) + 2))
        return Operation("mark", name=name or next(n for n in numbered if n not in self.marks()))

    def clear(self) -> Operation:
        """Remove all visible messages and all marks."""
        return Operation("clear")

    def rewind(self, name: str | None = None) -> Operation:
        """Rewind to a mark, by default the newest. Without such a mark it is an error."""
        mark = self._mark(name)
        position = self.position(mark)
        return Operation("rewind", mark=mark, position=position, messages=self.before(position))

    def rewind_to(self, turn: int) -> Operation:
        """Rewind to before a turn, which may be inherited. A turn without visible messages and a summary are errors."""
        position, kept = self._turn(turn)
        return Operation("rewind", mark=turn - 1, position=position, messages=kept, target=turn)

    def _turn(self, turn: int) -> tuple[int, frozenset[int]]:
        """Return the position of a cut before a turn, and the summaries behind it that stay."""
        if turn not in self.turns() or any(m.id == turn and m.kind == "summary" for m in self.lineage()):
            raise RefusedError(f"turn {turn} has nothing visible, or is a summary")
        return self._cut(turn)

    def _cut(self, at: int) -> tuple[int, frozenset[int]]:
        """Return the position of a cut before an id, and the summaries behind it that stay."""
        position = self.position(at)
        return (at - 1 if position == at else position), self.before(at - 1, inherited=True)

    def retry(self, notices: Container[int]) -> Operation:
        """Rewind to behind the newest question: a message of a person, or a notice that opened its turn."""
        if self.planning:
            raise RefusedError("planning is open")
        for m in sorted((m for m in self.lineage() if m.id in self.visible()), key=self.place, reverse=True):
            if m.kind == "summary":
                raise RefusedError("the newest turn is a summary")
            if m.kind == "user" and (m.id not in notices or m.id == m.turn):
                position, kept = self._cut(m.id + 1)
                return Operation("rewind", mark=m.id, position=position, messages=kept, target=m.id + 1)
        raise RefusedError("there is no question")

    def fork_from(self, turn: int) -> Operation:
        """Fork. The child inherits the turn and what follows, without open exchanges."""
        if self.planning:
            raise RefusedError("planning is open")
        position, kept = self._turn(turn)
        born, out = {m.id for m in self.inherited}, self.going_on() | kept

        def follows(id: int) -> bool:
            return id > (turn - 1 if id in born else position)

        messages = frozenset(i for i in self.visible() if follows(i) and i not in out)
        states = {s.id for s in self.folded().states if follows(s.id) and s.owner not in out}
        turns = {m.turn for m in self.lineage() if m.id in messages}
        pins, evicted = self.folded().pins & turns, self.folded().evicted & messages
        return Operation(
            "fork", messages=messages, states=frozenset(states), pins=frozenset(pins), evicted=frozenset(evicted)
        )

    def fork(self, name: str | None = None) -> Operation:
        """Fork. The child inherits the visible messages (with a mark: own ones after it), without open exchanges."""
        behind = self.position(self._mark(name)) if name else 0
        if self.planning:
            raise RefusedError("planning is open")
        out = self.going_on() | (self.before(behind) if name else set())
        born = {m.id for m in self.inherited} if name else set()
        messages = frozenset(i for i in self.visible() if i > behind and i not in out | born)
        states = {s.id for s in self.folded().states if s.id > behind and s.owner not in out | born}
        turns = {m.turn for m in self.lineage() if m.id in messages}
        pins = frozenset(self.folded().pins & turns)
        scratchpad, evicted = None if name else self.scratchpad, frozenset(self.folded().evicted & messages)
        more: Any = {"pins": pins, "evicted": evicted, "text": scratchpad}
        return Operation("fork", messages=messages, states=frozenset(states), **more)

    def child(self, fork: Operation) -> NaiveAgent:
        """Return the child that a fork creates. Valid only until the next event of the parent."""
        states = [s for s in self.folded().states if s.id in fork.states]
        child = NaiveAgent((m for m in self.lineage() if m.id in fork.messages), states)
        child.inherited_evicted, child.placed = fork.evicted, dict(self.placed)
        child.summaries = list(self.summaries)
        child.inherited_pins, child.scratchpad, child.erased = fork.pins, fork.text, self.erased
        return child

    def forget(self, ids: Iterable[int], planning: tuple[int, int] | None = None) -> Operation:
        """Subtract the listed messages and the planning conversation."""
        ids = set(ids)
        gone = self.whole(ids) | self._planning(planning)
        return self._subtract("filter", gone | self._told(ids, gone))

    def _told(self, ids: Container[int], gone: Container[int] | None = None) -> set[int]:
        """Return what a client told in the turns of these messages; with `gone`, in those that show nothing else."""
        shown = [m for m in self.lineage() if m.id in self.visible()]
        turns = {m.turn for m in self.lineage() if m.id in ids} - {None}
        if gone is not None:
            turns -= {m.turn for m in shown if m.kind != "client" and m.id not in gone}
        return {m.id for m in shown if m.kind == "client" and m.turn in turns}

    def remember(self, ids: Iterable[int], planning: tuple[int, int] | None = None) -> Operation:
        """Subtract all other messages visible at that moment, except system messages, and the planning conversation."""
        ids = set(ids)
        keep = self.whole(ids) | {m.id for m in self.lineage() if m.kind == "system"} | self._told(ids)
        operation = self._subtract("filter", (frozenset(self.visible()) - keep) | self._planning(planning))
        states = {s.id for s in self.folded().states if s.owner not in keep}
        return replace(operation, states=operation.states | states)

    def apply(self, mode: str, ids: Iterable[int]) -> Operation:
        """Return the filter that ends the open planning conversation and subtracts it as well."""
        if not self.planning:
            raise RefusedError("no planning is open")
        planning = (self.planning, self.own[-1].id)
        operation = self.forget(ids, planning) if mode == "forget" else self.remember(ids, planning)
        return replace(operation, planning=self.planning)

    def cancel(self) -> Operation:
        """End the open planning conversation with a filter of no ids."""
        return self.apply("forget", ())

    def drop(self, turn: int, kind: str = "drop") -> Operation:
        """Subtract a whole turn of the lineage. A turn without visible messages is an error."""
        if turn not in self.turns():
            raise RefusedError(f"turn {turn} has nothing visible")
        whole = self.whole(m.id for m in self.lineage() if m.turn == turn)
        return replace(self._subtract(kind, whole), target=turn)

    def undo(self) -> Operation:
        """Drop the turn of the newest visible message that has one. A summary is refused: it is restored instead."""
        visible = self.visible()
        newest = [m for m in sorted(self.lineage(), key=self.place) if m.id in visible and m.turn is not None]
        if not newest or newest[-1].kind == "summary":
            raise RefusedError("nothing to undo")
        return self.drop(newest[-1].turn or 0, "undo")

    def summarize(self, name: str | None = None) -> Operation:
        """Subtract the messages that a rewind would cut (no mark: all). An open exchange stays, with its text."""
        behind = self.position(self._mark(name)) if name else 0
        keep = self.going_on() | ({m.id for m in self.inherited} | self.before(behind) if name else set())
        messages = frozenset(i for i in self.visible() if i > behind and i not in keep)
        if not messages:
            raise RefusedError("nothing to summarize")
        states = frozenset(s.id for s in self.folded().states if s.id > behind and s.owner not in keep)
        return Operation("summary", messages=messages, states=states, text=self.state())

    def summarize_span(self, first: int, last: int) -> Operation:
        """Subtract the messages from `first` to `last`, in whole exchanges (SPEC 5.7). A summary counts by its place. A
        last message that opened a turn means the end of that turn."""
        lineage = {m.id: m for m in self.lineage()}
        if not {first, last} <= lineage.keys() or {lineage[i].turn for i in (first, last)} & self.erased.keys():
            raise RefusedError("no such message")
        begin, end = self.place(lineage[first]), max([last, *(i for i, m in lineage.items() if m.turn == last)])
        end = self.placed.get(last, end)
        named = {i for i in self.visible() if begin <= self.place(lineage[i]) <= end}
        messages = self.whole(named) - self.going_on()
        if begin > end or not messages & set(self.visible()):
            raise RefusedError("nothing to summarize")
        carried = [s for s in self.folded().states if s.owner in messages]
        text = self.state() if carried and max(self.folded().states, key=lambda s: s.id) in carried else None
        operation = replace(self._subtract("summary", messages), text=text)
        before = [e for e in self.summaries if e.id in named]
        return replace(operation, messages=messages.union(*(e.messages for e in before)))

    def before(self, position: int, *, inherited: bool = False) -> frozenset[int]:
        """Return the own visible summaries (and those `inherited`) after a position that replaced only messages before
        it: they stand before it."""
        gone = {m.id for m in self.lineage() if m.turn in self.erased}
        own, found = {m.id for m in (self.lineage() if inherited else self.own)} - gone, set[int]()
        for e in self.summaries:
            if e.id in own and e.id > position and all(i <= position or i in found for i in e.messages - gone):
                found.add(e.id)
        return frozenset(found & set(self.visible()))

    def place(self, message: Message) -> int:
        """Return the place of a message; for a summary, the place where the messages it replaced began."""
        return self.placed.get(message.id, message.id)

    def pin(self, turn: int) -> Operation:
        """Pin a visible turn that is not pinned."""
        if turn not in self.turns() or turn in self.folded().pins:
            raise RefusedError(f"turn {turn} is not visible or pinned already")
        return Operation("pin", target=turn)

    def unpin(self, turn: int) -> Operation:
        """Unpin a pinned turn."""
        if turn not in self.folded().pins:
            raise RefusedError(f"turn {turn} is not pinned")
        return Operation("unpin", target=turn)

    def evict(self, ids: Iterable[int]) -> Operation:
        """Evict visible tool results that are not evicted yet. The messages stay."""
        results = {m.id for m in self.lineage() if m.kind == "tool_result"} & set(self.visible())
        if not set(ids) <= results - self.folded().evicted:
            raise RefusedError(f"not all of {ids} are results to evict")
        return Operation("evict", evicted=frozenset(ids))

    def restore(self, target: int) -> Operation:
        """Restore any operation of this agent except a fork, a redaction or one that is already undone."""
        kinds = ("fork", "redact")
        operations = [e.id for e in self.events if isinstance(e, Operation) and e.kind not in kinds]
        if target not in operations or target in self.taken_back():
            raise RefusedError(f"{target} cannot be restored")
        return Operation("restore", target=target)

    def redact(self, turn: int, open_elsewhere: Iterable[int] = ()) -> Operation:
        """Erase a turn of the lineage in the whole database, unless it is open in another agent."""
        if turn not in {m.turn for m in self.lineage()} or turn in self.erased or turn in open_elsewhere:
            raise RefusedError(f"turn {turn} cannot be removed")
        return Operation("redact", target=turn)

    def erase(self, redact: Operation, event_id: int) -> None:
        """Record a redaction. If the agent has this turn open, the turn ends first."""
        if self.turn == redact.target:
            self.end_turn()
        self.record(redact, event_id)
        self.erased[redact.target] = event_id

    def _subtract(self, kind: str, messages: frozenset[int]) -> Operation:
        """Return a subtraction of messages. Their states leave with them."""
        states = {s.id for s in self.inherited_states if s.owner in messages}
        for e in self.events:
            if isinstance(e, State | Operation) and (e.owner if isinstance(e, State) else e.id) in messages:
                states.add(e.id)
        return Operation(kind, messages=messages, states=frozenset(states))

    def _mark(self, name: str | None) -> int:
        """Return the event id of a mark in force, by default the newest."""
        marks = self.marks()
        if not marks or (name and name not in marks):
            raise RefusedError(f"no mark {name or ''}")
        return marks[name] if name else max(marks.values())

    def _planning(self, planning: tuple[int, int] | None) -> frozenset[int]:
        """Return the planning conversation: all messages from its first to its last id, in whole exchanges."""
        first, last = planning or (1, 0)
        return self.whole(m.id for m in self.lineage() if first <= m.id <= last)
