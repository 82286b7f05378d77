"""The words of a text: by SQLite's tokenizers, and words that these do not recognize [SPEC 7].

The latter are indexed in addition to the text. There are two kinds: the parts of a name in code (`parseHttpResponse` is
one word to the tokenizer), and for a run of a script without spaces its overlapping pairs of characters and its last
character. So a name is found by its parts, and any piece of Chinese, Japanese, Korean or Thai as a phrase of pairs.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import cast

import apsw

UNICODE = ("unicode61", "remove_diacritics", "2", "categories", "L* N* Co Mn Mc")
"""The tokenizer of plain words: letters, digits and their marks, without case and diacritics."""

PORTER = ("porter", *UNICODE)
"""The tokenizer of the index: the stems of these words."""


class _Tokenizer:
    """One of SQLite's tokenizers, thread-safe."""

    def __init__(self, name: str, *more: str) -> None:
        self._db, self._lock = apsw.Connection(":memory:"), Lock()
        self._split = self._db.fts5_tokenizer(name, list(more))

    def __call__(self, text: str) -> list[str]:
        data = text.encode(errors="replace")
        with self._lock:
            found = self._split(data, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False)
        # A diacritic alone is a word without letters.
        return [token for token in cast(list[str], found) if token]


@cache
def _tokenizer(name: tuple[str, ...]) -> _Tokenizer:
    return _Tokenizer(*name)


def words(text: str) -> list[str]:
    """Return the words of a text, before stemming."""
    return _tokenizer(UNICODE)(text)


def stems(text: str) -> list[str]:
    """Return the stems of the words of a text, as the index holds them."""
    return _tokenizer(PORTER)(text)


UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
"""The scripts without spaces, as the inside of a character class of a regular expression."""


def is_unspaced(word: str) -> bool:
    """Return True if a word is in a script without spaces."""
    # Most words are ASCII, which Python knows without looking at their characters.
    return not word.isascii() and re.match(f"[{UNSPACED}]", word) is not None


LONGEST_NAME = 64
"""Maximum number of characters of a name; longer ones are encoded data."""

MOST_PIECES = 8
"""Maximum number of parts of a name; names with more are also encoded data."""

MOST = 50_000
"""Maximum number of characters indexed in addition to one text."""

_SEAM_AT = re.compile(r"[A-Z](?:(?<=[a-z0-9][A-Z])|[A-Z][a-z]{2})")
_SEAM = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
# `re` caches these once they are used: compiling takes longer than an append, and most texts need none.
_UNSPACED = f"[{UNSPACED}]"
_WORD = rf"(?:[{UNSPACED}]|[^\W_])+"
_REST = r"[^\W_]*"
_PIECE = rf"[{UNSPACED}]+|[^{UNSPACED}]+"


def has_parts(text: str) -> bool:
    """Return False if `parts_of` is certainly ""."""
    return _SEAM_AT.search(text) is not None or _has_unspaced(text)


def parts_of(text: str) -> str:
    """Return the words to index in addition to a text, in its order, those of each name and each run once; often
    empty."""
    found: list[str] = []
    length = 0
    for word in dict.fromkeys(re.findall(_WORD, text) if _has_unspaced(text) else _seamed(text)):
        ascii_only = word.isascii()
        if ascii_only and (word[1:].islower() or word.isdigit()):  # nine in ten: they have no seam
            continue
        pieces = pieces_of(word)
        if len(pieces) == 1 and (ascii_only or not is_unspaced(word)):
            continue
        for piece in pieces:
            found += [*pairs(piece), _characters(piece)[-1]] if is_unspaced(piece) else [piece]
        length += 2 * len(word)
        if length > MOST:
            break
    return " ".join(found)[:MOST]


def _has_unspaced(text: str) -> bool:
    return not text.isascii() and re.search(_UNSPACED, text) is not None


def _run(text: str, at: int) -> int:
    """Return the length of the word at a place."""
    found = _rest().match(text, at)
    return found.end() - at if found else 0


@cache
def _rest() -> re.Pattern[str]:
    return re.compile(_REST)


def _seamed(text: str) -> Iterator[str]:
    """Yield the words with a seam, found by their seams: most words have none."""
    done = 0
    for seam in _SEAM_AT.finditer(text):
        at = seam.start()
        if at < done:
            continue
        done = at + _run(text, at)
        begin = at - _run(text[max(at - LONGEST_NAME, 0) : at][::-1], 0)
        yield text[begin:done]


def pieces_of(word: str) -> list[str]:
    """Return a word cut where its script changes, and a name in code at its seams; the word itself if it has none."""
    if not word.isascii():
        return re.findall(_PIECE, word)
    pieces = _SEAM.split(word) if len(word) <= LONGEST_NAME else []
    return pieces if 1 < len(pieces) <= MOST_PIECES else [word]


def pairs(run: str) -> list[str]:
    """Return the overlapping pairs of a run's characters; none of a single one."""
    characters = _characters(run)
    return [first + second for first, second in pairwise(characters)]


def _characters(run: str) -> list[str]:
    """Return the characters of a run, each with its combining marks."""
    found: list[str] = []
    for character in run:
        if found and unicodedata.category(character) in ("Mn", "Mc"):
            found[-1] += character
        else:
            found.append(character)
    return found
