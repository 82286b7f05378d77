"""A file as a message: a text, an image or a PDF, recognized by its content."""

import re
from base64 import b64encode
from pathlib import PurePath
from typing import Any, NamedTuple

from foldmark.core.assembly.media import GIF, LARGEST, LARGEST_DOCUMENT, PDF
from foldmark.core.errors import CommandError
from foldmark.core.wording import count, one_line

TEXT = "text/plain"
LARGEST_TEXT = 2_000_000
"""Maximum number of bytes of a text that is attached."""

LARGEST_FILE = LARGEST_DOCUMENT * 3 // 4
"""Maximum number of bytes of any file that is attached."""

_IMAGES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF87a": GIF, b"GIF89a": GIF}
"""The media types of images, by the bytes with which their files begin."""


class Attachment(NamedTuple):
    """A file as it is recorded: the text of the message, its data, and the file's kind in words and as media type."""

    content: str
    data: dict[str, Any] | None
    media: str
    kind: str

    def is_held_by(self, content: str, data: dict[str, Any] | None) -> bool:
        """Return True if a recorded message with this content and data is this file."""
        return content == self.content and _sources(data) == _sources(self.data)


def attachment(name: str, raw: bytes) -> Attachment:
    """Return the file `name` with this content as a message. Raises CommandError for an empty file, a format that no
    model takes, and a file that is too large."""
    media, name = media_type(raw), one_line(name)
    if not raw:
        raise CommandError(f"{name} is empty; there is nothing to attach")
    if media is None:
        raise CommandError(f"{name} is neither text in UTF-8, nor an image (PNG, JPEG, GIF, WebP), nor a PDF")
    most = {TEXT: LARGEST_TEXT, PDF: LARGEST_FILE}.get(media, LARGEST * 3 // 4)
    if len(raw) > most:
        raise CommandError(
            f"{name} has {len(raw):,} bytes; at most {most:,} of such a file are sent; attach a smaller one"
        )
    if media == TEXT:
        text = raw.decode("utf-8-sig").rstrip("\n")
        kind = f"a text of {count(len(text.splitlines()), 'line')}"
        return Attachment(f"File {name}:\n{fenced(text)}", None, media, f"{name}, {kind}")
    source = {"type": "base64", "media_type": media, "data": b64encode(raw).decode("ascii")}
    about = {"type": "document", "title": PurePath(name).name} if media == PDF else {"type": "image"}
    kind = "a PDF" if media == PDF else "an image"
    return Attachment(f"File {name}:", {"blocks": [{**about, "source": source}]}, media, f"{name}, {kind}")


def fenced(text: str) -> str:
    """Return a text in a Markdown fence that is longer than those in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"^[ \t]*(`+)", text, re.MULTILINE)), default=0))
    return f"{fence}\n{text}\n{fence}"


def _sources(data: dict[str, Any] | None) -> list[Any]:
    return [block.get("source") for block in (data or {}).get("blocks", ())]


def media_type(raw: bytes) -> str | None:
    """Return the media type of a file by its content; None for one that no model takes."""
    if raw.startswith(b"%PDF-"):
        return PDF
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
        return "image/webp"
    for begin, media in _IMAGES.items():
        if raw.startswith(begin):
            return media
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if b"\0" in raw else TEXT
