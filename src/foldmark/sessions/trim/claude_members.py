"""Find the places in a line of a Claude Code session that a trim may change, and its calls [SPEC 8, S4].

`read_members` is slow and certain. It reads lines of unusual shape: with white space between tokens, escaped or
repeated keys, values of wrong types, or invalid UTF-8. Of two members with one key the last counts, as for every
reader.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from foldmark.sessions import spans
from foldmark.sessions.claude.blocks import FULL
from foldmark.sessions.claude.records import rows
from foldmark.sessions.claude.resumption import resume
from foldmark.sessions.hook.answering import ADVICE, REMINDS
from foldmark.sessions.lenient_json import filled_text, member
from foldmark.sessions.session_file import Piece, SessionFile
from foldmark.sessions.spans import Span
from foldmark.sessions.trim import cut
from foldmark.sessions.trim.stale import CallRecord, digest

NOTE = "[The context was full here. Foldmark has trimmed the session since.]"
"""Replaces Claude Code's message that the context is full."""

_REMINDER = re.compile(rf"Context at \d+%\. (?:{'|'.join(map(re.escape, ADVICE.values()))})")
_REJECTED = ("The user doesn't want to", "[Request interrupted by user")
"""Prefixes of results that report a person's decision; the reason may follow."""

_UNCHANGED = "File unchanged since last read"
_PART = ("offset", "limit", "pages", "view_range")

Edit = tuple[int, int, bytes]
_Object = dict[str, Span]


class ResultMember(Struct, frozen=True):
    """The result of a call: its content, and its place in the line (None: not looked for yet)."""

    call_id: str
    content: bytes
    span: Span | None = None


class CallMember(Struct, frozen=True):
    """A call, and the place of its arguments in the line (None: there are none to cut)."""

    id: str
    tool: str
    arguments: Span | None = None


class LineMembers(Struct):
    """The places in a line that a trim may change; None if a member is missing or of another type.

    `display` is the display copy, `display_span` its place (None: not looked for yet). `errors` are the edits that take
    back the error of a full context. `reminders` are the edits that remove reminders of Foldmark's hook.
    """

    session: Span | None = None
    usage: Span | None = None
    display: bytes = b""
    display_span: Span | None = None
    results: list[ResultMember] = []
    calls: list[CallMember] = []
    errors: list[Edit] = []
    reminders: list[Edit] = []
    compacted: bool = False
    aside: bool = False


def read_members(raw: bytes) -> LineMembers | None:
    """Return the members of a line; None if it is not a JSON object."""
    try:
        return _read(raw) if spans.is_json(raw) else None
    except (ValueError, RecursionError):
        return None


def _read(raw: bytes) -> LineMembers:
    record = _object(raw, (0, len(raw)))
    if record is None:
        raise ValueError("no object")
    kind = _text(raw, record.get("type"))
    is_boundary = kind == "system" and _text(raw, record.get("subtype")) == "compact_boundary"
    found = LineMembers(
        session=_starting(raw, record.get("sessionId"), b'"'),
        display=raw[slice(*record.get("toolUseResult", (0, 0)))],
        display_span=record.get("toolUseResult"),
        compacted=is_boundary or _is_true(raw, record.get("isCompactSummary")),
        aside=_is_true(raw, record.get("isSidechain")),
    )
    if kind == "attachment":
        found.reminders = list(_reminders(raw, record))
    message = _object(raw, record.get("message"))
    if message is None:
        return found
    if kind == "assistant":
        found.usage = _starting(raw, message.get("usage"), b"{")
    texts = []
    for block in _blocks(raw, message.get("content")):
        match _text(raw, block.get("type")):
            case "tool_use":
                arguments = _starting(raw, block.get("input"), b"{")
                found.calls.append(CallMember(_text(raw, block.get("id")), _text(raw, block.get("name")), arguments))
            case "tool_result" if "content" in block:
                at = block["content"]
                found.results.append(ResultMember(_text(raw, block.get("tool_use_id")), raw[slice(*at)], at))
            case "text" if _starting(raw, block.get("text"), b'"'):
                texts.append(block["text"])
    if _is_true(raw, record.get("isApiErrorMessage")):
        found.errors = list(_errors(raw, record, texts))
    return found


def calls(pieces: Sequence[Piece]) -> list[CallRecord]:
    """Return the calls that are sent on resuming the session. An abandoned branch makes nothing stale.

    Raises SessionFileError.
    """
    found: dict[str, CallRecord] = {}
    with SessionFile(pieces[0].path) as file:
        for row in resume(list(rows(file))).order:
            if not row.calls and not row.results:
                continue
            content = file.reread(row.line, row.offset).value["message"]["content"]
            for at, id in row.calls:
                if id not in found:
                    found[id] = _call(id, content[at])
            for at, id in row.results:
                if id in found and found[id].digest is None:
                    found[id] = _with_result(found[id], content[at])
    return list(found.values())


def _call(id: str, block: dict[str, Any]) -> CallRecord:
    arguments = block.get("input")
    arguments = arguments if isinstance(arguments, dict) else {}
    paths = (arguments.get(key) for key in ("file_path", "notebook_path"))
    path = next((each for each in paths if isinstance(each, str)), None)
    part = {key: arguments[key] for key in _PART if arguments.get(key) is not None}
    attempt = path if path is not None else digest(arguments).hex()
    return CallRecord(id, block["name"], path, json.dumps(part, sort_keys=True) if part else None, attempt)


def _with_result(call: CallRecord, block: dict[str, Any]) -> CallRecord:
    content, failed = block.get("content"), block.get("is_error") is True
    first = content[0] if isinstance(content, list) and content else None
    begin = filled_text(member(first, "text") if isinstance(first, dict) else content) or ""
    return replace(
        call,
        failed=failed,
        digest=digest(content),
        spoken=failed and begin.startswith(_REJECTED),
        void=begin.startswith(_UNCHANGED) or _UNCHANGED in begin[:100],
    )


def _errors(raw: bytes, record: _Object, texts: list[Span]) -> Iterator[Edit]:
    """Yield the edits that take back the error of a full context. Other errors stay."""
    details = _text(raw, record.get("errorDetails"))
    if not any(FULL.search(text) for text in (details, *(_text(raw, each) for each in texts))):
        return
    yield (*record["isApiErrorMessage"], b"false")
    for key in ("error", "errorDetails"):
        if _starting(raw, record.get(key), b'"'):
            yield (*record[key], b"null")
    for each in texts:
        yield (*each, cut.quoted(NOTE))


def _reminders(raw: bytes, record: _Object) -> Iterator[Edit]:
    """Yield the edit that removes Foldmark's reminders from the texts of hooks. The texts of other hooks stay."""
    attached = _object(raw, record.get("attachment")) or {}
    texts = _starting(raw, attached.get("content"), b"[")
    if _text(raw, attached.get("type")) != "hook_additional_context" or texts is None:
        return
    if _text(raw, attached.get("hookEvent")) not in REMINDS:
        return
    begin, end = texts
    items = [(begin + at, begin + to) for at, to in spans.items(raw[begin:end])]
    rest = [raw[slice(*each)] for each in items if not _REMINDER.fullmatch(_text(raw, each))]
    if len(rest) < len(items):
        yield begin, end, b"[%b]" % b",".join(rest)


def _object(raw: bytes, span: Span | None) -> _Object | None:
    if span is None or raw[slice(*span)].lstrip()[:1] != b"{":
        return None
    begin, end = span
    return {key: (begin + at, begin + to) for key, at, to in spans.members(raw[begin:end])}


def _blocks(raw: bytes, span: Span | None) -> Iterator[_Object]:
    if span is None or raw[span[0] : span[0] + 1] != b"[":
        return
    for begin, end in spans.items(raw[slice(*span)]):
        block = _object(raw, (span[0] + begin, span[0] + end))
        if block is not None:
            yield block


def _starting(raw: bytes, span: Span | None, first: bytes) -> Span | None:
    return span if span is not None and raw[span[0] : span[0] + 1] == first else None


def _is_true(raw: bytes, span: Span | None) -> bool:
    return span is not None and raw[slice(*span)] == b"true"


def _text(raw: bytes, span: Span | None) -> str:
    """Return the text at a place; "" if it is missing or cannot be read."""
    if _starting(raw, span, b'"') is None or span is None:
        return ""
    try:
        return cut.text_of(raw[slice(*span)])
    except ValueError:
        return ""
