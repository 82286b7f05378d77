"""Stale results of file tools: those that a later read or write of the same file replaced [SPEC 5.7]. Pure functions.

A call is recognized by the name of its tool, anybody's, and by the path among its arguments. In doubt nothing is stale:
a failed call, or another spelling of a path, makes nothing stale.
"""

import posixpath
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from foldmark.core.events import Event

READS = frozenset({"read", "read_file", "read_text_file", "readfile", "view", "view_file", "open_file", "notebookread"})
WRITES = frozenset(
    {
        *("write", "write_file", "writefile", "create_file", "create", "edit", "edit_file", "multiedit", "multi_edit"),
        *("str_replace", "insert", "replace", "notebookedit", "apply_patch"),
    }
)
"""Names of writing tools in lower case, without a server's prefix."""

_PATHS = ("path", "file_path", "filePath", "absolute_path", "notebook_path", "target_file", "filename")
_SPANS = ("offset", "limit", "start_line", "end_line", "view_range")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_END = 1 << 62


class Superseded(NamedTuple):
    """A stale result, the call that made it stale, and whether that was a `read` or a `write`; `path` is the file."""

    result: int
    by: int
    how: str
    path: str


class _Use(NamedTuple):
    """A use of one file: the lines from and up to, or None where the arguments name no plain range of lines."""

    how: str
    path: str
    span: tuple[int, int] | None
    arguments: dict[str, Any]


def superseded(answered: Iterable[tuple[Event, Event]]) -> list[Superseded]:
    """Return the stale results among calls with their results in the order of the log, each with the newest call that
    made it stale.

    A write makes every earlier result about its file stale, a read those about the lines that it read again.
    """
    found: list[Superseded] = []
    later: dict[str, list[tuple[Event, Event, _Use]]] = {}
    for call, result in reversed(list(answered)):
        uses = [] if (result.data or {}).get("is_error") is True else _uses(call)
        if len(uses) == 1:
            (use,) = uses
            by = next(((c, u) for c, r, u in later.get(use.path, ()) if _replaces(u, r, use, result)), None)
            if by is not None:
                found.append(Superseded(result.id, by[0].id, by[1].how, use.path))
        for use in uses:
            later.setdefault(use.path, []).append((call, result, use))
    return found[::-1]


def stale_at(events: Iterable[Event], settled: int) -> dict[int, Superseded]:
    """Return the results among messages that are stale at event `settled`, by their ids."""
    there = [event for event in events if event.id <= settled and event.kind in ("tool_call", "tool_result")]
    calls = {event.id: event for event in there if event.kind == "tool_call"}
    answered = [(calls[event.answers], event) for event in there if event.answers in calls]
    return {each.result: each for each in superseded(sorted(answered, key=lambda pair: pair[0].id))}


def _replaces(newer: _Use, its_result: Event, older: _Use, result: Event) -> bool:
    if newer.how == "write":
        return True
    # Some tools answer a second read with a note that the file has not changed since the first.
    if 2 * len(its_result.content) < len(result.content):
        return False
    if newer.span is None or older.span is None:
        return newer.arguments == older.arguments
    return newer.span[0] <= older.span[0] and older.span[1] <= newer.span[1]


def _uses(call: Event) -> list[_Use]:
    """Return the files that a call reads or writes; none if it is no call of a file tool."""
    try:
        arguments = msgspec.json.decode(call.content, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return []
    name = re.split(r"__|[./:]", str((call.data or {}).get("name", "")).lower())[-1]
    if name == "str_replace_based_edit_tool" or name == "str_replace_editor":
        name = str(arguments.get("command", ""))
    how = "read" if name in READS else "write" if name in WRITES else None
    if how is None:
        return []
    if name == "apply_patch":
        patches = [value for value in arguments.values() if isinstance(value, str)]
        return [_Use(how, _normal(path), None, arguments) for text in patches for path in _PATCHED.findall(text)]
    path = next((arguments[key] for key in _PATHS if isinstance(arguments.get(key), str)), None)
    if not path:
        return []
    return [_Use(how, _normal(path), _span(arguments) if how == "read" else (0, _END), arguments)]


def _normal(path: str) -> str:
    return posixpath.normpath(path.strip().replace("\\", "/"))


def _span(arguments: dict[str, Any]) -> tuple[int, int] | None:
    known = {key: arguments[key] for key in _SPANS if arguments.get(key) is not None}
    if arguments.keys() - {*_PATHS, *_SPANS, "command", "encoding", "description"}:
        return None
    match known:
        case {"view_range": [int() as first, int() as last]}:
            return first, last if last > 0 else _END
        case {"view_range": _}:
            return None
    numbers = {key: value for key, value in known.items() if isinstance(value, int) and not isinstance(value, bool)}
    if numbers.keys() != known.keys():
        return None
    first = numbers.get("offset", numbers.get("start_line", 0))
    first = 0 if first == 1 else first  # tools count lines from 0 or from 1; both mean the first
    last = numbers.get("end_line", first + numbers["limit"] if "limit" in numbers else _END)
    return first, last
