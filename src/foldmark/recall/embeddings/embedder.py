"""What makes vectors of texts, whoever makes them."""

from collections.abc import Sequence
from shlex import join
from typing import TYPE_CHECKING, Protocol

from foldmark.core.errors import FoldmarkError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class EmbeddingError(FoldmarkError):
    """A model of embeddings is unknown, not installed, damaged or of a kind that is not understood."""


class NotInstalledError(EmbeddingError):
    """Packages are missing. `steps` are the arguments of `pip install` that bring them, in this order."""

    def __init__(self, what: str, steps: Sequence[Sequence[str]]) -> None:
        super().__init__(f"{what}: {' && '.join(f'pip install {join(step)}' for step in steps)}")
        self.steps = steps


class Embedder(Protocol):
    """A model of embeddings. An entry point of the group `foldmark.embeddings` names a callable that returns one.

    Vectors of different fingerprints cannot be compared. A vector has unit length, or is all zeros, like nothing at
    all, where a text has no word in it. Any `str` is taken: an empty one, a huge one, one with NULs or lone surrogates.
    Several threads may call at the same time.
    """

    @property
    def name(self) -> str:
        """What a person calls it."""

    @property
    def fingerprint(self) -> str:
        """Changes when the same text may get another vector."""

    @property
    def dimensions(self) -> int:
        """The length of a vector; a multiple of 8."""

    def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """Return vectors of texts that are to be found: (texts, dimensions)."""

    def embed_query(self, text: str) -> "NDArray[np.float32]":
        """Return the vector of a query: (dimensions,). Some models want a query told apart from what it finds."""
