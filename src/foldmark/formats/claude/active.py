"""Determine which records of a Claude Code session are active, for an import [SPEC 8].

That is more than the client sends (`resumption`): what a compaction or an edit replaced belongs to the conversation,
too, and stands before it.
"""

from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from foldmark.formats.chain import ActiveRecords
from foldmark.formats.claude import resumption
from foldmark.formats.claude.resumption import Links, path_from
from foldmark.formats.messages import RecordEntry
from foldmark.formats.sent import SentMessages, in_sending_order, messages_of

_WALKS = 20
"""Maximum number of steps to records that compactions preserve, as a multiple of the session's length."""


def active(entries: Sequence[RecordEntry]) -> ActiveRecords | None:
    """Return the active records of a session (see `SessionFormat.active`).

    What a compaction replaced is the path that it names, or what precedes it in the file if it names nothing known. An
    edit replaced such a path, too. Copies are the records that they repeat: what precedes an edit and is not written
    again behind it has left. If no message has a uuid, as in other programs' files, which Claude Code does not resume,
    all are active.
    """
    if not resumption.is_resumable(entries):
        return None
    resumed = resumption.resume(entries)
    parts = [(resumed.order, messages_of(resumed.order))]
    met = {entry.line for entry in resumed.order}
    top = resumed.chain[0] if resumed.chain else None
    tops = {top.line if top else 0}
    gates: list[RecordEntry] = []
    replaced = _Replaced(entries, resumed.links, met)
    while top is not None and (top.edit or _is_summarized(top, parts[-1][0])):
        before_it = replaced.by(top)
        gates.append(top)
        top = before_it[0] if before_it and before_it[0].line not in tops else None
        tops.add(before_it[0].line if before_it else 0)
        met.update(entry.line for entry in before_it)
        parts.append((before_it, messages_of(before_it)))
    order = _Order(entries)
    for at, (records, sent) in enumerate(parts):
        order.add(records, sent, gates[at - 1] if at else None)
    return replace(
        order.records(),
        preserved={
            entry.line: resumed.links.preserved(entry) or ()
            for entry in entries
            if entry.preserved is not None and resumed.links.walked <= _WALKS * len(entries)
        },
    )


class _Order:
    """The active records, collected from the newest part of a session to the oldest. A part ends with a compaction or
    an edit."""

    def __init__(self, entries: Sequence[RecordEntry]) -> None:
        self._entries = {entry.line: entry for entry in entries} if any(entry.edit for entry in entries) else {}
        self._parts: list[list[RecordEntry]] = []
        self._written: set[int] = set()
        self._shown: set[int] = set()
        self._spared: dict[int, set[int]] = {}
        self._back: set[int] = set()
        self._summary = self._edited = 0
        self._unsent, self._left = set[int](), set[int]()
        self._lost: dict[int, list[str]] = {}
        self._made: dict[int, tuple[tuple[str, str], ...]] = {}
        self._evicted: tuple[tuple[int, str], ...] = ()

    def add(self, records: Sequence[RecordEntry], sent: SentMessages[RecordEntry], gate: RecordEntry | None) -> None:
        """Add a part, whose records are in sending order. It ends with the compaction or edit `gate` (None: it is the
        newest)."""
        rows = list(in_sending_order(records, sent))
        dropped = {entry.line for entry in sent.dropped}
        own = [origin for entry in rows for origin in self._origins(entry)]
        shown = {origin.line for entry in rows if entry.line not in dropped for origin in self._origins(entry)}
        if gate is None:
            self._evicted = tuple(
                (origin.line, call)
                for entry in rows
                for call in entry.evicts
                for origin in self._origins(entry)
                if call in origin.results
            )
        elif gate.edit or self._summary not in self._shown:
            self._left.update(origin.line for origin in own if origin.line not in self._shown)
            shown = self._shown
        else:
            back = {line for line in self._shown if line < gate.line}
            self._back |= back.difference(each.line for each in self._parts[-1])
            self._spared[self._summary] = {line for line in self._back if line < gate.line}
            shown |= back  # no edit before a compaction has taken out what the compaction preserves
        if shown is not self._shown:
            self._unsent |= {origin.line for entry in sent.dropped for origin in self._origins(entry)} - shown
            for entry, call in sent.lost:
                for origin in self._origins(entry):
                    if call in origin.results or call in origin.calls:
                        self._lost.setdefault(origin.line, []).append(call)
            for at, calls in sent.missing.items():
                if (last := sent.messages[at][-1]).copies is None:
                    self._made[last.line] = tuple((call, resumption.MISSING) for call in calls)
        if gate is not None and gate.edit:
            self._edited = max(self._edited, gate.line)
        self._shown = shown
        self._summary = next((entry.line for entry in records if entry.compacts and entry.copies is None), 0)
        self._parts.append(own)
        self._written.update(entry.line for entry in rows if entry.copies is None)

    def records(self) -> ActiveRecords:
        """Return all active records."""
        order = list(self._merged())
        unsent = self._unsent | {
            entry.line for entry in order if entry.calls and set(entry.calls) <= set(self._lost.get(entry.line, ()))
        }
        left = self._left - self._back
        return ActiveRecords(order, unsent, self._lost, self._made, left, self._spared, self._evicted, self._edited)

    def _merged(self) -> Iterator[RecordEntry]:
        """Yield the records in order. What an edit put back of an abandoned branch is where it was written."""
        found = {entry.line: entry for part in reversed(self._parts) for entry in part}
        back = sorted(found.keys() - self._written, reverse=True)
        for line in [line for line in found if line in self._written]:
            while back and back[-1] < line:
                yield found[back.pop()]
            yield found[line]
        yield from (found[line] for line in reversed(back))

    def _origins(self, entry: RecordEntry) -> Sequence[RecordEntry]:
        """Return the records that a record writes again, or the record itself."""
        if entry.copies is None:
            return (entry,)
        return [self._entries[line] for line in entry.copies if line in self._entries]


def _is_summarized(top: RecordEntry, order: Sequence[RecordEntry]) -> bool:
    """Return True if a path begins with a compaction that has a summary."""
    return top.compacts or (top.boundary and any(entry.compacts for entry in order))


class _Replaced:
    """Finds the records that a compaction or an edit replaced. All questions together take a time in proportion to the
    records, if they lead from the newest compaction to older ones. `met` are the lines that were found before."""

    def __init__(self, entries: Sequence[RecordEntry], links: Links[RecordEntry], met: Collection[int]) -> None:
        self._links, self._met = links, met
        self._before = [entry for entry in entries if entry.spoken and not entry.aside]
        self._boundaries = [entry for entry in entries if entry.boundary and entry.uuid and not entry.aside]
        self._steps = _WALKS * len(entries)

    def by(self, top: RecordEntry) -> list[RecordEntry]:
        """Return the records that the compaction at the top of a path replaced, in sending order."""
        below = self._links.by_uuid.get(top.logical or "")
        while below is None and self._before:
            newest = self._before[-1]
            if newest.line < top.line and newest.line not in self._met:
                below = newest
            else:
                self._before.pop()
        while self._boundaries and self._boundaries[-1].line >= top.line:
            self._boundaries.pop()
        way = self._behind(self._boundaries[-1], below) if self._boundaries else None
        return resumption.with_siblings(path_from(self._links, below)[::-1] if way is None else way, self._links)

    def _behind(self, boundary: RecordEntry, below: RecordEntry | None) -> list[RecordEntry] | None:
        """Return the path to a record behind a compaction that preserves others; None if it is a usual path. What
        continues the summary or a record before the compaction continues the preserved ones, as in `Links.compacted`.
        """
        kept = boundary.preserved
        if kept is None or below is None or below.line < boundary.line or self._steps <= 0:
            return None
        uuids = self._links.preserved(boundary)
        rows = [self._links.by_uuid[uuid] for uuid in uuids or () if uuid in self._links.by_uuid]
        anchor = self._links.by_uuid.get(kept.anchor or "")
        if not rows or anchor is None:
            return None
        rest: dict[str | None, RecordEntry] = {}
        row: RecordEntry | None = below
        while row is not None and row.line > boundary.line and row.uuid != anchor.uuid and row.uuid not in rest:
            rest[row.uuid] = row
            row = self._links.parent(row)
        before = path_from(self._links, anchor)[::-1]
        self._steps -= len(rows) + len(before)
        return list({row.uuid: row for row in (*before, *rows, *list(rest.values())[::-1])}.values())
