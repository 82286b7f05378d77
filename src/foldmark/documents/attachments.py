"""The content of a message besides its text, by name and size: images, documents, thinking, other blocks."""

from typing import Any

import msgspec
from msgspec import Struct

from foldmark.core.events import Event
from foldmark.core.request import CARRIED
from foldmark.core.wording import count, one_line

_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")
_NAMED = 80
"""Maximum number of characters of a name or a type that is shown."""


class Attachment(Struct, frozen=True):
    """A block of a message: its type; media type, name and address if it has them; its size in bytes; and the number of
    pages of a PDF, 0 if it is not known. The size of thinking is that of its text."""

    type: str
    media: str = ""
    name: str = ""
    url: str = ""
    bytes: int = 0
    pages: int = 0

    @property
    def is_thinking(self) -> bool:
        """True for a model's thinking."""
        return self.type in _THOUGHTS

    @property
    def words(self) -> str:
        """`image, image/png, 12.3 KB`, `document "plan.pdf", application/pdf, 3 pages, 120 KB`."""
        what = f'{self.type} "{self.name}"' if self.name else self.type
        parts = [what, self.media, self.url, count(self.pages, "page") if self.pages else "", _size(self.bytes)]
        return ", ".join(one_line(part) for part in parts if part)

    def data(self) -> dict[str, Any]:
        """Return the attachment as JSON, without empty members."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value}


def attachments(event: Event) -> list[Attachment]:
    """Return the blocks of a message, which may have any form. One that is kept for its provider has the provider's
    type."""
    blocks = (event.data or {}).get("blocks")
    return [_attachment(block) for block in blocks] if isinstance(blocks, list) else []


def _attachment(block: Any) -> Attachment:
    kind = _text(block, "type") or "block"
    if kind == CARRIED and isinstance(block.get("block"), dict):
        return _attachment(block["block"])
    source = block.get("source") if isinstance(block, dict) else None
    packed = _text(source, "data")
    if kind in _THOUGHTS:
        return Attachment(kind, bytes=len((_text(block, "thinking", most=None) or "").encode()))
    pages = block.get("pages") if isinstance(block, dict) else None
    if packed:
        whole = _text(source, "data", most=None)
        size = len(whole) * 3 // 4 - whole[-2:].count("=") if _text(source, "type") == "base64" else len(whole.encode())
    else:
        size = 0 if _text(source, "url") else len(msgspec.json.encode(block))
    return Attachment(
        kind,
        _text(source, "media_type"),
        " ".join((_text(block, "title") or _text(block, "name")).split()),
        _text(source, "url"),
        size,
        pages if isinstance(pages, int) and not isinstance(pages, bool) and pages > 0 else 0,
    )


def _text(value: Any, name: str, most: int | None = _NAMED) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    return found[:most] if isinstance(found, str) else ""


def _size(number: int) -> str:
    if not number:
        return ""
    return f"{number:,} bytes" if number < 1000 else f"{number / 1000:,.1f} KB"
