"""The words of a text as the index sees them, by SQLite's own tokenizers."""

from functools import cache
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
        # A diacritic by itself is a word without letters.
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
