"""Places of terms in a text: for snippets and highlights, and for words that are meant as typed [SPEC 7]."""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import islice

from foldmark.core.scripts import is_unspaced
from foldmark.core.search import Phrase, Term
from foldmark.recall.tokens import stems

SNIPPET, BEFORE = 160, 40
"""Characters of a snippet, and how many of them precede the match."""

SHORTEST_STEM = 3
"""Minimum number of letters for the beginning of a word to be useful."""

_MOST_FINDS = 200
_EDGE = r"(?:(?<![^\W_])|(?<=[a-z0-9])(?=[A-Z]))"
"""Beginning of a word, also inside a name in code."""


def snippet(text: str, wanted: Sequence[Term]) -> str:
    """Return the neighbourhood in `text` of as many terms as possible, as one line; its beginning if none occurs
    there."""
    places = _places(text, wanted)

    def variety(at: int) -> int:
        return len({which for start, which in places if 0 <= start - at < SNIPPET - BEFORE})

    first = max((start for start, _ in places), key=variety, default=0)
    start = max(0, first - BEFORE)
    if start:
        start += max(0, text[start:first].find(" ") + 1)
    end = start + SNIPPET
    if end < len(text):
        # A word is cut only if it is longer than everything that may follow.
        end = max(text.rfind(" ", first + BEFORE, end), end - BEFORE)
    line = " ".join(text[start:end].split())
    return f"{'…' if text[:start].strip() else ''}{line}{'…' if text[end:].strip() else ''}"


def spans(text: str, wanted: Sequence[Term]) -> list[tuple[int, int]]:
    """Return the places of terms in a short text: beginning and end of each, to the end of its last word."""
    found = []
    for match in _pattern(tuple(wanted)).finditer(_plain(text)):
        start, end = match.span()
        while end < len(text) and text[end].isalnum() and not is_unspaced(text[end]):
            end += 1
        found.append((start, end))
    return found


def holds(text: str, typed: Phrase) -> bool:
    """Return True if a text holds words exactly as typed, except for case and accents."""
    return _typed(typed).search(_plain(text)) is not None


def _plain(text: str) -> str:
    """Return a text without accents, character by character, so that places stay the same."""
    return text if text.isascii() else text.translate(_accents())


@cache
def _accents() -> dict[int, str]:
    """Return letters with accents of Latin, Greek and Cyrillic script, each with its plain form."""
    letters = (chr(code) for first, last in ((0xC0, 0x530), (0x1E00, 0x2000)) for code in range(first, last))
    return {ord(letter): plain for letter in letters if (plain := unicodedata.normalize("NFD", letter)[0]) != letter}


def _places(text: str, wanted: Sequence[Term]) -> list[tuple[int, int]]:
    """Return the places of terms in `text`, with the number of each term; only the first ones."""
    found = islice(_pattern(tuple(wanted)).finditer(_plain(text)), _MOST_FINDS)
    return [(match.start(), match.lastindex or 0) for match in found]


@lru_cache(maxsize=8)
def _pattern(wanted: tuple[Term, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"({_one(term)})" for term in wanted))


@lru_cache(maxsize=8)
def _typed(typed: Phrase) -> re.Pattern[str]:
    return re.compile(_exactly(typed))


def _one(term: Term) -> str:
    """Return a pattern for any phrase of a term, or for its typed form."""
    return _exactly(term.typed) if term.typed else "|".join(map(_related, term.phrases))


def _exactly(typed: Phrase) -> str:
    *before, last = map(_word, typed.words)
    end = "" if typed.prefix or is_unspaced(typed.words[-1][-1]) else r"(?![^\W_])"
    return _begin(typed.words[0]) + r"[\W_]*+".join([*before, last]) + end


def _related(phrase: Phrase) -> str:
    """Return a pattern for the words of a phrase, the last also in related forms."""
    if is_unspaced(phrase.words[0]):
        # A run was cut into overlapping pairs.
        return re.escape(phrase.words[0] + "".join(pair[1:] for pair in phrase.words[1:]))
    *before, last = map(_word, phrase.words)
    stem = _stem(phrase.words[-1])
    last += "" if phrase.prefix else r"(?![^\W_])"
    related = f"(?:{last}{f'|{_word(stem)}' if stem else ''})"
    return _begin(phrase.words[0]) + r"[\W_]*+".join([*before, related])


def _begin(word: str) -> str:
    return "" if is_unspaced(word) else _EDGE


def _word(word: str) -> str:
    return f"(?i:{re.escape(word)})"


def _stem(word: str) -> str | None:
    """Return the prefix that a word shares with related words; None if it is too short to be useful."""
    stem = next(iter(stems(word)), word)
    # Porter's stem of "happy" ends differently from every word of its family.
    stem = stem[:-1] if stem.endswith("i") and not word.startswith(stem) else stem
    return stem if len(stem) > SHORTEST_STEM or (len(stem) == SHORTEST_STEM and stem != word) else None
