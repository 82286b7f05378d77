"""Functions that encoders and parsers of all dialects share. Parsers trust nothing in an answer."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from foldmark.core.assembly.wire import tool_name
from foldmark.core.request import Piece, Thought, ToolSpec
from foldmark.wires.lenient_json import as_object

Json = dict[str, Any]


class Reader(Protocol):
    """Reads a streamed answer; `over` is True once it is complete."""

    over: bool

    def add(self, event: Json) -> Iterator[str | Thought]:
        """Process an event, and yield the pieces to show at once. Raises ProviderError."""

    def pieces(self) -> Iterable[Piece]:
        """Return the pieces of the whole answer, and the part of its text that was not shown. Raises ProviderError,
        also if the answer broke off."""


def tokens(usage: Any, *path: str) -> int:
    """Return the number of tokens under a path in a server's report of usage; 0 for anything else."""
    for name in path:
        usage = as_object(usage).get(name)
    return usage if isinstance(usage, int) and not isinstance(usage, bool) and 0 <= usage < 2**53 else 0


def described(tool: ToolSpec) -> Json:
    """Return the name of a tool as it is sent, and its description."""
    about = {"description": tool.description} if tool.description.strip() else {}
    return {"name": tool_name(tool.name), **about}
