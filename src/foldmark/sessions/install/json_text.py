"""Change one member of a JSON object that somebody else wrote, and keep every other character.

All functions except `check` and `blank` need a text that `check` accepts.
"""

import json
import re
from typing import Any

from foldmark.core.errors import FoldmarkError

_BLANK = re.compile(r"[ \t\r\n]*")


class NotMergeableError(FoldmarkError):
    """A text cannot be edited safely; the message gives the reason without the file's name."""


def check(text: str) -> dict[str, Any]:
    """Return the object that the whole text holds. Raises NotMergeableError."""
    try:
        text.encode()
        value = _DECODER.decode(text.removeprefix("\ufeff"))
    except UnicodeEncodeError:
        raise NotMergeableError("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        hint = ", which has no comments" if error.doc[error.pos : error.pos + 1] == "/" else ""
        raise NotMergeableError(f"it is not JSON{hint} ({error})") from None
    except RecursionError:
        raise NotMergeableError("it is nested too deeply") from None
    except ValueError as error:  # a number that is too long
        raise NotMergeableError(f"it cannot be read ({error})") from None
    if not isinstance(value, dict):
        raise NotMergeableError("it is JSON but not an object")
    return value


def blank(text: str | None) -> bool:
    """Return True for an empty or missing file, which programs read as an empty object."""
    return text is None or not text.strip("\ufeff \t\r\n")


def raw(text: str, key: str) -> str:
    """Return the value of a member as it is written. Raises KeyError."""
    _, begin, end = _members(text)[key]
    return text[begin:end]


def put(text: str, key: str, value: Any) -> str:
    """Return the text with another value of a member, or with a new member at the end. Its layout is that of the first
    member: the same indentation and line ends, or everything on one line."""
    newline = "\r\n" if "\r\n" in text else "\n"
    members = _members(text)
    begin = _skip(text, text.startswith("\ufeff")) + 1
    gap = text[begin : _skip(text, begin)] if members else f"{newline}  "
    indent = gap.rpartition("\n")[2] if "\n" in gap else None
    written = json.dumps(value, ensure_ascii=False, indent=indent).replace("\n", f"{newline}{indent}")
    if key in members:
        return put_raw(text, key, written)
    last = max((end for _, _, end in members.values()), default=begin)
    rest = text[last:] if members else newline + text[_skip(text, begin) :]
    return f"{text[:last]}{',' if members else ''}{gap}{json.dumps(key)}: {written}{rest}"


def put_raw(text: str, key: str, written: str) -> str:
    """Return the text with the JSON `written` as the value of a member. Raises KeyError."""
    _, begin, end = _members(text)[key]
    return text[:begin] + written + text[end:]


def remove(text: str, key: str) -> str:
    """Return the text without a member. It undoes `put` exactly if the object was not empty. Raises KeyError."""
    members = _members(text)
    begin, _, end = members.pop(key)
    before = max((other for _, _, other in members.values() if other < begin), default=None)
    behind = min((other for other, _, _ in members.values() if other > begin), default=None)
    if before is not None:
        return text[:before] + text[end:]
    return text[:begin] + text[behind:] if behind is not None else f"{text[:begin].rstrip()}{text[end:].lstrip()}"


def _members(text: str) -> dict[str, tuple[int, int, int]]:
    """Return the offsets of the members of the object: of the key, of the value and of its end."""
    members: dict[str, tuple[int, int, int]] = {}
    position = _skip(text, _skip(text, text.startswith("\ufeff")) + 1)
    while text[position] != "}":
        key, end = _DECODER.raw_decode(text, position)
        value = _skip(text, _skip(text, end) + 1)
        _, end = _DECODER.raw_decode(text, value)
        members[key] = position, value, end
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return members


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise NotMergeableError(f"it has the key {json.dumps(twice)} twice in one object")
    return members


def _refuse(name: str) -> Any:
    raise NotMergeableError(f"it is not JSON ({name} is no value)")


_DECODER = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_object)
