"""Keep vectors up to date in the background, while a chat or a server runs [SPEC 7].

A thread checks every few seconds whether a database with vectors has changed. It embeds one text at a time and rests as
long after each (a 50% duty cycle), and it stops between two texts. A failure is retried after the next change,
silently: a search by words misses nothing.

If several processes embed the same messages, those that find another one ahead of them go back to sleep.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, NamedTuple

from foldmark.core.vectors import Vectors
from foldmark.recall.embeddings.embedder import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EVERY = 5.0
"""Seconds between two checks; the first one comes after as many, so that a short chat loads no model."""

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
    """Keep the vectors by `model` of each source up to date while the block runs, if there are some."""
    stop = Event()
    thread = Thread(target=_run, args=(sources, model, stop), name="embedding", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(LEAVING)


class _StoppedError(Exception):
    """No more embedding."""


class _DutyCycle:
    """An `Embedder` that throttles another one to a 50% duty cycle, until it is stopped: then it raises."""

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
    seen: dict[Path, tuple[object, bool]] = {}
    while not stop.wait(EVERY):
        for file, opened in sources:
            now = _state(file)
            # The file may change before the commit is visible, because the database waits for the disk first: look
            # twice.
            before, twice = seen.get(file, (None, False))
            if now is None or (before == now and twice):
                continue
            with suppress(Exception):  # any error: the model may be any program
                with opened() as store:
                    _bring_up(store, model, stop)
                seen[file] = now, before == now


def _bring_up(store: Vectors, model: str, stop: Event) -> None:
    made = store.embedders()
    # Without work no model is loaded.
    if not made or {*made.values()} == {store.unembedded(max(made.values()), 1)[2]}:
        return
    from foldmark.recall.embeddings.model import kept
    from foldmark.recall.embeddings.processors import one_thread_each

    one_thread_each()
    embedder = kept(model)
    if embedder.fingerprint not in made or stop.is_set():
        return
    from foldmark.log.embedding import LogVectors

    meanings = LogVectors(store, _DutyCycle(embedder, stop))
    while not stop.is_set():
        step = meanings.step(FEW)
        if step.overtaken or step.until == step.newest:
            return


def _state(file: Path) -> object:
    """Return a value that changes when somebody writes; None if there is no file."""
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
