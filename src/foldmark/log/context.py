"""The context: the visible part of an agent's lineage, as of one moment [SPEC 1]."""

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import index as as_number
from typing import overload

from foldmark.core.events import Event
from foldmark.core.ports import Store
from foldmark.core.segments import Segments, since, until
from foldmark.core.turns import Turn, newest_turns
from foldmark.request.standing import Standing, once, state_of

_PAGE = 512
"""Maximum number of messages read in one moment."""


class Messages(Sequence[Event]):
    """The visible messages in order, read from the store as they are consumed.

    The length comes from stored sums; the cost of an item grows with its distance from the nearer end; `reversed`
    starts at the newest.
    """

    def __init__(self, store: Store, segments: Segments, length: int) -> None:
        self._store, self._segments, self._length = store, segments, length

    def __iter__(self) -> Iterator[Event]:
        return self._read(_PAGE)  # a reader that starts with the oldest usually wants all

    def __reversed__(self) -> Iterator[Event]:
        return self.newest_first(8)

    def newest_first(self, expected: int) -> Iterator[Event]:
        """Yield the messages from the newest; the reader expects to take about `expected` of them."""
        return self._read(expected, newest_first=True)

    def _read(self, count: int, *, newest_first: bool = False) -> Iterator[Event]:
        """Yield the messages page by page, `count` at first. Each page is read in a separate moment, since the
        segments do not change in the meantime."""
        left, done = self._segments, 0
        while left:
            with self._store.read() as moment:
                read = moment.select(left, newest_first=newest_first, expected=count)
                page = list(islice(read, count))
            yield from page
            done += len(page)
            if len(page) < count:
                break
            last = page[-1].id
            left = until(left, last - 1) if newest_first else since(left, last + 1)
            count = min(max(32, done // 2), _PAGE)  # reads at most a third more than is consumed

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Event: ...

    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...

    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        length = len(self)
        if not isinstance(index, slice):
            place = as_number(index)
            place += length if place < 0 else 0
            if not 0 <= place < length:
                raise IndexError(f"message {index} of {length}")
            return self._between(place, place + 1)[0]
        wanted = range(*index.indices(length))
        if not wanted:
            return []
        first, last = min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1])
        found = self._between(first, last + 1)
        return [found[place - first] for place in wanted]

    def _between(self, first: int, end: int) -> list[Event]:
        length = len(self)
        if first <= length - end:
            return list(islice(self._read(min(end, _PAGE)), first, end))
        return list(islice(reversed(self), length - end, length - first))[::-1]


class Context:
    """The visible part of an agent's lineage, before any policy: the fold as of the agent's event `at`.

    `messages` are events with `id`, `kind`, `role`, `content` and the rest of `foldmark.core.events.Event`; `size` is
    their number, and their tokens as fixed at append (bytes / 4); `marks` is name -> event id in the order in which
    they were set; `pins` are the ids of pinned turns; `evicted` is tool result -> the operation that evicted it, 0 if
    that was before a fork: these results are sent as placeholders. Everything is read from the store on demand.
    """

    def __init__(self, store: Store, standing: Standing) -> None:
        fold = standing.fold
        self.agent_id, self.at, self.size = fold.agent, standing.newest, standing.size
        self.marks, self.pins, self.evicted = dict(fold.marks), fold.pins, dict(fold.evicted)
        self._store, self._standing, self.ranges = store, standing, standing.visible
        self.messages = Messages(store, self.ranges, standing.size.messages)

    @once
    def segments(self) -> Segments:
        """Return the visible ranges as (agent, first, last), sorted and disjoint. Both ends of each are messages."""
        with self._store.read() as moment:
            return moment.bounds(self.ranges)

    @once
    def state(self) -> str | None:
        """Return the state block in force: the newest inside the visible segments [SPEC 3]."""
        with self._store.read() as moment:
            event = state_of(moment, self._standing)
        return event.content if event else None

    @once
    def scratchpad(self) -> str | None:
        """Return the agent's newest scratchpad, or the one that a full fork handed down. Context operations do not
        affect it."""
        return self._standing.scratchpad

    def turns(self, newest: int) -> list[Turn]:
        """Return the newest visible turns, oldest first, without reading earlier messages."""
        return newest_turns(self.messages.newest_first(min(2 * newest + 2, _PAGE)), newest)  # a turn has two or more
