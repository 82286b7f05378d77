"""Embed on all processors of a machine, for a program that does nothing else."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from foldmark.recall.embeddings.embedder import Embedder

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np
    from numpy.typing import NDArray

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def one_thread_each() -> None:
    """Have NumPy multiply matrices in the calling thread, unless it is imported already or the environment says
    otherwise: the matrices of a text are small, and dividing them costs more than a third of the processor's time."""
    if "numpy" not in sys.modules:
        with undivided(), suppress(ImportError):  # raised again where the package is needed
            import numpy  # noqa: F401 - it looks at the environment now, and programs that are started are not to


@contextmanager
def undivided() -> Iterator[None]:
    """Import NumPy with one thread for its matrices while the block runs. No program may be started meanwhile."""
    own = [name for name in _THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(own, "1"))
    try:
        yield
    finally:
        for name in own:
            del os.environ[name]


@contextmanager
def together(embedder: Embedder) -> Iterator["Together"]:
    """Yield the same model, embedding different texts on each processor."""
    from concurrent.futures import ThreadPoolExecutor

    number = os.cpu_count() or 1
    with ThreadPoolExecutor(number, "embedding") as pool:
        yield Together(embedder, pool, number)


class Together:
    """An `Embedder` over another one that threads may share."""

    def __init__(self, embedder: Embedder, pool: "ThreadPoolExecutor", number: int) -> None:
        self._embedder, self._pool, self._number = embedder, pool, number

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def fingerprint(self) -> str:
        return self._embedder.fingerprint

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        import numpy as np

        found = np.zeros((len(texts), self.dimensions), np.float32)
        parts = [texts[first :: self._number] for first in range(min(self._number, len(texts)))]
        for first, vectors in enumerate(self._pool.map(self._embedder.embed, parts)):
            found[first :: self._number] = vectors
        return found

    def embed_query(self, text: str) -> "NDArray[np.float32]":
        return self._embedder.embed_query(text)
