"""The summary of what the window cut: optional, written by the agent's own model, sent in its place [S3, SPEC 5.1].

A summary is a `window_summary` event. It says which messages it covers and holds a hash of what was visible up to the
last of them. As long as that is visible now, and nothing else, the summary is true; an operation that changes it makes
the summary stale, and one that takes the operation back makes it true again. A stale one is never sent.
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
"""The newest summaries, of which the first that is true counts."""


class Covered(Struct, frozen=True, rename={"first": "from"}):
    """What a summary covers: the ids of its first and its last message, the turns of both, and the hash of what was
    visible up to the last."""

    first: int
    until: int
    turns: tuple[int, int]
    covers: str


class WindowSummary(NamedTuple):
    """A summary that was recorded, and what it covers."""

    event: Event
    covered: Covered


def in_force(moment: Snapshot, at: Standing, before: int, since: int, recorded: int) -> WindowSummary | None:
    """Return the newest summary up to event `recorded` that is true and covers only what stands before event `before`;
    None if that came by event `since`."""
    there = until(at.lineage, recorded)
    for _ in range(LOOKED_AT):
        event = moment.newest("window_summary", there)
        if event is None or event.id <= since:
            break
        try:
            covered = msgspec.convert(event.data, Covered)
        except msgspec.ValidationError:  # somebody else's
            covered = None
        if covered is not None and covered.until < before and covered.covers == hash_of(moment, at, covered.until):
            return WindowSummary(event, covered)
        there = until(there, event.id - 1)
    return None


def hash_of(moment: Snapshot, at: Standing, last: int) -> str:
    """Return the hash of what is visible up to event `last`. The size is in it because of what was erased."""
    seen = until(at.visible, last)
    return sha256(msgspec.json.encode([moment.bounds(seen), moment.size(seen)])).hexdigest()
