"""The algebra of segments: which ranges of which agents' events are visible [SPEC 3].

A context is a set of events, and a set of a million events cannot be enumerated for each request. So it is described by
segments: ranges of the ids of one agent. Ids of other agents in a range do not matter, because a segment names its
agent. A range may be open-ended (`END`), so that an append changes no segment.

A list of segments is a tuple sorted by `(first, last)`, disjoint, and no two segments of one agent touch. Every
function returns such a tuple, and none changes its argument. Cost is O(segments + ranges), never O(messages).
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple, TypeAlias

END = 2**63 - 1
"""The last possible id. A segment that reaches it includes everything that its agent appends later."""


class Segment(NamedTuple):
    """The events of `agent` with ids from `first` to `last`, both included."""

    agent: str
    first: int
    last: int


Segments: TypeAlias = tuple[Segment, ...]

_position = itemgetter(1, 2)


def normal(ranges: Iterable[Segment]) -> Segments:
    """Sort ranges, drop empty ones, and join ranges of one agent that overlap or touch."""
    by_agent: dict[str, list[Segment]] = defaultdict(list)
    for segment in sorted(ranges, key=_position):
        if segment.first > segment.last:
            continue
        mine = by_agent[segment.agent]
        if mine and segment.first <= mine[-1].last + 1:
            mine[-1] = Segment(segment.agent, mine[-1].first, max(mine[-1].last, segment.last))
        else:
            mine.append(segment)
    return tuple(sorted((s for mine in by_agent.values() for s in mine), key=_position))


def subtract(segments: Segments, ranges: Iterable[Segment]) -> Segments:
    """Return the parts of `segments` outside of all `ranges`."""
    ranges = tuple(ranges)
    # Common segments cancel out and touch no others; two contexts usually share nearly all of them.
    shared = frozenset(segments).intersection(ranges)
    holes = _by_agent(normal(hole for hole in ranges if hole not in shared))
    if not holes and not shared:
        return segments
    kept: list[Segment] = []
    for segment in segments:
        if segment in shared:
            continue
        agent, first, last = segment
        touching = _touching(holes, segment)
        if not touching:
            kept.append(segment)
            continue
        for hole in touching:
            if first < hole.first:
                kept.append(Segment(agent, first, hole.first - 1))
            first = hole.last + 1
        if first <= last:
            kept.append(Segment(agent, first, last))
    return tuple(sorted(kept, key=_position))


def intersect(segments: Segments, ranges: Iterable[Segment]) -> Segments:
    """Return the parts of `segments` inside any of `ranges`."""
    wanted = _by_agent(normal(ranges))
    kept: list[Segment] = []
    for segment in segments:
        agent, first, last = segment
        for other in _touching(wanted, segment):
            kept.append(Segment(agent, max(first, other.first), min(last, other.last)))
    return tuple(sorted(kept, key=_position))


def until(segments: Segments, last: int) -> Segments:
    """Return the parts of `segments` up to and including id `last`."""
    return tuple(s if s.last <= last else Segment(s.agent, s.first, last) for s in segments if s.first <= last)


def since(segments: Segments, first: int) -> Segments:
    """Return the parts of `segments` from id `first` on."""
    left = (s if s.first >= first else Segment(s.agent, first, s.last) for s in segments if s.last >= first)
    return tuple(sorted(left, key=_position))


def contains(segments: Segments, agent: str, event_id: int) -> bool:
    """Return True if the event of `agent` with id `event_id` lies in `segments`."""
    index = bisect_right(segments, (event_id, END), key=_position) - 1
    # Segments of different agents may interleave by id, so walk back over those that start before the id.
    while index >= 0:
        segment = segments[index]
        if segment.agent == agent:
            return segment.first <= event_id <= segment.last
        index -= 1
    return False


def _by_agent(segments: Segments) -> dict[str, tuple[list[int], list[int], list[Segment]]]:
    """Return agent -> the beginnings of its segments, their ends, and the segments; bisection is fast on plain
    numbers."""
    grouped: dict[str, tuple[list[int], list[int], list[Segment]]] = {}
    for segment in segments:
        firsts, lasts, mine = grouped.setdefault(segment.agent, ([], [], []))
        firsts.append(segment.first)
        lasts.append(segment.last)
        mine.append(segment)
    return grouped


def _touching(grouped: dict[str, tuple[list[int], list[int], list[Segment]]], segment: Segment) -> list[Segment]:
    """Return the ranges of the same agent that share an id with `segment`."""
    if segment.agent not in grouped:
        return []
    firsts, lasts, mine = grouped[segment.agent]
    return mine[bisect_left(lasts, segment.first) : bisect_right(firsts, segment.last)]
