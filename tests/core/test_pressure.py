"""The meter (SPEC 5.5): the first seed's three examples, and what lies around its thresholds."""

import pytest

from foldmark.core.pressure import is_full, meter, percent


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
    ("share", "light"), [(0, "⚪"), (79, "⚪"), (80, "🟡"), (94, "🟡"), (95, "🔴"), (99, "🔴"), (100, "🔴")]
)
def test_lights(share: int, light: str) -> None:
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
