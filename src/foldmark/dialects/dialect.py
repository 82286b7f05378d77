"""`Dialect`: everything specific to one wire format, as values and pure functions; and the look-up of dialects by name.

A dialect is built in or registered as an entry point of the group `foldmark.dialects`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from foldmark.core.assembly.caching import Block
from foldmark.core.assembly.media import Accepts
from foldmark.core.assembly.prompt import Prompt
from foldmark.core.errors import CommandError
from foldmark.core.request import Options, Piece, ToolSpec
from foldmark.core.wording import listing
from foldmark.plugins import DIALECTS, find, names

Body = Mapping[str, Any]


class ThinkingRule(Struct, frozen=True, kw_only=True):
    """The rules for thinking blocks that are bound to the content before them. By default no block is bound.

    `binds` returns True for a model that binds them; it is used for models that are not in the table of models. `bind`
    adds to the pieces of an answer the content that they are bound to; it calls its first argument for the body of the
    request, but only if something is bound. `sent` maps the mark of each block in a body to the model that made the
    block. `without` returns the body without them. `staying` returns the marks of the blocks that stay valid after a
    compaction.
    """

    binds: Callable[[str], bool] = lambda model: False
    bind: Callable[[Callable[[], Body], Sequence[Piece]], tuple[Piece, ...]] = lambda body_of, pieces: tuple(pieces)
    sent: Callable[[Prompt, Body], dict[str, str]] = lambda prompt, body: {}
    without: Callable[[Body], dict[str, Any]] = dict
    staying: Callable[[Body, Body], set[str]] = lambda body, compaction: set()


class Dialect(Accepts, frozen=True, kw_only=True):
    """One wire format.

    `encode` encodes a prompt for a model as a body; `parse` parses a whole answer. `blocks` returns the pieces of a
    body in the order in which the provider's cache reads them. `on_the_wire` describes how the bytes that are sent
    differ from `Request.bytes`.

    `lifetimes` is True if a request can choose its lifetime in the cache; `clears` is True if the API can clear tool
    results itself. `compacts` returns True if the API can write a summary in its own form for a model. With `foreign`,
    calls of all other dialects are sent as well.
    """

    name: str
    encode: Callable[[str, Prompt, Sequence[ToolSpec], Options], dict[str, Any]]
    parse: Callable[[dict[str, Any]], tuple[Piece, ...]]
    blocks: Callable[[dict[str, Any]], Iterable[Block]]
    on_the_wire: str
    thinking: ThinkingRule = ThinkingRule()
    lifetimes: bool = False
    clears: bool = False
    compacts: Callable[[str], bool] = lambda model: False
    foreign: bool = False

    def shared(self, first: dict[str, Any], second: dict[str, Any]) -> float:
        """Return the share of the first body's bytes in the blocks with which both begin, from 0 to 1."""
        before = list(self.blocks(first))
        same = 0
        for mine, other in zip(before, self.blocks(second), strict=False):
            if mine.data != other.data:
                break
            same += len(mine.data)
        return same / max(1, sum(len(block.data) for block in before))


BUILT_IN = {
    "anthropic": "foldmark.dialects.anthropic.messages:ANTHROPIC",
    "openai": "foldmark.dialects.openai.chat:CHAT",
    "openai_responses": "foldmark.dialects.openai.responses:RESPONSES",
    "gemini": "foldmark.dialects.gemini.contents:GEMINI",
    "gemini_gca": "foldmark.dialects.gemini.contents:CODE_ASSIST",
    "offline": "foldmark.dialects.openai.chat:OFFLINE",
}


def dialect_named(name: str) -> Dialect:
    """Return the dialect of this name. Raises CommandError for an unknown one."""
    found = find(DIALECTS, name, Dialect, BUILT_IN)
    if found is None:
        available = listing((*BUILT_IN, *names(DIALECTS)), 40)
        raise CommandError(f"there is no dialect '{name[:40]}'; available: {available}")
    return found
