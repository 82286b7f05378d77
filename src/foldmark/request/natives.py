"""Provider-native summaries: what each replaces, and what other providers read instead [SPEC 5.7].

For the provider that reads it, such a summary replaces its source messages. For any other provider the context is that
of the same operations without it, as after `/restore`. A later summary also replaces the source of an earlier one, so
that nothing is shown twice, whichever is restored.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from foldmark.core.events import Event, Summary
from foldmark.core.native import blocks_of, forms
from foldmark.core.ports import Snapshot
from foldmark.core.replay import Recorded, advance, counting, recorded, taken_back
from foldmark.core.segments import Segment, Segments, contains, intersect, normal, subtract, until
from foldmark.request.exchanges import closure, ranges_of
from foldmark.request.standing import Standing, of_kind


def all_but(moment: Snapshot, at: Standing, stays: Iterable[int]) -> Segments:
    """Return what is visible, without these messages with their whole exchanges, and without `system` messages."""
    kept = [*moment.lookup(stays), *moment.lookup(of_kind(moment, at, "system", at.visible))]
    return subtract(at.visible, ranges_of(moment, at, [*kept, *closure(moment, at, kept)]))


def read_by(moment: Snapshot, at: Standing, reads: Callable[[Event], bool]) -> Standing:
    """Return where the agent stands for a provider: without native summaries that it does not read.

    Inherited summaries stay: their sources were not handed down. So do summaries without sources in the log.
    """
    own = (Segment(at.record.id, 1, at.newest),)
    shown = of_kind(moment, at, "summary", intersect(at.visible, own))
    if not any(_is_foreign(moment, at, each, reads) for each in shown):
        return at
    operations = recorded(moment.operations(at.record.id))
    back = taken_back(operations)
    out, behind = set[int](), normal(Segment(at.record.id, each, each) for each in shown)
    for event_id, operation in reversed(operations):
        there = event_id not in back and contains(behind, at.record.id, event_id)
        if isinstance(operation, Summary) and there and _is_foreign(moment, at, event_id, reads):
            out.add(event_id)
            behind = normal((*behind, *operation.ranges))
    return _without(moment, at, operations, back | out)


def without(moment: Snapshot, at: Standing, event_id: int) -> Standing | None:
    """Return where the agent would stand without an operation; None if it already stands without others, as after
    `read_by`."""
    operations = recorded(moment.operations(at.record.id))
    back = set(taken_back(operations))
    if _without(moment, at, operations, back).fold.segments != at.fold.segments:
        return None
    return _without(moment, at, operations, {*back, event_id})


def _without(moment: Snapshot, at: Standing, operations: Sequence[Recorded], out: Collection[int]) -> Standing:
    fold = advance(at.origin, counting(at.record.id, operations, out.__contains__))
    fold = msgspec.structs.replace(at.fold, segments=fold.segments)
    return msgspec.structs.replace(at, fold=fold, size=moment.size(until(fold.segments, at.newest)))


def read_as(reader: str) -> Callable[[Event], bool]:
    """Return a predicate that is True for summaries readable by a provider with this form (`core.native`)."""
    return lambda event: bool(blocks_of(event, reader))


def _is_foreign(moment: Snapshot, at: Standing, event_id: int, reads: Callable[[Event], bool]) -> bool:
    event = moment.event(event_id)
    return event is not None and bool(forms(event)) and bool((event.data or {}).get("ranges")) and not reads(event)
