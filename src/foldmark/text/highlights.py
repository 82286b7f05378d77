"""Parts of a text: snippets, the places of terms, and passages for an embedding model [SPEC 7].

A long message is split into passages, each short enough for an embedding model, so that its end is found as well.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import accumulate, islice

from foldmark.core.search import Phrase, Term
from foldmark.text.tokens import is_unspaced, stems

SNIPPET, BEFORE = 160, 40
"""Characters of a snippet, and how many of them precede the match."""

SHORTEST_STEM = 3
"""Minimum number of letters for the beginning of a word to be useful."""

_MOST_FINDS = 200
_EDGE = r"(?:(?<![^\W_])|(?<=[a-z0-9])(?=[A-Z]))"
"""Beginning of a word, also inside a name in code."""


def snippet(text: str, wanted: Sequence[Term]) -> str:
    """Return the part of `text` around as many terms as possible, as one line; the beginning of the text if no term
    occurs."""
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
    """Return the positions of terms in a short text: begin and end of each, up to the end of its last word."""
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
    """Return the first positions of terms in `text`, each with the number of its term."""
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


LONGEST = 800
"""Maximum weight of a passage: about 190 tokens. A model with a limit of 256 tokens reads nine of ten passages whole,
code or not."""

MOST = 8
"""Maximum number of passages of one message. The last one is its end, where people often state their request."""

_WORD = re.compile(r"\S")
_ENDS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"[.!?…]\s+|[。！？]"), re.compile(r"\s+"))
"""Where a passage may end: the best kind of place first."""


def passages(text: str) -> list[str]:
    """Return the pieces of a text that get a vector each, at most `MOST`; none for a text without a word.

    If there are more, those before the last are left out. A passage costs as much to embed as any text of 200 tokens;
    of a huge text only the returned pieces are read.
    """
    text = text.rstrip()
    found: list[str] = []
    begin = 0
    while len(found) < MOST and (word := _WORD.search(text, begin)):
        begin = word.start()
        end = _end(text, begin)
        if len(found) == MOST - 1 and end < len(text):
            begin, end = _last(text, begin), len(text)
        found.append(text[begin:end].strip())
        begin = end
    return found


def _end(text: str, begin: int) -> int:
    """Return the end of the passage that begins here: as late as possible, but at the best kind of place in its second
    half."""
    window = text[begin : begin + LONGEST + 1]
    fits = _fitting(window)
    if begin + fits == len(text):
        return len(text)
    for pattern in _ENDS:
        if places := [match.end() for match in pattern.finditer(window, fits // 2, fits)]:
            return begin + places[-1]
    return begin + fits


def _last(text: str, begin: int) -> int:
    """Return the beginning of the last passage: as early as possible, but after the best kind of place in its first
    half."""
    window = text[max(begin, len(text) - LONGEST) :]
    first = len(window) - _fitting(window[::-1])
    for pattern in _ENDS:
        if match := pattern.search(window, first, (first + len(window)) // 2):
            return len(text) - len(window) + match.end()
    return len(text) - len(window) + first


def _fitting(text: str) -> int:
    """Return the number of characters that weigh no more than `LONGEST`."""
    return sum(weight <= LONGEST for weight in accumulate(map(_weight, text)))


def _weight(char: str) -> int:
    """Return the weight of a character in quarters of a token: letters share one, signs and East Asian characters have
    one each."""
    if char.isascii():
        return 1 if char.isalnum() or char.isspace() else 3
    return 4 if char >= "\u2e80" else 2
