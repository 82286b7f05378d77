"""The appends of one transaction in PostgreSQL: pending events are written before the next read.

Messages are split into words by Foldmark's own tokenizer, not by a text search configuration, so that the same messages
are found as in SQLite.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from foldmark.core.assembly.sent import Owner
from foldmark.core.search import Phrase
from foldmark.stores.appender import STATE
from foldmark.stores.postgres.connection import STATEMENTS, Ints, Pipeline, Texts
from foldmark.stores.rows import Row
from foldmark.text.tokens import has_parts, parts_of, stems

_COLUMNS = (
    *("id", "agent", "turn", "kind", "dialect", "actor", "created_at", "interrupted", "call_id", "answers"),
    *("apart", "replayed", "tokens", "nth", "sum", "content", "data", "checksum"),
    *("tool", "planning", "stateful"),
)
_KIND, _NTH, _CONTENT = map(_COLUMNS.index, ("kind", "nth", "content"))
_TEXTS = frozenset(("kind", "dialect", "actor", "created_at", "call_id", "content", "data", "tool"))


def facts(kind: str, data: Mapping[str, Any] | None) -> tuple[str | None, bool, bool]:
    """Return the columns that repeat a part of an event's data, because PostgreSQL cannot read all of its JSON: the
    tool of a call; True if a command or filter records a planning conversation; True if a summary contains a state."""
    data = data or {}
    planning = kind in ("command", "filter") and data.get("planning") is not None
    name = data.get("name") if kind == "tool_call" else None
    stateful = kind == "summary" and data.get("state") is not None
    return name if isinstance(name, str) else None, planning, stateful


class Tree:
    """A conversation and its forks in one transaction, which locks its root agent's row: its counters, and the pending
    events (see `EventWriter`)."""

    def __init__(self, root: int, block: Pipeline) -> None:
        self.root, self._block = root, block
        self.next_id, self.last_id, self.stamp, self.memos, self.newest_memo = 0, -1, 0, 0, 0
        self.position: Row | None = None
        """The stored state of the root agent; None until its row is locked."""
        self.is_ahead = False  # of the stored row
        self.recorded = 0
        """The number of events recorded so far, written or pending."""
        self._owned: dict[int, list[tuple[str, Owner]]] = {}
        self._buried: dict[int, int] = {}
        self._rows: list[Row] = []
        self._unindexed: list[tuple[int, str, str, str | None]] = []
        self._waiting: dict[int, list[int]] = {}
        self._answered: dict[int, list[int]] = {}
        self._ended: set[int] = set()

    def locked(self, row: Row) -> None:
        """Take the values of the root agent's row, which is now locked."""
        self.position = row[: len(STATE) + 4]
        self.next_id, self.last_id, self.stamp, self.memos, self.newest_memo, _ = row[len(STATE) + 4 :]

    def record(self, row: Row, read: Mapping[str, Any] | None) -> None:
        kind, content = row[_KIND], row[_CONTENT]
        tool, planning, stateful = facts(kind, read)
        self._rows.append((*row, tool, int(planning), int(stateful)))
        self.recorded += 1
        if row[_NTH] is not None and content:
            self._unindexed.append((row[0], kind, content, tool))

    def own(self, agent: int, texts: Sequence[tuple[str, Owner]]) -> None:
        self._owned.setdefault(agent, []).extend(texts)

    def bury(self, id: int, by: int) -> None:
        self._buried[id] = by

    def newest_message(self, agent: int, until: int) -> Row | None:
        self.write()
        bound = {"root": self.root, "agent": agent, "until": until}
        return next(iter(self._block.run(STATEMENTS["newest_message"], bound)), None)

    def arrive(self, agent: int, mail: int) -> None:
        self._later("arrive", agent=agent, mail=Ints([mail]))

    def carried(self, agent: int, mail: Sequence[int]) -> None:
        self._later("carried", agent=agent, mail=Ints(mail))

    def wait(self, agent: int, call: int) -> None:
        self._waiting.setdefault(agent, []).append(call)

    def answered(self, agent: int, call: int) -> None:
        if call in (calls := self._waiting.get(agent, [])):
            calls.remove(call)
        else:
            self._answered.setdefault(agent, []).append(call)

    def end_waiting(self, agent: int) -> None:
        self._waiting.pop(agent, None)
        self._answered.pop(agent, None)
        self._ended.add(agent)

    def advance(self, agent: int, state: Row, newest: Row | None) -> None:
        turn, kind = newest or (None, None)
        row = {**dict(zip(STATE, state, strict=True)), "newest_turn": turn, "newest_kind": kind}
        if agent == self.root:
            self.is_ahead = False
            self._later("advance_root", **row, **self.counts)
        else:
            self._later("advance", **row, agent=agent)

    def _later(self, name: str, **bindings: Any) -> None:
        """Send a statement about this tree with the next one."""
        self._block.later(STATEMENTS[name], {**bindings, "root": self.root})

    def write(self) -> None:
        """Send the pending events with the next statement."""
        if self._rows:
            columns = zip(_COLUMNS, zip(*self._rows, strict=True), strict=True)
            bound = {name: Texts(each) if name in _TEXTS else Ints(each) for name, each in columns}
            self._later("append", **bound, stamp=self.stamp)
            if self.newest_memo != self.memos:
                self._later("mark_memos", event=self._rows[0][0], memos=self.newest_memo)
                self.memos, self.is_ahead = self.newest_memo, True
            self._rows = []
        for agent, texts in self._owned.items():
            turns, memos = Ints(owner.turn for _, owner in texts), Ints(owner.memo for _, owner in texts)
            self._later("own", agent=agent, hashes=Texts(hash for hash, _ in texts), turns=turns, memos=memos)
        self._owned.clear()
        if self._buried:
            self._later("bury", ids=Ints(self._buried), by=Ints(self._buried.values()))
            self._buried.clear()
        for agent in self._ended:
            self._later("end_waiting", agent=agent)
        for name, each in (("answered", self._answered), ("wait", self._waiting)):
            for agent, calls in each.items():
                if calls:
                    self._later(name, agent=agent, calls=Ints(calls))
            each.clear()
        self._ended.clear()

    def finish(self) -> None:
        """Index the pending messages, and update the root agent's row with the tree's counters."""
        self._index()
        if self.is_ahead:
            self.is_ahead = False
            self._later("advance_tree", **self.counts)

    def _index(self) -> None:
        pending, self._unindexed = self._unindexed, []
        entries = [(id, message_words(kind, content, tool)) for id, kind, content, tool in pending]
        found = [(id, words) for id, words in entries if words is not None]
        if found:
            ids, lengths = Ints(id for id, _ in found), Ints(each.length for _, each in found)
            self._later("index_words", ids=ids, lengths=lengths, words=Texts(each.words for _, each in found))
        for id, each in found:
            for number, piece in enumerate(each.pieces):
                self._later("index_long_words", id=id, piece=number, words=Texts(piece))

    @property
    def counts(self) -> dict[str, int]:
        """The tree's counters, as columns of the row of its root agent."""
        return {"next_id": self.next_id, "last_id": self.last_id, "stamp": self.stamp, "memos": self.memos}


# The words of messages

LONG = 900_000
"""Minimum bytes of words for which a message's index entry is split into pieces."""

_PIECE = 500_000
"""Bytes of the words of one piece."""

_WORD, _KEPT = 250, 200
"""Maximum length of a word, and the number of characters kept of a longer one, which is encoded data. A hash replaces
the rest."""

BREAK = ""
"""The empty word between the words of a text and the parts of its names; no phrase contains it."""


class IndexedWords(NamedTuple):
    """The index entry of a message: the number of its words, the words in order, and if there are many, the distinct
    words in pieces."""

    length: int
    words: str
    pieces: list[list[str]]


def message_words(kind: str, content: str, tool: str | None) -> IndexedWords | None:
    """Return the words of a message; None if it has no text."""
    if not content:
        return None
    text = searchable(content, tool, " ") if kind == "tool_call" else content
    own = _all_kept(stems(text))
    parts = _all_kept(stems(parts_of(text))) if has_parts(text) else []
    tokens = [*own, *([BREAK, *parts] if parts else ())]
    words = f"<{'><'.join(tokens)}>" if tokens else ""
    pieces = list(_pieces(tokens)) if len(words.encode()) >= LONG else []
    return IndexedWords(len(own) + len(parts), words, pieces)


def searchable(arguments: str, tool: str | None, space: str) -> str:
    """Return the searchable text of a call: the tool's name and its arguments. Escapes in their JSON become spaces;
    otherwise the `n` of a newline would become part of the next word."""
    for escape in ("\\\\", "\\n", "\\t", "\\r"):
        arguments = arguments.replace(escape, space)
    return f"{tool or ''} {arguments}"


def sought(phrase: Phrase) -> tuple[str, ...]:
    """Return a phrase as words of the index; empty if it has no words."""
    return tuple(map(_kept, stems(" ".join(phrase.words))))


def needle(words: Sequence[str], prefix: bool) -> str:
    """Return the text that the stored words of a message contain if the message contains this phrase."""
    text = "".join(f"<{word}>" for word in words)
    return text[:-1] if prefix else text


def lexemes(words: Sequence[str], prefix: bool) -> str:
    """Return the PostgreSQL query for messages that contain all words of a phrase, in any order."""
    *before, last = ("'" + word.replace("\\", "\\\\").replace("'", "''") + "'" for word in words)
    return f"({' & '.join([*before, f'{last}:*' if prefix else last])})"


def _all_kept(words: list[str]) -> list[str]:
    # Most texts have no longer word, and a copy splits every text into words.
    return words if max(map(len, words), default=0) <= _WORD else list(map(_kept, words))


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
