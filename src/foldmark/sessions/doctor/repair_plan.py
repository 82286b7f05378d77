"""Plan the repair of a Claude Code session, line by line, before anything is written [SPEC 8].

Unreadable lines are left out, except for whole records on them. Every record gets a unique uuid and an existing parent.
Contents that stop Claude Code are changed. Every call that is sent is followed by exactly one result. The rest is
unchanged.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from msgspec import Struct

from foldmark.core.errors import FoldmarkError
from foldmark.formats.claude.members import ASIDE, PARENT
from foldmark.formats.claude.records import Row, recovered, rows
from foldmark.formats.claude.resumption import CallBlock, Links, ResumedChain, pair_calls, path_from, resume
from foldmark.formats.session_file import SessionFile

_LOOP_ROUNDS, _TOOL_ROUNDS = 20, 200
_MOVES = 100
"""Maximum number of results that are moved after their calls in one round."""

_UNUSABLE = {
    "no message": "no message in it",
    "message": "no message in it",
    "content": "its content is neither text nor a list",
    "attachment": "an attachment without its object",
    "full": "the error that the context is full, which is never sent",
}


class RepairError(FoldmarkError):
    """A session cannot be repaired. Its file is unchanged."""


class RecordRepair(Struct):
    """The changes of a record.

    `members` are new values of the record's own members, and `message` of those of its message. `drop` are positions of
    blocks to leave out. `ids` maps positions of blocks (calls or results) to new call ids. `wrap`: text content
    becomes a block. `plain`: the record is rewritten as valid JSON.
    """

    members: dict[str, Any] = {}
    message: dict[str, Any] = {}
    drop: set[int] = set()
    ids: dict[int, str] = {}
    wrap: bool = False
    plain: bool = False


class RepairPlan:
    """The repair of a session file. `new_id` makes uuids. Raises RepairError if its calls cannot be repaired.

    `rows` are the lines in their new order. `added` maps the new records among them, which hold results of calls, to
    the record that each follows and is modelled on. `done` lists the changes by line.
    """

    def __init__(self, file: SessionFile, new_id: Callable[[], str], now: str) -> None:
        self.file = file
        self.new_id = new_id
        self.rows = [each for row in rows(file) for each in recovered(file, row)]
        self.changes: dict[Row, RecordRepair] = {}
        self.added: dict[Row, Row] = {}
        self.done: list[tuple[int, str]] = []
        self._left_out: dict[str, str | None] = {}
        _leave_out_lines(self)
        _name_records(self)
        _mend_records(self)
        _link_faulty(self)
        _link_missing(self)
        _fill_in(self, now)
        _mend_tools(self)

    def value(self, row: Row) -> dict[str, Any]:
        """Return the value of a line of the file."""
        value: dict[str, Any] = self.file.reread(row.line, row.offset, row.end).value
        return value

    def raw(self, row: Row) -> bytes:
        """Return the bytes of a line of the file, or of the part of it that is the record."""
        return self.file.raw(row.offset, row.end)

    def main(self) -> Iterator[tuple[Row | None, Row]]:
        """Yield every record of the main chain, preceded by the one before it in the file."""
        main = [row for row in self.rows if row.chained and not row.aside]
        return zip([None, *main], main, strict=False)

    def change(self, row: Row) -> RecordRepair:
        """Return the changes of a record, for the caller to extend."""
        return self.changes.setdefault(row, RecordRepair())

    def note(self, row: Row, text: str) -> None:
        """Record a change of a line."""
        self.done.append((row.line, text))

    def leave_out(self, row: Row, why: str) -> None:
        """Leave a line out. Its children are linked to its parent (see `relink`)."""
        row.leave_out()
        if row.uuid:
            self._left_out[row.uuid] = row.parent
        self.note(row, f"left out: {why}")

    def relink(self) -> None:
        """Link the children of omitted records to the parents of those records."""
        for row in self.rows if self._left_out else ():
            if row.chained and row.uuid:
                self._left_out.pop(row.uuid, None)  # another record has the same uuid
        for row in self.rows if self._left_out else ():
            if row.parent in self._left_out and not row.gone:
                self.set_parent(row, self._above(row.parent))
        self._left_out.clear()

    def set_parent(self, row: Row, parent: str | None) -> None:
        """Give a record another parent."""
        row.parent = parent
        if row not in self.added:
            self.change(row).members[PARENT] = parent

    def set_uuid(self, row: Row) -> str:
        """Give a record a new uuid, and return it."""
        row.uuid = self.change(row).members["uuid"] = uuid = self.new_id()
        return uuid

    def drop(self, row: Row, positions: set[int], why: str) -> None:
        """Remove blocks from a record, and the whole record if no block is left."""
        dropped = positions
        if row not in self.added:
            self.change(row).drop |= positions
            dropped = self.change(row).drop
        row.pair([(at, id) for at, id in row.paired if at not in dropped])
        row.spoilt = tuple(at for at in row.spoilt if at not in dropped)
        if len(dropped) >= row.blocks:
            self.leave_out(row, why)
        else:
            self.note(row, f"a block left out: {why}")

    def rename(self, block: CallBlock, id: str) -> None:
        """Give a call or a result another call id."""
        row = block.row
        self.change(row).ids[block.at] = id
        row.pair([(at, id if at == block.at else old) for at, old in row.paired])

    def _above(self, uuid: str | None) -> str | None:
        met = set()
        while uuid in self._left_out and uuid not in met:
            met.add(uuid)
            uuid = self._left_out[uuid]
        return None if uuid in self._left_out else uuid


# -- Lines and links


def _leave_out_lines(plan: RepairPlan) -> None:
    """Leave out what is unreadable and what repeats another record. Whole records on a broken line are kept."""
    first: dict[str, Row] = {}
    for row in plan.rows:
        if row.end is not None:
            plan.note(row, "a whole record put on a line of its own: the line was not JSON")
        if row.state == "broken":
            plan.leave_out(row, row.reason)
        elif row.state != "record":
            plan.leave_out(row, "JSON, but not an object")
        elif why := next((_UNUSABLE[fault] for fault in row.faults if fault in _UNUSABLE), None):
            plan.leave_out(row, why)
        elif row.uuid and row.chained:
            other = first.setdefault(row.uuid, row)
            if other is not row and plan.raw(other).rstrip() == plan.raw(row).rstrip():
                row.leave_out()
                plan.note(row, f"left out: it repeats line {other.line}")


def _name_records(plan: RepairPlan) -> None:
    """Give every record a unique uuid. The children of a renamed record follow it."""
    newer: dict[str, str] = {}
    known = {row.uuid for row in plan.rows if row.passing}
    for row in plan.rows:
        if not row.chained:
            continue
        if row.parent in newer:
            plan.set_parent(row, newer[row.parent])
        if row.uuid is None:
            plan.set_uuid(row)
            plan.note(row, "given a uuid")
        elif row.uuid in known:
            old = row.uuid
            newer[old] = plan.set_uuid(row)
            plan.note(row, "given another uuid: two lines had the same")
        known.add(row.uuid)


def _link_faulty(plan: RepairPlan) -> None:
    """Link records without a parent to the previous record."""
    for before, row in plan.main():
        if "parent" in row.faults:
            plan.set_parent(row, before.uuid if before else None)
            if before is not None:
                plan.note(row, f"linked to line {before.line}: it had no parent")


def _link_missing(plan: RepairPlan) -> None:
    """Relink records whose parent was left out, is missing, or is their own descendant."""
    if not any(row.said and not row.aside for row in plan.rows):
        _as_main(plan)
    plan.relink()
    links = Links(plan.rows)
    for before, row in plan.main():
        if before is not None and links.is_missing(row):
            plan.set_parent(row, before.uuid)
            plan.note(row, f"linked to line {before.line}: its parent was missing")
        elif before is None and links.is_missing(row) and len(path_from(links, row)) > 1:
            plan.set_parent(row, None)
            plan.note(row, "its missing parent taken away: Claude Code would go on with a later record")
    _cut_loops(plan)


def _as_main(plan: RepairPlan) -> None:
    """Turn a file of a subagent's records into an independent session."""
    for row in plan.rows:
        if row.chained and row.aside:
            row.side = None
            plan.change(row).members[ASIDE] = False
            plan.note(row, "no longer marked as a subagent's")
    _link_faulty(plan)


def _cut_loops(plan: RepairPlan) -> None:
    """Break loops of parents: link each record in a loop whose parent follows it to the previous record."""
    for turn in range(_LOOP_ROUNDS + 1):
        links = Links(plan.rows)
        looping = _in_loops(plan, links)
        if not looping:
            return
        place = {row: at for at, row in enumerate(plan.rows)}
        main = {row: before for before, row in plan.main()}
        for row in plan.rows:
            parent = links.parent(row)
            if row not in main:
                if row in looping:
                    plan.set_parent(row, None)
                    plan.note(row, "its parent taken away: it was its own ancestor")
            elif parent and place[parent] >= place[row] and (row in looping or turn == _LOOP_ROUNDS):
                before = main[row]
                plan.set_parent(row, before.uuid if before else None)
                plan.note(row, f"linked to line {before.line if before else 0}: its ancestors formed a loop")


def _in_loops(plan: RepairPlan, links: Links[Row]) -> set[Row]:
    """Return the records that are their own ancestors."""
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


# -- Contents, times and models


def _mend_records(plan: RepairPlan) -> None:
    """Repair messages that make Claude Code fail even if they are not sent, and lines that it cannot parse as JSON."""
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
            plan.note(row, "rewritten as JSON that Claude Code reads")


def _fill_in(plan: RepairPlan, now: str) -> None:
    """Fill in missing times of records and models of answers from the previous record that has one, or from the first.

    `now` is the time if no record has one.
    """
    chained = [row for row in plan.rows if row.chained]
    timed = next((row for row in chained if "time" not in row.faults), None)
    named = next((row for row in chained if _names_model(row)), None)
    for row in chained:
        if "time" in row.faults:
            plan.change(row).members["timestamp"] = plan.value(timed)["timestamp"] if timed else now
            plan.note(row, "given a timestamp")
        else:
            timed = row
        if "model" in row.faults:
            plan.change(row).message["model"] = plan.value(named)["message"]["model"] if named else "<synthetic>"
            plan.note(row, "given a model")
        elif _names_model(row):
            named = row


def _names_model(row: Row) -> bool:
    return row.is_answer and "model" not in row.faults


# -- Calls with their results


def _mend_tools(plan: RepairPlan) -> None:
    """Put exactly one result after every call that is sent, and remove everything else that prevents it.

    Raises RepairError.
    """
    moved: set[Row] = set()
    for _ in range(_TOOL_ROUNDS):
        resumed = resume(plan.rows)
        spoilt = [row for row in resumed.order if row.spoilt]
        for row in spoilt:
            plan.drop(row, set(row.spoilt), "thinking without a signature, or a block that cannot be used")
        if not spoilt and not _mend_pairs(plan, resumed, moved):
            return
        _link_missing(plan)
    raise RepairError("the tool calls of this session cannot be put in order; `foldmark import` reads it as it is")


def _mend_pairs(plan: RepairPlan, resumed: ResumedChain[Row], moved: set[Row]) -> bool:
    """Repair one kind of fault, as each repair may change the messages that are sent. Return False if there is none."""
    pairs = pair_calls(resumed.order)
    spare, chain, parted = [*pairs.orphans], resumed.chain, False
    late = set(pairs.late)
    for result in [*pairs.early, *pairs.late][:_MOVES]:
        ordered = _behind_its_call(plan, chain, result, moved)
        if ordered is not None:
            chain = ordered
        elif result in late and _part(plan, resumed.order, result, moved):
            parted = True
        else:
            spare.append(result)
    if parted or chain is not resumed.chain:
        return True
    by_row: dict[Row, set[int]] = {}
    for result in spare:
        by_row.setdefault(result.row, set()).add(result.at)
    for row, positions in by_row.items():
        plan.drop(row, positions, "a result without a call in front of it")
    if spare:
        return True
    for call, own in pairs.repeated.items():
        new = f"toolu_{plan.new_id().replace('-', '')}"
        plan.rename(call, new)
        plan.note(call.row, "a call given another id: two had the same")
        if own and own.row not in plan.added:
            plan.rename(own, new)
    if not pairs.repeated:
        _answer(plan, resumed.chain, pairs.unanswered)
    return bool(pairs.repeated or pairs.unanswered)


def _behind_its_call(plan: RepairPlan, chain: list[Row], result: CallBlock, moved: set[Row]) -> list[Row] | None:
    """Move a result after its call, once per record. Return the new chain, or None if that is impossible."""
    row = result.row
    call = next((each for each in chain if result.id in each.calls), None)
    if call is None or row in moved or row not in chain or row in plan.added:
        return None
    moved.add(row)
    ordered = [each for each in chain if each is not row]
    at = ordered.index(call) + 1
    while at < len(ordered) and call.message_id and ordered[at].message_id == call.message_id:
        at += 1
    ordered.insert(at, row)
    if ordered == chain:
        return None
    before = {each: above for above, each in pairwise(chain)}
    for above, each in pairwise(ordered):
        if before.get(each) is not above:
            plan.set_parent(each, above.uuid)
    if ordered[0] is not chain[0]:
        plan.set_parent(ordered[0], chain[0].parent)
    above = ordered[at - 1]
    if plan.rows.index(row) < plan.rows.index(above):
        plan.rows.remove(row)
        plan.rows.insert(plan.rows.index(above) + 1, row)
    plan.note(row, f"moved behind its call in line {call.line}")
    return ordered


def _part(plan: RepairPlan, order: list[Row], result: CallBlock, parted: set[Row]) -> bool:
    """Make the line with the call of a result an answer of its own, once per record: lines of another are between
    it and those before it. Return False if that is impossible."""
    row = next(each for each in order if result.id in each.calls)
    if row.message_id is None or row in parted:
        return False
    parted.add(row)
    row.message_id = plan.change(row).message["id"] = f"msg_{plan.new_id().replace('-', '')}"
    plan.note(row, "given another message id: lines of another answer are between those of its own")
    return True


def _answer(plan: RepairPlan, chain: list[Row], calls: list[CallBlock]) -> None:
    """Give each unanswered call a result that reports the interruption. The calls of one answer share a record."""
    inside = {row: at for at, row in enumerate(chain)}
    last: dict[str, Row] = {row.message_id: row for row in chain if row.message_id}
    behind: dict[Row, list[str]] = {}
    for row, _, id in calls:
        plan.note(row, "a call given a result that says that it was interrupted")
        if row in inside and row.message_id:
            row = last.get(row.message_id, row)
        behind.setdefault(row, []).append(id)
    made: dict[Row, Row] = {}
    for row, ids in behind.items():
        new = Row(line=0, type="user", uuid=plan.new_id(), parent=row.uuid, blocks=len(ids))
        new.chained = new.said = new.spoken = True
        new.pair(list(enumerate(ids)))
        made[row] = new
        plan.added[new] = row
        at = inside.get(row)
        if at is not None and at + 1 < len(chain):
            plan.set_parent(chain[at + 1], new.uuid)
    plan.rows = [each for row in plan.rows for each in ((row, made[row]) if row in made else (row,))]
