"""What was said, by meaning: the vectors of a log's messages, made by a model of embeddings [SPEC 7].

A message has two vectors, one of its own text and one of the text together with what was said before it, for an answer
alone seldom says what it is about; a long message has one more for each further passage. Vectors are made beside the
log, some messages at a time, and whoever is interrupted goes on where it stopped.
"""

from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from foldmark.core.ports import Progress
from foldmark.core.vectors import Embedded, Unembedded, Vectors
from foldmark.recall.embeddings.embedder import Embedder
from foldmark.recall.embeddings.nearest import Nearest
from foldmark.recall.embeddings.passages import passages
from foldmark.recall.embeddings.vectors import pack, signature, unpack

BATCH = 32
"""Messages whose vectors are made and stored at a time."""

BEFORE = 400
"""Characters of what was said before a message that go into its vector: the last ones."""


class Meanings:
    """The vectors of one store by one model; for any thread."""

    def __init__(self, store: Vectors, embedder: Embedder) -> None:
        self.store, self.embedder = store, embedder
        self._nearest = Nearest(embedder.dimensions)
        self._newest = 0
        self._reading = Lock()

    def bring_up(self, progress: Progress | None = None, stop: Callable[[], bool] = lambda: False) -> int:
        """Make the vectors that are missing, until `stop`; how many messages that were. `progress` is told the event
        up to which there are some, and the newest. Raises StoreError."""
        name, made = self.embedder.fingerprint, 0
        until = self.store.embedders().get(name, 0)
        while not stop():
            messages, until, newest = self.store.unembedded(until, BATCH)
            self.store.save_vectors(name, embedded(messages, self.embedder), until)
            made += len(messages)
            if progress:
                progress(until, newest)
            if until >= newest:
                break
        return made

    def asked(self, query: str) -> "LikeQuery":
        """How alike messages are to a query, as far as there are vectors."""
        with self._reading:
            fresh = list(self.store.signatures(self.embedder.fingerprint, self._newest))
            if fresh:
                self._nearest.add([id for id, _ in fresh], [each for _, each in fresh])
                self._newest = fresh[-1][0]
        return LikeQuery(self, self._nearest, self.embedder.embed_query(query))


class LikeQuery:
    """The likeness of messages to one query (see `foldmark.core.recall.Likeness`)."""

    def __init__(self, meanings: Meanings, nearest: Nearest, query: NDArray[np.float32]) -> None:
        self._meanings, self._nearest, self._query = meanings, nearest, query

    def nearest(self, limit: int) -> dict[int, float]:
        return self.of([id for id, _ in self._nearest.search(self._query, limit, self._fetch)])

    def of(self, ids: Sequence[int]) -> dict[int, float]:
        dimensions = self._meanings.embedder.dimensions
        found = zip(ids, self._fetch(list(ids)), strict=True)
        return {id: _likeness(unpack(packed, dimensions) @ self._query) for id, packed in found if packed}

    def _fetch(self, ids: list[int]) -> list[bytes]:
        return self._meanings.store.vectors(self._meanings.embedder.fingerprint, ids)


def embedded(messages: Sequence[Unembedded], embedder: Embedder) -> list[Embedded]:
    """The vectors of messages: of the first passage, of what was said before with it, of each further passage; none of
    a message without a word."""
    pieces = [(message, passages(message.text)) for message in messages]
    texts = [
        text
        for message, each in pieces
        if each
        for text in (each[0], f"{message.before[-BEFORE:]}\n{each[0]}", *each[1:])
    ]
    made = iter(embedder.embed(texts))
    vectors = [(message, np.stack([next(made) for _ in range(len(each) + 1)])) for message, each in pieces if each]
    return [Embedded(message.id, pack(rows), signature(rows)) for message, rows in vectors]


def _likeness(cosines: NDArray[np.float32]) -> float:
    """That of the best passage; the first one counts half by itself and half with what was said before."""
    first, before, *rest = map(float, cosines)
    return max((first + before) / 2, *rest, -1.0)
