"""Where in a text terms stand: for what is shown of it, and for words that are meant as typed [SPEC 7]."""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import islice

from foldmark.core.scripts import is_unspaced
from foldmark.core.search import Phrase, Term
from foldmark.recall.tokens import stems

SNIPPET, BEFORE = 160, 40
"""Characters of a snippet, and how many of them stand before what was found."""

SHORTEST_STEM = 3
"""Letters below which the beginning of a word says nothing."""

_MOST_FINDS = 200
_EDGE = r"(?:(?<![^\W_])|(?<=[a-z0-9])(?=[A-Z]))"
"""Where a word begins, also inside of a name in code."""


def snippet(text: str, wanted: Sequence[Term]) -> str:
    """Return the neighbourhood in `text` of as many terms as possible, as one line; its beginning if none is seen
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
        # A word is cut only if it is longer than all that may follow.
        end = max(text.rfind(" ", first + BEFORE, end), end - BEFORE)
    line = " ".join(text[start:end].split())
    return f"{'…' if text[:start].strip() else ''}{line}{'…' if text[end:].strip() else ''}"


def spans(text: str, wanted: Sequence[Term]) -> list[tuple[int, int]]:
    """Return where in a short text terms stand: beginning and end of each, to the end of its last word."""
    found = []
    for match in _pattern(tuple(wanted)).finditer(_plain(text)):
        start, end = match.span()
        while end < len(text) and text[end].isalnum() and not is_unspaced(text[end]):
            end += 1
        found.append((start, end))
    return found


def holds(text: str, typed: Phrase) -> bool:
    """Return True if a text holds words just as they were typed, but for case and accents."""
    return _typed(typed).search(_plain(text)) is not None


def _plain(text: str) -> str:
    """Return a text without accents, character by character, so that the places in it stay the same."""
    return text if text.isascii() else text.translate(_accents())


@cache
def _accents() -> dict[int, str]:
    """What the letters with accents of Latin, Greek and Cyrillic script are without them."""
    letters = (chr(code) for first, last in ((0xC0, 0x530), (0x1E00, 0x2000)) for code in range(first, last))
    return {ord(letter): plain for letter in letters if (plain := unicodedata.normalize("NFD", letter)[0]) != letter}


def _places(text: str, wanted: Sequence[Term]) -> list[tuple[int, int]]:
    """Return where terms stand in `text`, and which; only the first so many."""
    found = islice(_pattern(tuple(wanted)).finditer(_plain(text)), _MOST_FINDS)
    return [(match.start(), match.lastindex or 0) for match in found]


@lru_cache(maxsize=8)
def _pattern(wanted: tuple[Term, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"({_one(term)})" for term in wanted))


@lru_cache(maxsize=8)
def _typed(typed: Phrase) -> re.Pattern[str]:
    return re.compile(_exactly(typed))


def _one(term: Term) -> str:
    """Return a term by any of its phrases, or as it was typed."""
    return _exactly(term.typed) if term.typed else "|".join(map(_related, term.phrases))


def _exactly(typed: Phrase) -> str:
    *before, last = map(_word, typed.words)
    end = "" if typed.prefix or is_unspaced(typed.words[-1][-1]) else r"(?![^\W_])"
    return _begin(typed.words[0]) + r"[\W_]*+".join([*before, last]) + end


def _related(phrase: Phrase) -> str:
    """Return the words of a phrase; the last also in the forms related to it."""
    if is_unspaced(phrase.words[0]):
        # A run was cut into pairs, which overlap.
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
    """Return the beginning that a word shares with those related to it; None if that says nothing."""
    stem = next(iter(stems(word)), word)
    # Porter's stem of "happy" ends otherwise than any word of its family.
    stem = stem[:-1] if stem.endswith("i") and not word.startswith(stem) else stem
    return stem if len(stem) > SHORTEST_STEM or (len(stem) == SHORTEST_STEM and stem != word) else None
