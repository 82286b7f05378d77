"""The turns of a window, newest first [S2, S3, SPEC 5.3].

A turn includes everything between its visible messages, so a window begins only where no turn is split: the messages
form *units*, nearly always one turn each. A summary recorded inside a turn splits it in two unless a part of the turn
is still visible before it: the part after the summary is the newest turn, and the summary is an older one.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from foldmark.core.assembly.eviction import begins, in_place_newest_first
from foldmark.core.events import Event


class Unit(NamedTuple):
    """Messages of one turn, or of several interleaved ones, in the order of the log.

    `opener` is the id of the event that opened the first of the turns, or of the first remaining message of that turn
    if a summary replaced the messages before it. Every message of the unit has that id or a later one.
    """

    opener: int
    turns: tuple[int | None, ...]
    events: tuple[Event, ...]

    @property
    def settled(self) -> int:
        """The event as of which a window that ends with this unit is measured: the opener, or the newest summary
        recorded since, because the cut moves again after an operation [SPEC 5.3]."""
        return max([self.opener, *(event.id for event in self.events if event.kind == "summary")])


class Units:
    """The units of messages that come newest first. Only as many as needed are read."""

    def __init__(self, newest_first: Iterable[Event]) -> None:
        self._read: list[Unit] = []
        self._rest = _units(newest_first)

    def reach(self, count: int) -> bool:
        """Return True if there are at least `count` units; reads that many."""
        while len(self._read) < count:
            unit = next(self._rest, None)
            if unit is None:
                return False
            self._read.append(unit)
        return True

    def all(self) -> int:
        """Return the number of units; reads them all."""
        self._read.extend(self._rest)
        return len(self._read)

    def __getitem__(self, index: int) -> Unit:
        """Return the unit with `index` newer ones. It must have been read."""
        return self._read[index]

    def newest(self, count: int) -> list[Event]:
        """Return the messages of the newest `count` units in the order of the log."""
        return [event for unit in reversed(self._read[:count]) for event in unit.events]


def limit_of_turns(units: Units, turns: int) -> Callable[[int], int]:
    """Return a function that limits a number of units to those with at most `turns` turns (0: any number)."""
    sums: list[int] = []  # turns in the newest 1, 2, ... units

    def at_most(count: int) -> int:
        while len(sums) < count and units.reach(len(sums) + 1):
            sums.append((sums[-1] if sums else 0) + len(units[len(sums)].turns))
        while turns and len(sums) > 1 and sums[-1] > turns:
            sums.pop()
        return min(count, len(sums))

    return at_most


def _units(newest_first: Iterable[Event]) -> Iterator[Unit]:
    current: list[Event] = []
    opener = 0
    for event in in_place_newest_first(newest_first):
        if current and event.id < opener:
            yield from _parted(opener, current)
            current = []
        begun = event.id if event.turn_id is None else event.turn_id
        opener = min(opener, begun) if current else begun
        current.append(event)
    if current:
        yield from _parted(opener, current)


def _parted(opener: int, newest_first: list[Event]) -> Iterator[Unit]:
    """Yield the units of messages since the opening of one turn, newest first: one unit, or more if all messages of the
    turn are on one side of a summary among them."""
    last = {event.turn_id: begins(event) for event in reversed(newest_first)}
    parts: list[list[Event]] = []
    reach = begins(newest_first[-1]) - 1
    for event in reversed(newest_first):
        if begins(event) > reach:
            parts.append([])
        parts[-1].append(event)
        reach = max(reach, event.id if event.turn_id is None else last[event.turn_id])
    for part in reversed(parts[1:]):
        yield _unit(part[0].id, part[::-1])
    yield _unit(opener, parts[0][::-1])


def _unit(opener: int, newest_first: list[Event]) -> Unit:
    return Unit(opener, tuple(dict.fromkeys(e.turn_id for e in newest_first)), tuple(reversed(newest_first)))
