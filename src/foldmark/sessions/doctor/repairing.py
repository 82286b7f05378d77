"""`foldmark doctor --session --repair`: write a new session next to a damaged one, for Claude Code to resume [SPEC 8].

The new session lacks the unreadable lines, the records after them are relinked, and parts that a request needs are
added. All changes are listed. Every other line keeps its bytes except for the session's id. The damaged file is only
read.
"""

import codecs
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.json import encode

from foldmark.core import codec
from foldmark.formats.claude.members import MADE_UP, SESSION, new_record
from foldmark.formats.claude.records import Row
from foldmark.formats.places import session_path
from foldmark.formats.session_file import SessionFile
from foldmark.formats.session_format import SessionPath, format_named
from foldmark.sessions.doctor import Diagnosis, diagnose
from foldmark.sessions.doctor.repair_plan import RecordRepair, RepairError, RepairPlan
from foldmark.sessions.new_file import mode_beside, new_file
from foldmark.wires import spans
from foldmark.wires.lenient_json import decode, encode_line
from foldmark.wires.spans import with_member, within

INTERRUPTED = "[The session broke off before this tool call had a result.]"
"""The result of a call that had none."""

_COPIED = ("userType", "cwd", "version", "gitBranch")


class Repaired(Struct, frozen=True):
    """A repaired session `id`, its changes (`done`) by the lines of the damaged file, and its diagnosis `now`."""

    session: SessionPath
    id: str
    done: list[tuple[int, str]]
    now: Diagnosis


def repair(
    session: SessionPath, session_id: str, moment: datetime, new_id: Callable[[], str], out: Path | None = None
) -> Repaired | None:
    """Write the repaired session `session_id` as a new file, next to the old one or as `out`.

    `new_id` makes uuids. Return None if nothing is wrong. Raises RepairError if the session cannot be repaired, and
    SessionFileError or WriteError.
    """
    if why := format_named(session.kind).why_not_repaired:
        raise RepairError(why)
    path = out or session.path.with_name(f"{session_id}.jsonl")
    with SessionFile(session.path) as file:
        plan = RepairPlan(file, new_id, f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.000Z}")
        if not any(row.said for row in plan.rows):
            raise RepairError(f"{file.label} cannot be repaired: there is no message in it that could be sent")
        if not plan.done and not file.wide:
            return None
        metadata = {
            "parent_file": codec.well_formed(str(session.path)),
            "repaired_at": codec.timestamp(moment, "seconds"),
            "repairs": len(plan.done),
        }
        with new_file(path, mode_beside(session.path)) as target:
            lines = _lines(plan, session_id)
            target.write(_as_read(next(lines), lambda line: with_member(line, "repair_metadata", encode(metadata))))
            target.writelines(lines)
    new = session_path(path, session.kind)
    return Repaired(new, session_id, sorted(plan.done), diagnose(new))


def _lines(plan: RepairPlan, session_id: str) -> Iterator[bytes]:
    """Yield the lines of the repaired session `session_id`."""
    for row in plan.rows:
        if row.gone:
            continue
        if row in plan.added:
            yield _made_result(plan, row, session_id)
            continue
        change = plan.changes.get(row)
        raw = plan.raw(row)
        if change is not None and change.plain:
            raw = _rewritten(raw)
        line = _as_read(raw, partial(_changed, row=row, change=change, session_id=session_id))
        yield line if line.endswith(b"\n") else line + b"\n"


def _made_result(plan: RepairPlan, row: Row, session_id: str) -> bytes:
    """Return the record `row` with results for unanswered calls, modelled on the record of the calls."""
    behind = plan.added[row]
    pattern = plan.value(behind)
    pattern |= plan.changes[behind].members if behind in plan.changes else {}
    about = {key: pattern[key] for key in _COPIED if key in pattern}
    block = {"type": "tool_result", "content": INTERRUPTED, "is_error": True}
    return encode_line(
        {
            **new_record(row.parent, row.uuid, session_id, pattern["timestamp"], about),
            "type": "user",
            "message": {"role": "user", "content": [{**block, "tool_use_id": call} for call in row.results]},
            MADE_UP: True,
        }
    )


def _as_read(line: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Return the changed line. A line with invalid UTF-8 is first rewritten as Claude Code reads it."""
    try:
        return change(line)
    except ValueError:
        return change(_rewritten(line))


def _rewritten(raw: bytes) -> bytes:
    """Return a record as valid JSON, with everything in it that can be read."""
    return encode_line(decode(raw.removeprefix(codecs.BOM_UTF8)))


def _changed(line: bytes, row: Row, change: RecordRepair | None, session_id: str) -> bytes:
    """Return a record for the repaired session. Unchanged parts keep their bytes."""
    if row.session is not None:
        line = with_member(line, SESSION, encode(session_id))
    if change is None:
        return line
    for key, value in change.members.items():
        line = with_member(line, key, encode(value))
    for key, value in change.message.items():
        line = within(line, ("message",), partial(with_member, key=key, value=encode(value)))
    if change.wrap:
        line = within(line, ("message", "content"), b'[{"type":"text","text":%b}]'.__mod__)
    if change.drop or change.ids:
        line = within(line, ("message", "content"), lambda data: _blocks(data, row, change))
    return line


def _blocks(content: bytes, row: Row, change: RecordRepair) -> bytes:
    key = "id" if row.is_answer else "tool_use_id"
    kept = []
    for at, (begin, end) in enumerate(spans.items(content)):
        if at not in change.drop:
            block = content[begin:end]
            kept.append(with_member(block, key, encode(change.ids[at])) if at in change.ids else block)
    return b"[%b]" % b",".join(kept)
