"""An agent's operations in memory, so that a restore does not read and fold all of them again.

A restore changes whether its target counts, and nothing that was folded before it. So a few folds are kept, closer
together near the end, and a restore resumes from the newest one that is older than its target. It costs the operations
since then, which are few for a recent target. By L1 the fold equals that of `replay`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from copy import copy
from operator import itemgetter

from msgspec.structs import replace

from foldmark.core.events import Fork, Operation, Redact, Restore
from foldmark.core.replay import Fold, Recorded, advance, closed_by, counting

STEP = 32
"""Minimum number of operations after the newest kept fold; twice as many after the one before, and so on."""

_id = itemgetter(0)


class History:
    """All operations of an agent that was born with the fold `begin`, in the order of their ids."""

    def __init__(self, begin: Fold, operations: Iterable[Recorded] = ()) -> None:
        self._begin, self._closing, self.at = begin, begin.closing, begin.at
        self._operations: list[Recorded] = []
        self._restores: dict[int, int] = {}
        self._named: Counter[int] = Counter()
        self._kept: list[tuple[int, Fold]] = []
        for recorded in operations:
            self.add(*recorded)

    def add(self, event_id: int, operation: Operation) -> None:
        """Add an operation that comes after all others."""
        self.at, self._closing = event_id, closed_by(self._closing, event_id, operation)
        if isinstance(operation, Restore):
            self._restores[event_id] = operation.target
            self._name(operation.target)
        elif not isinstance(operation, Fork | Redact):  # these change no fold
            self._operations.append((event_id, operation))

    def followed_by(self, event_id: int, operation: Operation) -> Fold:
        """Return the fold with one more operation, without adding it."""
        self.fold()  # keeps folds on the way
        after = copy(self)
        after._restores, after._named = self._restores.copy(), self._named.copy()
        after._operations, after._kept = self._operations.copy(), self._kept.copy()
        after.add(event_id, operation)
        return after.fold()

    def is_back(self, event_id: int) -> bool:
        """Return True if a restore that itself counts names this operation."""
        return self._named[event_id] > 0

    def fold(self) -> Fold:
        """Return the fold of all operations."""
        done, fold = self._kept[-1] if self._kept else (0, self._begin)
        end, distance, stops = len(self._operations), STEP, [len(self._operations)]
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
        """Count one more restore of `target`; if the target is a restore, that one counts no more, and so on."""
        change = 1
        while True:
            before = self.is_back(target)
            self._named[target] += change
            if before == self.is_back(target) or target not in self._restores:
                break
            change = 1 if before else -1
            target = self._restores[target]
        first = bisect_left(self._operations, target, key=_id)
        while self._kept and self._kept[-1][0] > first:
            self._kept.pop()
