"""The content of a message besides its text: images, documents, blocks; and which of it is sent [SPEC 5.2, 5.4].

Images and documents are in `data["blocks"]` in one form for all dialects: `{"type": "image",
"source": {"type": "base64", "media_type": "image/png", "data": "..."}}`, or a source of `{"type": "url", "url":
"https://..."}`. A document is a PDF: `{"type": "document", "source": {"type": "base64", "media_type":
"application/pdf", "data": "..."}}`, with a `title` if it has a name. Its pages are counted once, when the message is
recorded, and stored as `pages`, which is not sent.

Images and documents are sent in every dialect; if truncation is on, those of results only while their turn is active.
Provider-specific blocks are sent in their own dialect: thinking with its signature while its turn is active, or always
with `thoughts`; tools that the provider ran itself, citations and the like always; the name of a container until the
container expires, measured by the time of the newest message. A summary is sent in its reader's form, if it has one.
Other contents of `data["blocks"]` are not sent.
"""

import zlib
from binascii import Error, a2b_base64
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from foldmark.core.assembly.eviction import blocks_of
from foldmark.core.codec import stored_time, utc
from foldmark.core.config import Config
from foldmark.core.events import OPENING_KINDS, Event
from foldmark.core.patterns import pattern
from foldmark.core.wording import count

GIF = "image/gif"
MEDIA = ("image/png", "image/jpeg", GIF, "image/webp")
"""Image types that are sent; Gemini does not accept GIF."""

PDF = "application/pdf"
TOKENS = 1600
"""Estimated tokens of an image: approximately the maximum after a provider has scaled it down."""

PAGE = 2400
"""Estimated tokens of a document's page: its text and its picture. Pages cost most at Anthropic, which states about
7,000 tokens for three."""

LARGEST = 5_000_000
"""Maximum number of base64 characters of an image that is sent."""

LARGEST_DOCUMENT = 28_000_000
"""Maximum number of base64 characters of a document that is sent: 20 MB, within Anthropic's limit of 32 MB for a
request."""

UNNAMED = "document.pdf"
_URL = pattern(r"https://[!-~]{1,2000}")
_ADDRESS = f"data:{PDF};base64,"
_IMAGE = pattern(r"data:(image/[a-z0-9.+-]{1,20});base64,([^,]*)")
_BEGIN = "JVBERi"  # %PDF- in base64; anything else makes a provider refuse the whole request
_PAGES = pattern(rb"/Type\s*/Page(?![A-Za-z])")
_UNPACKED = 1 << 20  # maximum number of bytes read from one packed stream, and of streams
_STREAMS = 200
_BYTES_A_PAGE = 100_000


class Image(NamedTuple):
    """An image to send: base64 `data` of a `media` type, or a `url`."""

    media: str = ""
    data: str = ""
    url: str = ""

    @property
    def data_url(self) -> str:
        """The URL of the image; a data URL if it has no other URL."""
        return self.url or f"data:{self.media};base64,{self.data}"

    @property
    def tokens(self) -> int:
        """Estimated tokens."""
        return TOKENS


class Document(NamedTuple):
    """A PDF to send: base64 `data`, its `name` and its number of `pages`, 0 if they were not counted when the message
    was recorded."""

    data: str
    name: str = ""
    pages: int = 0

    @property
    def file(self) -> dict[str, str]:
        """The document in the form of OpenAI's two APIs: its name and its data as a data URL."""
        return {"filename": self.name or UNNAMED, "file_data": _ADDRESS + self.data}

    @property
    def tokens(self) -> int:
        """Estimated tokens."""
        return self.pages * PAGE

    @property
    def note(self) -> str:
        """A line of text that replaces the document for a model that does not accept documents."""
        named = f" {self.name}" if self.name else ""
        number = f" ({count(self.pages, 'page')})" if self.pages else ""
        return f"[The PDF document{named}{number} is not shown: this model does not take it.]"


Medium: TypeAlias = Image | Document


def media_of(data: Mapping[str, Any] | None, refused: Collection[str] = ()) -> tuple[list[Medium], int]:
    """Return the images and documents of a message, without images of `refused` types, and the number of the remaining
    blocks."""
    blocks = (data or {}).get("blocks")
    found = [_image(block) or _document(block) for block in blocks] if isinstance(blocks, list) else []
    kept = [each for each in found if each and not (isinstance(each, Image) and each.media in refused)]
    return kept, len(found) - len(kept)


def counted(data: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the data of a message with the pages of its documents counted."""
    blocks = (data or {}).get("blocks")
    if not data or not isinstance(blocks, list) or not any(_is_document(block) for block in blocks):
        return data
    return {**data, "blocks": [_counted(block) for block in blocks]}


def payload(media: Iterable[Medium]) -> int:
    """Return the bytes of the contents of images and documents in a request."""
    return sum(len(each.data) for each in media)


def image_at(url: Any) -> dict[str, Any] | None:
    """Return the image at a URL, or in a data URL, in the form used in the log; None for any other value."""
    if not isinstance(url, str):
        return None
    if url.startswith("https://"):
        return {"type": "image", "source": {"type": "url", "url": url}}
    inside = _IMAGE.fullmatch(url)
    if inside is None:
        return None
    return {"type": "image", "source": {"type": "base64", "media_type": inside[1], "data": inside[2]}}


def pages_of(data: str) -> int:
    """Return the number of pages of a PDF in base64, at least 1, including pages in packed streams. If no page can be
    read, assume one for each 100 KB."""
    try:
        raw = a2b_base64(data.encode("ascii", "replace"))
    except Error:
        return 1
    found = len(_PAGES.findall(raw)) + sum(len(_PAGES.findall(each)) for each in _unpacked(raw))
    return found or 1 + len(raw) // _BYTES_A_PAGE


def tokens_of(part: Mapping[str, Any]) -> int:
    """Return the estimated tokens of an image or a document in a request to any provider; 0 for any other part."""
    kind = part.get("type")
    kind = kind.removeprefix("input_") if isinstance(kind, str) else None
    if kind in ("image", "image_url"):
        return TOKENS
    sources = {"document": part.get("source"), "file": part.get("file", part)}
    inner = sources.get(kind or "", part.get("inlineData"))
    data = inner.get("data", inner.get("file_data")) if isinstance(inner, Mapping) else None
    if not isinstance(data, str):
        return 0
    data = data.removeprefix(_ADDRESS)
    return pages_of(data) * PAGE if data.startswith(_BEGIN) else TOKENS


def _unpacked(raw: bytes) -> Iterator[bytes]:
    """Yield the contents of the first packed streams of a PDF, where newer files keep the descriptions of pages."""
    at = -1
    for _ in range(_STREAMS):
        at = raw.find(b"/ObjStm", at + 1)
        if at < 0:
            return
        begin = raw.find(b"stream", at, at + 300)
        if begin >= 0:
            packed = raw[begin + 6 : begin + _UNPACKED].lstrip(b"\r\n")
            with suppress(zlib.error):
                yield zlib.decompressobj().decompress(packed, _UNPACKED)


def _counted(block: Any) -> Any:
    document = _document(block)
    return {**block, "pages": pages_of(document.data)} if document else block


def _is_document(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "document"


def _document(block: Any) -> Document | None:
    source = block.get("source") if _is_document(block) else None
    if not isinstance(source, dict) or source.get("type") != "base64" or source.get("media_type") != PDF:
        return None
    data, title, pages = source.get("data"), block.get("title"), block.get("pages")
    if not isinstance(data, str) or not data.startswith(_BEGIN) or len(data) > LARGEST_DOCUMENT or not _is_base64(data):
        return None
    name = " ".join(title.split())[:200] if isinstance(title, str) else ""
    known = isinstance(pages, int) and not isinstance(pages, bool) and pages > 0
    return Document(data, name, pages if known else 0)


def _image(block: Any) -> Image | None:
    source = block.get("source") if isinstance(block, dict) and block.get("type") == "image" else None
    if not isinstance(source, dict):
        return None
    data, url = source.get("data"), source.get("url")
    if source.get("type") == "base64" and source.get("media_type") in MEDIA and isinstance(data, str):
        return Image(source["media_type"], data) if 0 < len(data) <= LARGEST and _is_base64(data) else None
    if source.get("type") == "url" and isinstance(url, str) and _URL.fullmatch(url):
        return Image(url=url)
    return None


def _is_base64(text: str) -> bool:
    try:
        a2b_base64(text.encode("ascii"), strict_mode=True)
    except (Error, UnicodeEncodeError):
        return False
    return True


IMPORTED = "imported"
"""Key in a kept block, never sent: the block comes from another program's conversation, with a different system prompt
and different tools."""

CONTAINER = "container"
"""Type of a kept block that names the container in which a provider ran code."""

_THOUGHTS = (None, "thinking", "redacted_thinking", "reasoning", "reasoning_content", "reasoning_details")
"""Types of thinking; None is for Gemini, whose signed parts have no type."""


class Accepts(Struct, frozen=True, kw_only=True):
    """The rules of a dialect for the parts of recorded messages that it can send.

    `recorded` is the name under which its own messages are recorded; blocks and tool messages recorded under a name in
    `also` are its own as well. `reads` is the reader whose form of a summary it accepts (`eviction`), empty for none.
    Images of a type in `refused` are not sent.
    """

    recorded: str
    also: tuple[str, ...] = ()
    reads: str = ""
    refused: tuple[str, ...] = ()

    def owns(self, recorded: str | None) -> bool:
        """Return True for messages that were recorded in this dialect, or without a dialect."""
        return recorded in (None, self.recorded, *self.also)


class Attached(NamedTuple):
    """Content that is sent with an event's text: media and kept blocks, with a note about them for a person."""

    media: tuple[Medium, ...] = ()
    kept: tuple[dict[str, Any], ...] = ()
    detail: str = ""


NOTHING = Attached()


def attached(
    events: Sequence[Event],
    dialect: Accepts,
    config: Config,
    since: int,
    window: int,
    thoughts: bool = False,
) -> dict[int, Attached]:
    """Return the content of events that is sent besides their texts, by event id, for events that have such content.

    With `thoughts`, thinking is also sent after its turn is over.
    """
    found = {}
    now = max((event.created_at for event in events), default="")
    for event in events:
        if event.kind == "summary" and (form := blocks_of(event, dialect.reads)):
            detail = f"in the form of {dialect.reads}; /restore {event.id} brings back the messages that it replaces"
            found[event.id] = Attached((), form, detail)
        if not (event.data or {}).get("blocks"):
            continue
        active = event.turn_id is not None and event.turn_id >= since and event.id >= window
        if event.kind in (*OPENING_KINDS, "tool_result"):
            over = event.kind == "tool_result" and config.truncation and not active
            found[event.id] = _shown(event, dialect, over=over)
        elif event.kind == "assistant":
            found[event.id] = _answered(event, dialect, active or thoughts, now)
    return found


def _shown(event: Event, dialect: Accepts, *, over: bool) -> Attached:
    media, others = media_of(event.data, dialect.refused)
    remarks = []
    if media:
        documents = sum(isinstance(each, Document) for each in media)
        kinds = (len(media) - documents, "image"), (documents, "document")
        number = " and ".join(count(many, kind) for many, kind in kinds if many)
        remarks.append(f"{number} not sent: the turn is over" if over else f"with {number}")
    if others:
        remarks.append(f"without {count(others, 'block')} that cannot be sent")
    return Attached(() if over else tuple(media), (), "; ".join(remarks))


def _answered(event: Event, dialect: Accepts, active: bool, now: str) -> Attached:
    blocks = (event.data or {}).get("blocks")
    every = tuple(each for each in blocks if isinstance(each, dict)) if isinstance(blocks, list) else ()
    if not every:
        return NOTHING
    if event.dialect is None or not dialect.owns(event.dialect):
        return Attached(detail=f"without {count(len(every), 'block')} of {event.dialect or 'another format'}")
    kept = tuple(each for each in every if active or not is_thought(each))
    over = len(every) - len(kept)
    kept = tuple(each for each in kept if each.get("type") != CONTAINER or not _expired(each, now))
    remarks = [f"with {count(len(kept), 'block')}"] if kept else []
    remarks += [f"without {count(over, 'block')}: the turn is over"] if over else []
    return Attached((), kept, "; ".join(remarks))


def is_thought(block: dict[str, Any]) -> bool:
    """Return True if a kept block is thinking."""
    kind = block.get("type")
    return kind in _THOUGHTS if isinstance(kind, str | None) else False


def _expired(block: dict[str, Any], now: str) -> bool:
    """Return True if a container has expired, by times in the log only, so that requests are deterministic."""
    about = block.get(CONTAINER)
    until = about.get("expires_at") if isinstance(about, dict) else None
    try:
        return isinstance(until, str) and utc(until) <= stored_time(now)
    except ValueError:
        return False
