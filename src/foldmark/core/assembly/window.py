"""The window: the newest whole turns whose request fits the budget [S2, S3, SPEC 5.3].

A turn includes everything between its visible messages, so a window begins only where no turn is split: the messages
form *units*, nearly always one turn each. A summary recorded inside a turn splits it in two unless a part of the turn
is still visible before it: the part after the summary is the newest turn, and the summary is an older one. The newest
unit is always included. Each older one is included if the request with it and all newer ones fits; the first that does
not fit ends the window.

Only the size of a real request decides whether it fits, and encoding one is expensive. A request grows with every unit,
except for the synthetic messages at its ends, which have less than `SLACK` bytes. So a search over the number of units
needs to encode only a few requests.

A stepped window begins only at a few places, which depend on sums of stored weights and not on the end of the
conversation (`in_steps`). So it begins at the same turn for the duration of a step, and the provider's cache can hold
the beginning of the request.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from foldmark.core.assembly.eviction import begins, in_place_newest_first
from foldmark.core.events import Event

SLACK = 200
"""Bytes by which a request of more units may be shorter than one of fewer."""


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


def opened_by(event: Event) -> Unit:
    """Return the turn that an event opened as a unit."""
    return Unit(event.id, (event.turn_id,), (event,))


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


class Cut(NamedTuple):
    """The number of units in the window, and the limit that was reached: `budget`, `turns`, or None if there are no
    more units."""

    units: int
    why: str | None


def choose(
    units: Units,
    turns: int,
    fits: Callable[[int], bool] | None,
    size: Callable[[int], int],
    rough: Callable[[Unit], int],
) -> Cut:
    """Return the beginning of the window of at most `turns` turns (0: any number) that `fits` (None: any size).

    `size(n)` returns the bytes of the request with the newest n units, `rough` the approximate number of bytes that a
    unit adds, and `fits` True if a request of this size fits. Reads one unit more than the window has.
    """
    at_most = _limit_of_turns(units, turns)
    if fits is None:
        count = at_most(turns or units.all())
    else:
        count = _widest(at_most, units, fits, size, rough) if units.reach(1) else 0
        if at_most(count + 1) > count:
            return Cut(count, "budget")
    return Cut(count, "turns" if units.reach(count + 1) else None)


class Steps(NamedTuple):
    """The steps of a window, all in uncalibrated tokens: G = `step`, b = `room` for turns, T = `total` of all visible
    turns [SPEC 5.3]."""

    step: int
    room: int
    total: int


def in_steps(units: Units, turns: int, steps: Steps, before: Callable[[int], int], fits: Callable[[int], bool]) -> Cut:
    """Return the beginning of a stepped window: the first turn that has at least L tokens of turns before it.

    L is the smallest multiple of the step that leaves enough room by weights, or a larger one if the request does not
    fit; one unit always stays. `before(n)` returns the tokens before the newest n units, `fits(n)` True if the request
    with them fits. Reads one unit more than there is room for by weights.
    """
    at_most = _limit_of_turns(units, turns)
    left = max(0, -((steps.room - steps.total) // steps.step) * steps.step)
    count = at_most(1)
    while at_most(count + 1) > count and before(count + 1) >= left:
        count += 1
    stopped = "budget" if at_most(count + 1) > count else "turns" if units.reach(count + 1) else None
    # Weights are estimates: if the request does not fit, the cut moves by whole steps, so that later requests share it.
    while count > 1 and not fits(count):
        stopped = "budget"
        left = (before(count) // steps.step + 1) * steps.step
        while count > 1 and before(count) < left:
            count -= 1
    return Cut(count, stopped)


def _limit_of_turns(units: Units, turns: int) -> Callable[[int], int]:
    """Return a function that limits a number of units to those with at most `turns` turns (0: any number)."""
    sums: list[int] = []  # turns in the newest 1, 2, ... units

    def at_most(count: int) -> int:
        while len(sums) < count and units.reach(len(sums) + 1):
            sums.append((sums[-1] if sums else 0) + len(units[len(sums)].turns))
        while turns and len(sums) > 1 and sums[-1] > turns:
            sums.pop()
        return min(count, len(sums))

    return at_most


def _widest(
    at_most: Callable[[int], int],
    units: Units,
    fits: Callable[[int], bool],
    size: Callable[[int], int],
    rough: Callable[[Unit], int],
) -> int:
    """Return the first count of units to which no further unit can be added; `at_most(n)` limits n to the available
    and allowed units."""

    measure = lru_cache(maxsize=None)(size)

    def certain(count: int) -> bool:
        return fits(measure(count) + SLACK)

    # Sizes of single units give a guess, but only whole requests decide, and each of those has to be encoded.
    guess, total = 1, measure(1)
    silent: set[int] = set()
    while at_most(guess + 1) > guess:
        added = rough(units[guess])
        if not fits(total + added):
            break
        if not added:
            silent.add(guess + 1)
        total, guess = total + added, guess + 1

    # Everything up to `low` fits. `high` and everything after it may not fit.
    low, high, probe, step = 1, 0, guess, 1
    while probe > low and not high:
        if certain(probe):
            low, probe, step = probe, at_most(probe + step), step * 2
        else:
            high, step = probe, 1
    while high - low > 1:
        probe = max(low + 1, high - step) if step else (low + high) // 2
        if certain(probe):
            low, step = probe, 0
        else:
            high, step = probe, step * 2

    # `certain` demands some slack, so a few more units may fit.
    present = measure(low)
    while at_most(low + 1) > low:
        # A unit with nothing to send changes no request, so the request need not be encoded again.
        present = present if low + 1 in silent else measure(low + 1)
        if not fits(present):
            break
        low += 1
    return low


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
