"""The window summary: optional, written by the agent's own model, sent in place of what the window cut [S3, SPEC 5.1].

It is a `window_summary` event that names the messages it covers and holds a hash of what was visible up to the last of
them. While exactly that is visible, the summary is valid; an operation that changes it makes the summary stale, and
restoring the operation makes it valid again. A stale summary is never sent.
"""

from hashlib import sha256
from typing import NamedTuple

import msgspec
from msgspec import Struct

from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.segments import until
from foldmark.request.standing import Standing

LOOKED_AT = 10
"""Number of newest summaries that are checked; the first valid one counts."""


class Covered(Struct, frozen=True, rename={"first": "from"}):
    """The coverage of a summary: the ids of its first and its last message, the turns of both, and the hash of what was
    visible up to the last."""

    first: int
    until: int
    turns: tuple[int, int]
    covers: str


class WindowSummary(NamedTuple):
    """A recorded summary, and its coverage."""

    event: Event
    covered: Covered


def in_force(moment: Snapshot, at: Standing, before: int, since: int, recorded: int) -> WindowSummary | None:
    """Return the newest valid summary up to event `recorded` that covers only messages before event `before`; None if
    it was recorded by event `since`."""
    there = until(at.lineage, recorded)
    for _ in range(LOOKED_AT):
        event = moment.newest("window_summary", there)
        if event is None or event.id <= since:
            break
        try:
            covered = msgspec.convert(event.data, Covered)
        except msgspec.ValidationError:  # another program's
            covered = None
        if covered is not None and covered.until < before and covered.covers == hash_of(moment, at, covered.until):
            return WindowSummary(event, covered)
        there = until(there, event.id - 1)
    return None


def hash_of(moment: Snapshot, at: Standing, last: int) -> str:
    """Return the hash of what is visible up to event `last`. It includes the size because of erased messages."""
    seen = until(at.visible, last)
    return sha256(msgspec.json.encode([moment.bounds(seen), moment.size(seen)])).hexdigest()
