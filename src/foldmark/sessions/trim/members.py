"""A record of a Claude Code session member by member: where in its line everything lies that a trim may change.

This is the slow and certain way, for lines of unusual shape: white space between tokens, keys with escapes or twice,
values of wrong types, texts that are no UTF-8. Of two members with one key the last counts, as for every reader.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from foldmark.sessions import spans
from foldmark.sessions.claude.blocks import FULL
from foldmark.sessions.hook.answering import ADVICE, REMINDS
from foldmark.sessions.trim import cut

NOTE = "[The context was full here. Foldmark has trimmed the session since.]"
"""What stands where Claude Code had written that the context is full."""

_REMINDER = re.compile(rf"Context at \d+%\. (?:{'|'.join(map(re.escape, ADVICE.values()))})")
_SESSION = re.compile(rb'"sessionId":("[^"\\]*")')

Span = spans.Span
Object = dict[str, Span]
Edit = tuple[int, int, bytes]


class ResultSpan(Struct, frozen=True):
    """The result of a call, and where its content lies in the line."""

    call_id: str
    begin: int
    end: int


class CallSpan(Struct, frozen=True):
    """A call, and where its arguments lie in the line."""

    id: str
    tool: str
    begin: int
    end: int


class LineMembers(Struct):
    """What was found in a line; spans are places in it, None where there is no such member of the right type.

    `errors` are the changes that take back that the context was full, `reminders` those that take out what Foldmark's
    hook has said about that.
    """

    session: Span | None = None
    usage: Span | None = None
    display: Span | None = None
    results: list[ResultSpan] = []
    calls: list[CallSpan] = []
    errors: list[Edit] = []
    reminders: list[Edit] = []
    compacted: bool = False
    aside: bool = False


def read(raw: bytes) -> LineMembers | None:
    """What is in a line; None if that is no JSON object."""
    try:
        return _read(raw) if spans.is_json(raw) else None
    except (ValueError, RecursionError):
        return None


def _read(raw: bytes) -> LineMembers:
    record = _object(raw, (0, len(raw)))
    if record is None:
        raise ValueError("no object")
    kind = _text(raw, record.get("type"))
    found = LineMembers(
        session=_starting(raw, record.get("sessionId"), b'"'),
        display=record.get("toolUseResult"),
        compacted=kind == "system" and _text(raw, record.get("subtype")) == "compact_boundary",
        aside=_is_true(raw, record.get("isSidechain")),
    )
    found.compacted |= _is_true(raw, record.get("isCompactSummary"))
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
                given = _starting(raw, block.get("input"), b"{") or (0, 0)
                found.calls.append(CallSpan(_text(raw, block.get("id")), _text(raw, block.get("name")), *given))
            case "tool_result" if "content" in block:
                found.results.append(ResultSpan(_text(raw, block.get("tool_use_id")), *block["content"]))
            case "text" if _starting(raw, block.get("text"), b'"'):
                texts.append(block["text"])
    if _is_true(raw, record.get("isApiErrorMessage")):
        found.errors = list(_errors(raw, record, texts))
    return found


def session_at_start(start: bytes) -> Span | None:
    """Where the session id lies in the beginning of a line, if that is certain."""
    found = _SESSION.search(start)
    return found.span(1) if found and start.rfind(b"{", 0, found.start()) == 0 else None


def session_at_end(end: bytes) -> Span | None:
    """Where the session id lies in the end of a line, if that is certain."""
    stripped = end.rstrip()
    found = next(iter([*_SESSION.finditer(stripped)][-1:]), None)
    return found.span(1) if found and stripped.find(b"}", found.end()) == len(stripped) - 1 else None


def _errors(raw: bytes, record: Object, texts: list[Span]) -> Iterator[Edit]:
    """What takes back an error of a full context; nothing for another error."""
    details = _text(raw, record.get("errorDetails"))
    if not any(FULL.search(said) for said in (details, *(_text(raw, each) for each in texts))):
        return
    yield (*record["isApiErrorMessage"], b"false")
    for key in ("error", "errorDetails"):
        if _starting(raw, record.get(key), b'"'):
            yield (*record[key], b"null")
    for each in texts:
        yield (*each, cut.quoted(NOTE))


def _reminders(raw: bytes, record: Object) -> Iterator[Edit]:
    """What takes Foldmark's reminders out of the texts that hooks gave the model; those of other hooks stay."""
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


def _object(raw: bytes, span: Span | None) -> Object | None:
    if span is None or raw[slice(*span)].lstrip()[:1] != b"{":
        return None
    begin, end = span
    return {key: (begin + at, begin + to) for key, at, to in spans.members(raw[begin:end])}


def _blocks(raw: bytes, span: Span | None) -> Iterator[Object]:
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
    """The text at a place; empty where there is none, or none that can be read."""
    if _starting(raw, span, b'"') is None or span is None:
        return ""
    try:
        return cut.text_of(raw[slice(*span)])
    except ValueError:
        return ""
