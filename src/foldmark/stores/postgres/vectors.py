"""Vectors in PostgreSQL (see `foldmark.core.search`).

Ids of two conversations do not follow the commits; so "after" an event means the order of changes here
(`foldmark.stores.postgres.changes`), and for signatures the order in which they were stored.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from foldmark.core.search import Coverage, Embedded, Unembedded
from foldmark.stores.postgres.connection import Ints
from foldmark.stores.postgres.snapshot import PostgresSnapshot
from foldmark.stores.postgres.transaction import PostgresTransaction

LONGEST = 100_000
"""Maximum number of characters of a message that a model gets."""

_PAGE = 10_000


class PostgresVectors:
    """See `foldmark.core.search.Vectors`."""

    def __init__(
        self,
        read: Callable[[], AbstractContextManager[PostgresSnapshot]],
        write: Callable[[], AbstractContextManager[PostgresTransaction]],
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
        ids = Ints(each.id for each in embedded)
        with self._write() as writing:
            ((key,),) = writing._run("add_embedder", fingerprint=fingerprint)
            bound = {"embedder": key, "ids": ids}
            if embedded:
                writing._run("save_vectors", **bound, vectors=[each.vectors for each in embedded])
                writing._run("save_signatures", **bound, signatures=[each.signature for each in embedded])
            writing._run("advance_embedder", embedder=key, until=until)

    def signatures(self, fingerprint: str, after: int) -> Iterator[tuple[int, bytes]]:
        for key in self._keys(fingerprint):
            while True:
                with self._read() as moment:
                    rows = moment._run("signatures", embedder=key, after=after, page=_PAGE)
                yield from ((id, signature) for id, signature in rows if signature)
                if len(rows) < _PAGE:
                    break
                after = rows[-1][0]

    def vectors(self, fingerprint: str, event_ids: Sequence[int]) -> list[bytes]:
        found: dict[int, bytes] = {}
        for key in self._keys(fingerprint):
            with self._read() as moment:
                found = dict(moment._run("vectors", embedder=key, ids=Ints(event_ids)))
        return [found.get(event_id, b"") for event_id in event_ids]

    def remove_vectors(self, fingerprint: str) -> None:
        for key in self._keys(fingerprint):
            with self._write() as writing:
                for name in ("drop_vectors", "drop_signatures", "drop_embedder"):
                    writing._run(name, embedder=key)

    def coverage(self, fingerprint: str) -> Coverage:
        with self._read() as moment:
            return Coverage(*moment._run("coverage", fingerprint=fingerprint)[0])

    def _keys(self, fingerprint: str) -> list[int]:
        """Return the key of a model; none of one that has no vectors."""
        with self._read() as moment:
            return [key for (key,) in moment._run("embedder", fingerprint=fingerprint)]
