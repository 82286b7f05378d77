"""Add conversations to a database that has contents of its own: their events get new ids there.

What the target has of a conversation from an earlier copy is recognized by comparing both logs from their beginnings,
so no record of copies is kept. A conversation that has grown in one of the two continues there; one that has grown in
both is refused.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any
from uuid import UUID, uuid5

from msgspec import structs

from foldmark.copying.comparing import CopyScope
from foldmark.copying.renumbering import Renumbering
from foldmark.copying.steps import AddedConversation, Copy, CopyReport, in_pages
from foldmark.core import selections
from foldmark.core.agents import AgentRecord
from foldmark.core.codec import decode_data, encode_data
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.ports import Progress, Snapshot, Store, Transaction
from foldmark.core.records import CopiedEvent
from foldmark.core.replay import recorded, replay
from foldmark.core.segments import Segments
from foldmark.core.wording import listing
from foldmark.request.layers import visible_hash
from foldmark.request.standing import birth_of


class _Conversation:
    """A conversation of the source with its forks, and what the target has of it."""

    def __init__(self, records: dict[str, AgentRecord], agents: Mapping[str, str]) -> None:
        self.records, self.to = records, Renumbering(agents)
        self.root = next(iter(records.values()))
        self.common = 0  # the newest event that the target has
        self.behind = self.ahead = False  # it has grown in the source, in the target
        self.added = 0

    def compare(self, ours: Snapshot, theirs: Snapshot, present: Mapping[str, AgentRecord]) -> None:
        """Find the events that both have, which begin both logs."""
        own = {id for id in map(self.to.agent, self.records) if id in present}
        while more := {id for id, record in present.items() if record.parent in own} - own:
            own |= more
        others = _brought(theirs.copied_events(dict.fromkeys(own, 0))) if own else iter(())
        for mine, other in zip_longest(_brought(ours.copied_events(dict.fromkeys(self.records, 0))), others):
            self.behind, self.ahead = mine is not None, other is not None
            if mine is None or other is None:
                return
            self.to.add(mine.id, other.id)
            if not _same(self.to.event(mine), other):
                self.to.remove_newest()
                return
            self.common = mine.id
        self.behind = self.ahead = False


_LOCAL = ("renamed", "archived", "unarchived")
"""Kinds of events that are not brought: each database decides what a conversation is called there, and whether it is
archived."""


def _brought(events: Iterable[CopiedEvent]) -> Iterator[CopiedEvent]:
    return (event for event in events if event.kind not in _LOCAL)


def _same(mine: CopiedEvent, other: CopiedEvent) -> bool:
    """Return True if an event is the same in both databases. Its content may be erased in one of them."""
    if mine.redacted is None and other.redacted is None:
        return _without_hash(mine) == _without_hash(other)
    remains = [(each.id, each.agent, each.turn, each.kind, each.actor, each.created_at) for each in (mine, other)]
    return remains[0] == remains[1]


def _without_hash(event: CopiedEvent) -> CopiedEvent:
    """Return a summary of the window without the hash of what it covers, which contains ids; any other event as it
    is."""
    if event.kind != "window_summary" or event.redacted is not None:
        return event
    data = {name: value for name, value in (decode_data(event.kind, event.data) or {}).items() if name != "covers"}
    return structs.replace(event, data=encode_data(event.kind, data))


def _without_local(record: AgentRecord) -> AgentRecord:
    return structs.replace(record, last=0, archived=0)


class _Renumbered:
    """The records of conversations of the source, as the target has them. The methods are those of `Snapshot`."""

    def __init__(self, moment: Snapshot, of: Mapping[str, _Conversation], names: Mapping[str, str | None]) -> None:
        self._moment, self._of, self._names = moment, of, names
        self._old = {each.to.agent(agent): agent for agent, each in of.items()}

    def agents(self) -> list[AgentRecord]:
        return [self._record(record) for record in self._moment.agents() if record.id in self._of]

    def _record(self, record: AgentRecord) -> AgentRecord:
        to = self._of[record.id].to
        changed = to.record(record)
        name = None if record.name is None else self._names[changed.id]
        open_turn = None if record.open_turn is None else to.id(record.open_turn)
        return _without_local(structs.replace(changed, name=name, head=to.id(record.head), open_turn=open_turn))

    def copied_events(self, after: Mapping[str, int]) -> Iterator[CopiedEvent]:
        for agent in after:
            conversation = self._of[self._old[agent]]
            if conversation.to.agent(conversation.root.id) == agent:
                for event in _brought(self._moment.copied_events(dict.fromkeys(conversation.records, 0))):
                    yield _without_hash(conversation.to.event(event))

    def kept_texts(self, hashes: Collection[str]) -> dict[str, str]:
        return self._moment.kept_texts(hashes)


class _WithoutLocal:
    """The target without what each database decides for itself, and without the hashes of what summaries cover."""

    def __init__(self, reading: Snapshot) -> None:
        self._reading = reading

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reading, name)

    def copied_events(self, after: Mapping[str, int]) -> Iterator[CopiedEvent]:
        return map(_without_hash, _brought(self._reading.copied_events(after)))

    def agents(self, **narrowed: Any) -> list[AgentRecord]:
        return [_without_local(record) for record in self._reading.agents(**narrowed)]


class Addition(Copy):
    """A copy of conversations into a target with contents of its own."""

    def __init__(
        self,
        moment: Snapshot,
        target: Store,
        names: tuple[str, str],
        wanted: CopyScope,
        progress: Progress,
        called: str | None,
    ) -> None:
        self._source, self._all = moment, _conversations(wanted, called)
        self._called = {each.to.agent(each.root.id): called or each.root.name for each in self._all}
        super().__init__(moment, target, names, wanted, progress)

    def run(self) -> CopyReport:
        report, added = super().run(), list[AddedConversation]()
        for each in self._all:
            agent = each.to.agent(each.root.id)
            name = self._called[agent] or ""
            added.append(AddedConversation(name, agent, each.added, each.ahead, tuple(each.to.runs)))
        return structs.replace(report, conversations=len(added), added=tuple(added))

    def _check(self, reading: Snapshot) -> dict[str, AgentRecord]:
        present = {record.id: record for record in reading.agents()}
        taken = {record.name: id for id, record in present.items() if record.name}
        for each in self._all:
            own = each.to.agent(each.root.id)
            if own in present:
                self._called[own] = present[own].name
            elif (name := self._called[own]) in taken:
                raise CommandError(
                    f"{self._names[1]} has another conversation named '{name}'; nothing was copied. "
                    "--as NAME brings this one under another name"
                )
            each.compare(self._source, reading, present)
        if both := [f"'{each.root.name or each.root.id[:8]}'" for each in self._all if each.behind and each.ahead]:
            raise CommandError(
                f"{listing(both)} has grown in {self._names[0]} and in {self._names[1]} since both were the same; "
                "nothing was copied. --as NAME brings the one in FROM as a second conversation"
            )
        coming = [each for each in self._all if not each.ahead]
        records = {record.id: record for each in coming for record in map(each.to.record, each.records.values())}
        records = {id: structs.replace(record, name=self._called.get(id)) for id, record in records.items()}
        places = {each.to.agent(id): self._wanted.all[id] for each in coming for id in each.records}
        self._coming = coming
        self._conversation_of = {agent: each for each in coming for agent in each.records}
        self._moment = _Renumbered(self._source, self._conversation_of, self._called)  # type: ignore[assignment]
        self._wanted = CopyScope(records, places, False)
        return present

    def _rename(self) -> None:
        """Each conversation keeps the name that it has in the target."""

    # The log

    def _erased(self) -> Iterator[Event]:
        return selections.erased(self._source, self._conversation_of)

    def _erased_later(self, erased: Iterable[Event]) -> dict[int, dict[str, list[int]]]:
        """Return everything that was erased in the source, by its ids and uuids."""
        found = defaultdict[int, dict[str, list[int]]](dict)
        for each in erased:
            found[each.erased_by or 0].setdefault(each.agent_id, []).append(each.id)
        return found

    def _pages(self, behind: Mapping[str, int]) -> Iterator[list[CopiedEvent]]:
        """Yield the events that the target lacks. A summary of the window is on a page of its own: its hash needs the
        events before it."""
        for each in self._coming:
            for page in in_pages(_brought(self._source.copied_events(dict.fromkeys(each.records, each.common)))):
                begin = 0
                for at, event in enumerate(page):
                    if event.kind == "window_summary":
                        yield from filter(None, (page[begin:at], [event]))
                        begin = at + 1
                if page[begin:]:
                    yield page[begin:]

    def _stored(self, page: list[CopiedEvent], writing: Transaction) -> list[CopiedEvent]:
        conversation = self._conversation_of[page[0].agent]
        to, found = conversation.to, []
        newest = max((record.next_possible for record in writing.agents()), default=1) - 1
        for new, event in enumerate(page, newest + 1):
            to.add(event.id, new)
            if event.kind == "fork" and (child := self._forked(event)) in conversation.records:
                record = structs.replace(self._wanted.agents[to.agent(child)], fork_event=new)
                self._wanted.agents[record.id] = self._missing[record.id] = record
                self._forks[new] = record.id
            covers = self._covers(event, conversation, writing) if event.kind == "window_summary" else None
            changed = to.event(event)
            if covers is not None:
                data = {**(decode_data(event.kind, changed.data) or {}), "covers": covers}
                changed = structs.replace(changed, data=encode_data(event.kind, data))
            found.append(changed)
        conversation.added += len(page)
        return found

    def _written(self, page: list[CopiedEvent], writing: Transaction) -> None:
        """Erase what the operations on this page erased, or name them as what erased it: their new ids are known only
        now."""
        to = self._conversation_of[page[0].agent].to
        for operation in (event.id for event in page):
            for owner, ids in self._to_erase.get(operation, {}).items():
                agent, wanted = to.agent(owner), set(map(to.id, ids))
                gone = wanted.intersection(each.id for each in selections.erased(writing, [agent]))
                writing.take_erased(agent, sorted(gone), to.id(operation))
                if left := sorted(wanted - gone):
                    self._erase(writing, agent, left, to.id(operation))

    def _forked(self, event: CopiedEvent) -> str:
        return str((decode_data(event.kind, event.data) or {}).get("child", ""))

    def _covers(self, event: CopiedEvent, conversation: _Conversation, writing: Transaction) -> str | None:
        """Return the hash of what a summary of the window covers, as it is in the target; None if it is not valid in
        the source."""
        data, to = decode_data(event.kind, event.data) or {}, conversation.to
        until, covers = data.get("until"), data.get("covers")
        record = conversation.records[event.agent]
        ours = _segments(self._source, record, event.id)
        if not isinstance(until, int) or visible_hash(self._source, ours, until) != covers:
            return None
        theirs = _segments(writing, to.record(record), to.id(event.id))
        return visible_hash(writing, theirs, to.id(until))

    # The end

    def _as_copied(self, reading: Snapshot) -> Snapshot:
        return _WithoutLocal(reading)


def _segments(moment: Snapshot, record: AgentRecord, until: int) -> Segments:
    """Return what was visible to an agent at an event."""
    born = birth_of(moment, record.id, record.fork_event).fold
    return replay(born, recorded(selections.operations(moment, record.id, until=until))).segments


def _conversations(wanted: CopyScope, called: str | None) -> list[_Conversation]:
    """Return the conversations of a scope. With `called`, a name, its agents get uuids that follow from their own and
    this name, so that a later copy under the same name continues this one."""
    trees = dict[str, dict[str, AgentRecord]]()
    for id, record in wanted.agents.items():  # a parent comes before its forks
        tree = trees[id] = trees.get(record.parent or "", {})
        tree[id] = record
    roots = {id: tree for id, tree in trees.items() if wanted.agents[id].parent is None}
    found = []
    for tree in roots.values():
        agents = {id: id if called is None else str(uuid5(UUID(id), called)) for id in tree}
        found.append(_Conversation(tree, agents))
    return found
