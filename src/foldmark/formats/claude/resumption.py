"""Determine what Claude Code sends on resuming a session, record by record and call by call [SPEC 8].

As Claude Code 2.1.197 does it, and 2.1.332 in the same way except for rare cases:

- The leaf is the record that the session names (`leaf_at_end`), otherwise the last record in the file that is not a
  subagent's. The path from its nearest message goes from parent to parent, up to a compaction, and skips records that
  report progress. If a parent is missing, or is on the path already, the path goes on with the record that precedes
  this one most closely in time, if that is at most five seconds older.
- The last compaction forgets all records before its boundary, except those that it preserves. Preserved records follow
  the record that the boundary names, and what continued that record, or a forgotten one, follows them.
- Lines of an answer that are off the path are added with their results, because only one result of parallel calls is
  on the path itself, and (2.1.332) with what Claude Code injected behind such a result. Records without a message that
  follow the leaf are added at the end.
- An answer's lines are sent as one message, unless a prompt is between them, and what follows it up to the next answer
  is one message, results first (`sent.messages_of`). A line whose calls all have no result is left out, and so is
  thinking that belongs to nothing else. A result has to be in the message behind its call. If it is elsewhere, it is
  left out, and the call gets one that says so (`MISSING`).
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Generic, NamedTuple, Self, TypeVar

from msgspec import Struct

from foldmark.formats.chain import leaf_at_end
from foldmark.formats.claude.records import Row
from foldmark.formats.messages import NOWHERE, ChainRecord, Leaf
from foldmark.formats.sent import CallPart, messages_of

MISSING = "[Tool result missing due to internal error]"
"""The result that Claude Code makes up for a call whose result is not in the message behind it."""

_NEAR = timedelta(seconds=5)
_EARLIEST = datetime.min.replace(tzinfo=UTC)


R = TypeVar("R", bound=ChainRecord)


class Links(Generic[R]):
    """The records of a session by their uuids, and their parents. Of two records with one uuid, the later one counts.

    `walked` are the steps that were taken to preserved records.
    """

    def __init__(self, rows: Iterable[R]) -> None:
        self.by_uuid: dict[str, R] = {}
        self.walked = 0
        self._through: dict[str, str | None] = {}
        self._instead: dict[str, str | None] = {}
        for row in rows:
            if row.passing and row.uuid:
                self._through[row.uuid] = self._through.get(row.parent, row.parent) if row.parent else None
            elif row.chained and row.uuid:
                self.by_uuid[row.uuid] = row

    def is_missing(self, row: R) -> bool:
        """Return True if the record names a parent that is not in the file."""
        uuid = self.parent_uuid(row)
        return uuid is not None and uuid not in self.by_uuid

    def parent_uuid(self, row: R) -> str | None:
        """Return the uuid of the parent that a record names, beyond records that only report progress."""
        if row.uuid in self._instead:
            return self._instead[row.uuid]
        uuid = row.parent
        return self._through.get(uuid, uuid) if uuid and uuid not in self.by_uuid else uuid

    def parent(self, row: R) -> R | None:
        """Return a record's parent, or None."""
        uuid = self.parent_uuid(row)
        return self.by_uuid.get(uuid) if uuid else None

    def above(self, row: R | None) -> list[R]:
        """Return the path from a record upwards, beginning with that record, up to a compaction or a missing parent."""
        found: dict[str | None, R] = {}
        while row is not None and row.uuid not in found:
            found[row.uuid] = row
            row = None if row.boundary else self.parent(row)
        return list(found.values())

    def preserved(self, boundary: R) -> list[str] | None:
        """Return the uuids that a compaction preserves, in order; None if its head is not above its tail."""
        kept = boundary.preserved
        if kept is None:
            return []
        if kept.tail is None and kept.head is None:
            return list(kept.uuids)
        way = self.above(self.by_uuid.get(kept.tail or ""))
        self.walked += len(way)
        head = next((at for at, each in enumerate(way) if each.uuid == kept.head), None)
        return None if head is None else [each.uuid for each in way[head::-1] if each.uuid]

    @cached_property
    def lines(self) -> dict[str | None, list[R]]:
        """The lines of each answer."""
        return _by(self.by_uuid.values(), lambda row: row.message_id if row.is_answer else None)

    @cached_property
    def results(self) -> dict[str | None, list[R]]:
        """The records with results, by the uuids of their parents."""
        found = (row for row in self.by_uuid.values() if row.said and not row.is_answer and row.result_ids)
        return _by(found, self.parent_uuid)

    @cached_property
    def injected(self) -> dict[str | None, list[R]]:
        """The records that Claude Code injected for a call, by the uuids of their parents."""
        return _by((row for row in self.by_uuid.values() if row.said and row.prompted_by), self.parent_uuid)

    @cached_property
    def silent(self) -> dict[str | None, list[R]]:
        """The records that neither the user nor the model said, by the uuids of their parents."""
        return _by((row for row in self.by_uuid.values() if not row.said), self.parent_uuid)

    def compacted(self) -> tuple[Self, str | None]:
        """Return the links as the last compaction leaves them, and the last record that it preserves (None: none)."""
        boundaries = [row for row in self.by_uuid.values() if row.boundary]
        if all(row.preserved is None for row in boundaries):
            return self, None
        last = boundaries[-1]
        kept = self.preserved(last)
        if kept is None or not self.by_uuid.keys() >= set(kept):
            return self, None
        places = {uuid: at for at, uuid in enumerate(self.by_uuid)}
        assert last.uuid is not None
        forgotten = {uuid for uuid, at in places.items() if at < places[last.uuid]} - set(kept)
        left = type(self)(())
        left._through = self._through
        left.by_uuid = {uuid: row for uuid, row in self.by_uuid.items() if uuid not in forgotten}
        if not kept:
            return left, None
        anchor = last.preserved.anchor if last.preserved else None
        for uuid, row in left.by_uuid.items():
            before = self.parent_uuid(row)
            if before is not None and (before == anchor or (before in forgotten and row.said)):
                left._instead[uuid] = kept[-1]
        above = anchor
        for uuid in kept:
            left._instead[uuid] = above
            above = uuid
        return left, kept[-1]


def _by(rows: Iterable[R], key: Callable[[R], str | None]) -> dict[str | None, list[R]]:
    found: dict[str | None, list[R]] = {}
    for row in rows:
        if (name := key(row)) is not None:
            found.setdefault(name, []).append(row)
    return found


class ResumedChain(Struct, Generic[R], frozen=True):
    """A session as it is resumed. `chain` is the path, first record first. `order` are all records that are sent, in
    the order in which the model reads them. `newest` is the path to the last record in the file, which differs from
    `chain` if a person has gone back. `links` are those of the file, without the effects of a compaction."""

    chain: list[R]
    order: list[R]
    newest: list[R]
    links: Links[R]


def is_resumable(rows: Iterable[ChainRecord]) -> bool:
    """Return True if Claude Code takes the records for a session: it skips messages without a uuid."""
    return any(row.spoken and row.uuid and not row.aside for row in rows)


def resume(rows: Sequence[R]) -> ResumedChain[R]:
    """Return the records of a session that are sent on resuming."""
    links = Links(rows)
    left, kept = links.compacted()
    main = [row for row in left.by_uuid.values() if row.chained and not row.aside]
    last = next((row for row in reversed(rows) if row.chained and row.uuid and not row.aside), None)
    leaf = leaf_at_end(rows)
    newest = _from_said(links.above(last))
    if leaf == NOWHERE or not main:
        return ResumedChain([], [], newest, links)
    way = path_from(left, _tip(left, leaf, last, kept))
    chain = way[::-1]
    return ResumedChain(chain, with_siblings(chain, left), newest, links)


def _tip(links: Links[R], leaf: Leaf, last: R | None, kept: str | None) -> R | None:
    """Return the message at which the active chain ends, or None. `last` is the last record of the main chain, and
    `kept` the last record that a compaction preserves."""
    known = links.by_uuid
    named = known.get(leaf.uuid or "")
    pinned = leaf.pinned and named is not None and not named.aside
    if last is not None and last.uuid not in known:
        last = None
    if kept is None or pinned:
        if named is not None and not leaf.pinned and last is not None and named in links.above(last):
            named = last
        if kept is None and named is None:
            named = last
        if found := _said_above(links, named):
            return found
    parents = {links.parent_uuid(row) for row in known.values()}
    answered = {links.parent_uuid(row) for row in known.values() if row.said}
    ends = (_said_above(links, row) for row in known.values() if row.uuid not in parents)
    tips = {row.uuid: row for row in ends if row is not None and row.uuid not in answered}
    if len(tips) > 1:
        end = tips.get(leaf.uuid, last)
        if end is not None and (found := _said_above(links, end)):
            tips = {found.uuid: found}
    candidates = (tips or known).values()
    return max((row for row in candidates if not row.aside), key=lambda row: row.own_time or _EARLIEST, default=None)


def _said_above(links: Links[R], row: R | None) -> R | None:
    """Return the nearest message at or above a record, or None."""
    met: set[str | None] = set()
    while row is not None and row.uuid not in met:
        if row.said:
            return row
        met.add(row.uuid)
        row = links.parent(row)
    return None


def path_from(links: Links[R], row: R | None) -> list[R]:
    """Return the path from a record upwards, past missing parents, up to a compaction."""
    way: dict[str | None, R] = {}
    beside: _Nearest[R] | None = None
    while row is not None:
        way[row.uuid] = row
        uuid = links.parent_uuid(row)
        if row.boundary or uuid is None:
            break
        above = links.by_uuid.get(uuid)
        if above is None or above.uuid in way:
            beside = beside or _Nearest(links.by_uuid.values())
            above = beside.before(row, way)
        row = above
    return list(way.values())


class _Nearest(Generic[R]):
    """Finds the record that precedes another most closely in time. All questions together take a time in proportion to
    the records, because a record that was met is passed over for good."""

    def __init__(self, rows: Iterable[R]) -> None:
        timed = [(moment, -at, row) for at, row in enumerate(rows) if (moment := row.own_time) is not None]
        timed.sort(key=lambda each: each[:2])
        self._rows = {side: [row for *_, row in timed if row.aside == side] for side in (False, True)}
        self._times = {side: [moment for moment, _, row in timed if row.aside == side] for side in (False, True)}
        self._older = {side: [at - 1 for at in range(len(rows))] for side, rows in self._rows.items()}

    def before(self, row: R, met: Collection[str | None]) -> R | None:
        """Return the record that is not `met` and is older than `row` by the least time, up to five seconds."""
        if row.own_time is None:
            return None
        rows, older = self._rows[row.aside], self._older[row.aside]
        at = bisect_right(self._times[row.aside], row.own_time) - 1
        passed = []
        while at >= 0 and rows[at].uuid in met:
            passed.append(at)
            at = older[at]
        for each in passed:
            older[each] = at
        found = rows[at] if at >= 0 else None
        return found if found is not None and found.own_time and row.own_time - found.own_time <= _NEAR else None


def _from_said(way: Sequence[R]) -> list[R]:
    """Return an upward path in downward order, without the records after its last message."""
    begin = next((at for at, row in enumerate(way) if row.said), len(way))
    return list(way[begin:][::-1])


def with_siblings(chain: list[R], links: Links[R]) -> list[R]:
    inside = {row.uuid for row in chain}
    last = {row.message_id: row for row in chain if row.is_answer and row.message_id}
    order: list[R] = []
    for row in chain:
        order.append(row)
        if row.message_id and last.get(row.message_id) is row:
            answer = links.lines[row.message_id]
            results = [each for one in answer for each in links.results.get(one.uuid, ()) if each.uuid not in inside]
            order += _by_time(each for each in answer if each.uuid not in inside)
            order += _by_time(results)
            order += [each for one in results for each in links.injected.get(one.uuid, ()) if each.uuid not in inside]
    ending = list[R]()
    ends = chain[-1:]
    while ends:
        ends = [each for end in ends for each in links.silent.get(end.uuid, ()) if each.uuid not in inside]
        inside.update(each.uuid for each in ends)
        ending += ends
    return order + _by_time(ending)


def _by_time(rows: Iterable[R]) -> list[R]:
    return sorted(rows, key=lambda row: row.own_time or _EARLIEST)


# -- Calls and results


class CallBlock(NamedTuple):
    """A block with a call or a result: its record, its position in the record, and the id of the call."""

    row: Row
    at: int
    id: str


class Pairs(Struct, frozen=True):
    """Calls and results that do not form a usual pair.

    `unanswered` are calls without a result, `early` are results before their call, `late` are results behind it that
    are not in the message behind it, `orphans` are results that have no call or whose call already has a result, and
    `repeated` are calls with the id of an earlier one.
    """

    unanswered: list[CallBlock]
    early: list[CallBlock]
    late: list[CallBlock]
    orphans: list[CallBlock]
    repeated: list[CallBlock]


def pair_calls(order: Sequence[Row]) -> Pairs:
    """Pair the calls and results of records, given in sending order. An id should belong to only one call."""
    calls: dict[str, list[CallBlock]] = {}
    answers: dict[CallBlock, CallBlock] = {}
    spare: list[CallBlock] = []
    for row in order:
        for at, id in row.paired:
            block = CallBlock(row, at, id)
            if row.is_answer:
                calls.setdefault(id, []).append(block)
            elif (free := _free(reversed(calls.get(id, ())), answers)) is not None:
                answers[free] = block
            else:
                spare.append(block)
    early, orphans = list[CallBlock](), list[CallBlock]()
    for block in spare:
        if (free := _free(calls.get(block.id, ()), answers)) is not None:
            answers[free] = block
        (orphans if free is None else early).append(block)
    lost, before = set(messages_of(order).lost), set(early)
    firsts = (answers.get(found[0]) for found in calls.values())
    late = [each for each in firsts if each and each not in before and CallPart(each.row, each.id) in lost]
    unanswered = [each for found in calls.values() for each in found if each not in answers]
    repeated = [each for found in calls.values() for each in found[1:]]
    return Pairs(unanswered, early, late, orphans, repeated)


def _free(calls: Iterable[CallBlock], answers: Collection[CallBlock]) -> CallBlock | None:
    """Return the first of these calls that has no result, or None."""
    return next((each for each in calls if each not in answers), None)
