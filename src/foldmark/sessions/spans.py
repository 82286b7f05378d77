"""Find where the members of a JSON object and the items of an array lie, so that a line can change in single places.

Whatever is not changed keeps its bytes: white space, escapes and the order of keys too.
"""

import re
from collections.abc import Iterator

import msgspec

Span = tuple[int, int]
"""Begin and end of a value, in bytes."""

_KEY = re.compile(rb'[\s,{]*("[^"\\]*+(?:\\.[^"\\]*+)*+")\s*:\s*', re.DOTALL)
_BETWEEN = re.compile(rb"[\s,]*")
_END = re.compile(rb"\s*[}\]]\s*\Z")
_EMPTY = re.compile(rb"\s*\{\s*\}\s*")
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.DOTALL)
_HALF = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_SCALAR = re.compile(rb"[^\s,}\]]+")

_check = msgspec.json.Decoder(msgspec.Raw).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode


def is_json(data: bytes) -> bool:
    """Return True for JSON, whose UTF-8 may be invalid. What nests too deeply to be checked counts as JSON."""
    try:
        _check(data)
    except msgspec.MsgspecError:
        other = paired(data)
        return other is not data and is_json(other)
    except RecursionError:
        pass
    return True


def paired(data: bytes) -> bytes:
    """Return the same JSON, in as many bytes, with a letter for every escape of half a surrogate pair.

    Unlike Claude Code, msgspec takes such a half for an error if the other one is missing.
    """
    return _HALF.sub(rb"\\u0061", data) if b"\\u" in data and _HALF.search(data) else data


def members(data: bytes) -> list[tuple[str, int, int]]:
    """Return key, begin and end of the value of every member of an object, in order; a key may come twice.

    `data` holds the object and white space around it, and is JSON but perhaps for its UTF-8. Raises ValueError if it
    is no object.
    """
    try:
        found = _decode_members(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return list(_walked(data))
    spans, at = [], 0
    for key, raw in found.items():  # the lengths are known, so that nothing long is looked at again
        match = _KEY.match(data, at)
        if match is None or match[1] != b'"%b"' % key.encode("utf-8", "surrogatepass"):
            return list(_walked(data))
        begin = match.end()
        at = begin + len(raw)
        spans.append((key, begin, at))
    return spans if _END.match(data, at) or not spans else list(_walked(data))  # a key that came twice


def items(data: bytes) -> list[Span]:
    """Return begin and end of every item of an array; as `members`."""
    try:
        found = _decode_items(paired(data))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    spans, at = [], data.index(b"[") + 1
    for raw in found:
        match = _BETWEEN.match(data, at)
        begin = match.end() if match else at
        at = begin + len(raw)
        spans.append((begin, at))
    return spans


def last(data: bytes, key: str) -> Span | None:
    """Return where the value of a member lies, as a reader understands it: of two with one key the last."""
    return next(((begin, end) for name, begin, end in reversed(members(data)) if name == key), None)


def edited(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """Return `data` with other bytes in place of the spans given, none of which lies in another."""
    if not edits:
        return data
    if len(edits) > 1:
        edits = sorted(edits)
    pieces = []
    at = 0
    for begin, end, new in edits:
        pieces.append(data[at:begin])
        pieces.append(new)
        at = end
    pieces.append(data[at:])
    return b"".join(pieces)


def _walked(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield what `members` returns, token by token."""
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
        return quoted.decode("utf-8", "replace")  # no key that anybody asks for
