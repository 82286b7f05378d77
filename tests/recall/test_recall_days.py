"""Days that a message mentions, and words that state or ask for a time (SPEC 7)."""

from __future__ import annotations

import pytest

from foldmark.recall.ranking import asks_when, days, name_days, tells_when
from foldmark.text.tokens import stems

MONDAY = "2023-05-08T13:56:00Z"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "8 May 2023"),
        ("I saw it yesterday", "8 7 May 2023"),
        ("Last night!", "8 7 May 2023"),
        ("tomorrow", "8 9 May 2023"),
        ("last Friday", "8 5 May 2023"),
        ("this Friday", "8 12 May 2023"),
        ("next friday", "8 12 May 2023"),
        ("last Monday", "8 1 May 2023"),
        ("this Monday", "8 May 2023"),
        ("next Monday", "8 15 May 2023"),
        ("last week", "8 May 2023"),
        ("two weeks ago", "8 April May 2023"),
        ("a couple of days ago", "8 6 May 2023"),
        ("10 days ago", "8 28 April May 2023"),
        ("last month", "8 April May 2023"),
        ("5 months ago", "8 December 2022 May 2023"),
        ("next year", "8 May 2023 2024"),
        ("three years ago and yesterday", "8 7 May 2023 2020"),
        ("9999 years ago", "8 May 2023"),
        ("99999999 days ago", "8 May 2023"),
        ("some days ago, at last", "8 May 2023"),
    ],
)
def test_the_days_that_a_message_mentions_are_found(text: str, named: str) -> None:
    assert days(text, MONDAY) == frozenset(stems(named))


@pytest.mark.parametrize("at", ["", "damaged", "2023-02-30T00:00:00Z"])
def test_a_message_without_a_time_mentions_no_days(at: str) -> None:
    assert days("yesterday", at) == frozenset()


def test_days_outside_of_the_calendar_are_ignored() -> None:
    assert days("last week, last month, last year, yesterday", "0001-01-01") == frozenset(stems("1 January"))
    assert days("next week, next month, next year, tomorrow", "9999-12-31") == frozenset(stems("9999 December 31"))


def test_words_that_may_name_a_day_are_recognized() -> None:
    assert [name_days(frozenset(stems(query))) for query in ("in May", "the 8th", "on the 8", "2023", "a week")] == [
        True,
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("query", "asks"),
    [
        ("When did we leave?", True),
        ("in which year was that", True),
        ("How long did it take?", True),
        ("What did we do when it broke?", False),
        ("whenever", False),
        ("What is the time limit?", False),
    ],
)
def test_questions_for_a_time_are_recognized(query: str, asks: bool) -> None:
    assert asks_when(query) == asks


@pytest.mark.parametrize(
    ("text", "tells"), [("It was in june", True), ("since then", True), ("in 1999", True), ("It was blue.", False)]
)
def test_words_for_a_time_are_recognized(text: str, tells: bool) -> None:
    assert tells_when(text) == tells
