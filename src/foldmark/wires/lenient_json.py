"""Decode JSON lines that other programs have written, and read values from them safely [SPEC 8].

Invalid UTF-8 and lone surrogates become U+FFFD, also in keys. Numbers that Python cannot hold (integers of more than
4300 digits, out-of-range floats, NaN and Infinity) become their own text, because they cannot be written as JSON
again. Any other violation of JSON is refused with a reason. The resulting value can be encoded as JSON and as UTF-8,
and is at most `MAX_DEPTH` deep.
"""

import math
import re
from itertools import islice
from typing import Any

import msgspec

from foldmark.core.codec import well_formed
from foldmark.core.patterns import pattern

MAX_DEPTH = 200
"""Maximum nesting of objects and arrays: far more than sessions have, far less than exhausts Python's stack."""

MAX_VALUES = 4_000_000
"""Maximum values in a line of more than `_LONG` bytes. A line of only `{},` needs thirty times its size in memory."""

_LONG = 8 << 20
# One structural character with everything before it. Possessive, so that no text is ever scanned twice.
_STRUCTURE = pattern(rb'(?:[^",\[{]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"?)*+(?:[,\[{]|\Z)', re.DOTALL)
_TOO_DEEP = f"nested too deeply (more than {MAX_DEPTH} levels)"


class NotJsonError(ValueError):
    """A line is not JSON. The text gives the reason in one line."""


def decode(line: bytes) -> Any:
    """Return the JSON value of a line. Raises NotJsonError."""
    if len(line) > _LONG and _crowded(line):
        raise NotJsonError(f"more than {MAX_VALUES:,} values in one line")
    try:
        value = msgspec.json.decode(line)
    except RecursionError:
        raise NotJsonError(_TOO_DEEP) from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        value, exact = _decode_slowly(line), False
    else:
        exact = True
    if len(line) > 2 * MAX_DEPTH and line.count(b"[") + line.count(b"{") > MAX_DEPTH and _too_deep(value):
        raise NotJsonError(_TOO_DEEP)
    return value if exact else well_formed(value)


def arguments(raw: Any) -> Any:
    """Return the arguments of a call: the decoded JSON of a text, the text itself if it is not JSON, an empty object
    for none, and any other value as it is."""
    if not isinstance(raw, str):
        return {} if raw is None else raw
    try:
        return decode(raw.encode("utf-8", "replace")) if raw.strip() else {}
    except NotJsonError:
        return raw


def encode_line(value: Any) -> bytes:
    """Return a JSON value as a line of a session."""
    return msgspec.json.encode(well_formed(value)) + b"\n"


def member(value: Any, *path: str) -> Any:
    """Return the value at a path of members; None if it is missing or a value on the path is not an object."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def filled_text(value: Any) -> str | None:
    """Return the value if it is a non-empty text, otherwise None."""
    return value if isinstance(value, str) and value else None


def as_text(value: Any) -> str:
    """Return the value if it is a string, otherwise an empty string."""
    return value if isinstance(value, str) else ""


def as_object(value: Any) -> dict[str, Any]:
    """Return the value if it is a JSON object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def objects_in(value: Any) -> list[dict[str, Any]]:
    """Return the JSON objects in a list; none for any other value."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def whole_number(value: Any) -> int | None:
    """Return the value if it is a whole number from 0 to SQLite's maximum, otherwise None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def _decode_slowly(line: bytes) -> Any:
    if not line.strip(b"\0 \t\r\n"):
        raise NotJsonError("nothing but NUL bytes")
    import json  # only needed for a line that msgspec refuses

    try:
        return json.loads(line.decode("utf-8", "replace"), parse_int=_integer, parse_float=_float, parse_constant=str)
    except RecursionError:
        raise NotJsonError(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise NotJsonError(f"not JSON: {error.msg} (character {error.pos + 1})") from None


def _integer(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:
        return digits


def _float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def _crowded(line: bytes) -> bool:
    """Return True if a line has more than `MAX_VALUES` values. Commas and brackets inside texts do not count."""
    if line.count(b",") + line.count(b"[") + line.count(b"{") <= MAX_VALUES:
        return False
    return any(True for _ in islice(_STRUCTURE.finditer(line), MAX_VALUES, None))


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
