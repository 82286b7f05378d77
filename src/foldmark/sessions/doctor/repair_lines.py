"""How a line of a session changes when it is repaired: everything else of it keeps its bytes [SPEC 8]."""

import codecs
from collections.abc import Callable
from typing import Any

import msgspec

from foldmark.sessions import spans
from foldmark.sessions.claude.blocks import MADE_UP
from foldmark.sessions.claude.rows import Row, encoded
from foldmark.sessions.doctor.repair_plan import RecordRepair
from foldmark.sessions.lenient_json import decode

INTERRUPTED = "[The session broke off before this tool call had a result.]"
"""What stands where a call had no result."""

_COPIED = ("userType", "cwd", "version", "gitBranch", "timestamp")


def changed(raw: bytes, row: Row, change: RecordRepair | None, session_id: str) -> bytes:
    """A record as it goes into the repaired session `session_id`."""
    if change is not None and change.plain:
        raw = rewritten(raw)
    try:
        return _changed(raw, row, change, session_id)
    except ValueError:  # no UTF-8: it is written as it is read
        return _changed(rewritten(raw), row, change, session_id)


def rewritten(raw: bytes) -> bytes:
    """A record written anew, with all that can be read of it."""
    return encoded(decode(raw.removeprefix(codecs.BOM_UTF8)))


def marked(line: bytes, metadata: dict[str, Any]) -> bytes:
    """The first record of a repaired session, which says what it is."""
    try:
        return with_member(line, "repair_metadata", metadata)
    except ValueError:
        return with_member(rewritten(line), "repair_metadata", metadata)


def with_member(data: bytes, key: str, value: Any) -> bytes:
    """An object with this value for a key. Raises ValueError if it is none."""
    new = msgspec.json.encode(value)
    found = spans.last(data, key)
    if found:
        return spans.edited(data, [(*found, new)])
    end = data.rindex(b"}")
    comma = b"," if spans.members(data) else b""
    return b'%b%b"%b":%b%b' % (data[:end], comma, key.encode(), new, data[end:])


def made_result(pattern: dict[str, Any], row: Row, time: str | float | None, session_id: str) -> bytes:
    """The record `row` that gives calls without a result one; `pattern` is the record of the calls."""
    told = {"type": "tool_result", "content": INTERRUPTED, "is_error": True}
    blocks = [{**told, "tool_use_id": call} for _, call in row.results]
    record = {
        "parentUuid": row.parent,
        "isSidechain": False,
        **{key: pattern[key] for key in _COPIED if key in pattern},
        "sessionId": session_id,
        "type": "user",
        "message": {"role": "user", "content": blocks},
        "uuid": row.uuid,
        MADE_UP: True,
    }
    if time is not None:
        record["timestamp"] = time
    return encoded(record)


def _changed(raw: bytes, row: Row, change: RecordRepair | None, session_id: str) -> bytes:
    line = raw
    if row.session is not None:
        line = with_member(line, "sessionId", session_id)
    if change is None:
        return line
    if change.uuid is not None:
        line = with_member(line, "uuid", change.uuid)
    if change.parent is not None:
        line = with_member(line, "parentUuid", change.parent or None)
    if change.time is not None:
        line = with_member(line, "timestamp", change.time)
    if change.main:
        line = with_member(line, "isSidechain", False)
    if change.model is not None:
        line = _within(line, ("message",), lambda data: with_member(data, "model", change.model))
    if change.wrap:
        line = _within(line, ("message", "content"), b'[{"type":"text","text":%b}]'.__mod__)
    if change.drop or change.ids:
        line = _within(line, ("message", "content"), lambda data: _blocks(data, row, change))
    return line


def _blocks(content: bytes, row: Row, change: RecordRepair) -> bytes:
    key = "id" if row.type == "assistant" else "tool_use_id"
    kept = []
    for at, (begin, end) in enumerate(spans.items(content)):
        if at not in change.drop:
            block = content[begin:end]
            kept.append(with_member(block, key, change.ids[at]) if at in change.ids else block)
    return b"[%b]" % b",".join(kept)


def _within(data: bytes, path: tuple[str, ...], change: Callable[[bytes], bytes]) -> bytes:
    """An object with the value to which the keys lead changed. Raises ValueError where they lead nowhere."""
    if not path:
        return change(data)
    at = spans.last(data, path[0])
    if at is None:
        raise ValueError(f"no {path[0]}")
    return spans.edited(data, [(*at, _within(data[at[0] : at[1]], path[1:], change))])
