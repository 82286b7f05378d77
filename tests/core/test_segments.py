"""The algebra of segments (SPEC 3), compared with sets of single ids.

The last possible id, END, is mapped to a small number, so that sets can hold every id of every example.
"""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldmark.core.segments import END, Segment, Segments, contains, intersect, normal, since, subtract, until

MANY = settings(max_examples=settings().max_examples * 4)
TOP = 25
"""The highest id of the examples: TOP stands for END, and TOP - 1 for END - 1."""

Ids = set[tuple[str, int]]


def wide(id: int) -> int:
    return id + END - TOP if id >= TOP - 2 else id


IDS = st.integers(0, TOP).map(wide)
AGENTS = st.sampled_from("abc")
SEGMENT = st.builds(Segment, AGENTS, IDS, IDS)  # empty about half the time
RANGES = st.lists(SEGMENT, max_size=12)
NORMAL = RANGES.map(normal)


def members(ranges: Iterable[Segment]) -> Ids:
    """Return every (agent, id) in `ranges`; ids from TOP - 2 on stand for those from END - 2 on."""
    return {(s.agent, id) for s in ranges for id in range(TOP + 1) if s.first <= wide(id) <= s.last}


def assert_normal(segments: Segments) -> None:
    """Check that segments are sorted and not empty, and that those of one agent neither overlap nor touch."""
    assert isinstance(segments, tuple)
    assert all(isinstance(s, Segment) for s in segments)
    assert list(segments) == sorted(segments, key=lambda s: (s.first, s.last))
    assert all(s.first <= s.last for s in segments)
    for agent in "abc":
        mine = [s for s in segments if s.agent == agent]
        assert all(a.last + 1 < b.first for a, b in pairwise(mine))


@given(RANGES)
@MANY
def test_normal_holds_the_same_ids_sorted_disjoint_and_coalesced(ranges: list[Segment]) -> None:
    before = list(ranges)
    result = normal(ranges)
    assert members(result) == members(ranges)
    assert_normal(result)
    assert normal(result) == result
    assert sorted(normal(reversed(ranges))) == sorted(result)
    assert ranges == before


@given(NORMAL, RANGES)
@MANY
def test_subtract_is_the_difference_of_sets(a: Segments, b: list[Segment]) -> None:
    before = list(b)
    result = subtract(a, b)
    assert members(result) == members(a) - members(b)
    assert_normal(result)
    assert b == before
    assert subtract(a, iter(b)) == result


@given(NORMAL, RANGES)
@MANY
def test_intersect_is_the_intersection_of_sets(a: Segments, b: list[Segment]) -> None:
    before = list(b)
    result = intersect(a, b)
    assert members(result) == members(a) & members(b)
    assert_normal(result)
    assert b == before
    assert intersect(a, iter(b)) == result


@given(NORMAL, IDS)
@MANY
def test_until_keeps_the_ids_up_to_one(a: Segments, last: int) -> None:
    result = until(a, last)
    assert members(result) == {(agent, id) for agent, id in members(a) if wide(id) <= last}
    assert_normal(result)


@given(NORMAL, IDS)
@MANY
def test_since_keeps_the_ids_from_one_on(a: Segments, first: int) -> None:
    result = since(a, first)
    assert members(result) == {(agent, id) for agent, id in members(a) if wide(id) >= first}
    assert_normal(result)


@given(NORMAL)
@MANY
def test_contains_is_membership(a: Segments) -> None:
    found = {(agent, id) for agent in "abcd" for id in range(TOP + 1) if contains(a, agent, wide(id))}
    assert found == members(a)


@given(NORMAL, RANGES, RANGES)
@MANY
def test_segments_obey_the_laws_of_sets(a: Segments, b: list[Segment], c: list[Segment]) -> None:
    """The results are sorted, because equal ranges of two agents may come in either order (no lineage has any)."""
    for left, right in (
        (subtract(a, [*b, *c]), subtract(subtract(a, b), c)),
        (intersect(a, b), subtract(a, subtract(a, b))),
        (subtract(a, b), subtract(a, intersect(a, b))),
        (intersect(a, normal(b)), intersect(normal(b), a)),
        (normal((*subtract(a, b), *intersect(a, b))), a),
        (subtract(subtract(a, b), b), subtract(a, b)),
        (intersect(intersect(a, b), b), intersect(a, b)),
        (intersect(a, a), a),
        (intersect(a, ()), ()),
        (subtract(a, ()), a),
        (subtract(a, a), ()),
    ):
        assert sorted(left) == sorted(right)


def segment(text: str) -> Segments:
    """Return `a1-5 b2-` as segments; an open end is END."""
    found = []
    for word in text.split():
        first, _, last = word[1:].partition("-")
        found.append(Segment(word[0], int(first), int(last) if last else END))
    return tuple(found)


@pytest.mark.parametrize(
    ("ranges", "result"),
    [
        ("", ""),
        ("a5-4", ""),
        ("a1-2 a3-4", "a1-4"),
        ("a1-2 a4-5", "a1-2 a4-5"),
        ("a1-9 a3-4", "a1-9"),
        ("a1-2 b3-4", "a1-2 b3-4"),
        ("a3-4 b1-9 a1-2", "a1-4 b1-9"),
        ("a1- a7-9", "a1-"),
        ("a9- a1-8", "a1-"),
    ],
)
def test_normal_joins_touching_ranges_of_one_agent_only(ranges: str, result: str) -> None:
    """Touching ranges of one agent join; those of two agents never do."""
    assert normal(segment(ranges)) == segment(result)


@pytest.mark.parametrize(
    ("segments", "ranges", "result"),
    [
        ("a1-", "a5-7", "a1-4 a8-"),
        ("a1-", "a5-", "a1-4"),
        ("a1-", "a1-", ""),
        ("a1-9", "b1-9", "a1-9"),
        ("a1-9", "a9-9", "a1-8"),
        ("a1-9", "a0-1", "a2-9"),
        ("a1-3 b2-8 a5-9", "a2-6", "a1-1 b2-8 a7-9"),
        ("a1-9", "a3-2", "a1-9"),
    ],
)
def test_subtract_keeps_open_ends_and_other_agents(segments: str, ranges: str, result: str) -> None:
    """An open end stays open, a hole up to END closes it, and another agent's ranges do not matter."""
    assert subtract(segment(segments), segment(ranges)) == segment(result)
