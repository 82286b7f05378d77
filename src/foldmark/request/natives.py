"""Summaries that a provider made itself: what each stands for, and what others read instead [SPEC 5.7].

Such a summary takes the place of what it was made of for the provider that reads it. For any other one the context is
that of the same operations without it, as after `/restore`. A later one stands for what an earlier one stands for as
well, so that nothing is shown twice, whichever is taken back.
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
    """Return what is visible without these messages, the whole exchanges of these, and `system` messages."""
    kept = [*moment.lookup(stays), *moment.lookup(of_kind(moment, at, "system", at.visible))]
    return subtract(at.visible, ranges_of(moment, at, [*kept, *closure(moment, at, kept)]))


def read_by(moment: Snapshot, at: Standing, reads: Callable[[Event], bool]) -> Standing:
    """Return where the agent stands for a provider: without the summaries in somebody's form that it does not read.

    An inherited one stays: what it stands for was not handed down. So does one that stands for nothing in the log.
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
    """Return where the agent would stand without an operation; None where it stands otherwise than by its operations
    alone, as `read_by` says."""
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
    """Return a predicate: whether a provider that reads this form can read a summary (`core.native`)."""
    return lambda event: bool(blocks_of(event, reader))


def _is_foreign(moment: Snapshot, at: Standing, event_id: int, reads: Callable[[Event], bool]) -> bool:
    event = moment.event(event_id)
    return event is not None and bool(forms(event)) and bool((event.data or {}).get("ranges")) and not reads(event)
