"""What a model answers with, piece by piece, in Foldmark's own terms; each dialect's reader makes these of its own."""

from collections.abc import Iterable
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.request import ToolCall


class Thought(Struct, frozen=True):
    """A piece of a model's thinking as it streams: for an interface to show, not recorded."""

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


def distinct(calls: Iterable[ToolCall]) -> list[ToolCall]:
    """The calls of one answer, each with an id that no other of them has; models leave ids out, or give one twice."""
    used: set[str] = set()
    found = []
    for number, call in enumerate(calls):
        own_id = call_id = call.call_id or f"call_{number}"
        again = 1
        while call_id in used:
            again += 1
            call_id = f"{own_id}-{again}"
        used.add(call_id)
        found.append(replace(call, call_id=call_id))
    return found
