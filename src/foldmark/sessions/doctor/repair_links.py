"""Repairing the chain of a session: unusable lines leave, records get a uuid and a parent that is there [SPEC 8]."""

from collections.abc import Callable

from foldmark.sessions.claude.resumption import Links
from foldmark.sessions.claude.rows import Row
from foldmark.sessions.doctor.repair_plan import RepairPlan

_ROUNDS = 20
_UNUSABLE = {
    "no message": "no message in it",
    "message": "no message in it",
    "content": "its content is neither a text nor a list",
    "attachment": "an attachment without its object",
    "full": "the error that the context is full, which nobody sends",
}


def leave_out_lines(plan: RepairPlan, is_copy: Callable[[Row, Row], bool]) -> None:
    """Lines go that nothing can be read of, and those that repeat another one; `is_copy` compares two lines."""
    first: dict[str, Row] = {}
    for row in plan.rows:
        if row.state == "broken":
            plan.leave_out(row, row.reason)
        elif row.state != "record":
            plan.leave_out(row, "JSON, but no object")
        elif why := next((_UNUSABLE[fault] for fault in row.faults if fault in _UNUSABLE), None):
            plan.leave_out(row, why)
        elif row.uuid and row.chained and first.setdefault(row.uuid, row) is not row and is_copy(first[row.uuid], row):
            row.gone = True
            plan.note(row, f"left out: it repeats line {first[row.uuid].line}")


def name_records(plan: RepairPlan) -> None:
    """Every record gets a uuid of its own; what follows the second of two goes with it."""
    newer: dict[str, str] = {}
    known = {row.uuid for row in plan.rows if row.type == "progress" and not row.gone}
    for row in plan.rows:
        if not row.chained:
            continue
        if row.parent in newer:
            plan.set_parent(row, newer[row.parent])
        if row.uuid is None:
            plan.set_uuid(row, plan.new_id())
            plan.note(row, "given a uuid")
        elif row.uuid in known:
            old = row.uuid
            plan.set_uuid(row, plan.new_id())
            newer[old] = row.uuid
            plan.note(row, "given another uuid: two lines had the same")
        known.add(row.uuid)


def link_records(plan: RepairPlan) -> None:
    """Every record gets a parent that is there, the record before it if its own is nowhere."""
    _link_faulty(plan)
    link_missing(plan)


def link_missing(plan: RepairPlan) -> None:
    """Records whose parent was left out, is nowhere, or is one that hangs on them, get another one."""
    if not any(row.said and not row.side for row in plan.rows):
        _as_main(plan)
    plan.relink()
    links = Links(plan.rows)
    before: Row | None = None
    for row in plan.rows:
        if not row.chained or row.side:
            continue
        missing = row.parent is not None and links.parent(row) is None and links.passed(row.parent) is not None
        if missing and before is not None:
            plan.set_parent(row, before.uuid)
            plan.note(row, f"linked to line {before.line}: its parent was nowhere")
        before = row
    _cut_loops(plan)


def _link_faulty(plan: RepairPlan) -> None:
    """Records that name no parent get the one before."""
    before: Row | None = None
    for row in plan.rows:
        if not row.chained or row.side:
            continue
        if "parent" in row.faults:
            plan.set_parent(row, before.uuid if before else None)
            if before is not None:
                plan.note(row, f"linked to line {before.line}: it had no parent")
        before = row


def _as_main(plan: RepairPlan) -> None:
    """A file of a subagent's alone becomes a session of its own."""
    for row in plan.rows:
        if row.chained and row.side:
            row.side = False
            plan.change(row).main = True
            plan.note(row, "no longer marked as a subagent's")
    _link_faulty(plan)


def _cut_loops(plan: RepairPlan) -> None:
    """No record stays its own ancestor: where a parent in a loop stands behind its child, the child is linked anew."""
    for turn in range(_ROUNDS + 1):
        links = Links(plan.rows)
        place = {row: at for at, row in enumerate(plan.rows)}
        looping = _in_loops(plan, links)
        if not looping:
            return
        before: Row | None = None
        for row in plan.rows:
            if not row.chained or row.side:
                if row in looping:
                    plan.set_parent(row, None)
                    plan.note(row, "its parent taken away: it was its own ancestor")
                continue
            parent = links.parent(row)
            if parent and place[parent] >= place[row] and (row in looping or turn == _ROUNDS):
                plan.set_parent(row, before.uuid if before else None)
                plan.note(row, f"linked to line {before.line if before else 0}: its parents were a loop")
            before = row


def _in_loops(plan: RepairPlan, links: Links) -> set[Row]:
    """The records that are their own ancestors."""
    finished: set[Row] = set()
    found: set[Row] = set()
    for start in plan.rows:
        way: dict[Row, None] = {}
        row: Row | None = start if start.chained and start.uuid else None
        while row is not None and row not in finished and row not in way:
            way[row] = None
            row = links.parent(row)
        if row is not None and row in way:
            loop = list(way)
            found.update(loop[loop.index(row) :])
        finished.update(way)
    return found
