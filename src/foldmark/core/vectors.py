"""Vectors of messages, made by an embedding model: the part of a store that keeps them [SPEC 7]."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol


class Unembedded(NamedTuple):
    """A message that has no vectors yet; `before` is the text before it in its conversation, perhaps ""."""

    id: int
    text: str
    before: str


class Embedded(NamedTuple):
    """A message with the vectors of its passages and the signs of their components (recall.embeddings.vectors)."""

    id: int
    vectors: bytes
    signature: bytes


class Coverage(NamedTuple):
    """The coverage of a model's vectors: the number of messages that have some (including those without a word), the
    number of messages that people and models wrote, and the bytes of the vectors."""

    messages: int
    of: int
    bytes: int


class Vectors(Protocol):
    """The part of a `Store` that holds vectors. Models are distinguished by their fingerprints."""

    def embedders(self) -> dict[str, int]:
        """Return the models that have vectors, by fingerprint, each with the event up to which vectors exist."""

    def unembedded(self, until: int, limit: int) -> tuple[list[Unembedded], int, int]:
        """Return up to `limit` messages after event `until` that people and models wrote; the event up to which these
        are all; the newest event."""

    def save_vectors(self, fingerprint: str, embedded: Sequence[Embedded], until: int) -> None:
        """Store vectors of messages, and that all messages up to event `until` that need any have some. Messages erased
        meanwhile get none."""

    def signatures(self, fingerprint: str, after: int) -> Iterator[tuple[int, bytes]]:
        """Yield the messages behind event `after` that have vectors, oldest first, each with its signature."""

    def vectors(self, fingerprint: str, event_ids: Sequence[int]) -> list[bytes]:
        """Return the vectors of messages in the order asked for; none for a message without vectors."""

    def remove_vectors(self, fingerprint: str) -> None:
        """Remove all vectors of a model."""

    def coverage(self, fingerprint: str) -> Coverage:
        """Return the coverage of a model's vectors."""
