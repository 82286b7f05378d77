"""Trim the lines of a Claude Code session [SPEC 8, S4].

Only these bytes of a line change: the session id; results of the selected tools, where the model reads them and in the
display copy; arguments that the plan names; reminders of Foldmark's hook; and what makes Claude Code believe that the
context is still full: the numbers in `usage` of assistant records, and the record of an error that said so.

Every line is read once, for the few members that matter. If it is not certain where in the line one of them is, which
is rare, the line is read again member by member (`claude_members`).
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from foldmark.sessions import spans
from foldmark.sessions.spans import Span
from foldmark.sessions.trim import claude_members as members
from foldmark.sessions.trim.claude_members import CallMember, Edit, LineMembers, ResultMember
from foldmark.sessions.trim.cut import Origin, Replacement, is_cut_list, quoted, string, text_of
from foldmark.sessions.trim.job import Job, LineTrimmer, ToolTally, TrimKind
from foldmark.sessions.trim.results import content, display
from foldmark.sessions.trim.stale import FAILED, TODOS

_NONE = Raw(b"")
_MAX_USAGES = 1000
"""Values of `usage` that are kept in memory: every line of one answer has the same."""

_TEXTS = ("content", "old_string", "new_string", "new_source", "prompt")
"""Members of arguments with texts; paths and names are never cut."""

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


class _ResultCut(NamedTuple):
    """The cut of a result: its tool if its results are cut, and its new content, None if it stays. `step` is the reason
    if that is not its length, which alone would have cut `by_length` bytes."""

    tool: str | None
    new: Replacement | None = None
    step: str | None = None
    by_length: int = 0


class ClaudeLines(LineTrimmer):
    """Trims the lines of one session."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._id = msgspec.json.encode(job.new_id)
        self._seen = self._needle = b""
        self._zeroed: dict[bytes, bytes] = {}

    def line(self, number: int, raw: bytes) -> bytes:
        try:
            return self._edited(number, raw, self._usual_members(raw), certain=False)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, _UnsureError):
            found = members.read_members(raw)
            return raw if found is None else self._edited(number, raw, found, certain=True)

    def giant(self, start: bytes, end: bytes) -> tuple[bytes, bytes]:
        if place := members.session_at_start(start):
            return spans.edited(start, [(*place, self._id)]), end
        if place := members.session_at_end(end):
            return start, spans.edited(end, [(*place, self._id)])
        return start, end

    def _usual_members(self, raw: bytes) -> LineMembers:
        """Return the members of a line as Claude Code writes it. Raises _UnsureError, MsgspecError for others."""
        record = _decode(raw)
        if record.failed or (record.type == "attachment" and b'"hook_additional_context"' in raw):
            raise _UnsureError
        found = LineMembers(display=bytes(record.display), aside=record.aside is True, compacted=record.summary is True)
        if session := bytes(record.session):
            found.session = self._session_span(raw, session)
        message = record.message
        if message is None:
            found.compacted |= record.subtype == "compact_boundary" and record.type == "system"
            return found
        if type(message.content) is list:
            for block in message.content:
                if block.type == "tool_use":
                    if block.id in self.plan.arguments:
                        raise _UnsureError
                    found.calls.append(CallMember(block.id, block.name))
                elif block.type == "tool_result":
                    found.results.append(ResultMember(block.tool_use_id, bytes(block.content)))
        if record.type == "assistant" and (usage := bytes(message.usage)).startswith(b"{"):
            at = raw.rfind(b'"usage":{')
            if at < 0 or raw.find(b'"usage":{') != at or not raw.startswith(usage, at + 8):
                raise _UnsureError
            found.usage = at + 8, at + 8 + len(usage)
        return found

    def _session_span(self, raw: bytes, value: bytes) -> Span | None:
        """Return the place of the session id: in the outermost object, so that no brace is between it and one end."""
        if value != self._seen:
            if not value.startswith(b'"'):
                return None
            self._seen, self._needle = value, b'"sessionId":' + value
        at = raw.rfind(self._needle)
        end = at + len(self._needle)
        if at < 0 or (raw.rfind(b"{", 0, at) != 0 and raw.find(b"}", end) != len(raw.rstrip()) - 1):
            raise _UnsureError
        return at + 12, end

    def _edited(self, number: int, raw: bytes, found: LineMembers, *, certain: bool) -> bytes:
        """Return the line with its changes. Nothing is counted before it is `certain` that they are in place.

        Raises _UnsureError.
        """
        edits = [*found.errors, *found.reminders]
        if found.session:
            edits.append((*found.session, self._id))
        if found.usage:
            edits.append((*found.usage, self._without_numbers(raw[slice(*found.usage)])))
        for call in found.calls:
            self.names.add(call.id, call.tool)
            if call.arguments is not None:
                edits += self._arguments(number, raw, call, found.aside)
        if found.compacted:
            self.tally.in_context = 0
        self.tally.reminders += len(found.reminders)
        cuts = self._cuts(number, found.results) if found.results else []
        if not any(each.tool for each in cuts):
            return spans.edited(raw, edits)
        known = {}
        for result, each in zip(found.results, cuts, strict=True):
            if each.new is not None:
                known[result.content] = each.new.raw
                edits.append((*(result.span or _place(raw, b'"content":', result.content)), each.new.raw))
        shown = found.display
        if not self.options.keep_display_copy and all(each.tool for each in cuts):
            shown = display(found.display, self.options.threshold, Origin(number, str(self.source)), known)
        if len(shown) < len(found.display):
            edits.append((*(found.display_span or _place(raw, b'"toolUseResult":', found.display)), shown))
        else:
            shown = found.display
        line = spans.edited(raw, edits)
        if not certain and (known or shown is not found.display):
            _check(line, cuts, shown)
        for each in cuts:
            self._count(each, found.aside)
        return line

    def _arguments(self, number: int, raw: bytes, call: CallMember, aside: bool) -> Iterator[Edit]:
        """Yield the edit that cuts the arguments of a call that are not needed any more."""
        step = self.plan.arguments.get(call.id)
        if step is None or call.arguments is None:
            return
        place, given = Origin(number, str(self.source), "argument"), raw[slice(*call.arguments)]
        try:
            if step == TODOS:
                new = _todos_cut(given, place)
            else:
                new = _arguments_cut(given, 0 if step == FAILED else self.options.threshold, place)
        except (ValueError, RecursionError):
            return
        if new is None:
            return
        yield (*call.arguments, new.raw)
        tally = self.tally.tools.setdefault(call.tool, ToolTally())
        tally.arguments += 1
        tally.add(new.characters, new.bytes)
        self.tally.step(call.tool, step, new.bytes, 0)
        self.tally.in_context += 0 if aside else new.bytes

    def _cuts(self, number: int, results: list[ResultMember]) -> list[_ResultCut]:
        """Return the cuts of the results of a line."""
        threshold, place = self.options.threshold, Origin(number, str(self.source))
        cuts = []
        for result in results:
            call_id, raw = result.call_id, result.content
            is_long = len(raw) - 2 > threshold or b'"image"' in raw
            tool = None if call_id in self.plan.whole else self.names.target(call_id, long=is_long)
            usual = new = content(raw, threshold, place) if tool and is_long else None
            if step := self.plan.results.get(call_id) if tool else None:
                new = content(raw, 0, place)
            cuts.append(_ResultCut(tool, new, step, usual.bytes if usual else 0))
        return cuts

    def _count(self, cut: _ResultCut, aside: bool) -> None:
        if cut.tool is None:
            return
        tally = self.tally.result(cut.tool, cut=cut.new is not None)
        if cut.new is not None:
            tally.add(cut.new.characters, cut.new.bytes)
            self.tally.step(cut.tool, cut.step, cut.new.bytes, cut.by_length)
            self.tally.in_context += 0 if aside else cut.new.bytes

    def _without_numbers(self, usage: bytes) -> bytes:
        zeroed = self._zeroed.get(usage)
        if zeroed is None:
            if len(self._zeroed) >= _MAX_USAGES:
                self._zeroed.clear()
            zeroed = self._zeroed[usage] = _TOKEN.sub(_zero, usage)
        return zeroed


KIND = TrimKind(3.0, ClaudeLines, members.calls)


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


def _check(line: bytes, cuts: list[_ResultCut], display: bytes) -> None:
    """Raise _UnsureError unless the line has every cut where it belongs."""
    record = _decode(line)
    blocks = record.message.content if record.message else None
    if not isinstance(blocks, list) or bytes(record.display) != display:
        raise _UnsureError
    now = [bytes(block.content) for block in blocks if block.type == "tool_result"]
    if any(each.new is not None and each.new.raw != raw for raw, each in zip(now, cuts, strict=True)):
        raise _UnsureError


def _arguments_cut(raw: bytes, kept: int, place: Origin) -> Replacement | None:
    """Return arguments with the first `kept` characters of each long text; None if they stay. Raises ValueError."""
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
    """Return arguments with one entry, which names the original, in place of a todo list; None if they stay.

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
