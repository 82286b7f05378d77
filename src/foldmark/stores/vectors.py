"""The vectors of messages, in the tables of a log or of an archive (see `foldmark.core.search.Vectors`)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from foldmark.core.search import Coverage, Embedded, Unembedded
from foldmark.stores.rows import Row

LONGEST = 100_000
"""Maximum number of characters of a message passed to an embedding model."""

_SIGNATURES = 10_000
"""Number of signatures read at once."""


class VectorTables(Protocol):
    """A database with the named statements about vectors: that of a log, or the index of an archive."""

    def run(self, name: str, /, **bindings: Any) -> list[Row]:
        """Return the rows of a statement."""

    def listed(self, values: Iterable[Any]) -> Any:
        """Return values for one statement."""


class WritableVectorTables(VectorTables, Protocol):
    """The same tables in a transaction."""

    def write(self, name: str, /, **bindings: Any) -> object:
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
            return {str(fingerprint): int(until) for fingerprint, until in moment.run("embedders")}

    def unembedded(self, until: int, limit: int) -> tuple[list[Unembedded], int, int]:
        with self._read() as moment:
            ((last,),) = moment.run("newest_event")
            rows = moment.run("to_embed", until=until, longest=LONGEST, most=limit)
        found = [Unembedded(id, text, before or "") for id, text, before in rows]
        return found, found[-1].id if len(found) == limit else int(last), int(last)

    def save_vectors(self, fingerprint: str, embedded: Sequence[Embedded], until: int) -> None:
        with self._write() as writing:
            ((key,),) = writing.run("add_embedder", fingerprint=fingerprint)
            for id, vectors, signature in embedded:
                writing.write("save_vectors", embedder=key, id=id, vectors=vectors)
                writing.write("save_signatures", embedder=key, id=id, signature=signature)
            writing.write("advance_embedder", embedder=key, until=until)

    def signatures(self, fingerprint: str, after: int) -> Iterator[tuple[int, bytes]]:
        rows: list[Row] = [()] * _SIGNATURES
        while len(rows) == _SIGNATURES:
            with self._read() as moment:
                rows = moment.run("signatures", fingerprint=fingerprint, after=after, page=_SIGNATURES)
            yield from [row for row in rows if row[1]]
            after = rows[-1][0] if rows else after

    def vectors(self, fingerprint: str, event_ids: Sequence[int]) -> list[bytes]:
        with self._read() as moment:
            found: dict[int, bytes] = dict(moment.run("vectors", fingerprint=fingerprint, ids=moment.listed(event_ids)))
        return [found.get(event_id, b"") for event_id in event_ids]

    def remove_vectors(self, fingerprint: str) -> None:
        with self._write() as writing:
            for name in ("drop_vectors", "drop_signatures", "drop_embedder"):
                writing.write(name, fingerprint=fingerprint)

    def coverage(self, fingerprint: str) -> Coverage:
        with self._read() as moment:
            return Coverage(*moment.run("coverage", fingerprint=fingerprint)[0])
