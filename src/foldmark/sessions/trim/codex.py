"""Trim the lines of a Codex rollout [SPEC 8].

The model reads the outputs in `response_item` records, and in the `replacement_history` of a compaction. Their copies
in `event_msg` records are for the display only. Codex takes the newest `token_count` for the size of the context, and
would compact a full one as soon as it resumes: `last_token_usage` becomes 0 in all of them, since a copy may be forked
or rolled back to any of them. Only the ids in the first record count.

Codex changes files by patches and commands, which do not show what file an output is about: no output is stale, and
arguments stay.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from foldmark.sessions import spans
from foldmark.sessions.codex import rollouts
from foldmark.sessions.codex.records import CALLS, OUTPUTS
from foldmark.sessions.lenient_json import NotJsonError, decode
from foldmark.sessions.session_file import Piece, SessionFile, SessionRecord
from foldmark.sessions.trim.cut import Origin
from foldmark.sessions.trim.job import Job, LineTrimmer, Targets, TrimKind
from foldmark.sessions.trim.results import output
from foldmark.sessions.trim.stale import CallRecord, digest

_COMMAND, _PATCH = "exec_command", "apply_patch"
"""The tools that run a command and change files, where a record does not name its tool."""

_STREAMS = ("aggregated_output", "formatted_output", "stdout", "stderr")

_EQUIVALENTS = {
    "shell": "Bash",
    "container.exec": "Bash",
    "local_shell": "Bash",
    "shell_command": "Bash",
    _COMMAND: "Bash",
    "write_stdin": "Bash",
    "unified_exec": "Bash",
    "exec": "Bash",
    "wait": "Bash",
    "read_file": "Read",
    "view_image": "Read",
    "grep_files": "Grep",
    "list_dir": "Glob",
}
"""Codex's tools -> the tools of Claude Code that people name: `Read, Bash, Grep, Glob` [S4]."""

_MAX_SENT = 48_000
"""Bytes of one output that Codex sends to a model; what follows was not in the context either."""

_OBJECT = re.compile(rb"\s*\{")
_NUMBER = re.compile(rb"-?[1-9][\d.eE+-]*")

Change = Callable[[bytes], bytes | None]
"""From the JSON of a value to the JSON that replaces it; None to leave it."""


class _CodexTargets(Targets):
    """Tools by Codex's name or by that of the equivalent tool."""

    def __contains__(self, name: str) -> bool:
        other = _EQUIVALENTS.get(name)
        return super().__contains__(name) or (other is not None and super().__contains__(other))


class CodexLines(LineTrimmer):
    """Trims the lines of one rollout. A giant line stays: the first record, with the ids, is none."""

    targets = _CodexTargets

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._id = msgspec.json.encode(job.new_id)
        self._has_begun = False

    def line(self, number: int, raw: bytes) -> bytes:
        with suppress(NotJsonError, ValueError):
            record = decode(raw)
            payload = record.get("payload") if isinstance(record, dict) else None
            if isinstance(payload, dict):
                change = self._change(record.get("type"), payload, Origin(number, str(self.source)))
                return (change and _within(raw, ("payload",), change)) or raw
        return raw

    def _change(self, kind: Any, payload: dict[str, Any], place: Origin) -> Change | None:
        match kind, payload.get("type"):
            case "session_meta", _ if not self._has_begun:
                self._has_begun = True
                return self._with_ids
            case "response_item", _:
                return self._item(payload, place)
            case "compacted", _:
                return self._compacted(payload.get("replacement_history"), place)
            case "event_msg", "token_count":
                return lambda data: _within(data, ("info", "last_token_usage"), _zeroed)
            case "event_msg", _ if not self.options.keep_display_copy:
                return self._copies(payload, place)
        return None

    def _with_ids(self, data: bytes) -> bytes:
        """Return the first record with the new ids; no history is elsewhere any more."""
        new = {"id": self._id, "session_id": self._id, "history_base": b"null"}
        return spans.edited(data, [(begin, end, new[key]) for key, begin, end in spans.members(data) if key in new])

    def _item(self, item: dict[str, Any], place: Origin) -> Change | None:
        """Remember a call; return the change that cuts an output."""
        if item.get("type") in tuple(CALLS):  # in a tuple, since the type may be anything
            if call := _call(item):
                self.names.add(*call)
            return None
        call_id = item.get("call_id")
        if item.get("type") not in OUTPUTS or not isinstance(call_id, str):
            return None
        return lambda data: _within(data, ("output",), lambda raw: self._output(call_id, raw, place))

    def _output(self, call_id: str, raw: bytes, place: Origin) -> bytes | None:
        if call_id in self.plan.whole:
            return None
        tool = self.names.target(call_id, long=len(raw) - 2 > self.options.threshold)
        if tool is None:
            return None
        usual = new = output(raw, self.options.threshold, place)
        if step := self.plan.results.get(call_id):
            new = output(raw, 0, place)
        tally = self.tally.result(tool, cut=new is not None)
        if new is None:
            return None
        saved = min(new.bytes, _MAX_SENT)
        tally.add(new.characters, saved)
        self.tally.step(tool, step, saved, min(usual.bytes, saved) if usual else 0)
        self.tally.in_context += saved
        return new.raw

    def _compacted(self, history: Any, place: Origin) -> Change | None:
        """Return the change of the history that the model reads in place of everything before."""
        if not isinstance(history, list):
            return None
        self.tally.in_context = 0

        def change(data: bytes) -> bytes | None:
            edits = []
            for item, (begin, end) in zip(history, spans.items(data), strict=True):
                cut_item = self._item(item, place) if isinstance(item, dict) else None
                if new := cut_item and cut_item(data[begin:end]):
                    edits.append((begin, end, new))
            return spans.edited(data, edits) if edits else None

        return lambda data: _within(data, ("replacement_history",), change)

    def _copies(self, payload: dict[str, Any], place: Origin) -> Change | None:
        found = _copies_in(payload)
        if found is None or found.call_id in self.plan.whole:
            return None
        if (self.names.known(found.call_id) or found.tool) not in self.cut_tools:
            return None

        def change(data: bytes) -> bytes | None:
            edits = []
            for key, begin, end in spans.members(data) if _OBJECT.match(data) else ():
                new = output(data[begin:end], self.options.threshold, place) if key in found.members else None
                if new:
                    edits.append((begin, end, new.raw))
            return spans.edited(data, edits) if edits else None

        return lambda data: _within(data, found.path, change)


def _calls(pieces: Sequence[Piece]) -> list[CallRecord]:
    """Return the calls that have an output, in the order of the file. Raises SessionFileError."""
    found: dict[str, CallRecord] = {}
    for piece in pieces:
        with SessionFile(piece.path) as file:
            for line in file.lines(piece.number - 1, piece.start):
                if piece.end is not None and file.whole[1] >= piece.end:
                    break
                if not isinstance(line, SessionRecord) or line.type != "response_item":
                    continue
                item = line.value.get("payload")
                if (
                    isinstance(item, dict)
                    and item.get("type") in OUTPUTS
                    and isinstance(id := item.get("call_id"), str)
                ):
                    found[id] = CallRecord(id, "", digest=digest(item.get("output")))
    return list(found.values())


KIND = TrimKind(3.2, CodexLines, _calls, rollouts.pieces)


def _call(item: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the id and the tool of a call."""
    call_id, name, namespace = item.get("call_id"), item.get("name"), item.get("namespace")
    if item.get("type") == "local_shell_call":
        call_id, name = call_id or item.get("id"), "local_shell"
    if not isinstance(call_id, str) or not isinstance(name, str):
        return None
    return call_id, f"{namespace}__{name}" if isinstance(namespace, str) and namespace else name


class _Copies(Struct, frozen=True):
    """Copies of the output of a call: `path` leads from the payload to the object whose `members` they are.

    `tool` is the tool if the call is unknown.
    """

    call_id: str
    tool: str
    path: tuple[str, ...] = ()
    members: tuple[str, ...] = _STREAMS


def _copies_in(payload: Mapping[str, Any]) -> _Copies | None:
    """Return the tool output that an event repeats, or None.

    Since Codex 0.169 it is an item in an `item_completed`; before, an event of its own, such as `exec_command_end`.
    """
    is_item = payload.get("type") == "item_completed"
    holder = payload.get("item") if is_item else payload
    if not isinstance(holder, dict) or not isinstance(id := holder.get("id" if is_item else "call_id"), str):
        return None
    by_person = holder.get("source") == "user_shell"  # what a person ran is no tool's output
    match is_item, holder.get("type"):
        case True, "CommandExecution" if not by_person:
            return _Copies(id, _COMMAND, ("item",))
        case True, "FileChange":
            return _Copies(id, _PATCH, ("item",))
        case True, "McpToolCall":
            return _Copies(id, _mcp_tool(holder), ("item", "result"), ("content",))
        case False, "exec_command_end" if not by_person:
            return _Copies(id, _COMMAND)
        case False, "patch_apply_end":
            return _Copies(id, _PATCH)
        case False, "mcp_tool_call_end":
            return _Copies(id, _mcp_tool(holder.get("invocation")), ("result", "Ok"), ("content",))
    return None


def _mcp_tool(call: Any) -> str:
    return f"mcp__{call.get('server')}__{call.get('tool')}" if isinstance(call, dict) else ""


def _within(data: bytes, path: tuple[str, ...], change: Change) -> bytes | None:
    """Return an object with the value at `path` changed; None if it is not there or stays."""
    if not path:
        return change(data)
    at = spans.last(data, path[0]) if _OBJECT.match(data) else None
    new = _within(data[at[0] : at[1]], path[1:], change) if at else None
    return spans.edited(data, [(*at, new)]) if at and new is not None else None


def _zeroed(usage: bytes) -> bytes | None:
    """Return `last_token_usage` with 0 for every number."""
    edits = [(begin, end, b"0") for _, begin, end in spans.members(usage) if _NUMBER.fullmatch(usage[begin:end])]
    return spans.edited(usage, edits) if edits else None
