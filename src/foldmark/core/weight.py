"""The weight of a message: what it takes in a request once its turn is over, in bytes [SPEC 5.3].

It is fixed when the message is appended and stored as a running sum, so that the size of a whole context is a
subtraction. No dialect takes more for a message: text is counted as JSON escapes it, with the largest frame that any
wire format puts around it, a tool result as it stands in an inactive turn. So a window that the weights choose fits.

Stored weights must be what this module gives. Whoever changes what it gives writes a migration that weighs anew, with
a function of its own that is frozen like that of the migration which added weights.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from foldmark.core import media, wire
from foldmark.core.events import Event
from foldmark.core.truncation import shorten

TEXT = 64
"""Bytes around a person's text: `{"role":"user","content":[{"type":"text","text":""}]},`."""

SAID = 88
"""Bytes around a model's, of which OpenAI's Responses API has the most."""

CALL = 340
"""Bytes around a call's name and arguments, the frame of its result and what stands there if none comes included."""

IMAGE = media.TOKENS * 4 + 120
"""An image, its frame included, at the most bytes that any provider's token has."""

DOCUMENT = 160
"""Bytes of a document's frame, without its data and name."""

INTERRUPTED = 20
"""What marks an answer that was cut short."""

NOTE = 32
"""What stands in front of a tool's message, which is sent as a person's text."""

INACTIVE = 300
"""Characters of a tool result in an inactive turn, the default [S2]."""


def weigh(event: Event) -> int:
    """The bytes of a recorded message, as they are stored beside it."""
    return weight(event.kind, event.content, event.data, event.interrupted, event.id)


def weight(
    kind: str,
    content: str,
    data: Mapping[str, Any] | None,
    interrupted: bool,
    event_id: int,
    kept: int = INACTIVE,
    shape: str = "head",
) -> int:
    """The bytes of a message; 0 for a `system` message, which is of no turn, and for one with nothing to send.

    `kept` is the characters of a tool result that are sent, `shape` where it is cut.
    """
    match kind:
        case "tool_call":
            known = data or {}
            signature = known.get("thought_signature")
            signed = len(signature) + 24 if isinstance(signature, str) else 0
            return CALL + len(wire.tool_name(str(known.get("name", "")))) + _escaped(wire.arguments(content)) + signed
        case "tool_result":
            return _escaped(shorten(content, kept, shape, event_id).text)
        case "system":
            return 0
        case "user" if data and data.get("blocks"):
            shown, _ = media.media_of(data)
            sent = sum(shown_bytes(each) for each in shown)
            return TEXT * bool(sent or content.strip()) + _escaped(content) + sent
        case _:
            if not content.strip():
                return 0
            around = {"user": TEXT, "tool": TEXT + NOTE}.get(kind, SAID)
            return around + _escaped(content) + INTERRUPTED * interrupted


def shown_bytes(each: media.Medium) -> int:
    """The bytes of an image or a document; 0 for a document whose pages were not counted."""
    if isinstance(each, media.Document):
        return each.pages and each.tokens * 4 + DOCUMENT + _escaped(each.name)
    return IMAGE + len(each.url)


def _escaped(text: str) -> int:
    """The bytes of a text in JSON, without the quotes around it."""
    return len(msgspec.json.encode(text)) - 2
