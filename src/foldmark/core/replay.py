"""Replay: the only place where a context changes [SPEC 3].

The log only grows, so a context cannot be edited. It is computed as a fold over the agent's operations, in the order of
their ids, starting from the context that the agent was created with. To undo an operation is to compute the fold
without it.

A fold reads only operations, never messages. A segment that reaches `END` includes everything that its agent appends
later, and every operation stores the ranges that it resolved to when it was recorded. Almost all operations can only
remove ranges. So the segments are those that the agent started with, minus the union of the ranges that the operations
in force remove. Two operations begin a new segment: `clear` begins a new list, and the end of a planning conversation
reopens the agent's last segment, which the ranges of the filter had removed up to `END`. A clear or a rewind ends a
planning conversation before the turn ends it.

Laws, cited by the tests:

- L1 determinism: `advance` over all operations in force equals `advance` in any number of steps; `replay` of the same
  events gives the same `Fold`.
- L2 immutability: nothing here changes an event; a fold is a new value.
- L3 cost: O(ranges written in operations + segments), never O(messages).
- L5 reversibility: `replay` leaves out the operation that a `restore` in force names, and nothing else; so a restore
  gives the fold that the same recorded events give without the operation.
- L6 independence: a child's fold begins with the start that its `fork` event stores and reads only its own operations.

`History` keeps the operations of an agent in memory, so that a restore does not read and fold all of them again. A
restore changes only whether its target counts, and nothing that was folded before the target. So a few intermediate
folds are kept, closer together near the end, and a restore resumes from the newest fold that is older than its target.
Its cost is the number of operations since then, which is small for a recent target. By L1 the fold equals that of
`replay`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from operator import itemgetter
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.codec import operation_of
from foldmark.core.events import (
    Clear,
    Drop,
    Event,
    Evict,
    Filter,
    Fork,
    Mark,
    Operation,
    Pin,
    PlanningEnded,
    Redact,
    Restore,
    Rewind,
    Summary,
    Undo,
    Unpin,
)
from foldmark.core.segments import END, Segment, Segments, normal, subtract

Recorded: TypeAlias = tuple[int, Operation]
"""An operation with the id of its event."""


class Fold(Struct, frozen=True):
    """An agent's context without its messages, as of operation `at` (0: none yet).

    `segments` reach `END` if the agent's next message will be visible; `marks` are name -> event id in the order in
    which they were set; `pins` are the ids of pinned turns; `evicted` is tool result -> the operation that evicted it,
    0 if that was before the agent's creation. `closing` is (filter, first) if a filter was recorded whose planning
    conversation lasts from event `first` to the end of the turn, whether or not the filter still counts.
    """

    agent: str
    segments: Segments
    marks: dict[str, int] = {}
    pins: tuple[int, ...] = ()
    at: int = 0
    closing: tuple[int, int] | None = None
    evicted: dict[int, int] = {}

    @property
    def grows(self) -> bool:
        """True if the agent's next message will be visible."""
        return _reaches(self.agent, self.segments)

    @property
    def leaving(self) -> int | None:
        """The first event of the planning conversation that leaves when the open turn ends; None if there is none.

        A planning conversation is over once a clear, a rewind or a restore of its filter makes the agent's next message
        visible.
        """
        return self.closing[1] if self.closing is not None and not self.grows else None


def birth(
    agent: str, born: int = 0, start: Segments = (), pins: tuple[int, ...] = (), evicted: Iterable[int] = ()
) -> Fold:
    """Return the fold of a new agent: the segments that it inherits, and everything that it appends after event
    `born`."""
    segments = normal((*start, Segment(agent, born + 1, END)))
    return Fold(agent, segments, pins=pins, evicted=dict.fromkeys(evicted, 0))


def replay(begin: Fold, operations: Sequence[Recorded]) -> Fold:
    """Fold all operations of an agent, in the order of their ids, leaving out restored ones."""
    back = taken_back(operations)
    fold = advance(begin, counting(begin.agent, operations, back.__contains__))
    # The end of the turn closes a restored filter, too, because the restore may itself be restored.
    closing = begin.closing
    for id, operation in operations:
        closing = closed_by(closing, id, operation)
    at = operations[-1][0] if operations else begin.at
    return Fold(fold.agent, fold.segments, fold.marks, fold.pins, at, closing, fold.evicted)


def counting(agent: str, operations: Iterable[Recorded], is_back: Callable[[int], bool]) -> Iterator[Recorded]:
    """Yield the operations that count. For each summary that does not count, yield a drop of its own text instead,
    because a summary is also a message and leaves the context with its operation."""
    for id, operation in operations:
        if not is_back(id):
            yield id, operation
        elif isinstance(operation, Summary):
            yield id, Drop(id, (Segment(agent, id, id),))


def advance(fold: Fold, operations: Iterable[Recorded]) -> Fold:
    """Continue a fold with later operations; for a `restore` use `replay` or `History`."""
    agent, segments, at = fold.agent, fold.segments, fold.at
    marks, pins, closing = dict(fold.marks), dict.fromkeys(fold.pins), fold.closing
    evicted = dict(fold.evicted)
    # Ranges are subtracted once, at the end: subtracting them for each operation would cost operations × segments.
    removed: list[Segment] = []
    hidden = not _reaches(agent, segments)
    for at, operation in operations:
        match operation:
            case Mark(name=name):
                # A moved mark goes to the end: rewinds rely on the order of ids.
                marks.pop(name, None)
                marks[name] = at
            case Clear():
                segments = (Segment(agent, at + 1, END),)
                removed, marks, hidden = [], {}, False
            case Rewind(mark_id=mark_id):
                removed += operation.cut(agent, at)
                # A rewind ends a planning conversation, so the next messages are visible again.
                if hidden:
                    segments, removed, hidden = _grown(agent, subtract(segments, removed), at), [], False
                # Marks are in the order of their ids.
                while marks and next(reversed(marks.values())) > mark_id:
                    marks.popitem()
            case Filter(ranges=ranges) | Drop(ranges=ranges) | Undo(ranges=ranges) | Summary(ranges=ranges):
                removed.extend(ranges)
                hidden = hidden or _reaches(agent, ranges)
                closing = closed_by(closing, at, operation)
            case Pin(turn=turn):
                pins.pop(turn, None)
                pins[turn] = None
            case Unpin(turn=turn):
                pins.pop(turn, None)
            case Evict(results=results):
                evicted.update(dict.fromkeys(results, at))
            case PlanningEnded():
                segments, removed, hidden = _grown(agent, subtract(segments, removed), at), [], False
                closing = None
            case Redact(ranges=ranges):
                removed.extend(ranges)
            case Fork() | Restore():
                pass
    return Fold(agent, subtract(segments, removed), marks, tuple(pins), at, closing, evicted)


def _reaches(agent: str, segments: Segments) -> bool:
    """Return True if the agent's next messages lie in these segments."""
    # Segments are sorted by their first ids, so the one without an end is mostly the last.
    for segment in reversed(segments):  # noqa: SIM110 - `any` would take twice as long, and every access runs this
        if segment.last == END and segment.agent == agent:
            return True
    return False


def _grown(agent: str, segments: Segments, at: int) -> Segments:
    """Return the segments extended by everything that the agent appends after event `at`."""
    return segments if _reaches(agent, segments) else normal((*segments, Segment(agent, at + 1, END)))


def closed_by(closing: tuple[int, int] | None, at: int, operation: Operation) -> tuple[int, int] | None:
    """Return the filter whose planning conversation the end of the turn will close, after `operation`; see
    `Fold.closing`."""
    match operation:
        case Filter(planning=(first, None)):
            return at, first
        case PlanningEnded():
            return None
        case _:
            return closing


def takers(targets: Sequence[tuple[int, int | None]]) -> dict[int, int]:
    """Return taken back -> the restore in force that takes it back. `targets` are ids, oldest first, each with the
    target of a restore, or None for anything else."""
    found: dict[int, int] = {}
    # Newest first: only later restores decide whether a restore counts.
    for id, target in reversed(targets):
        if target is not None and id not in found:
            found.setdefault(target, id)
    return found


def taken_back_by(operations: Sequence[Recorded]) -> dict[int, int]:
    """Return restored operation -> the restore in force that takes it back."""
    return takers([(id, each.target if isinstance(each, Restore) else None) for id, each in operations])


def taken_back(operations: Sequence[Recorded]) -> frozenset[int]:
    """Return the ids of restored operations: each is the target of a restore that itself counts."""
    return frozenset(taken_back_by(operations))


def recorded(events: Iterable[Event]) -> list[Recorded]:
    """Return the operations that events record, with their ids."""
    return [(event.id, operation_of(event)) for event in events]


STEP = 32
"""Minimum number of operations after the newest kept fold; twice as many after the previous one, and so on."""

_id = itemgetter(0)


class History:
    """All operations of an agent that was created with the fold `begin`, in the order of their ids; empty at first."""

    def __init__(self, begin: Fold) -> None:
        self._begin, self._closing, self.at = begin, begin.closing, begin.at
        self._operations: list[Recorded] = []
        self._restores: dict[int, int] = {}
        self._named: Counter[int] = Counter()
        self._kept: list[tuple[int, Fold]] = []

    def add(self, event_id: int, operation: Operation) -> None:
        """Add an operation that comes after all others."""
        self.at, self._closing = event_id, closed_by(self._closing, event_id, operation)
        if isinstance(operation, Restore):
            self._restores[event_id] = operation.target
            self._name(operation.target)
        elif not isinstance(operation, Fork):  # it changes no fold
            self._operations.append((event_id, operation))

    def followed_by(self, event_id: int, operation: Operation) -> Fold:
        """Return the fold with one more operation, without adding it."""
        self.fold()  # keeps intermediate folds
        after = copy(self)
        after._restores, after._named = self._restores.copy(), self._named.copy()
        after._operations, after._kept = self._operations.copy(), self._kept.copy()
        after.add(event_id, operation)
        return after.fold()

    def is_back(self, event_id: int) -> bool:
        """Return True if this operation is the target of a restore that itself counts."""
        return self._named[event_id] > 0

    def fold(self) -> Fold:
        """Return the fold of all operations."""
        done, fold = self._kept[-1] if self._kept else (0, self._begin)
        end, distance, stops = len(self._operations), STEP, [len(self._operations)]
        # Folds are kept 32, 64, 128, ... operations before the end: a restore of something recent refolds little.
        while end - distance >= done + STEP:
            stops.append(end - distance)
            distance *= 2
        for stop in reversed(stops):
            fold = advance(fold, counting(fold.agent, self._operations[done:stop], self.is_back))
            done = stop
            if stop < end:
                self._kept.append((stop, fold))
        return replace(fold, at=self.at, closing=self._closing)

    def _name(self, target: int) -> None:
        """Count one more restore of `target`. If the target is itself a restore, it no longer counts, and so on."""
        change = 1
        while True:
            before = self.is_back(target)
            self._named[target] += change
            if before == self.is_back(target) or target not in self._restores:
                break
            change = 1 if before else -1
            target = self._restores[target]
        # Kept folds that include the target are outdated.
        first = bisect_left(self._operations, target, key=_id)
        while self._kept and self._kept[-1][0] > first:
            self._kept.pop()
