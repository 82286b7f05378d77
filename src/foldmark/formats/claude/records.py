"""Read ids, flags and faults from the records of a Claude Code session, but no texts [SPEC 8].

`index` lists every record for an import, which uses every readable part. `rows` lists every line with its faults and
the properties that matter for resuming. Memory grows with the number of lines. The faults were observed by resuming
such sessions with Claude Code 2.1.197.
"""

import codecs
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from sys import intern
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from foldmark.dialects.anthropic.usage import context_usage
from foldmark.formats.claude import members
from foldmark.formats.claude.blocks import is_thinking, made_results, message_id, read_message, response_of, says_full
from foldmark.formats.messages import (
    NOTHING,
    AnswerUsage,
    ChainRecord,
    Leaf,
    PreservedRecords,
    RecordEntry,
    RecordMessages,
    entry_of,
    record_key,
    record_time,
    with_moments,
)
from foldmark.formats.session_file import Broken, SessionFile, SessionRecord
from foldmark.wires.lenient_json import filled_text, member, whole_number
from foldmark.wires.parts import TextMessage

INTERRUPTIONS = ("[Request interrupted by user]", "[Request interrupted by user for tool use]")
"""User messages that Claude Code writes when a person stops the model."""

LEAF = "last-prompt"
"""The type of records that name the end of the active branch."""

_USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")

Fault = Literal[
    "no message", "message", "content", "plain", "null block", "bad block", "no id", "unsigned",
    "attachment", "uuid", "parent", "time", "model", "full", "constant", "mark", "bytes",
]  # fmt: skip
"""Faults of a record, which `doctor.claude` explains. `message`: it is not an object. `constant`: NaN or Infinity.
`mark`: a byte order mark inside the file. `full`: the error for a full context."""


class Row(ChainRecord, kw_only=True, eq=False, gc=False):
    """A line.

    `state`: a record, a broken line (with the `reason`), another JSON value, or `null`. `places` are the positions of
    the blocks with its calls or results.
    """

    state: Literal["record", "broken", "value", "null"] = "record"
    reason: str = ""
    type: str = ""
    session: str | None = None
    places: tuple[int, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def paired(self) -> list[tuple[int, str]]:
        """The positions and the ids of its calls or results."""
        return list(zip(self.places, self.calls or self.results, strict=False))


def _chain_members(value: dict[str, Any], found: RecordMessages) -> dict[str, Any]:
    """Return the fields of a record with these messages that every reader of a chain needs (`ChainRecord`)."""
    kind, parts = value.get("type"), found.parts
    is_answer = kind == "assistant"
    return {
        "uuid": filled_text(value.get("uuid")),
        "parent": filled_text(value.get(members.PARENT)),
        "side": (filled_text(value.get(members.AGENT)) or "") if members.is_aside(value) else None,
        "message_id": message_id(value),
        "prompted_by": filled_text(value.get(members.PROMPTED_BY)),
        "chained": isinstance(kind, str) and kind in members.CHAINED,
        "said": kind in members.SAID,
        "is_answer": is_answer,
        "passing": kind == "progress",
        "failed": members.is_api_error(value),
        "thinking": is_answer and is_thinking(value),
        "compacts": members.is_summary(value)
        and not is_answer
        and bool(parts)
        and all(isinstance(part, TextMessage) for part in parts),
        "boundary": members.is_boundary(value),
        "preserved": _preserved(value),
        "leaf": _leaf(value),
    }


def is_edit(record: dict[str, Any], behind: dict[str, Any] | None) -> bool:
    """Return True if all messages that stay are written again behind this record (see `SessionFormat.is_edit`)."""
    return (
        members.is_boundary(record)
        and behind is not None
        and not members.is_summary(behind)
        and _preserved(record) is None
    )


# -- For an import


def index(records: Iterable[SessionRecord]) -> list[RecordEntry]:
    """Return one entry for each record, in file order (see `SessionFormat.index`).

    If every message of a file is in a sidechain, as in a subagent's own file, the file counts as a main chain. A
    message with the uuid of an earlier one is not shown, because Claude Code reads only one of the two.
    """
    entries: list[RecordEntry] = []
    seen: set[str] = set()
    moment: datetime | None = None
    for record in records:
        value = record.value if isinstance(record.value, dict) else {}
        own = record_time(value)
        moment = own or moment
        entry = _entry(record, value, moment, timed=own is not None)
        if (uuid := entry.uuid) is not None and entry.role is not None:
            if uuid in seen:
                entry = entry_of(record, moment, NOTHING, uuid=None, key=entry.key, side=entry.side, repeats=True)
            else:
                seen.add(uuid)
        entries.append(entry)
    if not any(entry.role and entry.side is None for entry in entries):
        entries = [entry if entry.side is None else replace(entry, side=None) for entry in entries]
    return with_moments(entries)


def _entry(record: SessionRecord, value: dict[str, Any], moment: datetime | None, *, timed: bool) -> RecordEntry:
    reading = read_message(value)
    parts = reading.parts
    kind = value.get("type")
    text = parts[0].text if len(parts) == 1 and isinstance(parts[0], TextMessage) and kind != "assistant" else None
    about = _chain_members(value, reading)
    uuid: str | None = about["uuid"]
    response = response_of(value) if parts else None
    return entry_of(
        record,
        moment,
        reading,
        **about,
        timed=timed,
        key=record_key(uuid.encode() if uuid else _without_session(record.value)),
        logical=filled_text(value.get("logicalParentUuid")),
        injected=kind == "attachment" or members.is_injected(value),
        raised=bool(parts) and kind == "attachment",
        interruption=text in INTERRUPTIONS,
        response=response,
        made_up=made_results(value),
        usage=_usage(value, response) if parts and kind == "assistant" else None,
    )


def _without_session(value: Any) -> bytes:
    """Return a record as JSON without the session id, so that it is the same in all copies of its session."""
    if isinstance(value, dict):
        value = {name: each for name, each in value.items() if name != members.SESSION}
    return msgspec.json.encode(value)


def _usage(value: dict[str, Any], response: str | None) -> AnswerUsage | None:
    """Return the usage that an answer reports; None if no model wrote it (`<synthetic>`) or it has no numbers."""
    usage, model = value["message"].get("usage"), filled_text(value["message"].get("model"))
    if not isinstance(usage, dict) or model == "<synthetic>":
        return None
    counted = context_usage(usage)
    numbers = [whole_number(counted.get(name)) for name in _USAGE]
    if numbers == [None] * len(_USAGE):
        return None
    return AnswerUsage(model, response, *(number or 0 for number in numbers))


def _leaf(value: dict[str, Any]) -> Leaf | None:
    """Return the leaf that a record names. Claude Code ignores one that is null, unless a person chose it."""
    if value.get("type") != LEAF or "leafUuid" not in value:
        return None
    uuid, pinned = filled_text(value["leafUuid"]), value.get("explicit") is True
    return Leaf(uuid, pinned) if uuid or (pinned and value["leafUuid"] is None) else None


def _preserved(value: dict[str, Any]) -> PreservedRecords | None:
    """Return the records that a compaction preserves, as its own record lists them."""
    about = members.compaction(value)
    if not isinstance(about, dict):
        return None
    listed, segment = about.get("preservedMessages"), about.get("preservedSegment")
    if isinstance(listed, dict) and isinstance(uuids := listed.get("uuids"), list):
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


def row_of(record: SessionRecord, raw: bytes) -> Row:
    """Return the row of a record, which is an object. `raw` is its line."""
    value = record.value
    session, moment, reading = filled_text(value.get(members.SESSION)), record_time(value), read_message(value)
    row = Row(
        line=record.line,
        offset=record.offset,
        **_chain_members(value, reading),
        calls=reading.calls,
        results=reading.results or made_results(value),
        moment=moment,
        type=intern(record.type),
        session=intern(session) if session else None,
    )
    row.spoken = bool(reading.parts or row.results)
    faults = list(_bytes_faults(raw, record.line))
    if row.type in members.CHAINED:
        faults += _link_faults(value, row)
        if row.said:
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
    if row.parent is None and (members.PARENT not in value or value[members.PARENT] is not None):
        yield "parent"
    time = value.get("timestamp")
    if record_time(value) is None and (not isinstance(time, int | float) or isinstance(time, bool)):
        yield "time"


def _message_faults(value: dict[str, Any], row: Row) -> Iterator[Fault]:
    """Yield the faults of a message, and set the places of its row."""
    message = value.get("message")
    if not isinstance(message, dict):
        yield "no message" if message is None else "message"
        return
    content = message.get("content")
    if row.is_answer and filled_text(message.get("model")) is None and message.get("model") != "":
        yield "model"
    if says_full(value):
        yield "full"
    if isinstance(content, list):
        yield from _block_faults(content, row)
    elif not isinstance(content, str):
        yield "content"
    elif row.is_answer:
        yield "plain"


def _block_faults(content: list[Any], row: Row) -> Iterator[Fault]:
    places = []
    for at, block in enumerate(content):
        kind = member(block, "type")
        if block is None:
            yield "null block"
        elif not isinstance(kind, str) or (kind == "text" and not isinstance(block.get("text"), str)):
            yield "bad block"
        elif kind == "thinking" and not filled_text(block.get("signature")):
            yield "unsigned"
        elif names := _PAIRED.get((row.type, kind)):
            if all(filled_text(block.get(name)) for name in names):
                places.append(at)
            else:
                yield "no id" if kind == "tool_result" else "bad block"
    row.places = tuple(places)


_PAIRED = {("assistant", "tool_use"): ("id", "name"), ("user", "tool_result"): ("tool_use_id",)}
"""The members of a call, and of a result, that have to be texts."""
