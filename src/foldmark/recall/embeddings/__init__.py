"""Embeddings: search by meaning, an optional extra [SPEC 7]. `model.load` loads a model, `nearest.Nearest` searches,
`stored.StoredVectors` makes the vectors of a store.

Modules are imported on demand: `model` and `stored` need no optional package, the other modules need NumPy.
"""

from collections.abc import Sequence
from shlex import join
from typing import TYPE_CHECKING, Protocol

from foldmark.core.errors import FoldmarkError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class EmbeddingError(FoldmarkError):
    """An embedding model is unknown, not installed, damaged or unsupported."""


class NotInstalledError(EmbeddingError):
    """Packages are missing. `commands` install them, in this order; each is a list of words."""

    def __init__(self, message: str, commands: Sequence[Sequence[str]]) -> None:
        super().__init__(f"{message}; this installs it: {' && '.join(map(join, commands))}")
        self.commands = commands


class Embedder(Protocol):
    """An embedding model. An entry point of the group `foldmark.embeddings` names a callable that returns one.

    Vectors of different fingerprints cannot be compared. A vector has unit length, or is all zeros for a text without a
    word. Any `str` is accepted: an empty one, a huge one, one with NULs or lone surrogates. It is thread-safe.
    """

    @property
    def name(self) -> str:
        """The name for a person."""

    @property
    def fingerprint(self) -> str:
        """Identifies the vectors; it changes when the same text may get another vector."""

    @property
    def dimensions(self) -> int:
        """The length of a vector; a multiple of 8."""

    def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """Return the vectors of texts to be searched: (texts, dimensions)."""

    def embed_query(self, text: str) -> "NDArray[np.float32]":
        """Return the vector of a query: (dimensions,). Some models embed queries differently from texts."""
