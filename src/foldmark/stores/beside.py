"""The tables beside the log, in any database: unread mail, leases, memos, texts of requests, vectors.

`BesideReader` is the part of a snapshot that reads them, `BesideWriter` the part of a transaction that writes them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from foldmark.core.agents import Fate, Lease, Mail
from foldmark.core.events import Event
from foldmark.core.records import Memo
from foldmark.core.search import Coverage, Embedded, Unembedded
from foldmark.core.segments import Segments
from foldmark.stores.reader import Bindings, Row, SqlReader, SqlWriter

LONGEST = 100_000
"""Maximum number of characters of a message passed to an embedding model."""

_SIGNATURES = 10_000
"""Number of signatures read at once."""


class BesideReader(SqlReader, Protocol):
    """Reads the tables beside the log."""

    def unread(self, agent_id: str) -> list[Mail]:
        return [Mail.of(event) for event in self._events("unread", **self._for_agent(agent_id))]

    def fates(self, agent_id: str) -> dict[str, Fate]:
        self.settle()
        return dict(self._run("fates", **self._for_agent(agent_id)))

    # Leases

    def lease(self, agent_id: str) -> Lease | None:
        return next((_lease(row) for row in self._run("lease", **self._for_agent(agent_id))), None)

    # Memos

    def memo(self, memo_id: int) -> Memo | None:
        return next(iter(self._memos([memo_id])), None)

    def memos(self, limit: int) -> list[Memo]:
        return self._memos([memo for (memo,) in self._run("newest_memos", limit=limit)])

    def memos_tagged(self, tags: Sequence[str], limit: int) -> list[Memo]:
        found = Counter(memo for tag in dict.fromkeys(tags) for (memo,) in self._run("memos_tagged", tag=tag))
        return self._memos(sorted(found, key=lambda memo: (-found[memo], -memo))[:limit])

    def memos_with(self, queries: Sequence[tuple[Sequence[str], int]], limit: int) -> list[list[Memo]]:
        newest: dict[int, int | None] = dict(self._newest_before([before for _, before in queries]))
        each = list(dict.fromkeys(word for words, _ in queries for word in words))
        most = max((memo for memo in newest.values() if memo is not None), default=0)
        if not most or not each:
            return [[] for _ in queries]
        from foldmark.text.keywords import ranked  # takes 10 ms, only needed to search memos

        holding: dict[str, list[int]] = defaultdict(list)
        for index, memo in self._holding(each, most):
            holding[each[index]].append(memo)
        best: list[list[int]] = []
        for number, (words, _) in enumerate(queries):
            last = newest[number] or 0
            earlier = {word: [memo for memo in holding[word] if memo <= last] for word in dict.fromkeys(words)}
            best.append(ranked({word: memos for word, memos in earlier.items() if memos}, last)[:limit])
        found = {memo.id: memo for memo in self._memos({memo for memos in best for memo in memos})}
        return [[found[memo] for memo in memos if memo in found] for memos in best]

    def memo_tags(self, limit: int) -> list[tuple[str, int]]:
        return [(str(tag), int(number)) for tag, number in self._run("memo_tags", limit=limit)]

    def _newest_before(self, events: Sequence[int]) -> list[Row]:
        """Return pairs: the index of an event in `events`, and the newest memo saved before it, if any."""
        return self._run("memo_before", events=self._list(events))

    def _holding(self, words: Sequence[str], most: int) -> list[Row]:
        """Return distinct pairs: the index of a word, and a memo up to id `most` with this word or a related one."""

    def _tags(self, stored: Any) -> tuple[str, ...]:
        """Return the tags of a memo, decoded from their stored form."""
        return tuple(sorted(msgspec.json.decode(stored)))

    def _memos(self, ids: Collection[int]) -> list[Memo]:
        """Return these memos, in the order requested."""
        found = {}
        for id, content, tags, *others in self._run("memos", memos=self._list(ids)) if ids else ():
            found[id] = Memo(id, content, self._tags(tags), *others)
        return [found[each] for each in ids if each in found]

    # Erased messages

    def tombstones(self, segments: Segments) -> list[Event]:
        found = self._events("tombstones", **self._for_segments(segments)) if segments else []
        return sorted(found, key=lambda event: event.id)


class BesideWriter(BesideReader, SqlWriter, Protocol):
    """Writes the tables beside the log."""

    # Leases

    def lend(self, lease: Lease) -> None:
        names = ("holder", "host", "process", "state", "taken_at", "until")
        fields = {name: getattr(lease, name) for name in names}
        self._write("lend", **self._for_agent(lease.agent), **fields, interrupt=int(lease.interrupt))

    def renew(self, holder: str, until: str) -> list[Lease]:
        self._write("renew", until=until, holder=holder)
        return [_lease(row) for row in self._run("held", holder=holder)]

    def give_back(self, agent_id: str, holder: str) -> None:
        self._write("give_back", **self._for_agent(agent_id), holder=holder)

    # Memos

    def save_memo(self, content: str, tags: Sequence[str], agent_id: str | None, actor: str, created_at: str) -> int:
        agent = None if agent_id is None else self._key(agent_id)
        with self.whole():
            memo_id = self._save_memo({"agent": agent, "actor": actor, "created_at": created_at, "content": content})
            self._mark_memo(memo_id, content, sorted(set(tags)))
        return memo_id

    def _save_memo(self, row: Bindings) -> int:
        """Add a memo and return its id."""
        ((memo_id,),) = self._run("save_memo", **row)
        return int(memo_id)

    def _mark_memo(self, memo_id: int, content: str, tags: Sequence[str]) -> None:
        """Add the tags and words of a memo."""
        for tag in tags:
            self._write("tag_memo", tag=tag, memo=memo_id)
        self._index_memo(memo_id, content, " ".join(tags))

    def _index_memo(self, memo_id: int, content: str, tags: str) -> None:
        self._write("index_memo", memo=memo_id, content=content, tags=tags)

    def remove_memo(self, memo_id: int) -> None:
        with self.whole():
            for name in ("untag_memo", "unindex_memo", "erase_memo"):
                self._write(name, memo=memo_id)
            self._erase_texts([hash for (hash,) in self._run("disown_memo", memo=memo_id)])

    # Texts of requests

    def keep_texts(self, texts: Mapping[str, str]) -> None:
        with self.whole():
            for sha256, text in sorted(texts.items()):
                self._write("keep_text", hash=sha256, text=text)

    def _erase_texts(self, hashes: Sequence[str]) -> None:
        """Erase those of these texts that nothing owns any more."""
        if hashes:
            self._write("erase_texts", hashes=self._list(sorted(set(hashes))))


def _lease(row: Row) -> Lease:
    *fields, interrupt = row
    return Lease(*fields, bool(interrupt))  # type: ignore[call-arg]


class VectorTables(Protocol):
    """A database with the named statements about vectors: that of a log, or the index of an archive."""

    def _run(self, name: str, /, **bindings: Any) -> list[Row]:
        """Return the rows of a statement."""

    def _list(self, values: Iterable[Any]) -> Any:
        """Return values for one statement."""


class WritableVectorTables(VectorTables, Protocol):
    """The same tables in a transaction."""

    def _write(self, name: str, /, **bindings: Any) -> object:
        """Run a statement without a result."""


class SqlVectors:
    """See `foldmark.core.search.Vectors`."""

    def __init__(
        self,
        read: Callable[[], AbstractContextManager[VectorTables]],
        write: Callable[[], AbstractContextManager[WritableVectorTables]],
    ) -> None:
        """`read` and `write` open the store's moments and transactions."""
        self._read, self._write = read, write

    def embedders(self) -> dict[str, int]:
        with self._read() as moment:
            return {str(fingerprint): int(until) for fingerprint, until in moment._run("embedders")}

    def unembedded(self, until: int, limit: int) -> tuple[list[Unembedded], int, int]:
        with self._read() as moment:
            ((last,),) = moment._run("newest_event")
            rows = moment._run("to_embed", until=until, longest=LONGEST, most=limit)
        found = [Unembedded(id, text, before or "") for id, text, before in rows]
        return found, found[-1].id if len(found) == limit else int(last), int(last)

    def save_vectors(self, fingerprint: str, embedded: Sequence[Embedded], until: int) -> None:
        with self._write() as writing:
            ((key,),) = writing._run("add_embedder", fingerprint=fingerprint)
            for id, vectors, signature in embedded:
                writing._write("save_vectors", embedder=key, id=id, vectors=vectors)
                writing._write("save_signatures", embedder=key, id=id, signature=signature)
            writing._write("advance_embedder", embedder=key, until=until)

    def signatures(self, fingerprint: str, after: int) -> Iterator[tuple[int, bytes]]:
        rows: list[Row] = [()] * _SIGNATURES
        while len(rows) == _SIGNATURES:
            with self._read() as moment:
                rows = moment._run("signatures", fingerprint=fingerprint, after=after, page=_SIGNATURES)
            yield from [row for row in rows if row[1]]
            after = rows[-1][0] if rows else after

    def vectors(self, fingerprint: str, event_ids: Sequence[int]) -> list[bytes]:
        with self._read() as moment:
            found: dict[int, bytes] = dict(moment._run("vectors", fingerprint=fingerprint, ids=moment._list(event_ids)))
        return [found.get(event_id, b"") for event_id in event_ids]

    def remove_vectors(self, fingerprint: str) -> None:
        with self._write() as writing:
            for name in ("drop_vectors", "drop_signatures", "drop_embedder"):
                writing._write(name, fingerprint=fingerprint)

    def coverage(self, fingerprint: str) -> Coverage:
        with self._read() as moment:
            return Coverage(*moment._run("coverage", fingerprint=fingerprint)[0])
