"""A long message as passages, each short enough for a model of embeddings, so that what stands late in it is found."""

import re
from itertools import accumulate

LONGEST = 800
"""What a passage weighs at most: about 190 tokens. A model that takes 256 loses nothing of nine in ten, code or not."""

MOST = 8
"""Passages of one message. The last of them is its end, where people ask what they want done with the rest."""

_WORD = re.compile(r"\S")
_ENDS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"[.!?…]\s+|[。！？]"), re.compile(r"\s+"))
"""Where a passage may end: the best kind of place first."""


def passages(text: str) -> list[str]:
    """Return the pieces of a text that get a vector each, at most `MOST`; none for a text without a word.

    Where it falls into more, what lies before the last is left out. A passage costs as much to embed as any text of 200
    tokens; of a huge text only what is returned is looked at.
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
    """Return where the passage that begins here ends: as late as it may, but at the best kind of place in its second
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
    """Return where the last passage begins: as early as it may, but behind the best kind of place in its first half."""
    window = text[max(begin, len(text) - LONGEST) :]
    first = len(window) - _fitting(window[::-1])
    for pattern in _ENDS:
        if match := pattern.search(window, first, (first + len(window)) // 2):
            return len(text) - len(window) + match.end()
    return len(text) - len(window) + first


def _fitting(text: str) -> int:
    """Return how many characters weigh no more than `LONGEST`."""
    return sum(weight <= LONGEST for weight in accumulate(map(_weight, text)))


def _weight(char: str) -> int:
    """Return quarters of a token: letters share one, signs and the characters of East Asia have one each."""
    if char.isascii():
        return 1 if char.isalnum() or char.isspace() else 3
    return 4 if char >= "\u2e80" else 2
