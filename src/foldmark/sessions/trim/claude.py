"""Trim the lines of a Claude Code session, and tell which of them the model is sent [SPEC 8, S4].

Only these bytes of a line change: the session id; the results of the selected tools, both for the model and in the
display copy; arguments that the plan names; reminders of Foldmark's hook; and the signs of a full context: the numbers
in `usage` of assistant records, and the record of an error that reported it.

A line in the usual form is decoded once for the few members that matter, which are then located in its bytes. Any other
line is changed member by member, which takes 1.8 times as long: if the place of a member is uncertain, and for rare
changes. Such a line may have white space between tokens, escaped or repeated keys, values of wrong types, or invalid
UTF-8. If a key is repeated, the last member counts, as for every reader.
"""

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from foldmark.core.assembly.superseded import (
    REJECTED,
    UNCHANGED,
    Exchange,
    is_void,
    tool_and_uses,
)
from foldmark.core.patterns import pattern
from foldmark.formats.claude.blocks import says_full
from foldmark.formats.claude.members import DISPLAY, ERROR, SESSION
from foldmark.formats.claude.records import Row, row_of
from foldmark.formats.claude.resumption import is_resumable, resume
from foldmark.formats.claude.usual import UnusualError, UsualBlock, UsualRecord, usual
from foldmark.formats.cut import Origin, Replacement, is_cut_list, quoted, sent_size, string, text_of
from foldmark.formats.sent import sent_records
from foldmark.formats.session_file import SessionRecord, type_of
from foldmark.sessions.hook.answering import ADVICE, REMINDS
from foldmark.sessions.trim.job import Cut, LineTrimmer
from foldmark.sessions.trim.results import content, display
from foldmark.sessions.trim.stale import FAILED, TODOS
from foldmark.wires import spans
from foldmark.wires.lenient_json import NotJsonError, decode, filled_text, member
from foldmark.wires.spans import Span, within

NOTE = "[The context was full here. Foldmark has trimmed the session since.]"
"""Replaces Claude Code's message that the context is full."""

_REMINDER = pattern(rf"Context at \d+%\. (?:{'|'.join(map(re.escape, ADVICE.values()))})")

_TEXTS = ("content", "old_string", "new_string", "new_source", "prompt")
"""Members of arguments that hold texts. Paths and names are never cut."""

_SESSION, _DISPLAY = (b'"%b":' % name.encode() for name in (SESSION, DISPLAY))
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
        try:
            return self._usual(raw, number)
        except UnusualError:
            try:
                return self._unusual(raw, Origin(number, str(self.source)))
            except (ValueError, RecursionError):  # not a JSON object
                return raw

    def _usual(self, raw: bytes, number: int) -> bytes:
        """Change a line in the form that Claude Code writes. Raises UnusualError before any result is counted."""
        record = usual(raw)
        kind, blocks = record.type, record.blocks
        if kind == "attachment" and b'"hook_additional_context"' in raw:
            raise UnusualError
        edits = []
        if (session := bytes(record.session)) and (span := self._session_span(raw, session)):
            edits.append((*span, self.new_id))
        usage = bytes(record.message.usage) if record.message is not None and kind == "assistant" else b""
        if usage.startswith(b"{"):
            at = raw.rfind(b'"usage":{')
            if at < 0 or raw.find(b'"usage":{') != at or not raw.startswith(usage, at + 8):
                raise UnusualError
            edits.append((at + 8, at + 8 + len(usage), _zeroed(usage)))
        row = record.row(self.at, raw, self._rows[-1] if self._rows else None)
        for block in blocks:
            if block.type == "tool_use":
                if block.id in self.plan.arguments:
                    raise UnusualError
                self.call(block.id, block.name)
        results = [block for block in blocks if block.type == "tool_result"]
        line = self._cut(raw, edits, record, results, number) if results else spans.edited(raw, edits)
        if row is not None:
            self._note(row, blocks)
        return line

    def _cut(
        self,
        raw: bytes,
        edits: list[tuple[int, int, bytes]],
        record: UsualRecord,
        results: list[UsualBlock],
        number: int,
    ) -> bytes:
        """Return the line with its results cut, which are counted, and these other edits made. Raises UnusualError."""
        place = Origin(number, str(self.source))
        texts = [bytes(block.content) for block in results]
        cuts = [self.cut(block.call_id, old, place, content) for block, old in zip(results, texts, strict=True)]
        if not any(cuts):
            return spans.edited(raw, edits)
        known = {old: cut.new.raw for old, cut in zip(texts, cuts, strict=True) if cut and cut.new}
        edits += [(*_place(raw, b'"content":', old), new) for old, new in known.items()]
        whole = bytes(record.display)
        shown = self._display(whole, cuts, place, known)
        if shown != whole:
            edits.append((*_place(raw, _DISPLAY, whole), shown))
        line = spans.edited(raw, edits)
        if known or shown != whole:
            _check(line, cuts, shown)
        for cut in filter(None, cuts):
            self.count(cut)
        return line

    def _note(self, row: Row, blocks: Sequence[UsualBlock] | Mapping[int, UsualBlock]) -> None:
        """Note a record, and in a pass that notes them its calls and results, which are among these blocks. Raises
        UnusualError."""
        for at, id in row.paired if self.notes and row.places else ():
            if row.is_answer:
                self._calls[self.at, id] = _call(id, blocks[at].name, bytes(blocks[at].input))
            else:
                self._results[self.at, id] = _result(bytes(blocks[at].content), blocks[at].is_error is True)
        self._rows.append(row)

    def _session_span(self, raw: bytes, value: bytes) -> Span | None:
        """Return the span of the session id. With no brace between it and one end, it is in the outermost object."""
        if value != self._seen:
            if not value.startswith(b'"'):
                return None
            self._seen, self._needle = value, _SESSION + value
        at = raw.rfind(self._needle)
        end = at + len(self._needle)
        if at < 0 or (raw.rfind(b"{", 0, at) != 0 and raw.find(b"}", end) != len(raw.rstrip()) - 1):
            raise UnusualError
        return at + len(_SESSION), end

    def _unusual(self, raw: bytes, place: Origin) -> bytes:
        """Change a line member by member. Raises ValueError, RecursionError if it is not a JSON object."""
        if not spans.is_json(raw):
            return raw
        self._note_whole(raw)
        raw = within(raw, (SESSION,), partial(_replaced, self.new_id))
        try:
            record = _value(raw)
        except RecursionError:  # nested too deeply for anything else
            return raw
        if not isinstance(record, dict):
            return raw
        kind, message = record.get("type"), record.get("message")
        if kind == "attachment":
            raw = self._without_reminders(raw, record.get("attachment"))
        if not isinstance(message, dict):
            return raw
        if kind == "assistant":
            raw = within(raw, ("message", "usage"), _zeroed)
        full = says_full(record)
        if full:
            for key in ERROR:
                raw = within(raw, (key,), lambda old: b"false" if old == b"true" else _replaced(b"null", old))
        blocks = message.get("content")
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
                        return within(item, ("input",), lambda given: self._arguments(given, tool, step, place))
                case "tool_result":
                    shorten = partial(self._result, filled_text(block.get("tool_use_id")) or "", place, cuts, known)
                    return within(item, ("content",), shorten)
                case "text" if full:
                    return within(item, ("text",), partial(_replaced, quoted(NOTE)))
            return item

        raw = within(raw, ("message", "content"), lambda data: _each(data, blocks, changed))
        if any(cuts):
            raw = within(raw, (DISPLAY,), lambda whole: self._display(whole, cuts, place, known))
            for cut in filter(None, cuts):
                self.count(cut)
        return raw

    def _note_whole(self, raw: bytes) -> None:
        """Note any record with its calls and results. A line that no import reads is no record."""
        try:
            value = decode(raw)
        except NotJsonError:
            return
        if not isinstance(value, dict):
            return
        row = row_of(SessionRecord(self.at, 0, type_of(value), value), raw)
        blocks = member(value, "message", "content")
        self._note(row, {at: _as_usual(blocks[at]) for at in row.places})

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


def _as_usual(block: dict[str, Any]) -> UsualBlock:
    """Return a call or a result in the usual form."""
    given, text = (Raw(msgspec.json.encode(block.get(name))) for name in ("input", "content"))
    return UsualBlock(name=block.get("name", ""), input=given, content=text, is_error=block.get("is_error"))


def _value(raw: bytes) -> Any:
    """Return the value of a line of JSON, even if it has invalid UTF-8 or numbers of any length."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        import json  # 3 ms, for lines that msgspec does not read

        return json.loads(raw.decode("utf-8", "replace"), parse_int=len)


def _replaced(new: bytes, old: bytes) -> bytes:
    """Return `new` if the old value is a text, otherwise the old value."""
    return new if old.startswith(b'"') else old


def _each(data: bytes, values: list[Any], change: Callable[[bytes, Any], bytes]) -> bytes:
    """Return a JSON list with `change` applied to every item."""
    items = zip(values, spans.items(data), strict=True)
    return spans.edited(data, [(begin, end, change(data[begin:end], value)) for value, (begin, end) in items])


@lru_cache(maxsize=16)  # the records of one answer repeat its usage
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
        raise UnusualError
    return at + len(key), at + len(key) + len(value)


def _check(line: bytes, cuts: list[Cut | None], display: bytes) -> None:
    """Raise UnusualError unless every cut is in its place in the line."""
    record = usual(line)
    now = [bytes(block.content) for block in record.blocks if block.type == "tool_result"]
    is_wrong = (each and each.new and each.new.raw != raw for raw, each in zip(now, cuts, strict=True))
    if bytes(record.display) != display or any(is_wrong):
        raise UnusualError


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
    """Return a call with these arguments. Raises UnusualError if only `lenient_json` can read them.

    Python's hash, 64 bits with a key of the process, is enough to tell its arguments from others.
    """
    try:
        arguments = msgspec.json.decode(given) if given else {}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise UnusualError from None
    tool, uses = tool_and_uses(name, arguments if isinstance(arguments, dict) else {})
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
