"""Determine the messages that Claude Code sends on resuming a session, and pair their calls and results [SPEC 8].

As observed with 2.1.197, it sends the path from the newest record up to the first. The newest record is the last in the
file that is not a subagent's and has a message at or above it, or the leaf that the session names (`chain.taken`).
The path goes from parent to parent, up to a compaction, and skips records that report progress.
Lines of an answer that are off the path are added with their results, because only one result of parallel calls is on
the path itself.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from foldmark.sessions.chain import leaf_at_end, taken
from foldmark.sessions.claude.records import Row
from foldmark.sessions.messages import Leaf

Chain = list[Row]


class Links:
    """The records of a session by their uuids, and their parents."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.by_uuid: dict[str, Row] = {}
        self._through: dict[str, str | None] = {}
        for row in rows:
            if row.type == "progress" and row.uuid and not row.gone:
                self._through[row.uuid] = self._through.get(row.parent, row.parent) if row.parent else None
            elif row.chained and row.uuid:
                self.by_uuid[row.uuid] = row

    def is_missing(self, row: Row) -> bool:
        """Return True if the record names a parent that is not in the file."""
        uuid = self._passed(row.parent)
        return uuid is not None and uuid not in self.by_uuid

    def parent(self, row: Row) -> Row | None:
        """Return a record's parent, or None."""
        uuid = self._passed(row.parent)
        return self.by_uuid.get(uuid) if uuid else None

    def above(self, row: Row | None) -> Chain:
        """Return the path from a record upwards, beginning with that record."""
        found: dict[Row, None] = {}
        while row is not None and row not in found:
            found[row] = None
            if row.boundary:
                break
            row = self.parent(row)
        return list(found)

    def _passed(self, uuid: str | None) -> str | None:
        """Return the parent's uuid for a record that only reports progress, and any other uuid unchanged."""
        return self._through.get(uuid, uuid) if uuid and uuid not in self.by_uuid else uuid


class ResumedChain(Struct, frozen=True):
    """A session as it is resumed. `chain` is the path, first record first. `order` are all records that are sent, in
    the order in which the model reads them. `newest` is the path to the last record in the file, which differs from
    `chain` if a person has gone back."""

    chain: Chain
    order: Chain
    newest: Chain
    links: Links


def resume(rows: Sequence[Row]) -> ResumedChain:
    """Return the records of a session that are sent on resuming."""
    links = Links(rows)
    main = [row for row in rows if row.chained and row.uuid and not row.side]
    way = links.above(main[-1] if main else None)
    if not any(row.said for row in way):
        way = links.above(next((row for row in reversed(main) if row.said), None))
    leaf = leaf_at_end((row.leaf, row.boundary, row.chained and not row.side) for row in rows if not row.gone)
    chain = _from_said(taken(leaf, _named(leaf, rows, links), way, links.above, lambda row: row.said))
    return ResumedChain(chain, _with_siblings(chain, links), _from_said(way), links)


def _named(leaf: Leaf, rows: Sequence[Row], links: Links) -> Row | None:
    """Return the record that a leaf names; None if it is unknown.

    Of the records before a compaction that preserves some, only the preserved ones are known. Their place is taken by
    its summary.
    """
    named = links.by_uuid.get(leaf.uuid) if leaf.uuid else None
    if named is None or named.side:
        return None
    at = next((at for at in reversed(range(len(rows))) if rows[at].boundary and rows[at].kept), -1)
    if at < 0 or named in rows[at:]:
        return named
    summary = next((row for row in rows[at:] if row.summary), rows[at])
    return summary if named in [*_preserved(rows[at], links), *_preserved(summary, links)] else None


def _from_said(way: Sequence[Row]) -> Chain:
    """Return an upward path in downward order, without the records after its last message."""
    begin = next((at for at, row in enumerate(way) if row.said), len(way))
    return list(way[begin:][::-1])


def _with_siblings(chain: Chain, links: Links) -> Chain:
    inside = set(chain)
    last = {row.response: row for row in chain if row.type == "assistant" and row.response}
    lines: dict[str | None, list[Row]] = {}
    results: dict[str | None, list[Row]] = {}
    for row in links.by_uuid.values():
        if row.response and row.response in last:
            lines.setdefault(row.response, []).append(row)
        elif row.type == "user" and row.results and row.parent and row not in inside:
            results.setdefault(row.parent, []).append(row)
    order: Chain = []
    preserved: Chain = []
    for row in chain:
        order.append(row)
        if row.response and last.get(row.response) is row:
            answer = lines[row.response]
            order += [each for each in answer if each not in inside]
            order += [each for one in answer for each in results.pop(one.uuid, ())]
        if not preserved and (row.boundary or row.summary):
            preserved = [each for each in _preserved(row, links) if each not in inside]
            order += preserved
    return order


def _preserved(row: Row, links: Links) -> Chain:
    """Return the records that the compaction of a boundary or a summary preserves and puts after this record."""
    boundary = row if row.kept else links.parent(row)
    kept = boundary.kept if boundary else None
    if boundary is None or kept is None or (kept.anchor == boundary.uuid) != (row is boundary):
        return []
    if kept.uuids:
        return [links.by_uuid[uuid] for uuid in kept.uuids if uuid in links.by_uuid]
    way = links.above(links.by_uuid.get(kept.tail or ""))
    head = next((at for at, each in enumerate(way) if each.uuid == kept.head), None)
    return [] if head is None else way[head::-1]


class CallBlock(NamedTuple):
    """A block with a call or a result: its record, its position in the record, and the id of the call."""

    row: Row
    at: int
    id: str


class PairedCall(Struct, eq=False):
    """A call and its result (None: missing)."""

    call: CallBlock
    result: CallBlock | None = None


class Pairs(Struct, frozen=True):
    """Calls and results that do not form a usual pair.

    `unanswered` are calls without a result, `early` are results before their call, `orphans` are results that have no
    call or whose call already has a result, and `repeated` are calls with the id of an earlier one.
    """

    unanswered: list[CallBlock]
    early: list[CallBlock]
    orphans: list[CallBlock]
    repeated: list[PairedCall]


def pair_calls(order: Sequence[Row]) -> Pairs:
    """Pair the calls and results of records, given in sending order. An id should belong to only one call."""
    pairs: dict[str, list[PairedCall]] = {}
    spare: list[CallBlock] = []
    for row in order:
        for at, id in row.calls:
            pairs.setdefault(id, []).append(PairedCall(CallBlock(row, at, id)))
        for at, id in row.results:
            result = CallBlock(row, at, id)
            if not _answers(reversed(pairs.get(id, ())), result):
                spare.append(result)
    early = [result for result in spare if _answers(pairs.get(result.id, ()), result)]
    paired = set(early)
    orphans = [result for result in spare if result not in paired]
    unanswered = [each.call for found in pairs.values() for each in found if each.result is None]
    return Pairs(unanswered, early, orphans, [each for found in pairs.values() for each in found[1:]])


def _answers(calls: Iterable[PairedCall], result: CallBlock) -> bool:
    """Assign the result to the first of these calls that has none. Return False if all have one."""
    free = next((each for each in calls if each.result is None), None)
    if free is not None:
        free.result = result
    return free is not None
