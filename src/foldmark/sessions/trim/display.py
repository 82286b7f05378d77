"""The second copy of a result, which only Claude Code's display reads: `toolUseResult`, cut [SPEC 8].

It may have any shape, which stays: strings stay strings, lists of strings such lists.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from foldmark.sessions import spans
from foldmark.sessions.trim import cut
from foldmark.sessions.trim.content import base64_size
from foldmark.sessions.trim.cut import Origin

_DEEPEST = 50
_BASE64 = re.compile(rb'"[A-Za-z0-9+/\\]+={0,2}"')
_IMAGE_KEYS = ("base64", "data")
_KEPT = re.compile(r"structuredPatch|.*[pP]ath")
"""Members that stay: the lines of a patch are counted in it, and paths lead to what was put aside."""


def display(raw: bytes, threshold: int, place: Origin, known: Mapping[bytes, bytes] = {}) -> bytes:
    """A display copy with every long string and every long list of strings in it cut; `raw` itself if there is none.

    `known` are JSON strings that were cut before, and what became of them: a copy is often the same.
    """
    if len(raw) - 2 <= threshold:
        return raw
    try:
        return _usual(raw, threshold, place, known) or _value(raw, _Cutting(threshold, place, known), 0)
    except (ValueError, RecursionError):
        return raw


def _usual(raw: bytes, threshold: int, place: Origin, known: Mapping[bytes, bytes]) -> bytes | None:
    """The copy of what a command printed or a file held, where nothing else in it is long; None for any other.

    A key with its value can stand in a string only with escapes, so that what is found is a member.
    """
    at = raw.find(b":") + 1
    for old, new in known.items():  # what a command printed, the first member
        if raw.startswith(old, at) and len(raw) - len(old) <= threshold:
            return spans.edited(raw, [(at, at + len(old), new)])
    if not raw.startswith(b'{"type":"text","file":{'):
        return None
    value = bytes(_decode_file(raw).file.content)
    at = raw.find(b'"content":' + value[:64]) + 10
    if at < 10 or not raw.startswith(value, at) or len(raw) - len(value) > threshold:
        return None
    found = cut.string(value, threshold, place)
    return spans.edited(raw, [(at, at + len(value), found.raw)]) if found else raw


class _File(Struct, gc=False):
    content: Raw


class _Shown(Struct, gc=False):
    file: _File


_decode_file = msgspec.json.Decoder(_Shown).decode


class _Cutting(NamedTuple):
    threshold: int
    place: Origin
    known: Mapping[bytes, bytes]


def _value(raw: bytes, way: _Cutting, depth: int) -> bytes:
    if len(raw) - 2 <= way.threshold or depth > _DEEPEST:
        return raw
    first = raw[:1]
    if first == b'"':
        if raw in way.known:
            return way.known[raw]
        found = cut.string(raw, way.threshold, way.place)
        return found.raw if found else raw
    if first == b"{":
        return _object(raw, way, depth)
    return _list(raw, way, depth) if first == b"[" else raw


def _object(raw: bytes, way: _Cutting, depth: int) -> bytes:
    edits = []
    members = spans.members(raw)
    for key, begin, end in members:
        if end - begin - 2 <= way.threshold or _KEPT.fullmatch(key):
            continue
        value = raw[begin:end]
        if key in _IMAGE_KEYS and _BASE64.fullmatch(value):
            kinds = [raw[at:to] for name, at, to in members if name in ("type", "media_type", "mediaType")]
            kind = next((cut.text_of(each) for each in kinds if each[:1] == b'"' and b"/" in each), "")
            new = cut.image_note(kind, base64_size(value), way.place)
        else:
            new = _value(value, way, depth + 1)
        if len(new) < len(value):
            edits.append((begin, end, new))
    return spans.edited(raw, edits) if edits else raw


def _list(raw: bytes, way: _Cutting, depth: int) -> bytes:
    items = spans.items(raw)
    if len(items) > 1 and all(raw[begin : begin + 1] == b'"' for begin, _ in items):
        return _strings(raw, items, way)
    edits = []
    for begin, end in items:
        value = raw[begin:end]
        new = _value(value, way, depth + 1)
        if len(new) < len(value):
            edits.append((begin, end, new))
    return spans.edited(raw, edits) if edits else raw


def _strings(raw: bytes, items: list[spans.Span], way: _Cutting) -> bytes:
    """A list of strings, such as file names: the first of them, as far as they are within the threshold together."""
    begin, end = items[-1]
    if cut.is_cut_list(cut.text_of(raw[begin:end]), len(items)):
        return raw
    kept = length = 0
    for begin, end in items:
        length += len(cut.text_of(raw[begin:end]))
        if length > way.threshold:
            break
        kept += 1
    if kept == len(items):
        return raw
    at = items[kept][0]
    new = raw[:at] + cut.quoted(way.place.pointer(kept, len(items), "entries")) + raw[items[-1][1] :]
    return new if len(new) < len(raw) else raw
