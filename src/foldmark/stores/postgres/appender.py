"""The appends of one transaction in PostgreSQL: pending events are written before the next read.

The words of messages are those that Foldmark's own tokenizer finds, not those of a text search configuration, so that
the same messages are found as in SQLite.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from foldmark.core.events import Draft
from foldmark.core.search import Phrase
from foldmark.stores.postgres.connection import STATEMENTS, Ints, PostgresSession, Texts
from foldmark.stores.reader import Row
from foldmark.stores.transaction import Appender
from foldmark.text.tokens import has_parts, parts_of, stems

_COLUMNS = (
    *("id", "agent", "turn", "kind", "dialect", "actor", "created_at", "interrupted", "call_id", "answers"),
    *("apart", "replayed", "tokens", "nth", "sum", "content", "data", "checksum"),
    *("weight", "weights", "tool", "planning", "stateful"),
)
_NTH = _COLUMNS.index("nth")
_TEXTS = frozenset(("kind", "dialect", "actor", "created_at", "call_id", "content", "data", "tool"))


def tool_of(kind: str, data: Mapping[str, Any] | None) -> str | None:
    """Return the name of a call's tool; None for other kinds."""
    name = (data or {}).get("name") if kind == "tool_call" else None
    return name if isinstance(name, str) else None


def facts(kind: str, data: Mapping[str, Any] | None) -> tuple[str | None, bool, bool]:
    """Return the columns that repeat a part of an event's data, because PostgreSQL cannot read all of its JSON: the
    tool of a call; True if a command or filter records a planning conversation; True if a summary holds a state."""
    data = data or {}
    planning = kind in ("command", "filter") and data.get("planning") is not None
    return tool_of(kind, data), planning, kind == "summary" and data.get("state") is not None


class Tree:
    """A conversation and its forks in one transaction, which holds the lock of its root agent's row: its counters, and
    the pending events."""

    def __init__(self, root: int) -> None:
        self.root = root
        self.next_id, self.last_id, self.stamp, self.memos, self.newest_memo = 0, -1, 0, 0, 0
        self.position: Row | None = None
        """The stored state of the root agent; None before its row is locked."""
        self.is_ahead = False  # of the stored row
        self.buried: dict[int, int] = {}
        """Pending events that operations have erased."""
        self.recorded = 0
        """The number of events to write so far."""
        self._rows: list[Row] = []
        self._unindexed: list[tuple[int, Draft]] = []
        self._waiting: dict[int, list[int]] = {}
        self._answered: dict[int, list[int]] = {}
        self._ended: set[int] = set()

    def locked(self, row: Row) -> None:
        """Take the values of the root agent's row, which is locked now."""
        self.position = row[:11]
        self.next_id, self.last_id, self.stamp, self.memos, self.newest_memo, _ = row[11:]

    def record(self, row: Row, draft: Draft) -> None:
        """Add an event to write."""
        self._rows.append(row)
        self.recorded += 1
        if row[_NTH] is not None and draft.content:
            self._unindexed.append((row[0], draft))

    def wait(self, agent: int, call: int) -> None:
        """Record that a call waits for its result."""
        self._waiting.setdefault(agent, []).append(call)

    def answered(self, agent: int, call: int) -> None:
        """Record that a call no longer waits."""
        if call in (calls := self._waiting.get(agent, [])):
            calls.remove(call)
        else:
            self._answered.setdefault(agent, []).append(call)

    def end_waiting(self, agent: int) -> None:
        """Record that no call of an agent waits any more."""
        self._waiting.pop(agent, None)
        self._answered.pop(agent, None)
        self._ended.add(agent)

    def write(self, session: PostgresSession) -> None:
        """Send the pending events with the next statement."""
        if self._rows:
            columns = zip(_COLUMNS, zip(*self._rows, strict=True), strict=True)
            bound = {name: Texts(each) if name in _TEXTS else Ints(each) for name, each in columns}
            session.later(STATEMENTS["append"], {**bound, "root": self.root, "stamp": self.stamp})
            if self.newest_memo != self.memos:
                mark = {"root": self.root, "event": self._rows[0][0], "memos": self.newest_memo}
                session.later(STATEMENTS["mark_memos"], mark)
                self.memos, self.is_ahead = self.newest_memo, True
            self._rows = []
        if self.buried:
            bound = {"ids": Ints(self.buried), "by": Ints(self.buried.values())}
            session.later(STATEMENTS["bury"], {**bound, "root": self.root})
            self.buried.clear()
        for agent in self._ended:
            session.later(STATEMENTS["end_waiting"], {"root": self.root, "agent": agent})
        for name, each in (("answered", self._answered), ("wait", self._waiting)):
            for agent, calls in each.items():
                if calls:
                    session.later(STATEMENTS[name], {"root": self.root, "agent": agent, "calls": Ints(calls)})
            each.clear()
        self._ended.clear()

    def finish(self, session: PostgresSession) -> None:
        """Index the pending messages, and update the root agent's row with the tree's counters."""
        self._index(session)
        if self.is_ahead:
            self.is_ahead = False
            session.later(STATEMENTS["advance_tree"], {**self.counts, "root": self.root})

    def _index(self, session: PostgresSession) -> None:
        pending, self._unindexed = self._unindexed, []
        entries = [
            (id, message_words(draft.kind, draft.content, tool_of(draft.kind, draft.data))) for id, draft in pending
        ]
        found = [(id, words) for id, words in entries if words is not None]
        if found:
            bound = {"ids": Ints(id for id, _ in found), "lengths": Ints(each.length for _, each in found)}
            texts = Texts(each.words for _, each in found)
            session.later(STATEMENTS["index_words"], {**bound, "root": self.root, "words": texts})
        for id, each in found:
            for number, piece in enumerate(each.pieces):
                row = {"root": self.root, "id": id, "piece": number, "words": Texts(piece)}
                session.later(STATEMENTS["index_long_words"], row)

    @property
    def counts(self) -> dict[str, int]:
        """The tree's counters, as columns of the row of its root agent."""
        counted = {"next_id": self.next_id, "last_id": self.last_id, "stamp": self.stamp}
        return {**counted, "memos": self.memos}


class PostgresAppender(Appender):
    """Appends to one agent; its row is updated once, by `finish`."""

    def __init__(self, tree: Tree, key: int, draw: Callable[[], int], row: Row, newest: Callable[[int], Any]) -> None:
        """`newest` reads the turn and kind of the agent's newest message up to an id."""
        *stands, turn, kind = row
        super().__init__(key, draw, tuple(stands))
        self._tree, self._read_newest = tree, newest
        self._newest = None if kind is None else (turn, kind)

    def _record(self, row: Row, draft: Draft, weight: int | None) -> None:
        tool, planning, stateful = facts(draft.kind, draft.data)
        weights = None if weight is None else self._sums[0]
        self._tree.record((*row, weight, weights, tool, int(planning), int(stateful)), draft)

    def _bury(self, id: int, by: int) -> None:
        self._tree.buried[id] = by

    def _newest_message(self) -> Any:
        return self._read_newest(self.head)

    def _wait(self, call: int) -> None:
        self._tree.wait(self._key, call)

    def _answered(self, call: int) -> None:
        self._tree.answered(self._key, call)

    def _end_waiting(self) -> None:
        self._tree.end_waiting(self._key)

    def finish(self, session: PostgresSession) -> None:
        """Update the agent's row."""
        if not self._is_ahead:
            return
        self._is_ahead = False
        messages, tokens = self.own
        turn, kind = self._newest or (None, None)
        row = {"head": self.head, "open_turn": self.open_turn, "messages": messages, "tokens": tokens, "run": self._run}
        row |= {"weights": self._sums[0], "newest_turn": turn, "newest_kind": kind, "root": self._tree.root}
        if self._key == self._tree.root:
            self._tree.is_ahead = False
            session.later(STATEMENTS["advance_root"], row | self._tree.counts)
        else:
            session.later(STATEMENTS["advance"], {**row, "agent": self._key})


# The words of messages

LONG = 900_000
"""Bytes of words from which on a message's index entry is split into pieces."""

_PIECE = 500_000
"""Bytes of the words of one piece."""

_WORD, _KEPT = 250, 200
"""Maximum length of a word, and the number of characters kept of a longer one, which is encoded data; a hash replaces
the rest."""

BREAK = ""
"""The empty word between the words of a text and the parts of its names; no phrase contains it."""


class IndexedWords(NamedTuple):
    """The index entry of a message: the number of its words, these in order, and the distinct ones in pieces if they
    are many."""

    length: int
    words: str
    pieces: list[list[str]]


def message_words(kind: str, content: str, tool: str | None) -> IndexedWords | None:
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


def searchable(arguments: str, tool: str | None, space: str) -> str:
    """Return the searchable text of a call: the tool's name and its arguments. Escapes in their JSON become spaces, or
    the `n` of a newline would become part of the next word."""
    for escape in ("\\\\", "\\n", "\\t", "\\r"):
        arguments = arguments.replace(escape, space)
    return f"{tool or ''} {arguments}"


def sought(phrase: Phrase) -> tuple[str, ...]:
    """Return a phrase as words of the index; none if it has no word."""
    return tuple(map(_kept, stems(" ".join(phrase.words))))


def needle(words: Sequence[str], prefix: bool) -> str:
    """Return the text that the stored words of a message contain if it holds this phrase."""
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
