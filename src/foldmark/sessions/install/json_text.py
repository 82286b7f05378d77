"""Change one value of a JSON text that somebody else wrote, and keep every other character.

The path of a value consists of keys and indexes from the root. A new value takes the layout of its surroundings:
indentation, line ends, one line or several. All functions except `check` and `blank` need a text that `check` accepts.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from foldmark.core.errors import FoldmarkError

Path = Sequence[str | int]

_BLANK = re.compile(r"[ \t\r\n]*")
_INDENT = re.compile(r"[ \t]*")


class NotMergeableError(FoldmarkError):
    """A text cannot be edited safely; the message gives the reason without the file's name."""


class JsonMember(NamedTuple):
    """A member of an object or an item of an array: the offsets of its beginning, its value and its end."""

    key: str | int
    begin: int
    value: int
    end: int


def check(text: str) -> dict[str, Any]:
    """Return the object that the whole text holds. Raises NotMergeableError."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotMergeableError("it is not UTF-8") from None
    begin = _begin(text)
    try:
        value, end = _DECODER.raw_decode(text, begin)
        end = _skip(text, end)
    except json.JSONDecodeError as error:
        hint = ", which has no comments" if text[error.pos : error.pos + 1] == "/" else ""
        raise NotMergeableError(
            f"it is not JSON{hint} (line {error.lineno}, column {error.colno}: {error.msg})"
        ) from None
    except RecursionError:
        raise NotMergeableError("it is nested too deeply") from None
    if end < len(text):
        line = text.count("\n", 0, end) + 1
        raise NotMergeableError(f"it is not JSON (line {line}: something follows the end of the value)")
    if not isinstance(value, dict):
        raise NotMergeableError("it is JSON but not an object")
    return value


def blank(text: str) -> bool:
    """Return True for an empty file, which programs read as an empty object."""
    return not text.strip("\ufeff \t\r\n")


def raw(text: str, path: Path) -> str:
    """Return the value at `path` as it is written. Raises KeyError."""
    begin, end = _span(text, path)
    return text[begin:end]


def put(text: str, path: Path, written: str) -> str:
    """Return the text with the value at `path` replaced by the JSON `written`. Raises KeyError."""
    begin, end = _span(text, path)
    return text[:begin] + written + text[end:]


def add(text: str, path: Path, value: Any, key: str | None = None) -> str:
    """Return the text with a member `key`, or an item, added at the end of the object or array at `path`."""
    at, _ = _span(text, path)
    slots = _slots(text, at)
    style = _style(text)
    if not slots:
        close = _skip(text, at + 1)
        if style.flat:
            return text[: at + 1] + _written(value, key, style, None) + text[close:]
        outer = _line_indent(text, at)
        inner = outer + style.unit
        body = _written(value, key, style, inner)
        return f"{text[: at + 1]}{style.newline}{inner}{body}{style.newline}{outer}{text[close:]}"
    last = slots[-1]
    gap = text[len(text[: last.begin].rstrip(" \t\r\n")) : last.begin]
    lone = "," + (gap or ("" if style.colon == ":" else " "))
    between = text[slots[-2].end : last.begin] if len(slots) > 1 else lone
    indent = gap.rpartition("\n")[2] if "\n" in gap else None
    return text[: last.end] + between + _written(value, key, style, indent) + text[last.end :]


def remove(text: str, path: Path) -> str:
    """Return the text without the member or item at `path`. It undoes `add` exactly if the container was not empty."""
    at, end = _span(text, path[:-1])
    slots = _slots(text, at)
    number = next(number for number, slot in enumerate(slots) if slot.key == path[-1])
    if number:
        return text[: slots[number - 1].end] + text[slots[number].end :]
    if len(slots) > 1:
        return text[: slots[0].begin] + text[slots[1].begin :]
    return text[: at + 1] + text[end - 1 :]


class _Style(NamedTuple):
    newline: str
    unit: str
    colon: str
    flat: bool


def _style(text: str) -> _Style:
    """Return the layout of a text. `flat`: it is on one line."""
    newline = "\r\n" if "\r\n" in text else "\n"
    root = _begin(text)
    slots = _slots(text, root)
    if not slots:
        return _Style(newline, "  ", ": ", False)
    first = slots[0]
    gap = text[root + 1 : first.begin]
    _, key_end = _DECODER.raw_decode(text, first.begin)
    colon = ": " if text[key_end : first.value].strip(" \t\r\n") != text[key_end : first.value] else ":"
    if "\n" not in gap:
        return _Style(newline, "", colon, True)
    return _Style(newline, gap.rpartition("\n")[2].removeprefix(_line_indent(text, root)), ": ", False)


def _written(value: Any, key: str | None, style: _Style, indent: str | None) -> str:
    """Return a new member or item. `indent` begins its further lines; None puts everything on one line."""
    if indent is None:
        written = json.dumps(value, ensure_ascii=False, separators=("," if style.colon == ":" else ", ", style.colon))
        colon = style.colon
    else:
        lines = json.dumps(value, ensure_ascii=False, indent=style.unit).split("\n")
        written, colon = f"{style.newline}{indent}".join(lines), ": "
    return written if key is None else f"{json.dumps(key, ensure_ascii=False)}{colon}{written}"


def _span(text: str, path: Path) -> tuple[int, int]:
    begin = _begin(text)
    for key in path:
        begin = next((slot.value for slot in _slots(text, begin) if slot.key == key), -1)
        if begin < 0:
            raise KeyError(key)
    return begin, _DECODER.raw_decode(text, begin)[1]


def _slots(text: str, at: int) -> list[JsonMember]:
    """Return the members of the object, or the items of the array, that begins at `at`."""
    slots: list[JsonMember] = []
    named, position = text[at] == "{", _skip(text, at + 1)
    while text[position] not in "}]":
        begin, key = position, len(slots)
        if named:
            key, position = _DECODER.raw_decode(text, begin)
            position = _skip(text, _skip(text, position) + 1)
        _, end = _DECODER.raw_decode(text, position)
        slots.append(JsonMember(key, begin, position, end))
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return slots


def _begin(text: str) -> int:
    """Return the offset of the root, after any byte order mark."""
    return _skip(text, 1 if text.startswith("\ufeff") else 0)


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _line_indent(text: str, at: int) -> str:
    """Return the indentation of the line that holds the character at `at`."""
    begin = text.rfind("\n", 0, at) + 1
    found = _INDENT.match(text, begin + text.startswith("\ufeff", begin))
    return found[0] if found else ""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise NotMergeableError(f"it has the key {json.dumps(twice)} twice in one object")
    return members


def _refuse(name: str) -> Any:
    raise NotMergeableError(f"it is not JSON ({name} is no value)")


# Numbers stay texts, so that no number is too long and none changes.
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_refuse, object_pairs_hook=_members)
