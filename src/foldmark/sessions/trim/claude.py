"""Trim the lines of a Claude Code session [SPEC 8, S4].

Only these bytes of a line change: the session id; the results of the selected tools, both for the model and in the
display copy; arguments that the plan names; reminders of Foldmark's hook; and the signs of a full context: the numbers
in `usage` of assistant records, and the record of an error that reported it.

A line in the usual form is decoded once for the few members that matter, which are then located in its bytes. Any other
line is changed member by member, which takes 1.8 times as long: if the place of a member is uncertain, and for rare
changes. Such a line may have white space between tokens, escaped or repeated keys, values of wrong types, or invalid
UTF-8. If a key is repeated, the last member counts, as for every reader.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from foldmark.core.assembly.superseded import REJECTED, Exchange, digest, is_void, tool_and_uses
from foldmark.sessions import spans
from foldmark.sessions.claude.blocks import says_full
from foldmark.sessions.claude.records import rows
from foldmark.sessions.claude.resumption import resume
from foldmark.sessions.hook.answering import ADVICE, REMINDS
from foldmark.sessions.lenient_json import filled_text, member
from foldmark.sessions.session_file import Piece, SessionFile
from foldmark.sessions.spans import Span, within
from foldmark.sessions.trim.cut import Origin, Replacement, is_cut_list, quoted, string, text_of
from foldmark.sessions.trim.job import Cut, LineTrimmer
from foldmark.sessions.trim.results import content, display
from foldmark.sessions.trim.stale import FAILED, TODOS

NOTE = "[The context was full here. Foldmark has trimmed the session since.]"
"""Replaces Claude Code's message that the context is full."""

_REMINDER = re.compile(rf"Context at \d+%\. (?:{'|'.join(map(re.escape, ADVICE.values()))})")

_NONE = Raw(b"")
_TEXTS = ("content", "old_string", "new_string", "new_source", "prompt")
"""Members of arguments that hold texts. Paths and names are never cut."""

_HEAD = 64
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?\d[\d.eE+-]*')


class _Block(Struct, gc=False):
    type: str = ""
    id: str = ""
    name: str = ""
    tool_use_id: str = ""
    content: Raw = _NONE


class _Message(Struct, gc=False):
    content: list[_Block] | str | None = None
    usage: Raw = _NONE


class _Record(Struct, gc=False):
    type: str = ""
    subtype: str | None = None
    session: Raw = msgspec.field(default=_NONE, name="sessionId")
    message: _Message | None = None
    display: Raw = msgspec.field(default=_NONE, name="toolUseResult")
    failed: bool | None = msgspec.field(default=None, name="isApiErrorMessage")
    summary: bool | None = msgspec.field(default=None, name="isCompactSummary")
    aside: bool | None = msgspec.field(default=None, name="isSidechain")


_decode = msgspec.json.Decoder(_Record).decode


class _UnsureError(Exception):
    """A member may be at more than one place."""


class ClaudeLines(LineTrimmer):
    """Trims the lines of one session."""

    bytes_per_token = 3.0
    _seen = _needle = b""

    @staticmethod
    def calls(pieces: Sequence[Piece]) -> list[Exchange]:
        """Return the calls that are sent when the session is resumed. An abandoned branch makes nothing stale.

        Raises SessionFileError.
        """
        found: dict[str, Exchange] = {}
        with SessionFile(pieces[0].path) as file:
            for row in resume(list(rows(file))).order:
                if not row.calls and not row.results:
                    continue
                blocks = file.reread(row.line, row.offset).value["message"]["content"]
                for at, id in row.calls:
                    if id not in found:
                        found[id] = _call(id, blocks[at])
                for at, id in row.results:
                    if id in found and found[id].digest is None:
                        found[id] = _with_result(found[id], blocks[at])
        return list(found.values())

    def line(self, number: int, raw: bytes) -> bytes:
        place = Origin(number, str(self.source))
        try:
            return self._usual(raw, place)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, _UnsureError):
            try:
                return self._unusual(raw, place)
            except (ValueError, RecursionError):  # not a JSON object
                return raw

    def _usual(self, raw: bytes, place: Origin) -> bytes:
        """Change a line in the form that Claude Code writes.

        Raises _UnsureError or MsgspecError for any other line, before any result is counted.
        """
        record = _decode(raw)
        if record.failed or (record.type == "attachment" and b'"hook_additional_context"' in raw):
            raise _UnsureError
        edits = []
        if (session := bytes(record.session)) and (span := self._session_span(raw, session)):
            edits.append((*span, self.new_id))
        message = record.message
        if record.summary or (message is None and record.type == "system" and record.subtype == "compact_boundary"):
            self.in_context = 0
        if message is None:
            return spans.edited(raw, edits)
        results = []
        for block in message.content if type(message.content) is list else ():
            if block.type == "tool_use":
                if block.id in self.plan.arguments:
                    raise _UnsureError
                self.call(block.id, block.name)
            elif block.type == "tool_result":
                results.append((block.tool_use_id, bytes(block.content)))
        if record.type == "assistant" and (usage := bytes(message.usage)).startswith(b"{"):
            at = raw.rfind(b'"usage":{')
            if at < 0 or raw.find(b'"usage":{') != at or not raw.startswith(usage, at + 8):
                raise _UnsureError
            edits.append((at + 8, at + 8 + len(usage), _zeroed(usage)))
        cuts = [self.cut(call_id, each, place, content) for call_id, each in results]
        if not any(cuts):
            return spans.edited(raw, edits)
        known = {old: cut.new.raw for (_, old), cut in zip(results, cuts, strict=True) if cut and cut.new}
        edits += [(*_place(raw, b'"content":', old), new) for old, new in known.items()]
        whole = bytes(record.display)
        shown = self._display(whole, cuts, place, known)
        if shown != whole:
            edits.append((*_place(raw, b'"toolUseResult":', whole), shown))
        line = spans.edited(raw, edits)
        if known or shown != whole:
            _check(line, cuts, shown)
        self._count_all(cuts, record.aside is True)
        return line

    def _session_span(self, raw: bytes, value: bytes) -> Span | None:
        """Return the span of the session id. With no brace between it and one end, it is in the outermost object."""
        if value != self._seen:
            if not value.startswith(b'"'):
                return None
            self._seen, self._needle = value, b'"sessionId":' + value
        at = raw.rfind(self._needle)
        end = at + len(self._needle)
        if at < 0 or (raw.rfind(b"{", 0, at) != 0 and raw.find(b"}", end) != len(raw.rstrip()) - 1):
            raise _UnsureError
        return at + 12, end

    def _unusual(self, raw: bytes, place: Origin) -> bytes:
        """Change a line member by member. Raises ValueError, RecursionError if it is not a JSON object."""
        if not spans.is_json(raw):
            return raw
        raw = within(raw, ("sessionId",), partial(_replaced, self.new_id))
        try:
            record = _value(raw)
        except RecursionError:  # nested too deeply for anything else
            return raw
        if not isinstance(record, dict):
            return raw
        kind, message = record.get("type"), record.get("message")
        if kind == "attachment":
            raw = self._without_reminders(raw, record.get("attachment"))
        is_boundary = kind == "system" and record.get("subtype") == "compact_boundary"
        if is_boundary or record.get("isCompactSummary") is True:
            self.in_context = 0
        if not isinstance(message, dict):
            return raw
        if kind == "assistant":
            raw = within(raw, ("message", "usage"), _zeroed)
        full = says_full(record)
        if full:
            raw = within(raw, ("isApiErrorMessage",), lambda _: b"false")
            for key in ("error", "errorDetails"):
                raw = within(raw, (key,), partial(_replaced, b"null"))
        blocks, aside = message.get("content"), record.get("isSidechain") is True
        if not isinstance(blocks, list):
            return raw
        cuts: list[Cut | None] = []
        known: dict[bytes, bytes] = {}

        def changed(item: bytes, block: Any) -> bytes:
            match member(block, "type"):
                case "tool_use":
                    id, tool = filled_text(block.get("id")) or "", filled_text(block.get("name")) or ""
                    self.call(id, tool)
                    if step := self.plan.arguments.get(id):
                        return within(item, ("input",), lambda given: self._arguments(given, tool, step, place, aside))
                case "tool_result":
                    shorten = partial(self._result, filled_text(block.get("tool_use_id")) or "", place, cuts, known)
                    return within(item, ("content",), shorten)
                case "text" if full:
                    return within(item, ("text",), partial(_replaced, quoted(NOTE)))
            return item

        raw = within(raw, ("message", "content"), lambda data: _each(data, blocks, changed))
        if any(cuts):
            raw = within(raw, ("toolUseResult",), lambda whole: self._display(whole, cuts, place, known))
            self._count_all(cuts, aside)
        return raw

    def _result(
        self, call_id: str, place: Origin, cuts: list[Cut | None], known: dict[bytes, bytes], old: bytes
    ) -> bytes:
        """Return the content of a result, cut if necessary. Add the cut to `cuts` and the new content to `known`."""
        cut = self.cut(call_id, old, place, content)
        cuts.append(cut)
        if cut is None or cut.new is None:
            return old
        known[old] = cut.new.raw
        return cut.new.raw

    def _display(self, whole: bytes, cuts: list[Cut | None], place: Origin, known: dict[bytes, bytes]) -> bytes:
        """Return the display copy of results that were cut, also cut if that makes it shorter."""
        if self.options.keep_display_copy or not all(cuts):
            return whole
        shown = display(whole, self.options.threshold, place, known)
        return shown if len(shown) < len(whole) else whole

    def _count_all(self, cuts: list[Cut | None], aside: bool) -> None:
        for each in filter(None, cuts):
            self.count(each, aside=aside)

    def _arguments(self, given: bytes, tool: str, step: str, place: Origin, aside: bool) -> bytes:
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
        self.count(Cut(tool, new, step), aside=aside, arguments=True)
        return new.raw

    def _without_reminders(self, raw: bytes, attached: Any) -> bytes:
        """Remove Foldmark's reminders from the texts of hooks. The texts of other hooks stay."""
        texts = member(attached, "content")
        is_hook = member(attached, "type") == "hook_additional_context" and attached.get("hookEvent") in REMINDS
        if not is_hook or not isinstance(texts, list):
            return raw
        ours = [isinstance(text, str) and _REMINDER.fullmatch(text) is not None for text in texts]
        if not any(ours):
            return raw
        self.reminders += 1

        def rest(data: bytes) -> bytes:
            items = zip(ours, spans.items(data), strict=True)
            return b"[%b]" % b",".join(data[begin:end] for own, (begin, end) in items if not own)

        return within(raw, ("attachment", "content"), rest)


def _value(raw: bytes) -> Any:
    """Return the value of a line of JSON, even if it has invalid UTF-8 or numbers of any length."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return json.loads(raw.decode("utf-8", "replace"), parse_int=len)


def _replaced(new: bytes, old: bytes) -> bytes:
    """Return `new` if the old value is a text, otherwise the old value."""
    return new if old.startswith(b'"') else old


def _each(data: bytes, values: list[Any], change: Callable[[bytes, Any], bytes]) -> bytes:
    """Return a JSON list with `change` applied to every item."""
    items = zip(values, spans.items(data), strict=True)
    return spans.edited(data, [(begin, end, change(data[begin:end], value)) for value, (begin, end) in items])


def _zeroed(usage: bytes) -> bytes:
    """Return `usage` with every number set to 0."""
    return _TOKEN.sub(_zero, usage) if usage.startswith(b"{") else usage


def _zero(token: re.Match[bytes]) -> bytes:
    return token[0] if token[0].startswith(b'"') else b"0"


def _place(raw: bytes, key: bytes, value: bytes) -> Span:
    """Return the first place of a value after its key."""
    head = key + value[:_HEAD]
    at = raw.find(head)
    while at >= 0 and not raw.startswith(value, at + len(key)):
        at = raw.find(head, at + 1)
    if at < 0:
        raise _UnsureError
    return at + len(key), at + len(key) + len(value)


def _check(line: bytes, cuts: list[Cut | None], display: bytes) -> None:
    """Raise _UnsureError unless every cut is in its place in the line."""
    record = _decode(line)
    blocks = record.message.content if record.message else None
    if not isinstance(blocks, list) or bytes(record.display) != display:
        raise _UnsureError
    now = [bytes(block.content) for block in blocks if block.type == "tool_result"]
    if any(each and each.new and each.new.raw != raw for raw, each in zip(now, cuts, strict=True)):
        raise _UnsureError


def _arguments_cut(raw: bytes, kept: int, place: Origin) -> Replacement | None:
    """Return arguments with each long text cut to `kept` characters; None if nothing is cut. Raises ValueError."""
    found = list(_argument_cuts(raw, kept, place))
    if not found:
        return None
    new = spans.edited(raw, [(begin, end, each.raw) for begin, end, each in found])
    return Replacement(new, sum(each.characters for _, _, each in found), len(raw) - len(new))


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
    return Replacement(spans.edited(raw, [(*at, new)]), sum(map(len, texts)), at[1] - at[0] - len(new))


def _todo(todo: bytes) -> str:
    at = spans.last(todo, "content")
    return text_of(todo[slice(*at)]) if at and todo[at[0] : at[0] + 1] == b'"' else ""


def _call(id: str, block: dict[str, Any]) -> Exchange:
    arguments = block.get("input")
    arguments = arguments if isinstance(arguments, dict) else {}
    tool, uses = tool_and_uses(block["name"], arguments)
    attempt = uses[0].path if len(uses) == 1 else digest(arguments)
    return Exchange(id=id, tool=tool, uses=uses, attempt=attempt)


def _with_result(call: Exchange, block: dict[str, Any]) -> Exchange:
    content, failed = block.get("content"), block.get("is_error") is True
    first = content[0] if isinstance(content, list) and content else None
    begin = filled_text(member(first, "text") if isinstance(first, dict) else content) or ""
    return replace(
        call,
        failed=failed,
        digest=digest(content),
        spoken=failed and begin.startswith(REJECTED),
        void=is_void(begin),
    )
