"""Split a long message into passages, each short enough for an embedding model, so that its end is found as well."""

import re
from itertools import accumulate

LONGEST = 800
"""Maximum weight of a passage: about 190 tokens. A model that takes 256 loses nothing of nine in ten, code or not."""

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
