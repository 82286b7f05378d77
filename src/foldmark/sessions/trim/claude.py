"""Trim the lines of a Claude Code session, and tell which of them the model is sent [SPEC 8, S4].

Only these bytes of a line change: the session id; the results of the selected tools, both for the model and in the
display copy; arguments that the plan names; reminders of Foldmark's hook; and the signs of a full context: the numbers
in `usage` of assistant records, and the record of an error that reported it.

A line in the usual form is decoded once for the few members that matter, which are then located in its bytes. In any
other line, and if a place is uncertain, they are located member by member, which takes longer. Such a line may have
white space between tokens, escaped or repeated keys, values of wrong types, or invalid UTF-8. If a key is repeated, the
last member counts, as for every reader.
"""

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Any

from msgspec.structs import replace

from foldmark.core.assembly.superseded import (
    REJECTED,
    UNCHANGED,
    Exchange,
    is_void,
    tool_and_uses,
)
from foldmark.core.patterns import pattern
from foldmark.formats.claude.members import DISPLAY, ERROR, SESSION
from foldmark.formats.claude.records import Row
from foldmark.formats.claude.resumption import is_resumable, resume
from foldmark.formats.claude.usual import UnusualError, UsualBlock, UsualRecord, odd, usual
from foldmark.formats.cut import Origin, Replacement, is_cut_list, quoted, sent_size, string, text_of
from foldmark.formats.sent import sent_records
from foldmark.sessions.hook.answering import ADVICE, REMINDS
from foldmark.sessions.trim.job import Cut, LineTrimmer
from foldmark.sessions.trim.results import content, display
from foldmark.sessions.trim.stale import FAILED, TODOS
from foldmark.wires import spans
from foldmark.wires.anthropic import RESULT, USE
from foldmark.wires.lenient_json import NotJsonError, as_object, decode, filled_text, member
from foldmark.wires.spans import Span

NOTE = "[The context was full here. Foldmark has trimmed the session since.]"
"""Replaces Claude Code's message that the context is full."""

_REMINDER = pattern(rf"Context at \d+%\. (?:{'|'.join(map(re.escape, ADVICE.values()))})")

_TEXTS = ("content", "old_string", "new_string", "new_source", "prompt")
"""Members of arguments that hold texts. Paths and names are never cut."""

Change = tuple[tuple[str | int, ...], bytes, bytes]
"""The path of a value in a line, its bytes, and those in the new line."""

_SESSION, _USAGE = b'"%b":' % SESSION.encode(), b'"usage":{'
_HEAD = 64
_UNCHANGED, _HEAD_OF_NOTE = UNCHANGED.encode(), 1000
"""Claude Code's note about an earlier result, and the bytes at the beginning of a result in which it is looked for."""

_TOKEN = pattern(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?\d[\d.eE+-]*')


class ClaudeLines(LineTrimmer):
    """Trims the lines of one session, and notes what tells afterwards which of them the model is sent."""

    bytes_per_token = 3.0
    finds_stale = True
    _seen = _needle = b""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._rows: list[Row] = []
        self._calls: dict[tuple[int, str], Exchange] = {}
        self._results: dict[tuple[int, str], dict[str, Any]] = {}

    @cached_property
    def _order(self) -> Sequence[Row]:
        """The rows that are sent when the session is resumed. An abandoned branch makes nothing stale.

        Claude Code skips records without a uuid. If there are no others, they are one chain, as for an import.
        """
        if is_resumable(self._rows):
            return resume(self._rows).order
        main = [row for row in self._rows if not row.aside]
        return main[max((at for at, row in enumerate(main) if row.boundary or row.compacts), default=0) :]

    def sent(self) -> Container[int]:
        return {row.line for row in sent_records(self._order)}

    def calls(self) -> list[Exchange]:
        calls: dict[str, Exchange] = {}
        for row in self._order:
            for id in row.calls:
                calls.setdefault(id, self._calls[row.line, id])
            for id in row.results:
                if id in calls and calls[id].digest is None:
                    calls[id] = replace(calls[id], **self._results[row.line, id])
        return list(calls.values())

    def line(self, number: int, raw: bytes) -> bytes:
        cuts = list[Cut]()
        try:
            try:
                record, change = usual(raw), self._quickly
                row = record.row(self.at, raw, self._rows[-1] if self._rows else None)
            except UnusualError:
                (record, row), change = odd(raw, self.at), _exactly
            line = change(raw, list(self._changes(record, raw, Origin(number, str(self.source)), cuts)))
        except (ValueError, RecursionError):  # not a JSON object
            return raw
        if row is not None:
            self._note(row, record.blocks)
        for each in cuts:
            self.count(each)
        return line

    def _changes(self, record: UsualRecord, raw: bytes, place: Origin, counted: list[Cut]) -> Iterator[Change]:
        """Yield the changes of a line. The cuts of results are added to `counted`."""
        if (session := bytes(record.session)).startswith(b'"'):
            yield (SESSION,), session, self.new_id
        usage = bytes(record.message.usage) if record.message is not None and record.type == "assistant" else b""
        if usage.startswith(b"{"):
            yield ("message", "usage"), usage, _zeroed(usage)
        if record.type == "attachment" and b"hook" in raw:
            yield from self._without_reminders(raw)
        if record.failed:
            for key in ERROR:
                yield (key,), b"", b"false" if key == ERROR[0] else b"null"
        cuts, known = list[Cut | None](), dict[bytes, bytes]()
        for at, block in enumerate(record.blocks):
            path = ("message", "content", at)
            if block.type == USE:
                self.call(block.id, block.name)
                if step := self.plan.arguments.get(block.id):
                    given = bytes(block.input)
                    yield (*path, "input"), given, self._arguments(given, block.name, step, place)
            elif block.type == RESULT:
                old = bytes(block.content)
                cuts.append(self.cut(block.call_id, old, place, content))
                if cuts[-1] and cuts[-1].new:
                    known[old] = cuts[-1].new.raw
                    yield (*path, "content"), old, known[old]
            elif block.type == "text" and record.failed:
                yield (*path, "text"), bytes(block.text), quoted(NOTE)
        if any(cuts):
            counted += filter(None, cuts)
            whole = bytes(record.display)
            yield (DISPLAY,), whole, self._display(whole, cuts, place, known)

    def _quickly(self, raw: bytes, changes: Sequence[Change]) -> bytes:
        """Return a line with these changes. Their places are found in its bytes; if one is uncertain, it is parsed."""
        try:
            return self._by_bytes(raw, changes)
        except UnusualError:
            return _exactly(raw, changes)

    def _by_bytes(self, raw: bytes, changes: Sequence[Change]) -> bytes:
        """Return a line in the form that Claude Code writes with these changes. Raises UnusualError."""
        edits, checked = list[tuple[int, int, bytes]](), list[Change]()
        for path, old, new in changes:
            if path == (SESSION,):
                edits.append((*self._session_span(raw, old), new))
            elif path[-1] == "usage":
                if raw.find(_USAGE) != raw.rfind(_USAGE):
                    raise UnusualError
                edits.append((*_place(raw, "usage", old), new))
            elif path[0] == "attachment":
                raise UnusualError
            elif old != new:
                edits.append((*_place(raw, str(path[-1]), old), new))
                checked.append((path, old, new))
        line = spans.edited(raw, edits)
        if checked:
            record = usual(line)
            for path, _, new in checked:
                now = record.display if len(path) == 1 else getattr(record.blocks[int(path[2])], str(path[-1]))
                if bytes(now) != new:
                    raise UnusualError
        return line

    def _note(self, row: Row, blocks: Sequence[UsualBlock]) -> None:
        """Note a record, and in a pass that notes them its calls and results, which are among these blocks."""
        for at, id in row.paired if self.notes else ():
            if row.is_answer:
                self._calls[self.at, id] = _call(id, blocks[at].name, bytes(blocks[at].input))
            else:
                self._results[self.at, id] = _result(bytes(blocks[at].content), blocks[at].is_error is True)
        self._rows.append(row)

    def _session_span(self, raw: bytes, value: bytes) -> Span:
        """Return the span of the session id. With no brace between it and one end, it is in the outermost object."""
        if value != self._seen:
            self._seen, self._needle = value, _SESSION + value
        at = raw.rfind(self._needle)
        end = at + len(self._needle)
        if at < 0 or (raw.rfind(b"{", 0, at) != 0 and raw.find(b"}", end) != len(raw.rstrip()) - 1):
            raise UnusualError
        return at + len(_SESSION), end

    def _display(self, whole: bytes, cuts: list[Cut | None], place: Origin, known: dict[bytes, bytes]) -> bytes:
        """Return the display copy of results that were cut, also cut if that makes it shorter."""
        if self.options.keep_display_copy or not all(cuts):
            return whole
        shown = display(whole, self.options.threshold, place, known)
        return shown if len(shown) < len(whole) else whole

    def _arguments(self, given: bytes, tool: str, step: str, place: Origin) -> bytes:
        """Cut the stale arguments of a call and return them."""
        place = replace(place, what="argument")
        try:
            if step == TODOS:
                new = _todos_cut(given, place)
            else:
                new = _arguments_cut(given, 0 if step == FAILED else self.options.threshold, place)
        except (ValueError, RecursionError):
            return given
        if new is None:
            return given
        self.count(Cut(tool, new, step), arguments=True)
        return new.raw

    def _without_reminders(self, raw: bytes) -> Iterator[Change]:
        """Yield the change that removes Foldmark's reminders from the texts of hooks. The texts of other hooks stay."""
        attached = member(decode(raw), "attachment")
        texts, path = member(attached, "content"), ("attachment", "content")
        is_hook = member(attached, "type") == "hook_additional_context" and attached.get("hookEvent") in REMINDS
        if is_hook and isinstance(texts, list) and (at := spans.find(raw, path)):
            ours = [isinstance(text, str) and _REMINDER.fullmatch(text) is not None for text in texts]
            old = raw[slice(*at)]
            left = [old[begin:end] for own, (begin, end) in zip(ours, spans.items(old), strict=True) if not own]
            if len(left) < len(ours):
                self.reminders += 1
                yield path, old, b"[%b]" % b",".join(left)


def _exactly(raw: bytes, changes: Iterable[Change]) -> bytes:
    """Return any line with these changes."""
    found = ((spans.find(raw, path), new) for path, _, new in changes)
    return spans.edited(raw, [(*span, new) for span, new in found if span])


@lru_cache(maxsize=16)  # the records of one answer repeat its usage
def _zeroed(usage: bytes) -> bytes:
    """Return `usage` with every number set to 0."""
    return _TOKEN.sub(_zero, usage) if usage.startswith(b"{") else usage


def _zero(token: re.Match[bytes]) -> bytes:
    return token[0] if token[0].startswith(b'"') else b"0"


def _place(raw: bytes, key: str, value: bytes) -> Span:
    """Return the first place of a value after its key. Raises UnusualError."""
    begin = b'"%b":' % key.encode()
    head = begin + value[:_HEAD]
    at = raw.find(head)
    while at >= 0 and not raw.startswith(value, at + len(begin)):
        at = raw.find(head, at + 1)
    if at < 0:
        raise UnusualError
    return at + len(begin), at + len(begin) + len(value)


def _arguments_cut(raw: bytes, kept: int, place: Origin) -> Replacement | None:
    """Return arguments with each long text cut to `kept` characters; None if nothing is cut. Raises ValueError."""
    found = list(_argument_cuts(raw, kept, place))
    if not found:
        return None
    new = spans.edited(raw, [(begin, end, each.raw) for begin, end, each in found])
    cut = [each for _, _, each in found]
    return Replacement(new, sum(each.characters for each in cut), sum(each.bytes for each in cut))


def _argument_cuts(raw: bytes, kept: int, place: Origin) -> Iterator[tuple[int, int, Replacement]]:
    for key, begin, end in spans.members(raw):
        if key in _TEXTS and raw[begin : begin + 1] == b'"':
            if found := string(raw[begin:end], kept, place):
                yield begin, end, found
        elif key == "edits" and raw[begin : begin + 1] == b"[":
            for first, last in spans.items(raw[begin:end]):
                for inner, outer, found in _argument_cuts(raw[begin + first : begin + last], kept, place):
                    yield begin + first + inner, begin + first + outer, found


def _todos_cut(raw: bytes, place: Origin) -> Replacement | None:
    """Return arguments in which one entry that names the original replaces the todo list; None if nothing is cut.

    Raises ValueError.
    """
    at = spans.last(raw, "todos")
    items = spans.items(raw[slice(*at)]) if at else []
    texts = [_todo(raw[at[0] + begin : at[0] + end]) for begin, end in items] if at else []
    if at is None or not items or (len(texts) == 1 and is_cut_list(texts[0], 1)):
        return None
    pointer = quoted(place.pointer(0, len(items), "entries"))
    new = b'[{"content":%b,"status":"completed","activeForm":"Trimmed"}]' % pointer
    if len(new) >= at[1] - at[0]:
        return None
    saved = sent_size(raw[slice(*at)]) - len(new)
    return Replacement(spans.edited(raw, [(*at, new)]), sum(map(len, texts)), saved)


def _todo(todo: bytes) -> str:
    at = spans.last(todo, "content")
    return text_of(todo[slice(*at)]) if at and todo[at[0] : at[0] + 1] == b'"' else ""


def _call(id: str, name: str, given: bytes) -> Exchange:
    """Return a call with these arguments.

    Python's hash, 64 bits with a key of the process, is enough to tell its arguments from others.
    """
    arguments = {}
    with suppress(NotJsonError):
        arguments = as_object(decode(given)) if given else {}
    tool, uses = tool_and_uses(name, arguments)
    attempt = uses[0].path if len(uses) == 1 else hash(given)
    return Exchange(id=id, tool=tool, uses=uses, attempt=attempt)


def _result(given: bytes, failed: bool) -> dict[str, Any]:
    """Return what an exchange has of a result with this content."""
    begin = _begin(given) if failed or _UNCHANGED in given[:_HEAD_OF_NOTE] else ""
    spoken = failed and begin.startswith(REJECTED)
    return {"digest": hash(given), "failed": failed, "spoken": spoken, "void": is_void(begin)}


def _begin(raw: bytes) -> str:
    """Return the first text of a result's content."""
    try:
        content = decode(raw)
    except NotJsonError:
        return ""
    first = content[0] if isinstance(content, list) and content else None
    return filled_text(member(first, "text") if isinstance(first, dict) else content) or ""
