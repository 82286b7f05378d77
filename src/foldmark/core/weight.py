"""The weight of a message: its bytes in a request once its turn is over [SPEC 5.3].

It is fixed when the message is appended and stored as a running sum, so that the size of a whole context is a
subtraction. It is an upper bound for every dialect: text is counted with JSON escapes and with the largest frame that
any wire format puts around it, a tool result as it stands in an inactive turn. So a window that the weights choose
fits.

Stored weights must equal what this module computes. A change here needs a migration that weighs anew, with a frozen
function of its own, like the migration that added weights.
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
"""Bytes around a model's text, most in OpenAI's Responses API."""

CALL = 340
"""Bytes around a call's name and arguments, including the frame of its result and the synthetic text if none comes."""

IMAGE = media.TOKENS * 4 + 120
"""An image with its frame, at the maximum number of bytes per token of any provider."""

DOCUMENT = 160
"""Bytes of a document's frame, without its data and name."""

INTERRUPTED = 20
"""Bytes of the note behind an answer that was cut short."""

NOTE = 32
"""Bytes of the note in front of a tool's message, which is sent as a person's text."""

INACTIVE = 300
"""Characters of a tool result in an inactive turn, the default [S2]."""


def weigh(event: Event) -> int:
    """Return the bytes of a recorded message, as they are stored beside it."""
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
    """Return the bytes of a message; 0 for a `system` message, which is of no turn, and for one with nothing to send.

    `kept` is the number of characters of a tool result that are sent, `shape` where it is cut.
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
    """Return the bytes of an image or a document; 0 for a document whose pages were not counted."""
    if isinstance(each, media.Document):
        return each.pages and each.tokens * 4 + DOCUMENT + _escaped(each.name)
    return IMAGE + len(each.url)


def _escaped(text: str) -> int:
    """Return the bytes of a text in JSON, without the quotes around it."""
    return len(msgspec.json.encode(text)) - 2
