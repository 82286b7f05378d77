"""The steps of a copy that keeps all ids.

Each step is a transaction that leaves a sound database, and none is repeated. The target's contents show the progress,
so an interrupted copy resumes when it is started again, and a repeated one copies only new records.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from foldmark.copying.comparing import CopyScope, Reading, check, hash_of, is_message, merged, parts, texts_of
from foldmark.copying.renumbering import Run
from foldmark.core import selections
from foldmark.core.agents import AgentRecord
from foldmark.core.errors import DamagedError, StoreError
from foldmark.core.events import Event
from foldmark.core.ports import Progress, Snapshot, Store, Transaction
from foldmark.core.records import CopiedEvent, CopiedMemo
from foldmark.core.replay import recorded, replay
from foldmark.core.segments import until
from foldmark.core.wording import listing
from foldmark.operations.redaction import erase
from foldmark.request.standing import birth_of

EVENTS, _BYTES, AT_ONCE = 1000, 4_000_000, 200
"""Maximum events and bytes of a page, and memos or agents per transaction."""


class AddedConversation(Struct, frozen=True):
    """A conversation that was added to a database with conversations of its own."""

    name: str
    """Its name in the target."""

    agent: str
    """Its uuid in the target."""

    events: int
    """Number of events that were added."""

    ahead: bool
    """True if it has grown in the target only: nothing was added."""

    ids: tuple[Run, ...]
    """Its events: first and last id in the source, and first id in the target, for each run of neighbouring ids."""


class CopyReport(Struct, frozen=True):
    """The result of a copy: the numbers of conversations and agents in its scope, of copied events, `mail` and
    `requests` among them, and memos, and of events erased in the target; the number of events compared at the end, and
    the hash of everything. `added` are the conversations whose events have other ids than in the source."""

    conversations: int
    agents: int
    events: int
    erased: int
    mail: int
    requests: int
    memos: int
    compared: int
    hash: str
    added: tuple[AddedConversation, ...] = ()


class Copy:
    """A copy of a scope into a target that has only earlier copies of the same source."""

    def __init__(
        self, moment: Snapshot, target: Store, names: tuple[str, str], wanted: CopyScope, progress: Progress
    ) -> None:
        self._moment, self._target, self._names, self._wanted = moment, target, names, wanted
        with target.read() as reading:
            self._present = self._check(reading)
        wanted = self._wanted
        self._missing = {agent: record for agent, record in wanted.agents.items() if agent not in self._present}
        self._forks = {record.fork_event: agent for agent, record in self._missing.items()}
        of = sum(record.messages for record in wanted.agents.values())
        had = sum(record.messages for agent, record in self._present.items() if agent in wanted.agents)
        self._progress, self._done, self._total = progress, 0, max(of - had, 0) + 2 * of
        self._read: Reading | None = None
        self._counts = dict.fromkeys(("events", "erased", "mail", "requests", "memos"), 0)

    def _check(self, reading: Snapshot) -> dict[str, AgentRecord]:
        """Return the agents of the target, uuid -> record. Raises CommandError if it cannot receive the copy."""
        return check(self._moment, reading, self._names, self._wanted)

    def run(self) -> CopyReport:
        """Copy everything that the target lacks, and compare. Raises DamagedError and StoreError."""
        self._rename()
        self._events()
        if self._wanted.whole:
            self._memos()
        self._fold()
        compared, hash = self._compare()
        roots = sum(record.parent is None for record in self._wanted.agents.values())
        return CopyReport(roots, len(self._wanted.agents), compared=compared, hash=hash, **self._counts)  # type: ignore[arg-type]

    def _advance(self, event: CopiedEvent) -> None:
        if is_message(event):
            self._done += 1
            if self._done % 100 == 0:
                self._progress(min(self._done, self._total), self._total)

    # Names

    def _rename(self) -> None:
        """Name conversations as in the source."""
        names = {
            agent: record.name
            for agent, record in self._wanted.agents.items()
            if agent in self._present and self._present[agent].name != record.name
        }
        if names:
            with self._target.write() as writing:
                writing.take_names(names)

    # The log

    def _events(self) -> None:
        erased = list(self._erased())
        self._to_erase = self._erased_later(erased)
        behind = {
            agent: self._present[agent].last if agent in self._present else 0
            for agent, record in self._wanted.agents.items()
            if agent not in self._present or self._present[agent].last < record.last
        }
        gone = {each.id for each in erased}
        for page in self._pages(behind):
            with self._target.write() as writing:
                events = self._stored(page, writing)
                self._create(writing, self._needed(events))
                hashes = {hash for event in page for hash in texts_of(event, gone)}
                writing.keep_texts(self._moment.kept_texts(hashes.difference(writing.kept_texts(hashes))))
                writing.take_events(events)
                self._written(page, writing)
            self._counts["events"] += len(page)
            for name, kind in (("requests", "request"), ("mail", "mail")):
                self._counts[name] += sum(event.kind == kind for event in page)
            for event in page:
                self._advance(event)
        for some in parts(list(self._missing.values()), AT_ONCE):
            with self._target.write() as writing:
                self._create(writing, {self._wanted.all[record.id]: record for record in some})

    def _create(self, writing: Transaction, agents: Mapping[int, AgentRecord]) -> None:
        """Add agents as they were created, at their places; parents come before their forks."""
        for at, record in agents.items():
            writing.create_agent(record, at=at)

    def _erased(self) -> Iterator[Event]:
        """Yield the erased events of the source."""
        return selections.erased(self._moment, self._wanted.agents)

    def _erased_later(self, erased: Iterable[Event]) -> dict[int, dict[str, list[int]]]:
        """Return what was erased in the source after it was copied, by operation and by agent."""
        present = {agent: record.last for agent, record in self._present.items() if agent in self._wanted.agents}
        with self._target.read() as reading:
            done = {each.id for each in selections.erased(reading, present)}
        found = defaultdict[int, dict[str, list[int]]](dict)
        for each in erased:
            if each.id not in done and each.id <= present.get(each.agent_id, 0):
                found[each.erased_by or 0].setdefault(each.agent_id, []).append(each.id)
        return found

    def _pages(self, behind: Mapping[str, int]) -> Iterator[list[CopiedEvent]]:
        """Yield the events after the id given for each agent, in pages that fit in a transaction."""
        events = self._moment.copied_events(behind)
        if behind == dict.fromkeys(self._wanted.agents, 0):  # everything is read here, and need not be read again
            self._read = Reading(self._moment, self._wanted)
            self._total = self._total * 2 // 3
            events = map(self._read.add, events)
        return in_pages(events)

    def _stored(self, page: list[CopiedEvent], writing: Transaction) -> list[CopiedEvent]:
        """Return events as the target stores them."""
        return page

    def _needed(self, page: Sequence[CopiedEvent]) -> dict[int, AgentRecord]:
        """Return the missing agents that begin in a page, by place: those with an event in it, or forked in it."""
        begun = {event.agent for event in page} | {self._forks.get(event.id) for event in page if event.kind == "fork"}
        places = {self._wanted.all[agent]: agent for agent in begun if agent in self._missing}
        return {place: self._missing.pop(places[place]) for place in sorted(places)}

    def _written(self, page: list[CopiedEvent], writing: Transaction) -> None:
        """Erase what the operations on this page erased, as far as it was copied before."""
        for operation in page:
            for agent, ids in self._to_erase.get(operation.id, {}).items():
                self._erase(writing, agent, ids, operation.id)

    def _erase(self, writing: Transaction, agent: str, ids: Sequence[int], by: int) -> None:
        """Erase events of an agent, all that an operation erased of it."""
        (operation,) = writing.events([by])
        erase(writing, agent, (operation.data or {}).get("turn", 0), max(ids), by, mail=ids)
        self._counts["erased"] += len(ids)

    # Memos

    def _memos(self) -> None:
        """Remove the memos that were removed in the source, and add those that the target lacks."""
        with self._target.read() as reading:
            both = merged(self._moment.copied_memos(), reading.copied_memos())
            gone = [
                copied.id
                for memo, copied in both
                if copied is not None and not copied.is_removed and (memo is None or memo.is_removed)
            ]
        for memo in gone:
            with self._target.write() as writing:
                writing.remove_memo(memo)
        last = 0
        while page := self._lacking(last):
            with self._target.write() as writing:
                writing.take_memos(page)
            self._counts["memos"] += sum(not memo.is_removed for memo in page)
            last = page[-1].id

    def _lacking(self, last: int) -> list[CopiedMemo]:
        """Return the next memos that the target lacks, of those with ids above `last`."""
        with self._target.read() as reading:
            both = merged(self._moment.copied_memos(last), reading.copied_memos(last))
            return list(islice((memo for memo, copied in both if memo is not None and copied is None), AT_ONCE))

    # Derived data

    def _fold(self) -> None:
        """Store the segments of agents without stored ones."""
        for some in parts(list(self._wanted.agents.values()), AT_ONCE):
            with self._target.read() as reading:
                outlines = reading.outlines([record.id for record in some])
            left = [record for record in some if outlines[record.id].fold is None]
            if left:
                with self._target.write() as writing:
                    for record in left:
                        try:
                            born = birth_of(writing, record.id, record.fork_event).fold
                            fold = replay(born, recorded(selections.operations(writing, record.id)))
                        except DamagedError:
                            continue  # it is unreadable in the source as well
                        own = writing.head(record.id).record
                        writing.save_fold(fold, writing.size(until(fold.segments, own.newest)).less(own.own))

    def _erase_texts(self, erased: Mapping[str, Collection[str]]) -> None:
        """Erase texts of requests, by agent, that were erased in the source after they were copied."""
        for agent, gone in erased.items():
            with self._target.read() as reading:
                left = reading.kept_texts(gone)
            if left:
                with self._target.write() as writing:
                    writing.disown(agent, left)

    # The end

    def _as_copied(self, reading: Snapshot) -> Snapshot:
        """Return the target as it is compared with the source."""
        return reading

    def _compare(self) -> tuple[int, str]:
        """Compare the whole scope of the copy with the target. Return the number of events and the hash of everything.
        Raises StoreError if the two differ."""
        compared, ours = (self._read or self._reading(self._moment)).finish()
        self._erase_texts(compared.erased)
        with self._target.read() as reading:
            _, theirs = self._reading(self._as_copied(reading)).finish(compared)
        if wrong := [part for part, hash in ours.items() if theirs[part] != hash]:
            agents = self._wanted.agents
            named = [(agents[each].name or f"agent {each[:8]}") if each in agents else each for each in wrong]
            raise StoreError(
                f"the copy in {self._names[1]} differs from {self._names[0]}: {listing(named, 5)}. "
                "Has another program written to one of them meanwhile? `foldmark doctor` checks each of the two."
            )
        return compared.events, hash_of(ours)

    def _reading(self, moment: Snapshot) -> Reading:
        """Read all events of a store within the scope."""
        found = Reading(moment, self._wanted)
        for event in moment.copied_events(dict.fromkeys(self._wanted.agents, 0)):
            self._advance(found.add(event))
        return found


def in_pages(events: Iterable[CopiedEvent]) -> Iterator[list[CopiedEvent]]:
    """Yield events in pages that fit in a transaction."""
    page, size = list[CopiedEvent](), 0
    for event in events:
        page.append(event)
        size += len(event.content) + len(event.data or "")
        if len(page) >= EVENTS or size >= _BYTES:
            yield page
            page, size = [], 0
    if page:
        yield page
