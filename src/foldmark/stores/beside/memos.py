"""Memos (see `foldmark.core.records`)."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from foldmark.core.records import Memo
from foldmark.stores.reader import SqlReader, SqlWriter
from foldmark.stores.rows import Row


class SqlMemosView(SqlReader):
    """Reads memos."""

    def memo(self, memo_id: int) -> Memo | None:
        return next(iter(self._those([memo_id])), None)

    def memos(self, limit: int) -> list[Memo]:
        return self._those([memo for (memo,) in self._run("newest_memos", limit=limit)])

    def memos_tagged(self, tags: Sequence[str], limit: int) -> list[Memo]:
        found = Counter(memo for tag in dict.fromkeys(tags) for (memo,) in self._run("memos_tagged", tag=tag))
        return self._those(sorted(found, key=lambda memo: (-found[memo], -memo))[:limit])

    def memos_with(self, asked: Sequence[tuple[Sequence[str], int]], limit: int) -> list[list[Memo]]:
        newest: dict[int, int | None] = dict(self._newest_before([before for _, before in asked]))
        each = list(dict.fromkeys(word for words, _ in asked for word in words))
        most = max((memo for memo in newest.values() if memo is not None), default=0)
        if not most or not each:
            return [[] for _ in asked]
        from foldmark.text.keywords import ranked  # takes 10 ms, only needed to search memos

        holding: dict[str, list[int]] = defaultdict(list)
        for index, memo in self._holding(each, most):
            holding[each[index]].append(memo)
        best: list[list[int]] = []
        for number, (words, _) in enumerate(asked):
            upto = newest[number] or 0
            there = {word: [memo for memo in holding[word] if memo <= upto] for word in dict.fromkeys(words)}
            best.append(ranked({word: memos for word, memos in there.items() if memos}, upto)[:limit])
        found = {memo.id: memo for memo in self._those({memo for memos in best for memo in memos})}
        return [[found[memo] for memo in memos if memo in found] for memos in best]

    def memo_tags(self, limit: int) -> list[tuple[str, int]]:
        return [(str(tag), int(number)) for tag, number in self._run("memo_tags", limit=limit)]

    def _newest_before(self, events: Sequence[int]) -> list[Row]:
        """Return, for the number of each event, the newest memo saved before it, if any."""
        return self._run("memo_before", events=self._list(events))

    def _tags(self, stored: Any) -> list[str]:
        """Return the tags of a memo from the form of the database."""
        tags: list[str] = msgspec.json.decode(stored)
        return tags

    def _holding(self, words: Sequence[str], most: int) -> list[Row]:
        """Return pairs, each once: the number of a word, and a memo up to id `most` that has it or a related word."""
        raise NotImplementedError

    def _those(self, ids: Collection[int]) -> list[Memo]:
        """Return these memos, in the order asked for."""
        found = {}
        for id, content, tags, *others in self._run("memos", memos=self._list(ids)) if ids else ():
            found[id] = Memo(id, content, tuple(sorted(self._tags(tags))), *others)
        return [found[each] for each in ids if each in found]


class SqlMemos(SqlMemosView, SqlWriter):
    """Writes memos."""

    def save_memo(self, content: str, tags: Sequence[str], agent_id: str | None, actor: str, created_at: str) -> int:
        each = sorted(set(tags))
        with self.whole():
            agent = None if agent_id is None else self._key(agent_id)
            memo_id = self._save_memo(agent, actor, created_at, content)
            for tag in each:
                self._write("tag_memo", tag=tag, memo=memo_id)
            self._index_memo(memo_id, content, " ".join(each))
        return memo_id

    def _save_memo(self, agent: int | None, actor: str, created_at: str, content: str) -> int:
        """Add a memo and return its id."""
        row = {"agent": agent, "actor": actor, "created_at": created_at, "content": content}
        ((memo_id,),) = self._run("save_memo", **row)
        return int(memo_id)

    def _index_memo(self, memo_id: int, content: str, tags: str) -> None:
        """Index a memo by its words."""
        self._write("index_memo", memo=memo_id, content=content, tags=tags)

    def remove_memo(self, memo_id: int) -> None:
        with self.whole():
            for name in ("untag_memo", "unindex_memo", "erase_memo"):
                self._write(name, memo=memo_id)
            self._erase_sent_memo(memo_id)

    def _erase_sent_memo(self, memo_id: int) -> None:
        """Remove a memo, with its text, from the requests that were sent with it."""
        self._write("erase_sent_memo", memo=memo_id)
        self._write("erase_texts")
