"""The vectors of stored messages, a log's or an archive's, made by an embedding model [SPEC 7].

A message has two vectors, one of its own text and one of its text together with the preceding text, because an answer
alone seldom names its subject; a long message has one more for each further passage. Vectors are made outside the log,
in batches; an interrupted run continues where it stopped.

While a chat or a server runs, `kept_up` makes them in the background. A thread checks every few seconds whether a
database with vectors has changed. It embeds one text at a time and then rests for the same time (a 50% duty cycle), and
it stops between two texts. A failure is silent and is retried after the next change: a search by words misses nothing.
If several processes embed the same messages, a process that finds another one ahead of it goes back to sleep.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, NamedTuple

from foldmark.core.errors import CommandError
from foldmark.core.ports import Progress
from foldmark.core.search import Embedded, Unembedded, Vectors
from foldmark.recall.embeddings import Embedder

# NumPy takes 100 ms, and the background thread seldom needs it: it is imported where it is used.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from foldmark.recall.embeddings.nearest import Nearest

BATCH = 32
"""Number of messages per batch."""

ITSELF = 0.75
"""Weight of a message's own vector relative to the one with the preceding text."""

BEFORE = 400
"""Maximum number of characters of the preceding text in a message's vector, counted from its end."""


class EmbeddingProgress(NamedTuple):
    """The number of messages embedded, the newest message with a vector, and the newest message; `overtaken` is True
    if another process stored the same vectors in the meantime."""

    messages: int
    until: int
    newest: int
    overtaken: bool = False


class StoredVectors:
    """The vectors of one store by one model; thread-safe."""

    def __init__(self, store: Vectors | None, embedder: Embedder) -> None:
        """Raises CommandError for a database that does not store vectors."""
        if store is None:
            raise CommandError("this database keeps no vectors; a search goes by words alone")
        self.store, self.embedder = store, embedder
        from foldmark.recall.embeddings.nearest import Nearest

        self._nearest = Nearest(embedder.dimensions)
        self._newest = 0
        self._reading = Lock()

    @property
    def until(self) -> int | None:
        """The id of the newest message that has a vector; None if no message has one. Raises StoreError."""
        return self.store.embedders().get(self.embedder.fingerprint)

    def bring_up(self, progress: Progress | None = None, stop: Callable[[], bool] = lambda: False) -> int:
        """Make the missing vectors until `stop` returns True; return the number of messages. `progress` receives the
        event up to which vectors exist, and the newest. After an interruption the next call continues where this one
        stopped. Raises StoreError."""
        total = 0
        while not stop():
            step = self.step()
            total += step.messages
            if progress:
                progress(step.until, step.newest)
            if step.until == step.newest:
                break
        return total

    def step(self, most: int = BATCH) -> "EmbeddingProgress":
        """Make the vectors of up to `most` more messages, and store them in one transaction. Raises StoreError."""
        name, begin = self.embedder.fingerprint, self.until
        messages, until, newest = self.store.unembedded(begin or 0, most)
        vectors = embedded(messages, self.embedder)
        now = self.until
        if begin is not None and (until == begin or now != begin):
            return EmbeddingProgress(0, begin if now is None else now, newest, overtaken=now != begin)
        self.store.save_vectors(name, vectors, until)
        return EmbeddingProgress(len(messages), until, newest)

    def similarity_to(self, query: str) -> "StoredSimilarity":
        """Return the similarity to a query, for messages with vectors."""
        with self._reading:
            fresh = list(self.store.signatures(self.embedder.fingerprint, self._newest))
            if fresh:
                self._nearest.add([id for id, _ in fresh], [each for _, each in fresh])
                self._newest = fresh[-1][0]
        return StoredSimilarity(self, self._nearest, self.embedder.embed_query(query))


class StoredSimilarity:
    """The similarity of messages to one query (see `foldmark.core.search.Similarity`)."""

    def __init__(self, meanings: StoredVectors, nearest: "Nearest", query: "NDArray[np.float32]") -> None:
        self._meanings, self._nearest, self._query = meanings, nearest, query

    def nearest(self, limit: int) -> list[int]:
        return [id for id, _ in self._nearest.search(self._query, limit, self._fetch)]

    def of(self, ids: Sequence[int]) -> dict[int, float]:
        from foldmark.recall.embeddings.nearest import unpack

        dimensions = self._meanings.embedder.dimensions
        found = zip(ids, self._fetch(list(ids)), strict=True)
        return {id: _likeness(unpack(packed, dimensions) @ self._query) for id, packed in found if packed}

    def _fetch(self, ids: list[int]) -> list[bytes]:
        return self._meanings.store.vectors(self._meanings.embedder.fingerprint, ids)


def embedded(messages: Sequence[Unembedded], embedder: Embedder) -> list[Embedded]:
    """Return the vectors of messages: for the first passage, the first passage with the preceding text, and each
    further passage. A message without words has no vectors."""
    import numpy as np

    from foldmark.recall.embeddings.nearest import pack, signature
    from foldmark.text.highlights import passages

    pieces = [(message, passages(message.text)) for message in messages]
    texts = [
        text
        for message, each in pieces
        if each
        for text in (each[0], f"{message.before[-BEFORE:]}\n{each[0]}", *each[1:])
    ]
    rows = iter(embedder.embed(texts))
    vectors = [(message, np.stack([next(rows) for _ in range(len(each) + 1)])) for message, each in pieces if each]
    return [Embedded(message.id, pack(rows), signature(rows)) for message, rows in vectors]


def _likeness(cosines: "NDArray[np.float32]") -> float:
    """Return the similarity of the best passage; the first one counts mostly alone, and a little with the preceding
    text."""
    first, before, *rest = map(float, cosines)
    return max(ITSELF * first + (1 - ITSELF) * before, *rest, -1.0)


# In the background

EVERY = 5.0
"""Seconds between two checks, and before the first one, so that a short chat loads no model."""

LEAVING = 0.3
"""Maximum number of seconds to wait for the thread at the end."""

FEW = 4
"""Number of messages whose vectors are stored at a time."""


class VectorDatabase(NamedTuple):
    """A database with vectors: its SQLite file, and a function that opens it for this thread."""

    file: Path
    opened: Callable[[], AbstractContextManager[Vectors]]


@contextmanager
def kept_up(sources: Sequence[VectorDatabase], model: str) -> Iterator[None]:
    """Keep each source's vectors by `model`, if it has any, up to date while the block runs."""
    stop = Event()
    thread = Thread(target=_run, args=(sources, model, stop), name="embedding", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(LEAVING)


class _StoppedError(Exception):
    """The embedding was stopped."""


class _DutyCycle:
    """An `Embedder` that throttles another one to a 50% duty cycle; once stopped, it raises."""

    def __init__(self, embedder: Embedder, stop: Event) -> None:
        self._embedder, self._stop = embedder, stop
        self.name, self.fingerprint, self.dimensions = embedder.name, embedder.fingerprint, embedder.dimensions

    def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        import numpy as np

        found = np.zeros((len(texts), self.dimensions), np.float32)
        for place, text in enumerate(texts):
            began = time.monotonic()
            found[place] = self._embedder.embed([text])[0]
            if self._stop.wait(time.monotonic() - began):
                raise _StoppedError
        return found

    def embed_query(self, text: str) -> "NDArray[np.float32]":
        return self._embedder.embed_query(text)


def _run(sources: Sequence[VectorDatabase], model: str, stop: Event) -> None:
    states: dict[Path, tuple[object, bool]] = {}
    while not stop.wait(EVERY):
        for file, opened in sources:
            now = _state(file)
            # Process each change twice: the file may change before the commit is visible, while the database syncs.
            before, twice = states.get(file, (None, False))
            if now is None or (before == now and twice):
                continue
            with suppress(Exception):  # any error: the model may be arbitrary code
                with opened() as store:
                    _bring_up(store, model, stop)
                states[file] = now, before == now


def _bring_up(store: Vectors, model: str, stop: Event) -> None:
    embedders = store.embedders()
    # Do not load a model if there is no work.
    if not embedders or {*embedders.values()} == {store.unembedded(max(embedders.values()), 1)[2]}:
        return
    from foldmark.recall.embeddings.model import kept, one_thread_each

    one_thread_each()
    embedder = kept(model)
    if embedder.fingerprint not in embedders or stop.is_set():
        return
    meanings = StoredVectors(store, _DutyCycle(embedder, stop))
    while not stop.is_set():
        step = meanings.step(FEW)
        if step.overtaken or step.until == step.newest:
            return


def _state(file: Path) -> object:
    """Return a value that changes with every write; None if the file does not exist."""
    found = []
    for each in (file, file.with_name(f"{file.name}-wal")):
        try:
            stat = each.stat()
        except OSError:
            if each is file:
                return None
            continue
        found.append((stat.st_mtime_ns, stat.st_size))
    return found
