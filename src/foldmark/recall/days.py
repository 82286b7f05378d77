"""Dates in messages and queries: "last week" is resolved against the time of the message [SPEC 7]. English only."""

import re
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache, lru_cache

from foldmark.core.wording import MONTHS
from foldmark.recall.tokens import stems

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "couple": 2, "few": 3}
_STEPS = {"last": -1, "past": -1, "this": 0, "next": 1}

_WHEN = re.compile(
    r"\W*(?:when|(?:in |on |for |since )?(?:what|which) (?:date|day|month|year|week|time)|how long)\b", re.IGNORECASE
)


@cache
def _relative() -> re.Pattern[str]:
    return re.compile(
        r"\b(?:(?P<before>yesterday|last night)|tomorrow"
        rf"|(?P<which>last|past|this|next) (?P<unit>week|month|year|{'|'.join(_WEEKDAYS)})"
        rf"|(?P<number>\d{{1,4}}|{'|'.join(_NUMBERS)}) (?:of )?(?P<units>day|week|month|year)s? ago)\b",
        re.IGNORECASE,
    )


@cache
def _telling() -> re.Pattern[str]:
    words = "yesterday|tomorrow|tonight|today|last|next|ago|since|recently|week|weekend|month|year|summer|winter"
    return re.compile(rf"\b(?:{words}|{'|'.join((*MONTHS, *_WEEKDAYS))}|\d{{4}})\b", re.IGNORECASE)


def asks_when(query: str) -> bool:
    """Return True if a query asks for a time."""
    return _WHEN.match(query) is not None


def tells_when(text: str) -> bool:
    """Return True if a text has a word for a time, such as "yesterday", "June" or "2023"."""
    return _telling().search(text) is not None


def name_days(words: frozenset[str]) -> bool:
    """Return True if any of these stems may name a day."""
    return not words.isdisjoint(_months()) or any(map(str.isdecimal, words))


@cache
def _months() -> frozenset[str]:
    return frozenset(stems(" ".join(MONTHS)))


def days(text: str, at: str) -> frozenset[str]:
    """Return the stems of the days that a message mentions, written at `at` (ISO 8601, or ""): that day, and those
    relative to it. 2026-03-01 is 1 March 2026, and "last month" is February 2026 then."""
    said = _day(at[:10])
    if said is None:
        return frozenset()
    return _name(said).union(*(_name(first, last) for first, last in _spans(text, said)))


@lru_cache(maxsize=1000)
def _day(told: str) -> date | None:
    try:
        return date.fromisoformat(told)
    except ValueError:
        return None


@lru_cache(maxsize=1000)
def _name(first: date, last: date | None = None) -> frozenset[str]:
    """Return the stems of the year, month and day that all days of a period share."""
    ends = (first, last or first)
    day = str(first.day) if first == ends[1] else ""
    month = " ".join(MONTHS[each.month - 1] for each in ends) if (ends[1] - first).days <= 31 else ""
    return frozenset(stems(f"{first.year} {month} {day}"))


def _spans(text: str, said: date) -> Iterator[tuple[date, date]]:
    """Yield the period of each expression in a text: its first and its last day."""
    for match in _relative().finditer(text):
        unit, steps = "day", -1 if match["before"] else 1
        if match["unit"]:
            unit, steps = match["unit"].lower(), _STEPS[match["which"].lower()]
        elif match["units"]:
            number = match["number"].lower()
            unit, steps = match["units"].lower(), -_NUMBERS.get(number, 0) or -int(number)
        try:
            yield _span(unit, steps, said)
        except (ValueError, OverflowError):  # before the year 1, or after 9999
            continue


def _span(unit: str, steps: int, said: date) -> tuple[date, date]:
    """Return the period `steps` units after `said` (negative: before it), or the nearest such weekday."""
    if unit in _WEEKDAYS:
        away = (_WEEKDAYS.index(unit) - said.weekday()) % 7
        unit, steps = "day", away - 7 if steps < 0 else away or 7 * steps
    if unit == "day":
        return said + timedelta(steps), said + timedelta(steps)
    if unit == "week":
        monday = said + timedelta(7 * steps - said.weekday())
        return monday, monday + timedelta(6)
    if unit == "month":
        month = said.year * 12 + said.month - 1 + steps
        last = date((month + 1) // 12, (month + 1) % 12 + 1, 1) - timedelta(1)
        return last.replace(day=1), last
    return date(said.year + steps, 1, 1), date(said.year + steps, 12, 31)
