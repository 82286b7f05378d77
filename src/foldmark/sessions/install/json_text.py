"""Change one member of a JSON object that somebody else wrote, and keep every other character.

All functions except `check` and `blank` need a text that `check` accepts.
"""

import json
from codecs import BOM_UTF8
from typing import Any

from foldmark.core.errors import FoldmarkError
from foldmark.wires import spans


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
    data = text.encode()
    _, begin, end = _members(data)[key]
    return data[begin:end].decode()


def put(text: str, key: str, value: Any) -> str:
    """Return the text with another value of a member, or with a new member at the end. Its layout is that of the first
    member: the same indentation and line ends, or everything on one line."""
    data = text.encode()
    newline, members, begin = "\r\n" if "\r\n" in text else "\n", _members(data), data.index(b"{") + 1
    gap = data[begin : min(at for at, _, _ in members.values())].decode() if members else f"{newline}  "
    indent = gap.rpartition("\n")[2] if "\n" in gap else None
    written = json.dumps(value, ensure_ascii=False, indent=indent).replace("\n", f"{newline}{indent}")
    if key in members:
        return put_raw(text, key, written)
    last = max((end for _, _, end in members.values()), default=begin)
    rest = data[last:].decode() if members else newline + data[begin:].decode().lstrip()
    return f"{data[:last].decode()}{',' if members else ''}{gap}{json.dumps(key)}: {written}{rest}"


def put_raw(text: str, key: str, written: str) -> str:
    """Return the text with the JSON `written` as the value of a member. Raises KeyError."""
    data = text.encode()
    _, begin, end = _members(data)[key]
    return spans.edited(data, [(begin, end, written.encode())]).decode()


def remove(text: str, key: str) -> str:
    """Return the text without a member. It undoes `put` exactly if the object was not empty. Raises KeyError."""
    data = text.encode()
    members = _members(data)
    begin, _, end = members.pop(key)
    before = max((other for _, _, other in members.values() if other < begin), default=None)
    behind = min((other for other, _, _ in members.values() if other > begin), default=None)
    if before is not None or behind is not None:
        left = data[:begin] + data[behind:] if before is None else data[:before] + data[end:]
    else:
        left = data[:begin].rstrip() + data[end:].lstrip()
    return left.decode()


def _members(data: bytes) -> dict[str, tuple[int, int, int]]:
    """Return the offsets of the members of the object: of the key, of the value and of its end."""
    members, at = dict[str, tuple[int, int, int]](), data.index(b"{")
    for key, begin, end in spans.members(data.replace(BOM_UTF8, b"   ", 1) if data.startswith(BOM_UTF8) else data):
        members[key] = data.index(b'"', at), begin, end
        at = end
    return members


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
