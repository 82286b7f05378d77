"""Every line of a Claude Code session as far as resuming depends on it [SPEC 8].

Where `index` takes what can be used, this also tells what is wrong: a `Row` for every line but blank ones, with
ids, flags and faults and none of its texts, so that memory follows the number of lines. What is a fault was found out
by resuming such sessions with Claude Code 2.1.197.
"""

import codecs
import json
from collections.abc import Iterator
from sys import intern
from typing import Any, Literal

import msgspec
from msgspec import Struct

from foldmark.sessions.claude.blocks import says_full
from foldmark.sessions.claude.index import preserved
from foldmark.sessions.lenient_json import filled_text
from foldmark.sessions.messages import PreservedRecords, moment_of
from foldmark.sessions.session_file import Broken, SessionFile, SessionRecord

CHAINED = frozenset({"user", "assistant", "system", "attachment"})
"""Types of records that can be a parent."""

Fault = Literal[
    "no message",  # none, or null
    "message",  # no object where the message should be
    "content",  # content of a type that stops Claude Code
    "plain",  # a model's content as a text
    "null block",  # null among the blocks
    "bad block",  # a block that says nothing: no object, a text without text, a call without id or name
    "unsigned",  # thinking without a signature
    "attachment",  # an attachment without its object
    "uuid",  # no uuid
    "parent",  # no parentUuid, not even null
    "time",  # no timestamp that can be read
    "model",  # an answer that does not say whose it is
    "full",  # the error that the context is full
    "constant",  # NaN or Infinity, which Foldmark reads and Claude Code does not
    "mark",  # a byte order mark inside of the file
    "bytes",  # invalid UTF-8
]


class Row(Struct, kw_only=True, eq=False):
    """A line, or a record that a repair adds (`line` 0).

    `state`: a record, a broken line, another JSON value, or `null`. `leaf` is where a `last-prompt` record says that
    the session stands, `pinned` whether a person chose that. `calls` and `results` are ids by the position of their
    block, "" for one that cannot be used; `spoilt` are positions of blocks with a fault; `blocks` counts all of them.
    `gone` is whether a repair leaves the line out.
    """

    line: int
    offset: int = 0
    state: Literal["record", "broken", "value", "null"] = "record"
    reason: str = ""
    type: str = ""
    uuid: str | None = None
    parent: str | None = None
    side: bool = False
    agent: str = ""
    response: str | None = None
    session: str | None = None
    calls: tuple[tuple[int, str], ...] = ()
    results: tuple[tuple[int, str], ...] = ()
    spoilt: tuple[int, ...] = ()
    blocks: int = 0
    faults: tuple[Fault, ...] = ()
    boundary: bool = False
    summary: bool = False
    kept: PreservedRecords | None = None
    leaf: str | None = None
    pinned: bool = False
    gone: bool = False

    @property
    def chained(self) -> bool:
        """Whether it can be in a chain: it can be a parent, once it has a uuid."""
        return not self.gone and self.type in CHAINED

    @property
    def said(self) -> bool:
        """Whether it is a user's or the model's."""
        return not self.gone and self.type in ("user", "assistant")


def rows(session: SessionFile) -> Iterator[Row]:
    """The lines of a session in order."""
    for found in session.lines():
        offset = session.whole[1]
        if isinstance(found, Broken):
            yield Row(line=found.line, offset=offset, state="broken", reason=found.reason)
        elif not isinstance(found.value, dict):
            yield Row(line=found.line, offset=offset, state="null" if found.value is None else "value")
        else:
            yield _row(found, session.raw(offset))


def _row(record: SessionRecord, raw: bytes) -> Row:
    value = record.value
    row = Row(
        line=record.line,
        offset=record.offset,
        type=intern(record.type),
        uuid=filled_text(value.get("uuid")),
        parent=filled_text(value.get("parentUuid")),
        side=value.get("isSidechain") is True,
        agent=filled_text(value.get("agentId")) or "",
        session=filled_text(value.get("sessionId")),
        boundary=value.get("type") == "system" and value.get("subtype") == "compact_boundary",
        summary=value.get("isCompactSummary") is True,
        kept=preserved(value),
    )
    if row.session:
        row.session = intern(row.session)
    if row.type == "last-prompt":
        row.leaf, row.pinned = filled_text(value.get("leafUuid")), value.get("explicit") is True
    faults = list(_bytes_faults(raw, record.line))
    if row.type in CHAINED:
        faults += _link_faults(value, row)
        if row.type in ("user", "assistant"):
            faults += _message(value, row)
        elif row.type == "attachment" and not isinstance(value.get("attachment"), dict):
            faults.append("attachment")
    row.faults = tuple(faults)
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
    if moment_of(value) is None and (not isinstance(time, int | float) or isinstance(time, bool)):
        yield "time"


def _message(value: dict[str, Any], row: Row) -> Iterator[Fault]:
    message = value.get("message")
    if not isinstance(message, dict):
        yield "no message" if message is None else "message"
        return
    content, answer = message.get("content"), row.type == "assistant"
    if answer:
        row.response = filled_text(message.get("id"))
        if filled_text(message.get("model")) is None and message.get("model") != "":
            yield "model"
    if says_full(value):
        yield "full"
    if isinstance(content, str):
        row.blocks = 1
        if answer:
            yield "plain"
    elif isinstance(content, list):
        yield from _blocks(content, row)
    else:
        yield "content"


def _blocks(content: list[Any], row: Row) -> Iterator[Fault]:
    calls, results, spoilt = [], [], []
    faults: dict[Fault, None] = {}
    row.blocks = len(content)
    for at, block in enumerate(content):
        fault: Fault | None = None
        kind = block.get("type") if isinstance(block, dict) else None
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
            faults[fault] = None
            spoilt.append(at)
    row.calls, row.results, row.spoilt = tuple(calls), tuple(results), tuple(spoilt)
    yield from faults


def same(one: bytes, other: bytes) -> bool:
    """Whether two lines say the same, whatever their line ends are."""
    return one.rstrip() == other.rstrip()


def encoded(value: Any) -> bytes:
    """A record as a line."""
    return msgspec.json.encode(value) + b"\n"
