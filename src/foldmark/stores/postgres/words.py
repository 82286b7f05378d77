"""The words of messages in PostgreSQL's index: Foldmark's own tokens, not those of a text search configuration, so that
the same messages are found as in SQLite."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from foldmark.core.search import Phrase
from foldmark.stores.postgres.appender import Tree
from foldmark.stores.postgres.connection import STATEMENTS, Ints, PostgresSession, Texts
from foldmark.text.tokens import has_parts, parts_of, stems

LONG = 900_000
"""Bytes of words from which on a message's index entry is split into pieces."""

_PIECE = 500_000
"""Bytes of the words of one piece."""

_WORD, _KEPT = 250, 200
"""Maximum characters of a word, and those that are kept of a longer one, which is encoded data; a hash replaces the
rest."""

BREAK = ""
"""The empty word between the words of a text and the parts of its names; no phrase contains it."""


class IndexedWords(NamedTuple):
    """The index entry of a message: the number of its words, these in order, and the distinct ones in pieces if they
    are many."""

    length: int
    words: str
    pieces: list[list[str]]


def words_of(kind: str, content: str, tool: str | None) -> IndexedWords | None:
    """Return the words of a message; None if it has no text."""
    if not content:
        return None
    text = searchable(content, tool, " ") if kind == "tool_call" else content
    own = [_kept(word) for word in stems(text)]
    parts = [_kept(word) for word in stems(parts_of(text))] if has_parts(text) else []
    tokens = [*own, *([BREAK, *parts] if parts else ())]
    words = "".join(f"<{token}>" for token in tokens)
    pieces = list(_pieces(tokens)) if len(words.encode()) >= LONG else []
    return IndexedWords(len(own) + len(parts), words, pieces)


def index_words(session: PostgresSession, trees: Iterable[Tree]) -> None:
    """Send the words of appended messages (`Tree.unindexed`) with the next statement."""
    for tree in trees:
        found: list[tuple[int, IndexedWords]] = []
        for id, draft in tree.unindexed:
            name = draft.data.get("name") if draft.kind == "tool_call" and draft.data else None
            if (words := words_of(draft.kind, draft.content, name if isinstance(name, str) else None)) is not None:
                found.append((id, words))
        tree.unindexed.clear()
        if found:
            bound = {"ids": Ints(id for id, _ in found), "lengths": Ints(each.length for _, each in found)}
            texts = Texts(each.words for _, each in found)
            session.later(STATEMENTS["index_words"], {**bound, "root": tree.root, "words": texts})
        for id, each in found:
            for number, piece in enumerate(each.pieces):
                row = {"root": tree.root, "id": id, "piece": number, "words": Texts(piece)}
                session.later(STATEMENTS["index_long_words"], row)


def unindex_words(session: PostgresSession, root: int, event_ids: Sequence[int]) -> None:
    """Remove the index entries of some messages of a tree with the next statement."""
    for name in ("unindex_words", "unindex_long_words", "erase_vectors", "erase_signatures"):
        session.later(STATEMENTS[name], {"root": root, "ids": Ints(event_ids)})


def searchable(arguments: str, tool: str | None, space: str) -> str:
    """Return the searchable text of a call: the tool's name and its arguments, in whose JSON the escapes become spaces,
    so that the `n` of a newline does not stick to the next word."""
    for escape in ("\\\\", "\\n", "\\t", "\\r"):
        arguments = arguments.replace(escape, space)
    return f"{tool or ''} {arguments}"


def sought(phrase: Phrase) -> tuple[str, ...]:
    """Return a phrase as words of the index; none if it has no word."""
    return tuple(map(_kept, stems(" ".join(phrase.words))))


def needle(words: Sequence[str], prefix: bool) -> str:
    """Return the text that the words of a message with a phrase contain."""
    text = "".join(f"<{word}>" for word in words)
    return text[:-1] if prefix else text


def lexemes(words: Sequence[str], prefix: bool) -> str:
    """Return the PostgreSQL query for messages that hold all words of a phrase, in any order."""
    *before, last = ("'" + word.replace("\\", "\\\\").replace("'", "''") + "'" for word in words)
    return f"({' & '.join([*before, f'{last}:*' if prefix else last])})"


def _kept(word: str) -> str:
    return word if len(word) <= _WORD else f"{word[:_KEPT]}{sha256(word.encode(errors='replace')).hexdigest()[:32]}"


def _pieces(tokens: Sequence[str]) -> Iterator[list[str]]:
    piece: list[str] = []
    size = 0
    for token in sorted({*tokens} - {BREAK}):
        piece.append(token)
        size += len(token.encode())
        if size > _PIECE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
