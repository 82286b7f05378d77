"""The parts of a piece: what a message of another program's JSON says, in Foldmark's terms [SPEC 8]."""

from typing import Any, NamedTuple

from msgspec import Struct

Data = dict[str, Any]

SEALED = "encrypted_content"
"""The member with what only its provider can read, in thinking and in a compaction."""


class TextMessage(Struct, frozen=True):
    """A text. `kind` is user, client or assistant, or system for an instruction."""

    kind: str
    text: str
    data: Data | None = None


class CallMessage(Struct, frozen=True):
    """A tool call. `args` is any JSON value."""

    call_id: str
    name: str
    args: Any
    data: Data | None = None

    kind = "tool_call"


class ResultMessage(Struct, frozen=True):
    """The result of the tool call `call_id`. `plain`: the session has it as a text, not as a list."""

    call_id: str
    text: str
    is_error: bool = False
    data: Data | None = None
    plain: bool = False

    kind = "tool_result"


Part = TextMessage | CallMessage | ResultMessage


def text_parts(text: str, kind: str = "text") -> list[Data]:
    """Return a text as a list of content parts of this type; none if it is blank."""
    return [{"type": kind, "text": text}] if text.strip() else []


class Reading(NamedTuple):
    """What a piece, or several, say; `complete` is False if part of it was not usable."""

    parts: tuple[Part, ...]
    complete: bool = True
