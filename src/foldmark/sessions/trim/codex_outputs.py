"""Shortening what a tool returned to Codex, in each form in which a rollout holds it [SPEC 8].

A text; a text that is itself JSON, `{"output": "...", "metadata": {...}}`, of which only the inner text is cut; a list
of texts and images; an object `{"content": ..., "success": ...}`. Everything here is the JSON of a value as it stands
in the file, in bytes.
"""

import re
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from foldmark.sessions import spans
from foldmark.sessions.trim import cut
from foldmark.sessions.trim.content import base64_size, in_list
from foldmark.sessions.trim.cut import Origin, Replacement

_TEXTS = (b'"input_text"', b'"text"', b'"output_text"')
_IMAGES = {b'"input_image"': "image_url", b'"image"': "data"}
_DATA_URL = re.compile(rb'"data:([^;,"\\]{1,100});base64,')

MOST_IMAGE = 4_500
"""Bytes that an image counts for at most: to a model it is worth what it shows, not what it is in a file."""


def shortened(raw: bytes, threshold: int, place: Origin) -> Replacement | None:
    """An output with no more of its text than `threshold` characters, and with notes instead of images.

    None if there is nothing to cut, or the output is of a form that is not known.
    """
    try:
        match raw[:1]:
            case b'"':
                return _text(raw, threshold, place)
            case b"[":
                return in_list(raw, threshold, place, _TEXTS, _image)
            case b"{":
                return _object(raw, threshold, place)
    except ValueError:
        pass
    return None


def _text(raw: bytes, threshold: int, place: Origin) -> Replacement | None:
    if len(raw) - 2 <= threshold:
        return None
    inner = _wrapped(raw) if raw.startswith(b'"{') else None
    if inner is None or len(inner.data) - (inner.end - inner.begin) > threshold:
        return cut.string(raw, threshold, place)
    new = cut.string(inner.data[inner.begin : inner.end], threshold, place)
    if new is None:
        return None
    whole = cut.quoted(spans.edited(inner.data, [(inner.begin, inner.end, new.raw)]).decode())
    return Replacement(whole, new.characters, len(raw) - len(whole)) if len(whole) < len(raw) else None


class _Inside(Struct, gc=False):
    output: Raw


class _Wrapped(NamedTuple):
    """JSON inside of a text, and where in it the text `output` lies."""

    data: bytes
    begin: int
    end: int


_decode = msgspec.json.Decoder(_Inside).decode
_FIRST = b'{"output":'


def _wrapped(raw: bytes) -> _Wrapped | None:
    try:
        data = cut.text_of(raw).encode()
        output = bytes(_decode(data).output)
    except (ValueError, RecursionError):  # half a character, no JSON, or no output
        return None
    if not output.startswith(b'"'):
        return None
    if data.startswith(output, len(_FIRST)) and data.startswith(_FIRST):
        return _Wrapped(data, len(_FIRST), len(_FIRST) + len(output))
    found = spans.last(data, "output")
    return _Wrapped(data, *found) if found else None


def _object(raw: bytes, threshold: int, place: Origin) -> Replacement | None:
    at = spans.last(raw, "content")
    new = shortened(raw[at[0] : at[1]], threshold, place) if at and raw[at[0] : at[0] + 1] != b"{" else None
    return Replacement(spans.edited(raw, [(*at, new.raw)]), new.characters, new.bytes) if at and new else None


def _image(item: bytes, kind: bytes, block: dict[str, spans.Span], place: Origin) -> tuple[bytes, int] | None:
    """A text to stand for an image."""
    if kind not in _IMAGES:
        return None
    data, named = (item[slice(*block.get(key, (0, 0)))] for key in (_IMAGES[kind], "mimeType"))
    url = _DATA_URL.match(data)
    named = url[1] if url else (named or b'"image"').strip(b'"')
    size = base64_size(data[url.end() - 1 :] if url else data or b'""')
    shown = cut.image_note(named.decode("ascii", "replace"), size, place)
    note = b'{"type":%b,"text":%b}' % (b'"input_text"' if kind == b'"input_image"' else b'"text"', shown)
    return note, max(0, min(len(item), MOST_IMAGE) - len(note))
