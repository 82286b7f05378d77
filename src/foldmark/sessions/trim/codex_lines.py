"""How the lines of a rollout of Codex's change when it is trimmed [SPEC 8].

What the model reads are the outputs in `response_item` records, and in the `replacement_history` of a compaction. What
`event_msg` records repeat of them is for the display only. Codex believes a context to be as full as the newest
`token_count` says it was, and would compact it as soon as it resumes: `last_token_usage` becomes 0 in all of them, for
a copy may be forked or rolled back to any of them. Of the ids only those in the first record count.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from foldmark.sessions import spans
from foldmark.sessions.lenient_json import NotJsonError, decode
from foldmark.sessions.trim.codex_outputs import shortened
from foldmark.sessions.trim.codex_tools import OUTPUTS, CodexTargets, called, copies
from foldmark.sessions.trim.cut import Origin
from foldmark.sessions.trim.kind import CallNames, Job, Tally

_CALLS = ("function_call", "custom_tool_call", "local_shell_call")

_MOST_SENT = 48_000
"""Bytes of one output that Codex sends to a model at most; more of it was not in the context either."""

_OBJECT = re.compile(rb"\s*\{")
_NUMBER = re.compile(rb"-?[1-9][\d.eE+-]*")

Change = Callable[[bytes], bytes | None]
"""From the JSON of a value to what shall stand in its place; None to leave it as it is."""


class CodexLines:
    """The lines of one rollout in one pass; see `kind.LineTrimmer`."""

    def __init__(self, job: Job) -> None:
        self.tally = Tally(CodexTargets(job.options.tools))
        self.source = job.source
        self._options, self._id, self._plan = job.options, job.new_id, job.plan
        self._targets = CodexTargets(job.options.all_tools)
        self.names = CallNames(self._targets, job.names)
        self._begun = False

    def line(self, number: int, raw: bytes) -> bytes:
        with suppress(NotJsonError, ValueError):
            record = decode(raw)
            payload = record.get("payload") if isinstance(record, dict) else None
            if isinstance(payload, dict):
                change = self._change(record.get("type"), payload, Origin(number, str(self.source)))
                return (change and _within(raw, ("payload",), change)) or raw
        return raw

    def giant(self, start: bytes, end: bytes) -> tuple[bytes, bytes]:
        return start, end  # the first record, which has the ids, is none: `pieces` has read it

    def _change(self, kind: Any, payload: dict[str, Any], place: Origin) -> Change | None:
        match kind, payload.get("type"):
            case "session_meta", _:
                return self._meta()
            case "response_item", _:
                return self._item(payload, place)
            case "compacted", _:
                return self._compacted(payload.get("replacement_history"), place)
            case "event_msg", "token_count":
                return lambda data: _within(data, ("info", "last_token_usage"), _zeroed)
            case "event_msg", _ if not self._options.keep_display_copy:
                return self._copies(payload, place)
        return None

    def _meta(self) -> Change | None:
        """The first record has the ids; its history is all here now."""
        if self._begun:
            return None
        self._begun = True
        id = msgspec.json.encode(self._id)

        def change(data: bytes) -> bytes:
            new = {"id": id, "session_id": id, "history_base": b"null"}
            edits = [(begin, end, new[key]) for key, begin, end in spans.members(data) if key in new]
            return spans.edited(data, edits)

        return change

    def _item(self, item: dict[str, Any], place: Origin) -> Change | None:
        """A response item: a call is remembered, an output cut."""
        if item.get("type") in _CALLS:
            if call := called(item):
                self.names.add(*call)
            return None
        call_id = item.get("call_id")
        if item.get("type") not in OUTPUTS or not isinstance(call_id, str):
            return None
        return lambda data: _within(data, ("output",), lambda output: self._output(call_id, output, place))

    def _output(self, call_id: str, output: bytes, place: Origin) -> bytes | None:
        if call_id in self._plan.whole:
            return None
        tool = self.names.tool(call_id, long=len(output) - 2 > self._options.threshold)
        if tool is None:
            return None
        usual = new = shortened(output, self._options.threshold, place)
        if step := self._plan.results.get(call_id):
            new = shortened(output, 0, place)
        tally = self.tally.result(tool, cut=new is not None)
        if new is None:
            return None
        saved = min(new.bytes, _MOST_SENT)
        tally.add(new.characters, saved)
        self.tally.step(tool, step, saved, min(usual.bytes, saved) if usual else 0)
        self.tally.in_context += saved
        return new.raw

    def _compacted(self, history: Any, place: Origin) -> Change | None:
        """What the model reads instead of everything before."""
        if not isinstance(history, list):
            return None
        self.tally.in_context = 0

        def change(data: bytes) -> bytes | None:
            edits = []
            for item, (begin, end) in zip(history, spans.items(data), strict=True):
                one = self._item(item, place) if isinstance(item, dict) else None
                new = one and one(data[begin:end])
                if new:
                    edits.append((begin, end, new))
            return spans.edited(data, edits) if edits else None

        return lambda data: _within(data, ("replacement_history",), change)

    def _is_wanted(self, call_id: str, name: str) -> bool:
        """Whether the copy of a call's output is to be cut; `name` counts where the call is not known."""
        return call_id not in self._plan.whole and (self.names.known(call_id) or name) in self._targets

    def _copies(self, payload: dict[str, Any], place: Origin) -> Change | None:
        found = copies(payload)
        if found is None or not self._is_wanted(found.call_id, found.name):
            return None

        def change(data: bytes) -> bytes | None:
            edits = []
            for key, begin, end in spans.members(data) if _OBJECT.match(data) else ():
                new = shortened(data[begin:end], self._options.threshold, place) if key in found.members else None
                if new:
                    edits.append((begin, end, new.raw))
            return spans.edited(data, edits) if edits else None

        return lambda data: _within(data, found.path, change)


def _within(data: bytes, path: tuple[str, ...], change: Change) -> bytes | None:
    """`data`, an object, with the value to which the keys lead changed; None if it is not there or stays."""
    if not path:
        return change(data)
    at = spans.last(data, path[0]) if _OBJECT.match(data) else None
    new = _within(data[at[0] : at[1]], path[1:], change) if at else None
    return spans.edited(data, [(*at, new)]) if at and new is not None else None


def _zeroed(usage: bytes) -> bytes | None:
    """`last_token_usage` with 0 for every number."""
    edits = [(begin, end, b"0") for _, begin, end in spans.members(usage) if _NUMBER.fullmatch(usage[begin:end])]
    return spans.edited(usage, edits) if edits else None
