"""Read ids, flags and faults from the records of a Claude Code session, but no texts [SPEC 8].

`index` lists every record for an import, which uses every readable part. `rows` lists every line with its faults and
the properties that matter for resuming. Memory grows with the number of lines. The faults were observed by resuming
such sessions with Claude Code 2.1.197.
"""

import codecs
import json
from collections.abc import Container, Iterable, Iterator
from datetime import datetime
from sys import intern
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foldmark.dialects.anthropic.usage import context_usage
from foldmark.formats.claude.blocks import (
    is_api_error,
    is_thinking,
    made_results,
    message_id,
    read_message,
    response_of,
    says_full,
)
from foldmark.formats.messages import (
    NOTHING,
    AnswerUsage,
    Leaf,
    PreservedRecords,
    RecordEntry,
    entry_of,
    record_key,
    record_time,
    with_moments,
)
from foldmark.formats.session_file import MAX_LINE, Broken, SessionFile, SessionRecord, type_of
from foldmark.wires.lenient_json import filled_text, member, whole_number, whole_objects
from foldmark.wires.parts import TextMessage

INTERRUPTIONS = ("[Request interrupted by user]", "[Request interrupted by user for tool use]")
"""User messages that Claude Code writes when a person stops the model."""

CHAINED = frozenset({"user", "assistant", "system", "attachment"})
"""Types of records that can be a parent."""

SAID = ("user", "assistant")
"""Types of records that are the user's or the model's."""

_USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")

Fault = Literal[
    "no message", "message", "content", "plain", "null block", "bad block", "unsigned", "attachment",
    "uuid", "parent", "time", "model", "full", "constant", "mark", "bytes",
]  # fmt: skip
"""Faults of a record, which `doctor.claude` explains. `message`: it is not an object. `constant`: NaN or Infinity.
`mark`: a byte order mark inside the file. `full`: the error for a full context."""


class Row(Struct, kw_only=True, eq=False):
    """A line, or a record that a repair adds (`line` 0).

    `state`: a record, a broken line (with the `reason`), another JSON value, or `null`. `leaf` is the leaf that a
    `last-prompt` record names. `calls` and `results` are pairs of a block's position and its call id, "" if unusable.
    `failed`: it is an API error in place of an answer. `thinking`: it holds thinking and nothing else.
    `prompted_by` is the call for which Claude Code injected it.
    `spoilt` are positions of blocks with a fault. `blocks` counts all blocks. `end` is the offset of the end of a
    record that is only a part of its line. `gone`: a repair leaves the line out.
    """

    line: int
    offset: int = 0
    end: int | None = None
    state: Literal["record", "broken", "value", "null"] = "record"
    reason: str = ""
    type: str = ""
    uuid: str | None = None
    parent: str | None = None
    side: bool = False
    response: str | None = None
    session: str | None = None
    calls: tuple[tuple[int, str], ...] = ()
    results: tuple[tuple[int, str], ...] = ()
    spoilt: tuple[int, ...] = ()
    blocks: int = 0
    faults: tuple[Fault, ...] = ()
    boundary: bool = False
    summary: bool = False
    preserved: PreservedRecords | None = None
    leaf: Leaf | None = None
    moment: datetime | None = None
    failed: bool = False
    thinking: bool = False
    prompted_by: str | None = None
    gone: bool = False

    @property
    def chained(self) -> bool:
        """True if the record can be part of a chain. It can be a parent if it has a uuid."""
        return not self.gone and self.type in CHAINED

    @property
    def said(self) -> bool:
        """True if the line is a message of the user or the model."""
        return not self.gone and self.type in SAID

    @property
    def message_id(self) -> str | None:
        """The id of the answer whose line it is."""
        return self.response

    @property
    def spoken(self) -> bool:
        """True if the line is a message that a request may contain."""
        return self.said and not self.failed

    @property
    def is_answer(self) -> bool:
        """True if the line is the model's."""
        return self.type == "assistant"

    @property
    def passing(self) -> bool:
        """True if the line only reports progress."""
        return not self.gone and self.type == "progress"

    @property
    def aside(self) -> bool:
        """True if the line is a subagent's."""
        return self.side

    @property
    def call_ids(self) -> list[str]:
        """The ids of its calls."""
        return [id for _, id in self.calls]

    @property
    def result_ids(self) -> list[str]:
        """The ids of the calls of which it has results."""
        return [id for _, id in self.results]


# -- For an import


def index(records: Iterable[SessionRecord], carried: dict[str, Any], known: Container[bytes] = ()) -> list[RecordEntry]:
    """Return one entry for each record, in file order (see `SessionFormat.index`).

    If every message of a file is in a sidechain, as in a subagent's own file, the file counts as a main chain. A
    message with the uuid of an earlier one is not shown, because Claude Code reads only one of the two.
    """
    entries: list[RecordEntry] = []
    seen: set[str] = set()
    moment: datetime | None = None
    for record in records:
        value = record.value if isinstance(record.value, dict) else {}
        moment = record_time(value) or moment
        entry = _entry(record, value, moment)
        if (uuid := entry.uuid) is not None and entry.role is not None:
            if uuid in seen or entry.key in known:
                entry = entry_of(record, moment, NOTHING, uuid=None, key=entry.key, side=entry.side, repeats=True)
            else:
                seen.add(uuid)
        entries.append(entry)
    all_side = carried.get("all_side", True) and not any(entry.role and entry.side is None for entry in entries)
    carried["all_side"] = all_side
    if all_side:
        entries = [entry if entry.side is None else replace(entry, side=None) for entry in entries]
    return with_moments(entries)


def _entry(record: SessionRecord, value: dict[str, Any], moment: datetime | None) -> RecordEntry:
    reading = read_message(value)
    parts = reading.parts
    texts = [part for part in parts if isinstance(part, TextMessage)]
    kind = value.get("type")
    is_user = bool(parts) and kind != "assistant"
    interruption = is_user and len(parts) == 1 and bool(texts) and texts[0].text in INTERRUPTIONS
    uuid = filled_text(value.get("uuid"))
    return entry_of(
        record,
        moment,
        reading,
        uuid=uuid,
        key=record_key(uuid.encode() if uuid else _without_session(record.value)),
        parent=filled_text(value.get("parentUuid")),
        logical=filled_text(value.get("logicalParentUuid")),
        side=(filled_text(value.get("agentId")) or "") if value.get("isSidechain") is True else None,
        failed=not parts and is_api_error(value),
        injected=kind == "attachment" or value.get("isMeta") is True,
        raised=bool(parts) and kind == "attachment",
        interruption=interruption,
        response=response_of(value) if parts else None,
        message_id=message_id(value),
        made_up=made_results(value),
        prompted_by=filled_text(value.get("sourceToolUseID")),
        usage=_usage(value) if parts and kind == "assistant" else None,
        compacts=is_user and value.get("isCompactSummary") is True and len(texts) == len(parts),
        preserved=_preserved(value) if "compactMetadata" in value else None,
        chained=isinstance(kind, str) and kind in CHAINED,
        said=isinstance(kind, str) and kind in SAID,
        passing=kind == "progress",
        is_answer=kind == "assistant",
        thinking=is_thinking(value),
        boundary=_is_boundary(value),
        leaf=_leaf(value),
    )


def _without_session(value: Any) -> bytes:
    """Return a record as JSON without the session id, so that it is the same in all copies of its session."""
    if isinstance(value, dict):
        value = {name: each for name, each in value.items() if name != "sessionId"}
    return msgspec.json.encode(value)


def _usage(value: dict[str, Any]) -> AnswerUsage | None:
    """Return the usage that an answer reports; None if no model wrote it (`<synthetic>`) or it has no numbers."""
    usage, model = value["message"].get("usage"), filled_text(value["message"].get("model"))
    if not isinstance(usage, dict) or model == "<synthetic>":
        return None
    counted = context_usage(usage)
    numbers = [whole_number(counted.get(name)) for name in _USAGE]
    if numbers == [None] * len(_USAGE):
        return None
    return AnswerUsage(model, response_of(value), *(number or 0 for number in numbers))


def _is_boundary(value: dict[str, Any]) -> bool:
    return value.get("type") == "system" and value.get("subtype") == "compact_boundary"


def _leaf(value: dict[str, Any]) -> Leaf | None:
    """Return the leaf that a record names. Claude Code ignores one that is null, unless a person chose it."""
    if value.get("type") != "last-prompt" or "leafUuid" not in value:
        return None
    uuid, pinned = filled_text(value["leafUuid"]), value.get("explicit") is True
    return Leaf(uuid, pinned) if uuid or (pinned and value["leafUuid"] is None) else None


def _preserved(value: dict[str, Any]) -> PreservedRecords | None:
    """Return the records that a compaction preserves, as its own record lists them."""
    listed, segment = (member(value, "compactMetadata", f"preserved{each}") for each in ("Messages", "Segment"))
    if isinstance(uuids := member(listed, "uuids"), list):
        return PreservedRecords(filled_text(listed.get("anchorUuid")), tuple(filter(filled_text, uuids)))
    if isinstance(segment, dict):
        ends = (filled_text(segment.get("headUuid")), filled_text(segment.get("tailUuid")))
        return PreservedRecords(filled_text(segment.get("anchorUuid")), (), *ends)
    return None


# -- For resuming


def rows(session: SessionFile) -> Iterator[Row]:
    """Yield the non-blank lines of a session in order."""
    for found in session.lines():
        offset = session.whole[1]
        if isinstance(found, Broken):
            yield Row(line=found.line, offset=offset, state="broken", reason=found.reason)
        elif not isinstance(found.value, dict):
            yield Row(line=found.line, offset=offset, state="null" if found.value is None else "value")
        else:
            yield row_of(found, session.raw(offset))


def recovered(session: SessionFile, row: Row) -> Iterator[Row]:
    """Yield a row for each whole record on a broken line, and one for the rest if anything else is on it.

    A crash can leave NUL bytes in front of the next record, or no line end, so that the next record follows on the same
    line. Claude Code skips such a line. A line that is not broken is yielded as it is.
    """
    raw = session.raw(row.offset) if row.state == "broken" else b""
    if not raw or len(raw) > MAX_LINE:
        yield row
        return
    rest, at = bytearray(), 0
    for begin, end, value in whole_objects(raw):
        found = row_of(SessionRecord(row.line, row.offset + begin, type_of(value), value), raw[begin:end])
        found.end = row.offset + end
        yield found
        rest += raw[at:begin]
        at = end
    rest += raw[at:]
    if not at or rest.replace(codecs.BOM_UTF8, b"").strip(b"\0 \t\r\n"):
        yield row


def row_of(record: SessionRecord, raw: bytes) -> Row:
    """Return the row of a record, which is an object. `raw` is its line."""
    value = record.value
    session = filled_text(value.get("sessionId"))
    row = Row(
        line=record.line,
        offset=record.offset,
        type=intern(record.type),
        uuid=filled_text(value.get("uuid")),
        parent=filled_text(value.get("parentUuid")),
        side=value.get("isSidechain") is True,
        session=intern(session) if session else None,
        boundary=_is_boundary(value),
        summary=value.get("isCompactSummary") is True,
        preserved=_preserved(value),
        leaf=_leaf(value),
        moment=record_time(value),
        failed=is_api_error(value),
        thinking=is_thinking(value),
        prompted_by=filled_text(value.get("sourceToolUseID")),
    )
    faults = list(_bytes_faults(raw, record.line))
    if row.type in CHAINED:
        faults += _link_faults(value, row)
        if row.type in ("user", "assistant"):
            faults += _message_faults(value, row)
        elif row.type == "attachment" and not isinstance(value.get("attachment"), dict):
            faults.append("attachment")
    row.faults = tuple(dict.fromkeys(faults))
    return row


def _bytes_faults(raw: bytes, line: int) -> Iterator[Fault]:
    if line > 1 and raw.startswith(codecs.BOM_UTF8):
        yield "mark"
    if b"NaN" in raw or b"Infinity" in raw:
        try:
            json.loads(raw.decode("utf-8-sig", "replace"), parse_constant=_refuse, parse_int=len)
        except (ValueError, RecursionError):
            yield "constant"
    if not raw.isascii():
        try:
            raw.decode()
        except UnicodeDecodeError:
            yield "bytes"


def _refuse(name: str) -> None:
    raise ValueError(name)


def _link_faults(value: dict[str, Any], row: Row) -> Iterator[Fault]:
    if row.uuid is None:
        yield "uuid"
    if row.parent is None and ("parentUuid" not in value or value["parentUuid"] is not None):
        yield "parent"
    time = value.get("timestamp")
    if record_time(value) is None and (not isinstance(time, int | float) or isinstance(time, bool)):
        yield "time"


def _message_faults(value: dict[str, Any], row: Row) -> Iterator[Fault]:
    """Yield the faults of a message, and set the response and blocks of its row."""
    message = value.get("message")
    if not isinstance(message, dict):
        yield "no message" if message is None else "message"
        return
    content, is_answer = message.get("content"), row.type == "assistant"
    if is_answer:
        row.response = filled_text(message.get("id"))
        if filled_text(message.get("model")) is None and message.get("model") != "":
            yield "model"
    if says_full(value):
        yield "full"
    if isinstance(content, str):
        row.blocks = 1
        if is_answer:
            yield "plain"
    elif isinstance(content, list):
        yield from _block_faults(content, row)
    else:
        yield "content"


def _block_faults(content: list[Any], row: Row) -> Iterator[Fault]:
    calls, results, spoilt = [], [], []
    for at, block in enumerate(content):
        fault: Fault | None = None
        kind = member(block, "type")
        if block is None:
            fault = "null block"
        elif not isinstance(kind, str) or (kind == "text" and not isinstance(block.get("text"), str)):
            fault = "bad block"
        elif kind == "thinking" and not filled_text(block.get("signature")):
            fault = "unsigned"
        elif kind == "tool_use" and row.type == "assistant":
            if filled_text(block.get("id")) and filled_text(block.get("name")):
                calls.append((at, block["id"]))
            else:
                fault = "bad block"
        elif kind == "tool_result" and row.type == "user":
            results.append((at, filled_text(block.get("tool_use_id")) or ""))
        if fault:
            spoilt.append(at)
            yield fault
    row.blocks, row.calls, row.results, row.spoilt = len(content), tuple(calls), tuple(results), tuple(spoilt)
