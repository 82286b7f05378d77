"""Memos in SQLite (see `foldmark.core.memos`)."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence

import apsw
import msgspec

from foldmark.core.errors import StoreError
from foldmark.core.memos import Memo
from foldmark.stores.queries import listed
from foldmark.stores.sqlite.reader import Reader, Run, Writer


class MemosView(Reader):
    """Reads memos."""

    def memo(self, memo_id: int) -> Memo | None:
        return next(iter(self._those([memo_id])), None)

    def memos(self, limit: int) -> list[Memo]:
        return self._those([memo for (memo,) in self._run("newest_memos", limit)])

    def memos_tagged(self, tags: Sequence[str], limit: int) -> list[Memo]:
        found = Counter(memo for tag in dict.fromkeys(tags) for (memo,) in self._run("memos_tagged", tag))
        return self._those(sorted(found, key=lambda memo: (-found[memo], -memo))[:limit])

    def memos_with(self, asked: Sequence[tuple[Sequence[str], int]], limit: int) -> list[list[Memo]]:
        newest: dict[int, int | None] = dict(self._run("memo_before", listed(before for _, before in asked)))
        each = list(dict.fromkeys(word for words, _ in asked for word in words))
        most = max((memo for memo in newest.values() if memo is not None), default=0)
        if not most or not each:
            return [[] for _ in asked]
        from foldmark.core.keywords import ranked  # 10 ms, for whoever looks for memos

        holding: dict[str, list[int]] = defaultdict(list)
        for index, memo in self._run("memos_with", listed(map(_expression, each)), most):
            holding[each[index]].append(memo)
        best: list[list[int]] = []
        for number, (words, _) in enumerate(asked):
            upto = newest[number] or 0
            there = {word: [memo for memo in holding[word] if memo <= upto] for word in dict.fromkeys(words)}
            best.append(ranked({word: memos for word, memos in there.items() if memos}, upto)[:limit])
        found = {memo.id: memo for memo in self._those({memo for memos in best for memo in memos})}
        return [[found[memo] for memo in memos if memo in found] for memos in best]

    def memo_tags(self, limit: int) -> list[tuple[str, int]]:
        return [(str(tag), int(number)) for tag, number in self._run("memo_tags", limit)]

    def _those(self, ids: Collection[int]) -> list[Memo]:
        """These memos, in the order asked for."""
        found = {}
        for id, content, tags, *others in self._run("memos", listed(ids)) if ids else ():
            found[id] = Memo(id, content, tuple(sorted(msgspec.json.decode(tags))), *others)
        return [found[each] for each in ids if each in found]


class Memos(MemosView, Writer):
    """Writes memos."""

    def save_memo(self, content: str, tags: Sequence[str], agent_id: str | None, actor: str, created_at: str) -> int:
        each = sorted(set(tags))
        with self.whole():
            agent = None if agent_id is None else self._key(agent_id)
            ((memo_id,),) = self._run("save_memo", agent, actor, created_at, content)
            for tag in each:
                self._run("tag_memo", tag, memo_id)
            self._run("index_memo", memo_id, content, " ".join(each))
        return int(memo_id)

    def remove_memo(self, memo_id: int) -> None:
        with self.whole():
            self._run("untag_memo", memo_id)
            self._run("unindex_memo", memo_id)
            self._run("erase_memo", memo_id)
            self._run("erase_sent_memo", memo_id, memo_id)
            self._run("erase_texts")


def damage(run: Run, *, writable: bool) -> Iterator[str]:
    """What is wrong with memos; their index is only compared with them where the file can be written to."""
    for (memo_id,) in run("wrong_memo_rows"):
        yield f"memo {memo_id}: its words in the index are not those of its content and tags"
    for memo_id, tag in run("wrong_memo_tags"):
        yield f"memo {memo_id}: its tag {tag!r} is not one that a memo can have"
    if writable:
        try:
            run("wrong_memo_index")
        except StoreError as error:
            if not isinstance(error.__cause__, apsw.CorruptError):
                raise
            rebuild = "any SQLite shell rebuilds it: INSERT INTO memo_words (memo_words) VALUES ('rebuild')"
            yield f"memos: the index holds other words than the memos; {rebuild}"


def _expression(word: str) -> str:
    """An FTS5 expression for a word, and those related to it; nothing in it is FTS5's own syntax."""
    from foldmark.core.keywords import folded, spellings

    exact, beginning = spellings(folded(word))
    return " OR ".join((*map(_quoted, exact), *(() if beginning is None else (f"{_quoted(beginning)} *",))))


def _quoted(word: str) -> str:
    return '"' + word.replace("\0", " ").replace('"', '""') + '"'
