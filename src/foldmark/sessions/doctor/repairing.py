"""`foldmark doctor --session --repair`: a new session beside a damaged one, which Claude Code resumes [SPEC 8].

What cannot be read is left out, what hung on it is linked anew, and what a request needs is put where it is missing;
all of it is listed. Every other line keeps its bytes but for the session's id. The damaged file is only read.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from foldmark.core import codec
from foldmark.sessions.claude.rows import Row, rows, same
from foldmark.sessions.doctor import repair_content, repair_links
from foldmark.sessions.doctor.diagnosis import diagnose
from foldmark.sessions.doctor.findings import Diagnosis
from foldmark.sessions.doctor.repair_lines import changed, made_result, marked
from foldmark.sessions.doctor.repair_plan import RepairError, RepairPlan
from foldmark.sessions.formats import SessionPath, format_named
from foldmark.sessions.new_file import mode_beside, new_file
from foldmark.sessions.places import session_path
from foldmark.sessions.session_file import SessionFile


class Repaired(Struct, frozen=True):
    """A repaired session `id`: what was `done`, by the lines of the damaged file, and how it is `now`."""

    session: SessionPath
    id: str
    done: list[tuple[int, str]]
    now: Diagnosis


def repair(
    session: SessionPath, session_id: str, moment: datetime, new_id: Callable[[], str], out: Path | None = None
) -> Repaired | None:
    """Write the repaired session `session_id` as a new file, beside the old one or as `out`; None if nothing is wrong.

    `new_id` makes uuids. Raises RepairError where it cannot be repaired, SessionFileError, WriteError.
    """
    if why := format_named(session.kind).why_not_repaired:
        raise RepairError(why)
    path = out or session.path.with_name(f"{session_id}.jsonl")
    with SessionFile(session.path) as file:
        plan = _planned(file, moment, new_id)
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
            lines = _lines(file, plan, session_id)
            target.write(marked(next(lines), metadata))
            target.writelines(lines)
    new = session_path(path, session.kind)
    return Repaired(new, session_id, sorted(plan.done), diagnose(new))


def _planned(file: SessionFile, moment: datetime, new_id: Callable[[], str]) -> RepairPlan:
    plan = RepairPlan(list(rows(file)), new_id)
    repair_links.leave_out_lines(plan, lambda one, other: same(file.raw(one.offset), file.raw(other.offset)))
    repair_links.name_records(plan)
    repair_content.mend_records(plan)
    repair_links.link_records(plan)
    repair_content.fill_in(plan, lambda row: _value(file, row), f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.000Z}")
    repair_content.mend_tools(plan)
    return plan


def _lines(file: SessionFile, plan: RepairPlan, session_id: str) -> Iterator[bytes]:
    for row in plan.rows:
        if row.gone:
            continue
        if row in plan.added:
            behind = plan.added[row].behind
            change = plan.changes.get(behind)
            yield made_result(_value(file, behind), row, change.time if change else None, session_id)
        else:
            line = changed(file.raw(row.offset), row, plan.changes.get(row), session_id)
            yield line if line.endswith(b"\n") else line + b"\n"


def _value(file: SessionFile, row: Row) -> dict[str, Any]:
    value: dict[str, Any] = file.reread(row.line, row.offset).value
    return value
