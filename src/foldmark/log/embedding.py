"""What was said, by meaning: the vectors of a log's messages, made by a model of embeddings [SPEC 7].

A message has two vectors, one of its own text and one of the text together with what was said before it, for an answer
alone seldom says what it is about; a long message has one more for each further passage. Vectors are made beside the
log, some messages at a time, and whoever is interrupted goes on where it stopped.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foldmark.core.errors import CommandError
from foldmark.core.ports import Progress
from foldmark.core.vectors import Embedded, Unembedded, Vectors
from foldmark.recall.embeddings.embedder import Embedder
from foldmark.recall.embeddings.nearest import Nearest
from foldmark.recall.embeddings.passages import passages
from foldmark.recall.embeddings.vectors import pack, signature, unpack

BATCH = 32
"""Messages whose vectors are made and stored at a time."""

ITSELF = 0.75
"""What a message's own vector counts beside the one that has what was said before it."""

BEFORE = 400
"""Characters of what was said before a message that go into its vector: the last ones."""


class EmbeddingProgress(NamedTuple):
    """Of how many messages vectors were stored, the message up to which there are vectors now, the newest message;
    `overtaken`: somebody else has meanwhile stored what was made, so it is as good as for nothing."""

    messages: int
    until: int
    newest: int
    overtaken: bool = False


class LogVectors:
    """The vectors of one store by one model; for any thread."""

    def __init__(self, store: Vectors | None, embedder: Embedder) -> None:
        """Raises CommandError for a database that keeps none."""
        if store is None:
            raise CommandError("this database keeps no vectors; a search goes by words alone")
        self.store, self.embedder = store, embedder
        self._nearest = Nearest(embedder.dimensions)
        self._newest = 0
        self._reading = Lock()

    @property
    def until(self) -> int | None:
        """The message up to which there are vectors; None if nobody has begun to make any. Raises StoreError."""
        return self.store.embedders().get(self.embedder.fingerprint)

    def bring_up(self, progress: Progress | None = None, stop: Callable[[], bool] = lambda: False) -> int:
        """Make the vectors that are missing, until `stop`; how many messages that were. `progress` is told the event
        up to which there are some, and the newest. Whatever interrupts it, it goes on the next time where it was.
        Raises StoreError."""
        made = 0
        while not stop():
            step = self.step()
            made += step.messages
            if progress:
                progress(step.until, step.newest)
            if step.until == step.newest:
                break
        return made

    def step(self, most: int = BATCH) -> "EmbeddingProgress":
        """Make the vectors of the next messages, at most so many, and store them in one go. Raises StoreError."""
        name, begin = self.embedder.fingerprint, self.until
        messages, until, newest = self.store.unembedded(begin or 0, most)
        made = embedded(messages, self.embedder)
        now = self.until
        if begin is not None and (until == begin or now != begin):
            return EmbeddingProgress(0, begin if now is None else now, newest, overtaken=now != begin)
        self.store.save_vectors(name, made, until)
        return EmbeddingProgress(len(messages), until, newest)

    def asked(self, query: str) -> "LogSimilarity":
        """Return how alike messages are to a query, as far as there are vectors."""
        with self._reading:
            fresh = list(self.store.signatures(self.embedder.fingerprint, self._newest))
            if fresh:
                self._nearest.add([id for id, _ in fresh], [each for _, each in fresh])
                self._newest = fresh[-1][0]
        return LogSimilarity(self, self._nearest, self.embedder.embed_query(query))


class LogSimilarity:
    """The likeness of messages to one query (see `foldmark.core.search.Similarity`)."""

    def __init__(self, meanings: LogVectors, nearest: Nearest, query: NDArray[np.float32]) -> None:
        self._meanings, self._nearest, self._query = meanings, nearest, query

    def nearest(self, limit: int) -> list[int]:
        return [id for id, _ in self._nearest.search(self._query, limit, self._fetch)]

    def of(self, ids: Sequence[int]) -> dict[int, float]:
        dimensions = self._meanings.embedder.dimensions
        found = zip(ids, self._fetch(list(ids)), strict=True)
        return {id: _likeness(unpack(packed, dimensions) @ self._query) for id, packed in found if packed}

    def _fetch(self, ids: list[int]) -> list[bytes]:
        return self._meanings.store.vectors(self._meanings.embedder.fingerprint, ids)


def embedded(messages: Sequence[Unembedded], embedder: Embedder) -> list[Embedded]:
    """Return the vectors of messages: of the first passage, of what was said before with it, of each further passage;
    none of a message without a word."""
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
    """That of the best passage; the first one counts mostly by itself, and a little with what was said before it."""
    first, before, *rest = map(float, cosines)
    return max(ITSELF * first + (1 - ITSELF) * before, *rest, -1.0)
