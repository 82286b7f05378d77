"""Find the recorded events of a message that comes back.

An entry is recognized by its kind, its time and, for calls and results, the call's id. That works across runs and
processes, for requests that Pydantic AI has joined, and for changed texts. If a history has lost its times, as one from
a browser may have, an entry is recognized by its text, in the order of the log.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import NamedTuple

from foldmark.core import codec, selections
from foldmark.core.agents import AgentRecord
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.segments import END, Segment, Segments, intersect, normal
from foldmark.integrations.pydantic_ai.messages import Entry, as_given, envelope_of, head_of, is_standing, kept_in
from foldmark.log import Agent
from foldmark.request.standing import Standing, of_kind
from foldmark.wires.lenient_json import filled_text
from foldmark.wires.parts import Data

_PAGE = 500
_Key = tuple[str, str | None, str | None]


class Sought(NamedTuple):
    """An entry to find, the run of its message (None if unknown), and True if it can only be new."""

    entry: Entry
    run_id: str | None
    new: bool


class Recorded:
    """The messages of an agent's lineage by the keys that identify them; the log is read backwards, on demand."""

    def __init__(self, agent: Agent) -> None:
        self._hidden = agent.log.secrets.hidden
        self._by_key: dict[_Key, list[int]] = defaultdict(list)
        self._by_text: dict[tuple[str, int], list[int]] = defaultdict(list)
        self._texts: dict[int, int] = {}
        with agent.reading() as (moment, at):
            self._oldest = self._newest = at.newest
            self._done, self._lineage = False, _lineage(moment, at)

    def add(self, event: Event) -> None:
        """Add an event that was recorded."""
        if event.id in self._texts:
            return
        own = kept_in(event) is not None
        kind = as_given(event)
        self._by_key[kind, event.created_at, event.call_id or ""].append(event.id)
        if event.kind == "user" and event.actor == "system" and not own:
            # A notice that was recorded in place of a result (SPEC 3).
            self._by_key["tool_result", event.created_at, None].append(event.id)
        text = self._text(event.content)
        self._by_text[kind, text].append(event.id)
        self._texts[event.id] = text
        self._newest = max(self._newest, event.id)

    def find(self, moment: Snapshot, sought: Sequence[Sought], used: set[int]) -> list[int | None]:
        """Return the event of each entry, None if it is not recorded. No event is returned twice, and none of
        `used`."""
        found: list[int | None] = [None] * len(sought)
        for event in moment.select(_between(self._lineage, self._newest + 1, END)):
            self.add(event)
        while True:
            _take(sought, found, used, self._same)
            if self._done or all(f is not None or s.new for f, s in zip(found, sought, strict=True)):
                break
            self._read_older(moment)
        _take(sought, found, used, partial(self._changed, moment))
        _take(sought, found, used, self._worded)
        return found

    def as_stored(self, text: str) -> str:
        """Return a text as the log holds it."""
        return self._hidden(str(codec.well_formed(text)))

    def standing(self, moment: Snapshot, at: Standing) -> list[Event]:
        """Return the newest system prompt that an agent began with, one event for each of its parts."""
        newest: list[Event] = []
        for event_id in sorted(of_kind(moment, at, "system", at.lineage), reverse=True):
            event = selections.event(moment, event_id)
            if event is None or not is_standing(event):
                continue
            if newest and head_of(newest[-1]) != head_of(event):
                break
            newest.append(event)
        return newest[::-1]

    # Reading

    def _read_older(self, moment: Snapshot) -> None:
        page = moment.select(_between(self._lineage, 0, self._oldest), newest_first=True)
        for event in islice(page, _PAGE):
            self.add(event)
            self._oldest = event.id - 1
        self._done = self._oldest < 1 or next(page, None) is None

    # Matching

    def _same(self, each: Sought, _: int) -> Iterable[int]:
        text, notices = self._text(each.entry.text), self._at_its_time(each.entry, notices=True)
        return sorted((*(e for e in self._at_its_time(each.entry) if self._texts[e] == text), *notices))

    def _changed(self, moment: Snapshot, each: Sought, _: int) -> Iterable[int]:
        there = sorted(self._at_its_time(each.entry))
        return (e for e in there if each.run_id is None or _run_of(moment, e) in (None, each.run_id))

    def _worded(self, each: Sought, before: int) -> Iterable[int]:
        if each.run_id is not None or not (each.entry.text or each.entry.time is None):
            return ()
        there = self._by_text.get((each.entry.kind, self._text(each.entry.text)), ())
        return sorted(e for e in there if e > before)

    def _at_its_time(self, entry: Entry, *, notices: bool = False) -> Sequence[int]:
        return self._by_key.get((entry.kind, stamp(entry.time), None if notices else entry.call_id), ())

    def _text(self, text: str) -> int:
        return hash(self.as_stored(text))


def stamp(time: datetime | None) -> str | None:
    """Return a time in the form of an event's `created_at`; None for None, or a time that no event can have."""
    if time is None:
        return None
    try:
        return codec.timestamp(time)
    except (ValueError, OverflowError):
        return None


def _take(
    sought: Sequence[Sought], found: list[int | None], used: set[int], known: Callable[[Sought, int], Iterable[int]]
) -> None:
    """Find the events of the entries that have none yet: the first of those that may be `known` and are not `used`.
    `known` gets the newest event of the entries before, too."""
    before = 0
    for index, each in enumerate(sought):
        if found[index] is None:
            found[index] = event = next((e for e in known(each, before) if e not in used), None)
            used.update([event] if event else [])
        before = max(before, found[index] or 0)


def envelope_in(moment: Snapshot, first: Event | None) -> Data:
    """Return the message that begins with an event, without its parts; empty if there is none. Its instructions may
    stand in another event."""
    envelope = envelope_of(first)
    said = envelope.get("instructions")
    if isinstance(said, dict):
        at = said.get("as")
        named = selections.event(moment, at) if isinstance(at, int) and 0 < at <= END else None
        return {**envelope, "instructions": envelope_of(named).get("instructions")}
    return envelope


def _run_of(moment: Snapshot, event_id: int) -> str | None:
    event = selections.event(moment, event_id)
    head = selections.event(moment, head_of(event)) if event else None
    return filled_text(envelope_of(head).get("run_id"))


def _lineage(moment: Snapshot, at: Standing) -> Segments:
    """Return the ranges of all events of an agent, and of its ancestors up to each fork, even if not handed down,
    for a history that still holds them."""
    record: AgentRecord | None = at.record
    found = [Segment(at.record.id, 1, END)]
    while record is not None and record.parent is not None:
        found.append(Segment(record.parent, 1, record.fork_event))
        record = moment.agent(record.parent)
    return normal(found)


def _between(lineage: Segments, first: int, last: int) -> Segments:
    return intersect(lineage, tuple(Segment(segment.agent, first, last) for segment in lineage))
