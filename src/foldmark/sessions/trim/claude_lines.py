"""How the lines of a Claude Code session change when it is trimmed [SPEC 8, S4].

Only these bytes of a line change: the session id; results of the tools that are meant, where the model reads them and
in the display's copy; arguments that the plan names; reminders of Foldmark's hook; and what makes Claude Code believe
that the context is still full: the numbers in `usage` of assistant records, and the record of an error that said so.

Every line is read once, by the few members that matter. Where it is not certain then at which place one of them lies,
which is rare, the line is looked at again, member by member (`members`).
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from foldmark.sessions import spans
from foldmark.sessions.trim import members as trim_members
from foldmark.sessions.trim.content import content
from foldmark.sessions.trim.cut import Origin, Replacement, is_cut_list, quoted, string, text_of
from foldmark.sessions.trim.display import display
from foldmark.sessions.trim.kind import CallNames, Job, Tally, Targets, ToolTally
from foldmark.sessions.trim.members import Edit, LineMembers, Span
from foldmark.sessions.trim.stale import FAILED, TODOS

_NONE = Raw(b"")
_HELD = 1000
"""Blocks of `usage` that are remembered: every line of one answer has the same."""

_TEXTS = ("content", "old_string", "new_string", "new_source", "prompt")
"""Members of arguments that hold what was written or asked; paths and names are never cut."""

_HEAD = 64
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?\d[\d.eE+-]*')


class _ClaudeBlock(Struct, gc=False):
    type: str = ""
    id: str = ""
    name: str = ""
    tool_use_id: str = ""
    content: Raw = _NONE


class _ClaudeMessage(Struct, gc=False):
    content: list[_ClaudeBlock] | str | None = None
    usage: Raw = _NONE


class _ClaudeRecord(Struct, gc=False):
    type: str = ""
    subtype: str | None = None
    session: Raw = msgspec.field(default=_NONE, name="sessionId")
    message: _ClaudeMessage | None = None
    display: Raw = msgspec.field(default=_NONE, name="toolUseResult")
    failed: bool | None = msgspec.field(default=None, name="isApiErrorMessage")
    summary: bool | None = msgspec.field(default=None, name="isCompactSummary")
    aside: bool | None = msgspec.field(default=None, name="isSidechain")


class _UnsureError(Exception):
    """A member may lie at more than one place."""


_decode = msgspec.json.Decoder(_ClaudeRecord).decode


class ClaudeLines:
    """The lines of one session in one pass; see `kind.LineTrimmer`."""

    def __init__(self, job: Job) -> None:
        self.tally = Tally(Targets(job.options.tools))
        self._plan = job.plan
        self._threshold = job.options.threshold
        self._keep_display = job.options.keep_display_copy
        self.source = job.source
        self._id = msgspec.json.encode(job.new_id)
        self._seen = self._needle = b""
        self.names = CallNames(Targets(job.options.all_tools), job.names)
        self._zeroed: dict[bytes, bytes] = {}

    def line(self, number: int, raw: bytes) -> bytes:
        try:
            return self._plainly(number, raw, _decode(raw))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, _UnsureError):
            found = trim_members.read(raw)
            return raw if found is None else self._carefully(number, raw, found)

    def giant(self, start: bytes, end: bytes) -> tuple[bytes, bytes]:
        if place := trim_members.session_at_start(start):
            return spans.edited(start, [(*place, self._id)]), end
        if place := trim_members.session_at_end(end):
            return start, spans.edited(end, [(*place, self._id)])
        return start, end

    def _plainly(self, number: int, raw: bytes, record: _ClaudeRecord) -> bytes:
        """A line that looks as Claude Code writes it. Raises _UnsureError, and then has not counted anything."""
        if record.failed or (record.type == "attachment" and b'"hook_additional_context"' in raw):
            raise _UnsureError
        edits: list[Edit] = []
        if session := bytes(record.session):
            self._session(raw, session, edits)
        message = record.message
        if message is None:
            if record.subtype == "compact_boundary" and record.type == "system":
                self.tally.in_context = 0
            return spans.edited(raw, edits)
        results = []
        if type(message.content) is list:
            for block in message.content:
                if block.type == "tool_use":
                    self.names.add(block.id, block.name)
                    if block.id in self._plan.arguments:
                        raise _UnsureError
                elif block.type == "tool_result":
                    results.append((block.tool_use_id, bytes(block.content)))
        if record.type == "assistant":
            self._usage(raw, bytes(message.usage), edits)
        elif record.summary:
            self.tally.in_context = 0
        if results:
            cuts = self._cut(number, results, record.display)
            if cuts is not None:
                return self._with_cuts(raw, record, results, cuts, edits)
        return spans.edited(raw, edits)

    def _with_cuts(
        self, raw: bytes, record: _ClaudeRecord, results: list[tuple[str, bytes]], cuts: "_Cuts", edits: list[Edit]
    ) -> bytes:
        for (_, old), new in zip(results, cuts.contents, strict=True):
            if new is not None:
                edits.append((*_place(raw, b'"content":', old), new.raw))
        if cuts.display is not None:
            edits.append((*_place(raw, b'"toolUseResult":', bytes(record.display)), cuts.display))
        line = spans.edited(raw, edits)
        if cuts.something:
            _check(line, cuts)
        self._count(cuts, aside=record.aside is True)
        return line

    def _session(self, raw: bytes, value: bytes, edits: list[Edit]) -> None:
        """The session id changed: it lies in the outermost object, where there is no brace between it and one end."""
        if value != self._seen:
            if not value.startswith(b'"'):
                return
            self._seen, self._needle = value, b'"sessionId":' + value
        at = raw.rfind(self._needle)
        end = at + len(self._needle)
        if at < 0 or (raw.rfind(b"{", 0, at) != 0 and raw.find(b"}", end) != len(raw.rstrip()) - 1):
            raise _UnsureError
        edits.append((at + 12, end, self._id))

    def _usage(self, raw: bytes, value: bytes, edits: list[Edit]) -> None:
        """The numbers of an answer's `usage` as 0, if that is nowhere else in the line."""
        zeroed = self._without_numbers(value)
        if zeroed != value:
            at = raw.rfind(b'"usage":{')
            if at < 0 or raw.find(b'"usage":{') != at or not raw.startswith(value, at + 8):
                raise _UnsureError
            edits.append((at + 8, at + 8 + len(value), zeroed))

    def _carefully(self, number: int, raw: bytes, found: LineMembers) -> bytes:
        """A line of which it is known where everything lies."""
        edits = [*found.errors, *found.reminders]
        self.tally.reminders += len(found.reminders)
        if found.session:
            edits.append((*found.session, self._id))
        if found.usage:
            edits.append((*found.usage, self._without_numbers(raw[slice(*found.usage)])))
        edits += self._arguments(number, raw, found)
        if found.compacted:
            self.tally.in_context = 0
        results = [(each.call_id, raw[each.begin : each.end]) for each in found.results]
        cuts = self._cut(number, results, raw[slice(*found.display)] if found.display else b"")
        if cuts is None:
            return spans.edited(raw, edits)
        for each, new in zip(found.results, cuts.contents, strict=True):
            if new is not None:
                edits.append((each.begin, each.end, new.raw))
        if cuts.display is not None and found.display:
            edits.append((*found.display, cuts.display))
        self._count(cuts, aside=found.aside)
        return spans.edited(raw, edits)

    def _arguments(self, number: int, raw: bytes, found: LineMembers) -> Iterator[Edit]:
        """The arguments of calls that are not needed any more, cut."""
        place = Origin(number, str(self.source), "argument")
        for call in found.calls:
            self.names.add(call.id, call.tool)
            step = self._plan.arguments.get(call.id)
            if step is None or call.begin == call.end:
                continue
            given = raw[call.begin : call.end]
            if step == TODOS:
                new = _todos_cut(given, place)
            else:
                new = _arguments_cut(given, 0 if step == FAILED else self._threshold, place)
            if new is None:
                continue
            yield call.begin, call.end, new.raw
            tally = self.tally.tools.setdefault(call.tool, ToolTally())
            tally.arguments += 1
            tally.add(new.characters, new.bytes)
            self.tally.step(call.tool, step, new.bytes, 0)
            self.tally.in_context += 0 if found.aside else new.bytes

    def _cut(self, number: int, results: Sequence[tuple[str, bytes]], shown: Raw | bytes) -> "_Cuts | None":
        """What the results of a line become, None if none of them is meant; nothing is counted yet."""
        threshold, plan = self._threshold, self._plan
        tools = [
            None
            if call_id in plan.whole
            else self.names.tool(call_id, long=len(raw) - 2 > threshold or b'"image"' in raw)
            for call_id, raw in results
        ]
        if not any(tools):
            return None
        place = Origin(number, str(self.source))
        contents = [
            content(raw, threshold, place) if tool and (len(raw) - 2 > threshold or b'"image"' in raw) else None
            for (_, raw), tool in zip(results, tools, strict=True)
        ]
        usual = [new.bytes if new else 0 for new in contents]
        steps = [plan.results.get(call_id) if tool else None for (call_id, _), tool in zip(results, tools, strict=True)]
        for at, ((_, raw), step) in enumerate(zip(results, steps, strict=True)):
            if step:
                contents[at] = content(raw, 0, place)
        if None in tools or self._keep_display:
            return _Cuts(tools, contents, None, steps, usual)
        known = {raw: new.raw for (_, raw), new in zip(results, contents, strict=True) if new is not None}
        old = bytes(shown)
        new = display(old, threshold, place, known)
        return _Cuts(tools, contents, new if len(new) < len(old) else None, steps, usual)

    def _count(self, cuts: "_Cuts", *, aside: bool) -> None:
        for tool, new, step, usual in zip(cuts.tools, cuts.contents, cuts.steps, cuts.usual, strict=True):
            if tool is None:
                continue
            tally = self.tally.result(tool, cut=new is not None)
            if new is not None:
                tally.add(new.characters, new.bytes)
                self.tally.step(tool, step, new.bytes, usual)
                self.tally.in_context += 0 if aside else new.bytes

    def _without_numbers(self, usage: bytes) -> bytes:
        zeroed = self._zeroed.get(usage)
        if zeroed is None:
            if len(self._zeroed) >= _HELD:
                self._zeroed.clear()
            zeroed = self._zeroed[usage] = _TOKEN.sub(_zero, usage) if usage.startswith(b"{") else usage
        return zeroed


class _Cuts(NamedTuple):
    """What the results of a line become: the tool of each whose results are meant, what stands for its content, and
    for the copy of the display; None where it stays. `steps` say why one is cut otherwise than by its length, `usual`
    how many bytes that would have taken."""

    tools: list[str | None]
    contents: list[Replacement | None]
    display: bytes | None
    steps: list[str | None]
    usual: list[int]

    @property
    def something(self) -> bool:
        return self.display is not None or any(new is not None for new in self.contents)


def _zero(token: re.Match[bytes]) -> bytes:
    return token[0] if token[0].startswith(b'"') else b"0"


def _place(raw: bytes, key: bytes, value: bytes) -> Span:
    """The first place at which `key` and `value` stand."""
    head = key + value[:_HEAD]
    at = raw.find(head)
    while at >= 0 and not raw.startswith(value, at + len(key)):
        at = raw.find(head, at + 1)
    if at < 0:
        raise _UnsureError
    return at + len(key), at + len(key) + len(value)


def _check(line: bytes, cuts: _Cuts) -> None:
    """Raise _UnsureError unless what was cut is where it belongs."""
    record = _decode(line)
    blocks = record.message.content if record.message else None
    if not isinstance(blocks, list):
        raise _UnsureError
    now = [bytes(block.content) for block in blocks if block.type == "tool_result"]
    if any(new is not None and new.raw != raw for raw, new in zip(now, cuts.contents, strict=True)):
        raise _UnsureError
    if cuts.display is not None and bytes(record.display) != cuts.display:
        raise _UnsureError


def _arguments_cut(raw: bytes, kept: int, place: Origin) -> Replacement | None:
    """Return arguments with the first `kept` characters of each long text; None if they stay as they are."""
    try:
        found = list(_argument_cuts(raw, kept, place))
    except (ValueError, RecursionError):
        return None
    if not found:
        return None
    new = spans.edited(raw, [(begin, end, each.raw) for begin, end, each in found])
    return Replacement(new, sum(each.characters for _, _, each in found), len(raw) - len(new))


def _todos_cut(raw: bytes, place: Origin) -> Replacement | None:
    """Return the arguments with the todo list replaced by one entry that names the original file.

    Return None if nothing is replaced.
    """
    try:
        at = spans.last(raw, "todos")
        items = spans.items(raw[slice(*at)]) if at else []
        texts = [_todo(raw[at[0] + begin : at[0] + end]) for begin, end in items] if at else []
    except (ValueError, RecursionError):
        return None
    if at is None or not items or (len(texts) == 1 and is_cut_list(texts[0], 1)):
        return None
    pointer = quoted(place.pointer(0, len(items), "entries"))
    new = b'[{"content":%b,"status":"completed","activeForm":"Trimmed"}]' % pointer
    if len(new) >= at[1] - at[0]:
        return None
    return Replacement(spans.edited(raw, [(*at, new)]), sum(map(len, texts)), at[1] - at[0] - len(new))


def _argument_cuts(raw: bytes, kept: int, place: Origin) -> Iterator[tuple[int, int, Replacement]]:
    for key, begin, end in spans.members(raw):
        if key in _TEXTS and raw[begin : begin + 1] == b'"':
            if found := string(raw[begin:end], kept, place):
                yield begin, end, found
        elif key == "edits" and raw[begin : begin + 1] == b"[":
            for first, last in spans.items(raw[begin:end]):
                for inner, outer, found in _argument_cuts(raw[begin + first : begin + last], kept, place):
                    yield begin + first + inner, begin + first + outer, found


def _todo(todo: bytes) -> str:
    at = spans.last(todo, "content")
    return text_of(todo[slice(*at)]) if at and todo[at[0] : at[0] + 1] == b'"' else ""
