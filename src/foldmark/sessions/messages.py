"""Messages in a record of a session, as an import appends them and as a search finds them [SPEC 8].

Every format reads its records into these, so that nothing above asks which agent wrote a session.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

Data = dict[str, Any]


class TextMessage(Struct, frozen=True):
    """A text: `kind` is user or assistant."""

    kind: str
    text: str
    data: Data | None = None


class CallMessage(Struct, frozen=True):
    """A tool call; `args` is any JSON value."""

    call_id: str
    name: str
    args: Any
    data: Data | None = None

    kind = "tool_call"


class ResultMessage(Struct, frozen=True):
    """The result of the tool call `call_id`."""

    call_id: str
    text: str
    is_error: bool = False
    data: Data | None = None

    kind = "tool_result"


Part = TextMessage | CallMessage | ResultMessage


class RecordMessages(Struct, frozen=True):
    """The messages of a record; `complete` unless something in it was not usable."""

    parts: tuple[Part, ...]
    complete: bool


NOTHING = RecordMessages((), complete=False)


class SearchedMessage(Struct, frozen=True):
    """A message as it is searched: `role` is user, assistant, thinking, tool_call or tool_result.

    `text` is whole; a call's holds the arguments with their names, one a line. `tool` is a call's tool, `call` the id
    that binds a call and its result.
    """

    role: str
    text: str
    tool: str | None = None
    call: str | None = None


def searched_parts(parts: Iterable[Part]) -> Iterator[SearchedMessage]:
    """Yield the searchable parts of messages: texts, thinking, tool calls and results."""
    for part in parts:
        match part:
            case TextMessage():
                yield SearchedMessage(part.kind, part.text)
                for block in (part.data or {}).get("blocks", ()):
                    yield from _searched_block(block)
            case CallMessage():
                yield SearchedMessage("tool_call", arguments(part.args), part.name, part.call_id)
            case ResultMessage():
                yield SearchedMessage("tool_result", part.text, None, part.call_id)


def arguments(value: Any) -> str:
    """Return the texts and numbers of a JSON value, each behind its name, one a line."""
    return "\n".join(_leaves(value, ""))


def _searched_block(block: Data) -> Iterator[SearchedMessage]:
    """Yield thinking, and the calls of tools that the provider runs."""
    thinking, name = block.get("thinking"), block.get("name")
    if isinstance(thinking, str):
        yield SearchedMessage("thinking", thinking)
    elif isinstance(name, str) and name:
        yield SearchedMessage("tool_call", arguments(block.get("input")), name, None)


def _leaves(value: Any, name: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, name)
    elif value is not None and not isinstance(value, bool):
        yield f"{name}: {value}" if name else str(value)
