"""Trim the lines of a Claude Code session [SPEC 8, S4].

Only these bytes of a line change: the session id; the results of the selected tools, both for the model and in the
display copy; arguments that the plan names; reminders of Foldmark's hook; and the signs of a full context: the numbers
in `usage` of assistant records, and the record of an error that reported it.

Every line is decoded once, for the few members that matter, and these are looked up in its bytes. If the place of one
of them is not certain, which is rare, the line is read again member by member (`claude_members`). That alone would take
1.8 times the time.
"""

import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from foldmark.sessions import spans
from foldmark.sessions.spans import Span
from foldmark.sessions.trim import claude_members as members
from foldmark.sessions.trim.claude_members import CallMember, Edit, LineMembers, ResultMember
from foldmark.sessions.trim.cut import Origin, Replacement, is_cut_list, quoted, string, text_of
from foldmark.sessions.trim.job import Cut, LineTrimmer
from foldmark.sessions.trim.results import content, display
from foldmark.sessions.trim.stale import FAILED, TODOS

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
    calls = staticmethod(members.calls)
    _seen = _needle = b""

    def line(self, number: int, raw: bytes) -> bytes:
        try:
            return self._edited(number, raw, self._usual_members(raw), certain=False)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, _UnsureError):
            found = members.read_members(raw)
            return raw if found is None else self._edited(number, raw, found, certain=True)

    def _usual_members(self, raw: bytes) -> LineMembers:
        """Return the members of a line as Claude Code writes it. Raises _UnsureError, MsgspecError for other lines."""
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
        """Return the place of the session id. It is in the outermost object if no brace lies between it and one end."""
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
        """Return the line with its changes. Raises _UnsureError, before any result is counted, if their places are not
        `certain` and cannot be confirmed."""
        edits = [*found.errors, *found.reminders]
        if found.session:
            edits.append((*found.session, self.new_id))
        if found.usage:
            edits.append((*found.usage, _TOKEN.sub(_zero, raw[slice(*found.usage)])))
        for call in found.calls:
            self.call(call.id, call.tool)
            if call.arguments is not None:
                edits += self._arguments(number, raw, call, found.aside)
        if found.compacted:
            self.in_context = 0
        self.reminders += len(found.reminders)
        place = Origin(number, str(self.source))
        cuts = [self.cut(each.call_id, each.content, place, content) for each in found.results]
        if not any(cuts):
            return spans.edited(raw, edits)
        known = {}
        for result, each in zip(found.results, cuts, strict=True):
            if each and each.new:
                known[result.content] = each.new.raw
                edits.append((*(result.span or _place(raw, b'"content":', result.content)), each.new.raw))
        shown = found.display
        if not self.options.keep_display_copy and all(cuts):
            shown = display(found.display, self.options.threshold, place, known)
        if len(shown) < len(found.display):
            edits.append((*(found.display_span or _place(raw, b'"toolUseResult":', found.display)), shown))
        else:
            shown = found.display
        line = spans.edited(raw, edits)
        if not certain and (known or shown is not found.display):
            _check(line, cuts, shown)
        for each in filter(None, cuts):
            self.count(each, aside=found.aside)
        return line

    def _arguments(self, number: int, raw: bytes, call: CallMember, aside: bool) -> Iterator[Edit]:
        """Yield the edit that cuts the stale arguments of a call."""
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
        if new is not None:
            yield (*call.arguments, new.raw)
            self.count(Cut(call.tool, new, step), aside=aside, arguments=True)


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
    """Raise _UnsureError unless the line has every cut in its place."""
    record = _decode(line)
    blocks = record.message.content if record.message else None
    if not isinstance(blocks, list) or bytes(record.display) != display:
        raise _UnsureError
    now = [bytes(block.content) for block in blocks if block.type == "tool_result"]
    if any(each and each.new and each.new.raw != raw for raw, each in zip(now, cuts, strict=True)):
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
    """Return arguments in which one entry, which names the original, replaces a todo list; None if they stay.

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
