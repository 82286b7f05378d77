"""Repairing what a resumed session sends: contents, times and models, and calls with their results [SPEC 8]."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from foldmark.sessions.claude.pairs import CallBlock, paired
from foldmark.sessions.claude.resumption import Links, ResumedChain, sent
from foldmark.sessions.claude.rows import Row
from foldmark.sessions.doctor.repair_links import link_missing
from foldmark.sessions.doctor.repair_plan import Added, RepairError, RepairPlan

_ROUNDS = 200
_MOVES = 100  # in one round


def mend_records(plan: RepairPlan) -> None:
    """Contents that stop Claude Code, wherever they stand, and lines that it does not take for JSON."""
    for row in plan.rows:
        if row.gone:
            continue
        if "null block" in row.faults:
            plan.drop(row, set(row.spoilt), "a block that is null")
        if "plain" in row.faults:
            plan.change(row).wrap = True
            plan.note(row, "the model's text put into a block")
        if "constant" in row.faults or "mark" in row.faults:
            plan.change(row).plain = True
            plan.note(row, "written anew, as JSON that Claude Code reads")


def fill_in(plan: RepairPlan, value: Callable[[Row], dict[str, Any]], now: str) -> None:
    """Records without a time, and answers without a model, get those of the record before, or of the next that has.

    `value` is what a line holds; `now` is the time where none has any.
    """
    lacking = [row for row in plan.rows if not row.gone and not {"time", "model"}.isdisjoint(row.faults)]
    if not lacking:
        return
    timed = next((row for row in plan.rows if row.chained and "time" not in row.faults), None)
    named = next((row for row in plan.rows if _names_model(row)), None)
    for row in plan.rows:
        if row.gone or not row.chained:
            continue
        if "time" in row.faults:
            plan.change(row).time = value(timed)["timestamp"] if timed else now
            plan.note(row, "given a timestamp")
        else:
            timed = row
        if "model" in row.faults:
            plan.change(row).model = value(named)["message"]["model"] if named else "<synthetic>"
            plan.note(row, "given a model")
        elif _names_model(row):
            named = row


def _names_model(row: Row) -> bool:
    return row.chained and row.type == "assistant" and "model" not in row.faults


def mend_tools(plan: RepairPlan) -> None:
    """Of what is sent, every call has its one result behind it, and nothing else is in the way. Raises RepairError."""
    moved: set[Row] = set()
    for _ in range(_ROUNDS):
        resumed = sent(plan.rows, Links(plan.rows))
        if not _drop_spoilt(plan, resumed) and not _mend_pairs(plan, resumed, moved):
            return
        link_missing(plan)
    raise RepairError("the tool calls of this session stand in each other's way; `foldmark import` reads what is there")


def _drop_spoilt(plan: RepairPlan, resumed: ResumedChain) -> bool:
    spoilt = [row for row in resumed.order if row.spoilt]
    for row in spoilt:
        plan.drop(row, set(row.spoilt), "thinking without a signature, or a block that cannot be used")
    return bool(spoilt)


def _mend_pairs(plan: RepairPlan, resumed: ResumedChain, moved: set[Row]) -> bool:
    """One round; whether anything changed."""
    found = paired(resumed.order)
    spare = [*found.orphans]
    chain = resumed.chain
    for number, block in enumerate(found.early):
        ordered = _behind_its_call(plan, chain, block, moved)
        if ordered is None:
            spare.append(block)
        else:
            chain = ordered
        if number == _MOVES:
            return True
    if chain is not resumed.chain:
        return True
    by_row: dict[Row, set[int]] = {}
    for block in spare:
        by_row.setdefault(block.row, set()).add(block.at)
    for row, positions in by_row.items():
        plan.drop(row, positions, "a result without a call in front of it")
    if spare:
        return True
    for slot in found.repeated:
        new = f"toolu_{plan.new_id().replace('-', '')}"
        plan.rename(slot.row, slot.at, new)
        plan.note(slot.row, "a call given another id: two had the same")
        if slot.result and slot.result.row not in plan.added:
            plan.rename(slot.result.row, slot.result.at, new)
    if found.repeated:
        return True
    _answer(plan, resumed, found.unanswered)
    return bool(found.unanswered)


def _behind_its_call(plan: RepairPlan, chain: list[Row], block: CallBlock, moved: set[Row]) -> list[Row] | None:
    """The chain with a result that stands in front of its call behind it, each but once; None where that cannot be."""
    row = block.row
    call = next((each for each in chain if any(id == block.id for _, id in each.calls)), None)
    if call is None or row in moved or row not in chain or row in plan.added:
        return None
    moved.add(row)
    ordered = [each for each in chain if each is not row]
    at = ordered.index(call) + 1
    while at < len(ordered) and call.response and ordered[at].response == call.response:
        at += 1
    ordered.insert(at, row)
    before = {each: above for above, each in pairwise(chain)}
    for above, each in pairwise(ordered):
        if before.get(each) is not above:
            plan.set_parent(each, above.uuid)
    if ordered[0] is not chain[0]:
        plan.set_parent(ordered[0], chain[0].parent)
    plan.move(row, ordered[at - 1])
    plan.note(row, f"moved behind its call in line {call.line}")
    return ordered


def _answer(plan: RepairPlan, resumed: ResumedChain, calls: list[CallBlock]) -> None:
    """Calls without a result get one that says so, all those of an answer in one record."""
    chain = resumed.chain
    inside = {row: at for at, row in enumerate(chain)}
    last: dict[str, Row] = {row.response: row for row in chain if row.response}
    behind: dict[Row, list[str]] = {}
    for block in calls:
        row = block.row
        if row in inside and row.response:
            row = last.get(row.response, row)
        behind.setdefault(row, []).append(block.id)
        plan.note(block.row, "a call given a result that says that it was interrupted")
    found: dict[Row, Added] = {}
    for row, ids in behind.items():
        new = Added(plan.new_id(), row, ids)
        found[row] = new
        at = inside.get(row)
        if at is not None and at + 1 < len(chain):
            plan.set_parent(chain[at + 1], new.uuid)
    plan.add(found)
