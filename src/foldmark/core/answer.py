"""What a model answers with, piece by piece, in Foldmark's own terms; each dialect's reader makes these of its own."""

from typing import Any, TypeAlias

from msgspec import Struct

from foldmark.core.request import ToolCall


class Thought(Struct, frozen=True):
    """A piece of a model's thinking as it streams: shown, not recorded."""

    text: str


class Kept(Struct, frozen=True):
    """A block that is not text and that the provider wants to see again (thinking with its signature), in its own form.

    It is recorded with the answer, and sent back while its turn lasts, in its own dialect only [SPEC 5.2].
    """

    block: dict[str, Any]


class Usage(Struct, frozen=True):
    """What a provider says that a request cost, in tokens. Input is the sum of `fresh`, `cache_read` and `cache_write`,
    none of them counted twice; `output` includes the model's thinking."""

    fresh: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0

    @property
    def input(self) -> int:
        """All tokens of the request."""
        return self.fresh + self.cache_read + self.cache_write


class Stopped(Struct, frozen=True):
    """Why the answer ended. `why` is `end`, `calls` (tools are to be run), `length` (the limit of an answer, or of the
    model, was reached) or `refused`; `said` is the provider's own word for it."""

    why: str
    said: str


class Waiting(Struct, frozen=True):
    """The provider could not answer, and is asked again in so many seconds: shown, not recorded."""

    seconds: float
    reason: str


Piece: TypeAlias = str | Thought | Kept | ToolCall | Usage | Stopped | Waiting
"""Text comes as it streams; calls, kept blocks, usage and the end come once each is whole."""
