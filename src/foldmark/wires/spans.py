"""Edit single members of JSON text: find the positions of members and items, and replace them in place.

Everything else keeps its bytes, including white space, escapes and the order of keys.
"""

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from foldmark.core.patterns import pattern

Span = tuple[int, int]
"""The beginning and the end of a value, in bytes."""

_KEY = pattern(rb'[\s,{]*("[^"\\]*+(?:\\.[^"\\]*+)*+")\s*:\s*', re.DOTALL)
_END = pattern(rb"\s*[}\]]\s*\Z")
_EMPTY = pattern(rb"\s*\{\s*\}\s*")
_TOKEN = pattern(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.DOTALL)
_HALF = pattern(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_SCALAR = pattern(rb"[^\s,}\]]+")

_check = msgspec.json.Decoder(msgspec.Raw).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode


def is_json(data: bytes) -> bool:
    """Return True for JSON, even with invalid UTF-8. JSON nested too deeply to be checked counts as valid."""
    try:
        _check(data)
    except msgspec.MsgspecError:
        other = without_halves(data)
        return other is not data and is_json(other)
    except RecursionError:
        pass
    return True


def without_halves(data: bytes) -> bytes:
    """Return JSON of the same length, with a letter in place of every escape of half a surrogate pair.

    msgspec refuses a half without its partner; Claude Code accepts it.
    """
    return _HALF.sub(rb"\\u0061", data) if b"\\u" in data and _HALF.search(data) else data


def members(data: bytes) -> list[tuple[str, int, int]]:
    """Return the key of every member with the beginning and the end of its value, in order. A key may occur twice.

    `data` is an object that `is_json` accepts, with or without white space around it. Raises ValueError for any other
    value.
    """
    try:
        found = _decode_members(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return list(_walked(data))
    spans, at = [], 0
    for key, raw in found.items():  # the lengths are known, so long values are not scanned again
        match = _KEY.match(data, at)
        if match is None or match[1] != b'"%b"' % key.encode("utf-8", "surrogatepass"):
            return list(_walked(data))
        begin = match.end()
        at = begin + len(raw)
        spans.append((key, begin, at))
    return spans if _END.match(data, at) or not spans else list(_walked(data))  # a key occurs twice


def items(data: bytes) -> list[Span]:
    """Return the beginning and the end of every item of an array. Raises ValueError for any other value."""
    paired = without_halves(data)
    try:
        found = _decode_items(paired)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    spans, at = [], data.index(b"[") + 1
    for raw in found:  # only white space and a comma separate two items, so the first match is the right one
        begin = paired.index(raw, at)
        at = begin + len(raw)
        spans.append((begin, at))
    return spans


def last(data: bytes, key: str) -> Span | None:
    """Return the span of a member's value, or None. If a key occurs twice, the last one counts, as for JSON readers."""
    return next(((begin, end) for name, begin, end in reversed(members(data)) if name == key), None)


def find(data: bytes, path: Sequence[str | int]) -> Span | None:
    """Return the span of the value at a path of members and places; None if there is none."""
    begin, end = 0, len(data)
    for step in path:
        piece = data[begin:end]
        if isinstance(step, int):
            at: Span | None = items(piece)[step]
        else:
            at = last(piece, step) if piece.lstrip().startswith(b"{") else None
        if at is None:
            return None
        begin, end = begin + at[0], begin + at[1]
    return begin, end


def edited(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """Return `data` with new bytes in place of these spans, which must not overlap."""
    if len(edits) == 1:
        begin, end, new = edits[0]
        return data[:begin] + new + data[end:]
    pieces: list[bytes] = []
    at = 0
    for begin, end, new in sorted(edits):
        pieces += [data[at:begin], new]
        at = end
    return b"".join([*pieces, data[at:]])


def within(data: bytes, path: tuple[str, ...], change: Callable[[bytes], bytes]) -> bytes:
    """Return an object with the value at `path` changed; `data` itself if there is no such value."""
    at = find(data, path)
    return data if at is None else edited(data, [(*at, change(data[slice(*at)]))])


def with_member(data: bytes, key: str, value: bytes) -> bytes:
    """Return the object with this JSON value for `key`. Raises ValueError if `data` is not an object."""
    if found := last(data, key):
        return edited(data, [(*found, value)])
    end = data.rindex(b"}")
    comma = b"," if members(data) else b""
    return b'%b%b"%b":%b%b' % (data[:end], comma, key.encode(), value, data[end:])


def _walked(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield the same as `members`, token by token: slower, but correct for every object."""
    at = len(data) - len(data.lstrip())
    if data[at : at + 1] != b"{":
        raise ValueError("no object")
    while match := _KEY.match(data, at):
        at = _value_end(data, match.end())
        yield _text(match[1]), match.end(), at
    if not _END.match(data, at) and not _EMPTY.fullmatch(data):
        raise ValueError("no end")


def _value_end(data: bytes, at: int) -> int:
    token = _TOKEN.match(data, at)
    if token is None:
        scalar = _SCALAR.match(data, at)
        if scalar is None:
            raise ValueError("no value")
        return scalar.end()
    depth = 0
    for token in _TOKEN.finditer(data, at):
        first = token[0][:1]
        depth += (first in b"{[") - (first in b"}]")
        if not depth:
            return token.end()
    raise ValueError("no end")


def _text(quoted: bytes) -> str:
    try:
        return _decode_text(quoted)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return quoted.decode("utf-8", "replace")  # not a key that a caller looks for
