"""Vectors in SQLite (see `foldmark.core.search`)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from foldmark.core.search import Coverage, Embedded, Unembedded
from foldmark.stores.queries import listed
from foldmark.stores.sqlite.reader import SqliteConnection, SqliteReader

LONGEST = 100_000
"""Maximum number of characters of a message that a model gets."""

_PAGE = 10_000


class SqliteVectors(SqliteReader):
    """See `foldmark.core.search.Vectors`. `write` begins a transaction of the store."""

    def __init__(self, connection: SqliteConnection, write: Callable[[], AbstractContextManager[object]]) -> None:
        super().__init__(connection)
        self._write = write

    def embedders(self) -> dict[str, int]:
        return {str(fingerprint): int(until) for fingerprint, until in self._run("embedders")}

    def unembedded(self, until: int, limit: int) -> tuple[list[Unembedded], int, int]:
        ((last,),) = self._run("newest_event")
        bound = {"until": until, "last": last, "longest": LONGEST, "most": limit}
        found = [Unembedded(id, text, before or "") for id, text, before in self._all(self._sql["to_embed"], bound)]
        return found, found[-1].id if len(found) == limit else int(last), int(last)

    def save_vectors(self, fingerprint: str, embedded: Sequence[Embedded], until: int) -> None:
        with self._write():
            self._run("add_embedder", fingerprint)
            ((key, _),) = self._run("embedder", fingerprint)
            for id, vectors, signature in embedded:
                self._run("save_vectors", key, vectors, id)
                self._run("save_signatures", key, signature, id)
            self._run("advance_embedder", until, key)

    def signatures(self, fingerprint: str, after: int) -> Iterator[tuple[int, bytes]]:
        for key, _ in self._run("embedder", fingerprint):
            while rows := self._run("signatures", after, key, _PAGE):
                yield from rows
                after = rows[-1][0]

    def vectors(self, fingerprint: str, event_ids: Sequence[int]) -> list[bytes]:
        ((key, _),) = self._run("embedder", fingerprint) or [(None, 0)]
        found: dict[int, bytes] = dict(self._run("vectors", listed(event_ids), key))
        return [found.get(event_id, b"") for event_id in event_ids]

    def remove_vectors(self, fingerprint: str) -> None:
        with self._write():
            for key, _ in self._run("embedder", fingerprint):
                for name in ("drop_vectors", "drop_signatures", "drop_embedder"):
                    self._run(name, key)

    def coverage(self, fingerprint: str) -> Coverage:
        ((key, until),) = self._run("embedder", fingerprint) or [(None, 0)]
        return Coverage(*self._all(self._sql["coverage"], {"embedder": key, "until": until})[0])
