"""Messages that are sent in another form: evicted results as placeholders, summaries in a provider's own form [SPEC
5.7].

An evicted result stays in the log and in the context. A one-line placeholder is sent in its place, so that its call
still has a result. The result of a file tool is stale once a later call has read or written the same file. Such calls
are recognized by the names that programs give these tools, and by the path in the arguments. In case of doubt a result
is not stale: neither a failed call nor a different spelling of the path makes it stale.

A `summary` event keeps the form of a provider in `native`, under the name of its reader: `anthropic` and
`openai_responses` (a list of blocks or items), `openai_agents` (items of the Agents SDK, as JSON text) or
`pydantic_ai`. Other readers get the messages that the summary replaces. A summary has the position of the first message
that it replaces.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from foldmark.core.config import Config
from foldmark.core.events import Event

AGENTS_SDK, RESPONSES = "openai_agents", "openai_responses"
"""Readers of the same items."""

OPAQUE = "[A compaction by the provider, which only its own models can read; /restore brings the messages back.]"
"""The text of a summary that only its provider can read."""


def forms(event: Event) -> dict[str, Any]:
    """Return the forms of a summary, reader -> form; empty for any other message."""
    found = (event.data or {}).get("native") if event.kind == "summary" else None
    return found if isinstance(found, dict) else {}


def blocks_of(event: Event, reader: str) -> tuple[dict[str, Any], ...]:
    """Return a summary in the form that `reader` reads; empty if it has no such form."""
    known = forms(event)
    items, own = known.get(reader), known.get(AGENTS_SDK)
    if items is None and reader == RESPONSES and isinstance(own, dict):
        try:
            items = msgspec.json.decode(own["json"])
        except (KeyError, TypeError, msgspec.MsgspecError, UnicodeError, RecursionError):
            items = None
    valid = isinstance(items, list) and all(isinstance(each, dict) for each in items)
    return tuple(items) if valid and items else ()


def begins(event: Event) -> int:
    """Return the id that decides a message's position: for a summary, the id of the first message that it replaced,
    otherwise its own."""
    if event.kind != "summary":
        return event.id
    ranges = (event.data or {}).get("ranges")
    firsts = [each[1] for each in ranges if isinstance(each, list | tuple)] if isinstance(ranges, list | tuple) else []
    return min(event.id, *(first for first in firsts if isinstance(first, int)), event.id)


def in_place(events: Iterable[Event]) -> list[Event]:
    """Return messages in the order of the log, but each summary at the beginning of the messages that it replaced."""
    found = list(events)
    for late in [event for event in found if event.kind == "summary" and begins(event) < event.id]:
        found.remove(late)
        index = next((i for i, event in enumerate(found) if begins(event) > begins(late)), len(found))
        found.insert(index, late)
    return found


def in_place_newest_first(events: Iterable[Event]) -> Iterator[Event]:
    """Yield messages in the reverse order of `in_place`, newest first, reading only as many as needed."""
    summaries: list[Event] = []
    for event in events:
        while summaries and begins(summaries[-1]) > event.id:
            yield summaries.pop()
        if event.kind == "summary" and begins(event) < event.id:
            summaries.append(event)
            summaries.sort(key=lambda each: (begins(each), each.id))
        else:
            yield event
    yield from reversed(summaries)


READS = frozenset(("read", "read_file", "read_text_file", "readfile", "view", "view_file", "open_file", "notebookread"))
WRITES = frozenset(
    (
        *("write", "write_file", "writefile", "create_file", "create", "edit", "edit_file", "multiedit", "multi_edit"),
        *("str_replace", "insert", "replace", "notebookedit", "apply_patch"),
    )
)
"""Names of tools that read or write files, in lower case and without a server's prefix."""

_PATHS = ("path", "file_path", "filePath", "absolute_path", "notebook_path", "target_file", "filename")
_SPANS = ("offset", "limit", "start_line", "end_line", "view_range")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_END = 1 << 62


class Superseded(NamedTuple):
    """A stale result, the call that made it stale, and `read` or `write` for that call; `path` is the file."""

    result: int
    by: int
    how: str
    path: str


class _Use(NamedTuple):
    """A use of one file; `span` is the first and the last line, None if the arguments name no plain range of lines."""

    how: str
    path: str
    span: tuple[int, int] | None
    arguments: dict[str, Any]


def superseded(answered: Iterable[tuple[Event, Event]]) -> list[Superseded]:
    """Return the stale results among pairs of a call and its result in the order of the log, each with the newest call
    that made it stale.

    A write makes every earlier result about its file stale; a read, those about lines that it read again.
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
    exchanged = [event for event in events if event.id <= settled and event.kind in ("tool_call", "tool_result")]
    calls = {event.id: event for event in exchanged if event.kind == "tool_call"}
    answered = [(calls[event.answers], event) for event in exchanged if event.answers in calls]
    return {each.result: each for each in superseded(sorted(answered, key=lambda pair: pair[0].id))}


def _replaces(newer: _Use, its_result: Event, older: _Use, result: Event) -> bool:
    if newer.how == "write":
        return True
    # Some tools answer a second read only with a note that the file has not changed since the first.
    if 2 * len(its_result.content) < len(result.content):
        return False
    if newer.span is None or older.span is None:
        return newer.arguments == older.arguments
    return newer.span[0] <= older.span[0] and older.span[1] <= newer.span[1]


def _uses(call: Event) -> list[_Use]:
    """Return the files that a call reads or writes; none for a call of any other tool."""
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


PLACEHOLDER = '[Evicted: {length:,} characters. query_db(sql="SELECT content FROM messages WHERE id={id}") shows them'
"""The beginning of an evicted result's placeholder; `{id}` is the id of its event."""


def placeholder(event: Event, by: int) -> str:
    """Return the placeholder of a result that operation `by` evicted; `by` is 0 if this agent cannot undo it."""
    return placeholder_text(len(event.content), event.id, by)


def placeholder_text(length: int, event_id: int, by: int) -> str:
    """Return the placeholder of a result of `length` characters."""
    back = f"; /restore {by} sends it again" if by else ""
    return f"{PLACEHOLDER.format(length=length, id=event_id)}{back}.]"


def is_longer(event: Event) -> bool:
    """Return True for a tool result that is longer than its placeholder."""
    if event.kind != "tool_result":
        return False
    return bool((event.data or {}).get("blocks")) or len(event.content) > len(placeholder(event, event.id))


def as_sent(event: Event, evicted: Mapping[int, int]) -> Event:
    """Return the event as it is sent: an evicted result as its placeholder, without images."""
    if event.kind != "tool_result" or event.id not in evicted:
        return event
    return _replaced(event, placeholder(event, evicted[event.id]))


def _replaced(event: Event, text: str) -> Event:
    data = {key: value for key, value in (event.data or {}).items() if key in ("call_id", "is_error")}
    return replace(event, content=text, data=data)


def all_as_sent(events: Iterable[Event], evicted: Mapping[int, int]) -> Iterable[Event]:
    """Return the events as they are sent, in order."""
    return (as_sent(event, evicted) for event in events) if evicted else events


def evicted_as_sent(
    events: Sequence[Event], evicted: Mapping[int, int], config: Config, settled: int, uncut: int | None = None
) -> tuple[list[Event], dict[int, str]]:
    """Return the events as they are sent, and a note for a person about each evicted result, by its id.

    With `evict_superseded`, results that were stale at event `settled`, the boundary, are evicted as well, except
    result `uncut` and those that are not longer than their placeholders.
    """
    found = stale_at(events, settled) if config.evict_superseded else {}
    spared = {*evicted, uncut}
    stale = {e.id: found[e.id] for e in events if e.id in found and e.id not in spared and is_longer(e)}
    notes = {e.id: f"{len(e.content):,} characters" for e in events if e.id in evicted}
    shown: list[Event] = []
    for event in all_as_sent(events, evicted):
        if newer := stale.get(event.id):
            deed = "read {} again" if newer.how == "read" else "wrote {}"
            mark = PLACEHOLDER.format(length=len(event.content), id=event.id)
            notes[event.id] = (
                f"{len(event.content):,} characters, since call {newer.by} {deed.format(newer.path)}; "
                "/config set evict_superseded=off sends it again"
            )
            event = _replaced(event, f"{mark}; a later call {deed.format('this file')}.]")
        shown.append(event)
    return shown, notes
