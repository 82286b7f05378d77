"""The meter (SPEC 5.5): [S1]'s three examples and the values around its thresholds; chunk plans (SPEC 4.2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.core.wording import is_ephemeral, is_full, meter, percent
from foldmark.text.selection import chunk_count, chunks


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (80_000, "Context: 80K/200K tokens (40%) ⚪"),
        (160_000, "Context: 160K/200K tokens (80%) 🟡"),
        (190_000, "Context: 190K/200K tokens (95%) 🔴"),
        (0, "Context: 0K/200K tokens (0%) ⚪"),
        (1, "Context: 1K/200K tokens (0%) ⚪"),
        (200_000, "Context: 200K/200K tokens (100%) 🔴"),
        (250_000, "Context: 250K/200K tokens (125%) 🔴"),
    ],
)
def test_the_meter_of_the_seed(tokens: int, text: str) -> None:
    assert meter(tokens) == text


@pytest.mark.parametrize(
    ("tokens", "shown"), [(1_499, "1K"), (1_500, "2K"), (80_400, "80K"), (80_600, "81K"), (199_999, "200K")]
)
def test_thousands_are_rounded(tokens: int, shown: str) -> None:
    assert meter(tokens).startswith(f"Context: {shown}/200K ")


@pytest.mark.parametrize(
    ("tokens", "budget", "whole", "beside"),
    [
        (40_000, 100_000, 0, ""),
        (50_000, 100_000, 0, " · budget 100K (50%)"),
        (98_000, 100_000, 234_000, " · budget 100K (98%) · whole context ~234K"),
        (98_000, 0, 234_000, " · whole context ~234K"),
        (98_000, 200_000, 0, ""),  # the window is reached first
        (98_000, 100_000, 97_000, " · budget 100K (98%) · whole context ~98K"),
    ],
)
def test_the_meter_also_shows_the_budget_and_the_whole_context(
    tokens: int, budget: int, whole: int, beside: str
) -> None:
    """The light depends on the model's window, not on the budget."""
    assert meter(tokens, 200_000, budget, whole).partition(" ⚪")[2] == beside


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(1, 10**6))
def test_the_whole_context_is_never_shown_smaller_than_the_request(tokens: int, more: int, window: int) -> None:
    shown = meter(tokens, window, 0, tokens + more)
    part, whole = shown.partition("/")[0], shown.partition("~")[2]
    assert int(part.removeprefix("Context: ").removesuffix("K")) <= int(whole.removesuffix("K"))


@pytest.mark.parametrize(
    ("share", "light"), [(0, "⚪"), (79, "⚪"), (80, "🟡"), (94, "🟡"), (95, "🔴"), (99, "🔴"), (100, "🔴")]
)
def test_the_light_depends_on_the_share_of_the_window(share: int, light: str) -> None:
    """Yellow from 80 %, red from 95 %; a share is rounded down, so one token less than a threshold is below it."""
    window = 128_000
    assert meter(window * share // 100, window).endswith(f"({share}%) {light}")
    assert percent(window * share // 100, window) == share
    if share:
        assert percent(window * share // 100 - 1, window) == share - 1


@pytest.mark.parametrize(("tokens", "full"), [(0, False), (199_999, False), (200_000, True), (200_001, True)])
def test_text_is_refused_at_100_percent(tokens: int, full: bool) -> None:
    assert is_full(tokens) is full
    assert is_full(tokens * 2, 400_000) is full


# Chunks [SPEC 4.2, S1]


@pytest.mark.parametrize(
    ("tokens", "count"),
    [
        (0, 1),
        (1, 1),
        (99_999, 1),
        (100_000, 2),
        (159_999, 2),
        (160_000, 3),
        (169_999, 3),
        (170_000, 4),
        (179_999, 4),
        (180_000, 5),
        (200_000, 5),
        (200_001, 6),
        (240_000, 6),
        (240_001, 7),
        (10_000_000, 250),
    ],
)
def test_chunks_by_pressure(tokens: int, count: int) -> None:
    assert chunk_count(tokens) == count
    assert chunk_count(tokens * 3, 600_000) == count


@pytest.mark.parametrize(("tokens", "ephemeral"), [(0, False), (159_999, False), (160_000, True), (900_000, True)])
def test_planning_is_ephemeral_from_80_percent(tokens: int, ephemeral: bool) -> None:
    assert is_ephemeral(tokens) is ephemeral
    assert is_ephemeral(tokens * 2, 400_000) is ephemeral


@given(tokens=st.integers(0, 10**9), window=st.integers(1, 10**7))
def test_no_chunk_is_above_a_fifth_of_the_window_when_it_is_full(tokens: int, window: int) -> None:
    count = chunk_count(tokens, window)
    assert count >= 1
    if tokens * 10 >= window * 9:
        assert count >= 5
        assert count * window >= tokens * 5


@given(sizes=st.lists(st.integers(0, 5000), max_size=60), count=st.integers(1, 12))
def test_chunks_lose_nothing_and_are_balanced(sizes: list[int], count: int) -> None:
    """Chunks are in order, none is empty, and none exceeds its share plus half of its two ends."""
    found = chunks(sizes, count)
    assert [index for run in found for index in run] == list(range(len(sizes)))
    assert all(len(run) > 0 for run in found)
    assert len(found) <= count
    total = sum(sizes)
    for run in found:
        size = sum(sizes[index] for index in run)
        assert 2 * count * size <= 2 * total + count * (sizes[run[0]] + sizes[run[-1]])


@given(size=st.integers(0, 100), each=st.integers(1, 20), count=st.integers(1, 20))
def test_equal_turns_make_as_many_chunks_as_asked(size: int, each: int, count: int) -> None:
    assert [len(run) for run in chunks([size] * each * count, count)] == [each] * count


def test_chunks_of_the_seed() -> None:
    """A turn larger than all others together forms a chunk alone, and no chunk is empty."""
    assert chunks([], 4) == []
    assert chunks([1, 1, 1, 1000], 4) == [range(3), range(3, 4)]
    assert chunks([10, 20, 30, 40], 2) == [range(3), range(3, 4)]
