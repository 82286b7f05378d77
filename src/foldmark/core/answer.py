"""The pieces of a model's answer, in Foldmark's own terms. Each dialect's reader turns its stream into these."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.request import ToolCall


class Thought(Struct, frozen=True):
    """A piece of a model's thinking as it streams: for an interface to show, not recorded."""

    text: str


AFTER = "after"
"""Key in a kept block, never sent: how many characters of the answer's text precede the block; left out for 0."""

LENGTH = "length"
"""Key in a kept block, never sent: how many characters of the answer's text, from `AFTER` on, the block is about."""

CARRIED = "carried"
"""Type of a kept block that holds a provider's own block, of whatever type, to be sent back unchanged."""


BOUND = "bound"
"""Key in a kept thinking block, never sent: the text that the block is bound to."""


class Kept(Struct, frozen=True):
    """A block that the provider wants to see again, in its own form: thinking with its signature, calls and results of
    tools that the provider runs itself, citations.

    It is recorded with the answer and sent back in its place, in its own dialect only; thinking only while its turn
    lasts [SPEC 5.2].
    """

    block: dict[str, Any]


def carried(block: dict[str, Any], after: int, of: str) -> Kept:
    """Keep a block of provider `of` as it came."""
    return Kept({"type": CARRIED, "of": of, "block": block, **({AFTER: after} if after else {})})


def carried_in(block: dict[str, Any], of: str) -> dict[str, Any] | None:
    """Return the block of provider `of` that a kept one carries; None for any other."""
    inner = block.get("block") if block.get("type") == CARRIED and block.get("of") == of else None
    return dict(inner) if isinstance(inner, dict) else None


def place(block: dict[str, Any], done: int, text: str) -> int:
    """Return the position of a kept block in an answer's text: `done`, or a later one."""
    return min(max(_number(block, AFTER, done), done), len(text))


def behind(kept: Sequence[dict[str, Any]], done: int) -> list[dict[str, Any]]:
    """Return kept blocks with their positions counted from character `done` of the text."""
    return [{**block, AFTER: block[AFTER] - done} if block.get(AFTER) and done else block for block in kept]


def span(block: dict[str, Any], done: int, text: str) -> tuple[int, int]:
    """Return where the part of an answer's text that a kept block is about begins and ends; by default all of it."""
    begin = place(block, done, text)
    return begin, min(begin + _number(block, LENGTH, len(text)), len(text))


def _number(block: dict[str, Any], name: str, default: int) -> int:
    found = block.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else default


class Compacted(Struct, frozen=True):
    """The provider replaced everything before this point with a summary of its own [SPEC 5.7].

    `items` are the blocks of the summary, in the provider's form; `text` is its readable part, empty for none; `after`
    is how many characters of the answer's text it replaces as well, and `kept` how many kept blocks.
    """

    items: tuple[dict[str, Any], ...]
    text: str = ""
    after: int = 0
    kept: int = 0


class Usage(Struct, frozen=True):
    """The token usage of a request, as the provider reports it. Input is the sum of `fresh`, `cache_read` and
    `cache_write`; no token is counted twice. `output` includes the model's thinking. `altered` lists what the provider
    removed from the request before its model saw it, in the provider's own form."""

    fresh: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    altered: tuple[dict[str, Any], ...] = ()

    @property
    def input(self) -> int:
        """All input tokens of the request."""
        return self.fresh + self.cache_read + self.cache_write

    @property
    def cleared(self) -> int:
        """The tokens that the provider removed from the request. They are not part of the input."""
        counts = [entry.get("cleared_input_tokens") for entry in self.altered]
        return sum(count for count in counts if isinstance(count, int) and count > 0)


class Stopped(Struct, frozen=True):
    """Why the answer ended. `why` is `end`, `calls` (tools are to be run), `length` (the limit of an answer, or of the
    model, was reached), `refused` or `compacted` (the answer is yet to come); `said` is the provider's own word."""

    why: str
    said: str


class Waiting(Struct, frozen=True):
    """The provider could not answer and is asked again in `seconds`, 0 for at once. Shown, not recorded."""

    seconds: float
    reason: str


Piece: TypeAlias = str | Thought | Kept | Compacted | ToolCall | Usage | Stopped | Waiting
"""Text arrives as it streams. Calls, kept blocks, usage and the end arrive when each is complete."""


def distinct(calls: Iterable[ToolCall]) -> list[ToolCall]:
    """Return the calls of one answer with distinct ids. Models leave ids out or use one twice."""
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
