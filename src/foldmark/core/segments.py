"""The algebra of segments: which ranges of which agents' events are visible [SPEC 3].

A list of segments is a tuple sorted by `(first, last)`, disjoint, with no two neighbours of one agent touching.
Every function returns such a tuple, and none changes its argument. Cost is O(segments + ranges), never O(messages):
a segment names ids, it does not enumerate them.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

END = 2**63 - 1
"""The last id there can be; a segment that reaches it takes in whatever its agent appends next."""


class Segment(NamedTuple):
    """The events of `agent` with ids from `first` to `last`, both included."""

    agent: str
    first: int
    last: int


Segments: TypeAlias = tuple[Segment, ...]


def normal(ranges: Iterable[Segment]) -> Segments:
    """Sort ranges, drop empty ones and join what overlaps or touches within one agent."""
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
    """What of `segments` lies outside every one of `ranges`."""
    holes = _by_agent(normal(ranges))
    kept: list[Segment] = []
    for agent, first, last in segments:
        mine = holes.get(agent, [])
        for hole in mine[_first_touching(mine, first) :]:
            if hole.first > last:
                break
            if first < hole.first:
                kept.append(Segment(agent, first, hole.first - 1))
            first = hole.last + 1
        if first <= last:
            kept.append(Segment(agent, first, last))
    return tuple(sorted(kept, key=_position))


def intersect(segments: Segments, ranges: Iterable[Segment]) -> Segments:
    """What of `segments` lies inside one of `ranges`."""
    wanted = _by_agent(normal(ranges))
    kept: list[Segment] = []
    for agent, first, last in segments:
        mine = wanted.get(agent, [])
        for other in mine[_first_touching(mine, first) :]:
            if other.first > last:
                break
            kept.append(Segment(agent, max(first, other.first), min(last, other.last)))
    return tuple(sorted(kept, key=_position))


def until(segments: Segments, last: int) -> Segments:
    """What of `segments` lies at ids up to and including `last`."""
    return tuple(Segment(s.agent, s.first, min(s.last, last)) for s in segments if s.first <= last)


def contains(segments: Segments, agent: str, event_id: int) -> bool:
    """Whether the event of `agent` with id `event_id` lies in `segments`."""
    index = bisect_right(segments, (event_id, END), key=_position) - 1
    # Segments of different agents may interleave by id, so walk back over those that start before the id.
    while index >= 0:
        segment = segments[index]
        if segment.agent == agent:
            return segment.first <= event_id <= segment.last
        index -= 1
    return False


def _position(segment: Segment) -> tuple[int, int]:
    return segment.first, segment.last


def _by_agent(segments: Segments) -> dict[str, list[Segment]]:
    grouped: dict[str, list[Segment]] = defaultdict(list)
    for segment in segments:
        grouped[segment.agent].append(segment)
    return grouped


def _first_touching(sorted_ranges: list[Segment], first: int) -> int:
    """Index of the first range that ends at or after `first`."""
    index = bisect_right(sorted_ranges, first, key=lambda s: s.first)
    return index - 1 if index and sorted_ranges[index - 1].last >= first else index
