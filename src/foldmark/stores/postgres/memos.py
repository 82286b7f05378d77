"""Memos in PostgreSQL (see `foldmark.stores.beside.memos`).

Memos are numbered in the order of commits, because a transaction that saves one holds the counter until its end. A tree
records, at its first event after a new memo, the newest memo at that time (`memo_marks`).
"""

import re
from collections.abc import Sequence

import msgspec

from foldmark.core.segments import END
from foldmark.stores.beside import memos
from foldmark.stores.postgres.connection import Ints, Texts
from foldmark.stores.rows import Row
from foldmark.text.keywords import folded, spellings

_WORD = re.compile(r"[^\W_]+")
_LAST = "\U0010ffff"


def words_of(text: str) -> list[str]:
    """Return the words of a text, as `text.keywords` defines them."""
    return _WORD.findall(folded(text))


class PostgresMemosView(memos.SqlMemosView):
    """Reads memos."""

    def _newest_before(self, events: Sequence[int]) -> list[Row]:
        found: list[Row] = []
        if END in events:
            ((newest,),) = self._run("newest_memo")
            found = [(number, newest) for number, id in enumerate(events) if id == END]
        if set(events) != {END}:
            rows = self._run("memo_before", **self._these(0 if id == END else id for id in events))
            found += [row for row in rows if events[row[0]] != END]
        return found

    def _holding(self, words: Sequence[str], most: int) -> list[Row]:
        asked = [(number, *each) for number, word in enumerate(words) for each in _ranges(word)]
        numbers, firsts, lasts, rows = zip(*asked, strict=True) if asked else ((), (), (), ())
        bound = {"firsts": Texts(firsts), "lasts": Texts(lasts), "rows": Texts(rows)}
        return self._run("memos_with", numbers=Ints(numbers), **bound, most=most) if asked else []

    def _tags(self, stored: list[str] | None) -> list[str]:
        return stored or []


def _ranges(word: str) -> list[tuple[str, str, str]]:
    """Return the ranges of words of which a memo must hold one, and the adjacent words that it must hold ("": any)."""
    found = words_of(word)
    if len(found) > 1:
        return [(found[0], found[0], f" {' '.join(found)} ")]
    ranges = []
    for one in found:
        exact, beginning = spellings(one) if one == folded(word) else ((one,), None)
        ranges += [(each, each, "") for each in exact]
        ranges += [] if beginning is None else [(beginning, beginning + _LAST, "")]
    return ranges


class PostgresMemos(PostgresMemosView, memos.SqlMemos):
    """Writes memos."""

    def save_memo(self, content: str, tags: Sequence[str], agent_id: str | None, actor: str, created_at: str) -> int:
        memo_id = super().save_memo(content, tags, agent_id, actor, created_at)
        self._know_memo(memo_id)
        return memo_id

    def _know_memo(self, memo_id: int) -> None:
        """Let events appended from here on see a memo."""
        raise NotImplementedError

    def _save_memo(self, agent: int | None, actor: str, created_at: str, content: str) -> int:
        ((memo_id,),) = self._run("number_memo")
        self._write("save_memo", id=memo_id, agent=agent, actor=actor, created_at=created_at, content=content)
        return int(memo_id)

    def _index_memo(self, memo_id: int, content: str, tags: str) -> None:
        words = words_of(f"{content} {tags}")
        self._write("index_memo", memo=memo_id, line=f" {' '.join(words)} ")
        self._write("index_memo_words", memo=memo_id, words=Texts(dict.fromkeys(words)))

    def _erase_sent_memo(self, memo_id: int) -> None:
        gone = set[str]()
        for root, agent, id, hashes, data in self._run("sent_with_memo", memo=memo_id):
            record = msgspec.json.decode(data)
            gone.add(record["hashes"].pop(f"memo {memo_id}"))
            kept = [each for each in hashes if each in record["hashes"].values()]
            row = {"root": root, "agent": agent, "id": id, "memo": memo_id, "hashes": Texts(kept)}
            self._write("erase_sent_memo", **row, data=msgspec.json.encode(record).decode())
        self._erase_texts(gone)

    def _erase_texts(self, hashes: set[str]) -> None:
        """Remove those of some texts that no request needs any more."""
        if hashes:
            self._write("lock_texts")
            self._write("erase_texts", hashes=Texts(sorted(hashes)))
