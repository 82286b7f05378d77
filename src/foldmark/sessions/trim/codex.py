"""Trim the lines of a Codex rollout, and tell which of them the model is sent [SPEC 8].

The model reads the outputs in `response_item` records and in the `replacement_history` of a compaction. Their copies in
`event_msg` records are only displayed. Codex reads the size of the context from the newest `token_count`, and would
compact a full context as soon as it resumes. So `last_token_usage` is set to 0 in all of them, because a copy may be
forked or rolled back to any of them. Only the ids in the first record count.

Codex changes files with patches and commands, which do not show which file an output is about. So nothing counts as
stale or repeated, and arguments stay (docs/development/decisions/0058).
"""

from bisect import bisect_right
from collections.abc import Container
from contextlib import suppress
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core.assembly.superseded import Exchange
from foldmark.core.patterns import pattern
from foldmark.formats.codex import rollouts
from foldmark.formats.codex.records import is_injected, read_item
from foldmark.formats.cut import Origin, Replacement
from foldmark.sessions.trim.job import LineTrimmer
from foldmark.sessions.trim.results import output
from foldmark.wires import responses, spans
from foldmark.wires.lenient_json import decode, member, whole_number
from foldmark.wires.parts import TextMessage
from foldmark.wires.spans import within

_COMMAND, _PATCH = "exec_command", "apply_patch"
"""The tools that run a command and change files, for records that do not name their tool."""

_STREAMS = ("aggregated_output", "formatted_output", "stdout", "stderr")
_COPIES: dict[tuple[bool, str], tuple[str | None, tuple[str, ...], tuple[str, ...]]] = {
    (True, "CommandExecution"): (_COMMAND, ("item",), _STREAMS),
    (True, "FileChange"): (_PATCH, ("item",), _STREAMS),
    (True, "McpToolCall"): (None, ("item", "result"), ("content",)),
    (False, "exec_command_end"): (_COMMAND, (), _STREAMS),
    (False, "patch_apply_end"): (_PATCH, (), _STREAMS),
    (False, "mcp_tool_call_end"): (None, ("result", "Ok"), ("content",)),
}
"""Items (since Codex 0.169) and events (before) by type -> the tool whose output they repeat (None: of an MCP server),
the path from the payload to the object with the copies, and its members that are copies."""

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
"""Maximum bytes of one output that Codex sends to a model. The rest was never in the context."""

_NUMBER = pattern(rb"-?[1-9][\d.eE+-]*")


class CodexLines(LineTrimmer):
    """Trims the lines of one rollout. A giant line stays: it is never the first record, which has the ids."""

    bytes_per_token = 3.2
    equivalents = _EQUIVALENTS
    pieces = staticmethod(rollouts.pieces)
    _has_begun = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._outputs: list[tuple[int, str]] = []
        self._prompts: list[int] = []
        self._compactions: list[int] = []
        self._rolled_back: list[range] = []

    def sent(self) -> Container[int]:
        all_sent = _Sent(range(self.at + 1), tuple(self._rolled_back))
        begin = next((at for at in reversed(self._compactions) if at in all_sent), 0)
        return replace(all_sent, newest=range(begin, self.at + 1))

    def calls(self) -> list[Exchange]:
        """Return the calls that have an output, in the order of the file."""
        sent = self.sent()
        return [Exchange(id=id, digest=id) for id in dict.fromkeys(id for at, id in self._outputs if at in sent)]

    def line(self, number: int, raw: bytes) -> bytes:
        with suppress(ValueError):
            record = decode(raw)
            payload = member(record, "payload")
            if isinstance(payload, dict):
                kind, place = record.get("type"), Origin(number, str(self.source))
                return within(raw, ("payload",), lambda data: self._changed(data, kind, payload, place))
        return raw

    def _changed(self, data: bytes, kind: Any, payload: dict[str, Any], place: Origin) -> bytes:
        """Return the payload of a record for the new file."""
        match kind, payload.get("type"):
            case "session_meta", _ if not self._has_begun:
                self._has_begun = True
                return self._with_ids(data)
            case "response_item", _:
                return self._item(data, payload, place)
            case "compacted", _:
                if read_item({"type": kind, "payload": payload}).parts:
                    self._compactions.append(self.at)
                return self._compacted(data, payload.get("replacement_history"), place)
            case "event_msg", "thread_rolled_back":
                self._roll_back(whole_number(payload.get("num_turns")))
            case "event_msg", "token_count":
                return within(data, ("info", "last_token_usage"), _zeroed)
            case "event_msg", _ if not self.options.keep_display_copy:
                return self._copies(data, payload, place)
        return data

    def _with_ids(self, data: bytes) -> bytes:
        """Return the first record with the new ids, and without a base: the new file holds the whole history."""
        new = {"id": self.new_id, "session_id": self.new_id, "history_base": b"null"}
        return spans.edited(data, [(begin, end, new[key]) for key, begin, end in spans.members(data) if key in new])

    def _item(self, data: bytes, item: dict[str, Any], place: Origin, *, is_new: bool = True) -> bytes:
        """Return an item with its output cut, or note a call or a prompt; one that is not `is_new` opens no turn."""
        kind, call = responses.kind_of(item), responses.call_of(item)
        if call and responses.is_call(kind):
            self.call(call, responses.tool_of(item))
        elif is_new and kind == responses.MESSAGE and item.get("role") == "user":
            texts = read_item({"type": "response_item", "payload": item}).parts
            if texts and not (isinstance(texts[0], TextMessage) and is_injected(texts[0].text)):
                self._prompts.append(self.at)
        elif call and responses.is_result(kind):
            return within(data, ("output",), lambda raw: self._output(raw, call, place))
        return data

    def _roll_back(self, turns: int | None) -> None:
        """Note that a person took back this number of turns."""
        if turns and self._prompts:
            begin = self._prompts[-turns:][0]
            while self._rolled_back and self._rolled_back[-1].start >= begin:
                self._rolled_back.pop()
            self._rolled_back.append(range(begin, self.at))
            del self._prompts[-turns:]

    def _output(self, raw: bytes, call_id: str, place: Origin) -> bytes:
        self._outputs.append((self.at, call_id))
        cut = self.cut(call_id, raw, place, _shortened)
        if cut:
            self.count(cut)
        return cut.new.raw if cut and cut.new else raw

    def _compacted(self, data: bytes, history: Any, place: Origin) -> bytes:
        """Cut the history in a compaction, which the model reads instead of everything before it."""
        if not isinstance(history, list):
            return data

        def change(items: bytes) -> bytes:
            edits = [
                (begin, end, self._item(items[begin:end], item, place, is_new=False))
                for item, (begin, end) in zip(history, spans.items(items), strict=True)
                if isinstance(item, dict)
            ]
            return spans.edited(items, edits)

        return within(data, ("replacement_history",), change)

    def _copies(self, data: bytes, payload: dict[str, Any], place: Origin) -> bytes:
        """Return an event in which the copies of an output are cut."""
        is_item = payload.get("type") == "item_completed"
        holder: Any = payload.get("item") if is_item else payload
        call_id, kind = member(holder, "id" if is_item else "call_id"), member(holder, "type")
        if not isinstance(call_id, str) or not isinstance(kind, str) or call_id in self.plan.whole:
            return data
        tool, path, members = _COPIES.get((is_item, kind), (None, (), ()))
        if tool == _COMMAND and holder.get("source") == "user_shell":  # the output of a person's own command
            return data
        usual = tool or _mcp_tool(holder if is_item else holder.get("invocation"))
        if not members or not self.is_cut(self.tool_of(call_id) or usual):
            return data

        def change(raw: bytes) -> bytes:
            new = output(raw, self.options.threshold, place)
            return new.raw if new else raw

        for key in members:
            data = within(data, (*path, key), change)
        return data


class _Sent(Struct, frozen=True):
    """The positions of the lines in `newest`, without those in the ascending ranges that were rolled back."""

    newest: range
    rolled_back: tuple[range, ...]

    def __contains__(self, at: object) -> bool:
        if at not in self.newest:
            return False
        assert isinstance(at, int)
        before = bisect_right(self.rolled_back, at, key=attrgetter("start"))
        return before == 0 or at not in self.rolled_back[before - 1]


def _mcp_tool(call: Any) -> str:
    return f"mcp__{call.get('server')}__{call.get('tool')}" if isinstance(call, dict) else ""


def _shortened(raw: bytes, threshold: int, place: Origin) -> Replacement | None:
    new = output(raw, threshold, place)
    return new and replace(new, bytes=min(new.bytes, _MAX_SENT))


def _zeroed(usage: bytes) -> bytes:
    """Return `last_token_usage` with every number set to 0."""
    numbers = ((begin, end) for _, begin, end in spans.members(usage) if _NUMBER.fullmatch(usage[begin:end]))
    return spans.edited(usage, [(*at, b"0") for at in numbers])
