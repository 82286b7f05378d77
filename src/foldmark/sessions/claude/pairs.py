"""Which tool call belongs to which result in what a session sends [SPEC 8]: an id counts once, and in this order."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from foldmark.sessions.claude.rows import Row


class CallBlock(NamedTuple):
    """A block of a record: its position, and the id of its call."""

    row: Row
    at: int
    id: str


class PairedCall(Struct, eq=False):
    """A call and its result, None while there is none."""

    row: Row
    at: int
    id: str
    result: CallBlock | None = None


class Pairs(Struct, frozen=True):
    """What belongs together, and what does not.

    `unanswered` are calls without a result, `early` results in front of their call, `orphans` results without a call or
    with one that has its result already; `repeated` are calls with the id of an earlier one.
    """

    unanswered: list[CallBlock]
    early: list[CallBlock]
    orphans: list[CallBlock]
    repeated: list[PairedCall]


def paired(order: Sequence[Row]) -> Pairs:
    """The calls and results of these records, which are in the order in which they are sent."""
    slots: dict[str, list[PairedCall]] = {}
    spare: list[CallBlock] = []
    for row in order:
        for at, id in row.calls:
            slots.setdefault(id, []).append(PairedCall(row, at, id))
        for at, id in row.results:
            block = CallBlock(row, at, id)
            free = next((slot for slot in reversed(slots.get(id, ())) if slot.result is None), None)
            if free is None:
                spare.append(block)
            else:
                free.result = block
    early, orphans = [], []
    for block in spare:
        free = next((slot for slot in slots.get(block.id, ()) if slot.result is None), None)
        if free is None:
            orphans.append(block)
        else:
            free.result = block
            early.append(block)
    every = [slot for each in slots.values() for slot in each]
    unanswered = [CallBlock(slot.row, slot.at, slot.id) for slot in every if slot.result is None]
    repeated = [slot for each in slots.values() for slot in each[1:]]
    return Pairs(unanswered, early, orphans, repeated)
