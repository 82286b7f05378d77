"""Names with a number, such as "ticket 3" or "the 2024 budget" [SPEC 4.2].

A number beside a word is part of the name, so "ticket 3" is none of "ticket 4", "ticket 33" and "3 tickets"."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from foldmark.text.tokens import stems
from foldmark.text.vocabulary import FUNCTION

LONG_NUMBER = 3
"""Number of digits from which a number is no count: "2024 budget" is "budget 2024"."""

MOST = 100
"""Maximum number of numbers in a range ("tickets 3-5") that are read one by one."""

_TOKEN = re.compile(
    r"(?P<link>\b(?:no|nr|num)\.)|(?P<word>[^\W\d_]+)"
    r"|(?P<number>\d{1,18}(?:\.\d+)*)(?P<more>[^\W\d_])?"
    r"|(?P<range>-|–|—)(?=\s*\d)|(?P<stop>[.!?;:\n]\s)"
)
_LINKS = frozenset(("and", "or", "und", "oder", "to", "through", "bis", "no", "nr", "number", "num", "nummer"))
"""Words that may stand between a name and its number, or between numbers."""

_IDS = frozenset(("message", "messages", "id", "ids", "nachricht", "nachrichten", "mensaje", "mensajes"))
"""Words whose numbers are ids."""


class Name(NamedTuple):
    """A number and the stem of the word beside it. `behind` is True if the word precedes the number."""

    stem: str
    number: str
    behind: bool


def names_in(text: str) -> list[Name]:
    """Return the names with a number in a text, in its order."""
    return [name for names in numbers_in(text) for name in names]


def numbers_in(text: str) -> Iterator[list[Name]]:
    """Yield for each number in a text the names that it makes with the words beside it: with the one before it, through
    a list of numbers ("tickets 3, 4 and 9"), and with the one behind it."""
    word, listed, joined, before = "", False, False, ""
    waiting: list[str] = []  # numbers that a word may still follow
    found: dict[str, list[Name]] = {}
    for token in _TOKEN.finditer(text):
        if token["link"]:
            continue
        if token["word"]:
            plain = token["word"].casefold()
            if plain in _LINKS and (listed or word):
                continue
            named = plain not in FUNCTION and plain not in _IDS
            for number in waiting if named else ():
                found[number].append(Name(_stem(plain), number, behind=False))
            yield from found.values()
            waiting, found, listed, word = [], {}, False, plain if named else ""
        elif token["stop"]:
            yield from found.values()
            waiting, found, listed, word = [], {}, False, ""
        elif token["range"]:
            joined = listed
            continue
        elif not token["more"]:
            for number in _through(before, token["number"]) if joined else (_plain(token["number"]),):
                found.setdefault(number, []).extend([Name(_stem(word), number, behind=True)] if word else [])
                waiting = [number]
            listed, before = True, token["number"]
        joined = False
    yield from found.values()


def holds(names: list[Name], wanted: list[Name]) -> bool:
    """Return True if any of the wanted names is among these. A name whose word follows its number is also found with
    the word before it, and the other way round if the number is long."""
    return any(
        each.stem == want.stem
        and (each.number == want.number or each.number.startswith(f"{want.number}."))
        and (each.behind or not want.behind or len(want.number) >= LONG_NUMBER)
        for want in wanted
        for each in names
    )


def _through(first: str, last: str) -> list[str]:
    if first.isdecimal() and last.isdecimal() and 0 < int(last) - int(first) < MOST:
        return [str(number) for number in range(int(first) + 1, int(last) + 1)]
    return [_plain(last)]


def _plain(number: str) -> str:
    return number.lstrip("0") or "0"


def _stem(word: str) -> str:
    return (stems(word) or [word])[0]
