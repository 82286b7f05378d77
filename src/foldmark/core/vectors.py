"""Vectors of what was said, made by a model of embeddings: the part of a store that keeps them [SPEC 7]."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol


class Unembedded(NamedTuple):
    """A message that has no vectors yet; `before` is what was said before it in its conversation, perhaps ""."""

    id: int
    text: str
    before: str


class Embedded(NamedTuple):
    """A message with the vectors of its passages and the signs of their components (recall.embeddings.vectors)."""

    id: int
    vectors: bytes
    signature: bytes


class Coverage(NamedTuple):
    """How far the vectors of a model reach: of how many messages there are some (those without a word among them), of
    how many messages that people and models wrote; and the bytes of these vectors."""

    messages: int
    of: int
    bytes: int


class Vectors(Protocol):
    """The part of a `Store` that holds vectors. A model is told from others by its fingerprint."""

    def embedders(self) -> dict[str, int]:
        """The models whose vectors there are, by fingerprint, each with the event up to which there are."""

    def unembedded(self, until: int, limit: int) -> tuple[list[Unembedded], int, int]:
        """The next messages behind event `until` that people and models wrote, at most `limit`; the event up to which
        these are all; the newest event."""

    def save_vectors(self, fingerprint: str, embedded: Sequence[Embedded], until: int) -> None:
        """Store vectors of messages, and that there are some of all that need any up to event `until`. What was erased
        meanwhile gets none."""

    def signatures(self, fingerprint: str, after: int) -> Iterator[tuple[int, bytes]]:
        """The messages behind event `after` that have vectors, oldest first, each with its signature."""

    def vectors(self, fingerprint: str, event_ids: Sequence[int]) -> list[bytes]:
        """The vectors of messages in the order asked for; none of one that has none."""

    def remove_vectors(self, fingerprint: str) -> None:
        """Take away all vectors of a model."""

    def coverage(self, fingerprint: str) -> Coverage:
        """How far the vectors of a model reach."""
