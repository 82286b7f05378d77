"""A store in memory: the oracle with which the contract compares every other store, and a quick store for tests.

It keeps dictionaries and computes every answer from the events when it is asked, so it has no sums, caches or indices
that could be wrong. A transaction works on a copy of the dictionaries, which takes their place when it is committed: a
moment never changes, and a rollback leaves nothing. Costs grow with the history.

A store that keeps its database elsewhere can answer with it: the writes of each commit go to `record`, and `apply`
takes those that others have committed (examples/jsonl_store).
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from msgspec.structs import replace

from foldmark.core.agents import (
    BORN,
    AgentRecord,
    Change,
    Changes,
    End,
    Lease,
    Size,
    mail_of,
    refused,
)
from foldmark.core.assembly.sent import Owner, is_readable, owners
from foldmark.core.codec import count_tokens, decode_data, encode_data, outlives, timestamp, without_content
from foldmark.core.errors import CommandError, ConflictError, DamagedError, StoreError
from foldmark.core.events import MESSAGE_KINDS, METADATA_KINDS, Draft, Event, is_replayed
from foldmark.core.ports import (
    ALL,
    APART,
    ERASED,
    MESSAGES,
    NEWEST_KINDS,
    NOTHING,
    OPENERS,
    OPERATIONS,
    RESTORABLE,
    UNREAD,
    WAITING,
    Clock,
    Head,
    Overview,
)
from foldmark.core.records import CopiedEvent, CopiedMemo, Memo
from foldmark.core.replay import Fold
from foldmark.core.search import Outline, SearchScope
from foldmark.core.segments import END, Segment, Segments
from foldmark.core.turns import Message, place
from foldmark.testing.memory_search import MemoryIndex
from foldmark.text.keywords import folded, occurring, ranked

_KEPT = ("turn_ended", "archived", "unarchived", "killed", "deleted")
"""Kinds of events without content to erase."""

_KEPT_OF_A_TURN = ("scratchpad", "config")
"""Kinds of events whose content is erased only with their agent."""

_BEGINNING = 2000

Write: TypeAlias = tuple[str, Any, Any]
"""A write: a table of `Contents`, the key of a row, and the new value, None to remove the row."""


@dataclass
class Contents:
    """The contents of a database. No value changes in place, so a copy of the dictionaries is a copy of all."""

    agents: dict[str, AgentRecord] = field(default_factory=dict)
    """Agents as they were created, with their present names."""

    places: dict[str, int] = field(default_factory=dict)
    """The places of the agents among all agents."""

    logs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Agent -> the ids of its events. It follows from `agents` and `events`, so no write names it."""

    events: dict[int, CopiedEvent] = field(default_factory=dict)
    """All events, in the order in which they were recorded."""

    runs: dict[str, int | None] = field(default_factory=dict)
    """Agent -> the first call of its newest run of calls; None if anything but results follows that run."""

    folds: dict[str, tuple[Fold, Size]] = field(default_factory=dict)
    keys: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    owners: dict[tuple[str, Owner, str], bool] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    memos: dict[int, CopiedMemo] = field(default_factory=dict)
    changes: dict[int, Change] = field(default_factory=dict)
    highest: dict[str, int] = field(default_factory=dict)
    """The highest id that was ever given to an event, and to a memo."""

    damaged: dict[str, str] = field(default_factory=dict)
    """The name of a row (`row_name`) that is not as it was recorded -> a sentence about it."""

    def put(self, table: str, key: Any, value: Any) -> None:
        """Carry out a write."""
        rows = getattr(self, table)
        if table == "agents":
            self.logs.setdefault(key, ())
        elif table == "events" and key not in rows:
            self.logs[value.agent] = (*self.logs[value.agent], key)
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value
        self.damaged.pop(row_name(table, key), None)

    def copy(self) -> "Contents":
        """Return a copy."""
        return Contents(**{name: table.copy() for name, table in vars(self).items()})


class MemoryMoment:
    """The contents of the database in one moment (see `foldmark.core.ports.Snapshot`)."""

    def __init__(self, contents: Contents, clock: Clock, is_closed: Callable[[], bool]) -> None:
        self._contents, self._clock, self._is_closed = contents, clock, is_closed
        self.over = ""
        """The reason why the moment can no longer be used."""

    @property
    def _all(self) -> Contents:
        self.check()
        return self._contents

    def check(self) -> None:
        """Raise StoreError if the moment can no longer be used."""
        if self.over or self._is_closed():
            raise StoreError(self.over or "the store is closed")

    def on_rollback(self, undo: Callable[[], None]) -> None:
        """Do nothing: everything that can be read is committed."""

    def now(self) -> str:
        return self._clock()

    # What the answers are computed from

    def _log(self, agent_id: str) -> list[CopiedEvent]:
        if agent_id not in self._all.logs:
            raise DamagedError(f"there is no agent {agent_id[:8]}")
        return [self._all.events[id] for id in self._all.logs[agent_id]]

    def _said(self, agent_id: str) -> list[CopiedEvent]:
        return list(filter(is_message, self._log(agent_id)))

    def _inside(self, segments: Segments) -> list[CopiedEvent]:
        return [each for agent, first, last in segments for each in self._log(agent) if first <= each.id <= last]

    def _selected(self, segments: Segments, what: str) -> list[CopiedEvent]:
        """Return the events of a selection (see `Snapshot.select`)."""
        agents = {segment.agent for segment in segments}
        waiting = {id for agent in agents for id in self._waiting(agent)} if what == WAITING else ()
        unread = {id for agent in agents for id in self._unread(agent)} if what == UNREAD else ()
        belongs: dict[str, Callable[[CopiedEvent], object]] = {
            ALL: lambda each: True,
            MESSAGES: is_message,
            OPENERS: lambda each: is_message(each) and each.turn == each.id,
            OPERATIONS: lambda each: is_replayed(each.kind, each.data),
            ERASED: lambda each: each.redacted is not None,
            APART: lambda each: each.apart,
            WAITING: lambda each: each.id in waiting,
            UNREAD: lambda each: each.id in unread,
            RESTORABLE: lambda each: each.kind == "summary" and (data_of(each) or {}).get("state") is not None,
        }
        kind = belongs.get(what, lambda each: each.kind == what and each.redacted is None)
        return list(filter(kind, self._inside(segments)))

    def _with_ids(self, ids: Iterable[int]) -> list[CopiedEvent]:
        return [self._all.events[id] for id in ids if id in self._all.events]

    def _agents(self, wanted: Callable[[AgentRecord], object] = bool) -> list[AgentRecord]:
        everyone = sorted(self._all.agents, key=lambda agent: self._all.places[agent])
        return [self._record(agent) for agent in everyone if wanted(self._all.agents[agent])]

    def _record(self, agent_id: str) -> AgentRecord:
        log, said, open_turn = self._log(agent_id), self._said(agent_id), None
        for each in log:
            _, open_turn = place(each.kind, each.id, open_turn)

        def newest(*kinds: str) -> int:
            return max((each.id for each in log if each.kind in kinds), default=0)

        return replace(
            self._all.agents[agent_id],
            head=max((each.id for each in log if each.kind not in METADATA_KINDS), default=0),
            last=max((each.id for each in log), default=0),
            open_turn=open_turn,
            messages=len(said),
            tokens=sum(map(tokens, said)),
            asked=newest("request"),
            killed=newest("killed"),
            deleted=newest("deleted"),
            archived=newest("archived") if newest("archived") > newest("unarchived", "deleted") else 0,
            root=self._root_of(agent_id),
        )

    def newest_of_tree(self, agent_id: str) -> int:
        """Return the highest id in the conversation of an agent, 0 if there is none."""
        root = self._root_of(agent_id)
        return max((id for each, ids in self._all.logs.items() if self._root_of(each) == root for id in ids), default=0)

    def _root_of(self, agent_id: str) -> str:
        parent = self._all.agents[agent_id].parent
        return agent_id if parent is None else self._root_of(parent)

    # Agents

    def head(self, agent_id: str, *, until: int = END) -> Head:
        exists = {
            "memos": self._all.highest.get("memo", 0) > 0,
            "mail": bool(self._unread(agent_id)),
            "children": bool(self.agents(parent=agent_id)),
        }
        beside = frozenset(name for name, there in exists.items() if there)
        found = [each for each in self._log(agent_id) if each.id <= until and each.redacted is None]
        newest = {each.kind: event(each) for each in found if each.kind in NEWEST_KINDS}
        return Head(self._record(agent_id), self._all.folds.get(agent_id), newest, beside)

    def agents(
        self, *, parent: str | None = None, name: str | None = None, unstarted: bool = False
    ) -> list[AgentRecord]:
        if parent is not None:
            self._log(parent)
            return self._agents(lambda record: record.parent == parent)
        if unstarted:
            forks = self._agents(lambda record: record.parent is not None)
            return [record for record in forks if record.fate == "waits" and not record.ended]
        return self._agents() if name is None else self._agents(lambda record: record.name == name)

    def overview(self) -> list[Overview]:
        found = []
        for record in self._agents():
            newest, archive = (self._all.events.get(id) for id in (record.head, record.archived))
            fold, beside = self._all.folds.get(record.id, (None, Size(0, 0)))
            size = beside.plus(record.own) if fold is not None and fold.grows and record.parent is None else None
            used = record.created_at if newest is None else newest.created_at
            found.append(Overview(record, used, None if archive is None else archive.created_at, size))
        return found

    def agent(self, agent_id: str) -> AgentRecord | None:
        return self._record(agent_id) if agent_id in self._all.agents else None

    def _unread(self, agent_id: str) -> list[int]:
        log = [each for each in self._log(agent_id) if each.redacted is None]
        carried = {id for each in log if each.kind == "user" for id in mail_of(data_of(each))}
        return [each.id for each in log if each.kind == "mail" and each.id not in carried]

    # Events

    def events(self, event_ids: Sequence[int]) -> list[Event]:
        return [event(each) for each in self._with_ids(sorted(set(event_ids)))]

    def outlines(self, agent_ids: Sequence[str]) -> dict[str, Outline]:
        found = {}
        for agent in agent_ids:
            if agent in self._all.agents:
                fold, _ = self._all.folds.get(agent, (None, None))
                log = self._log(agent)
                opening = [each for each in log if each.kind in ("command", "filter") and _plans(each)]
                planning = [each for each in log if each in opening or is_replayed(each.kind, each.data)]
                found[agent] = Outline(fold, list(map(event, planning)) if opening else ())
        return found

    def select(
        self, segments: Segments, what: str = MESSAGES, *, newest_first: bool = False, expected: int = 8
    ) -> Iterator[Event]:
        found = self._selected(segments, what)
        for each in reversed(found) if newest_first else found:
            self.check()  # the moment may have ended meanwhile
            yield event(each)

    def locate(
        self, segments: Segments, what: str = MESSAGES, *, newest_first: bool = False, expected: int = 256
    ) -> Iterator[Message]:
        found = self.select(segments, what, newest_first=newest_first)
        return (Message(each.id, each.agent_id, each.turn_id, each.kind, each.answers) for each in found)

    def size(self, segments: Segments) -> Size:
        found = list(filter(is_message, self._inside(segments)))
        return Size(len(found), sum(map(tokens, found)))

    def bounds(self, segments: Segments) -> Segments:
        found = [[each.id for each in self._inside((segment,)) if is_message(each)] for segment in segments]
        return tuple(Segment(agent, ids[0], ids[-1]) for (agent, _, _), ids in zip(segments, found, strict=True) if ids)

    def turns(self, turn_ids: Sequence[int]) -> dict[int, list[Message]]:
        openers = {each.id: each for each in self._with_ids(turn_ids) if each.turn == each.id}
        return {
            turn: [bare(each) for each in self._said(openers[turn].agent) if each.turn == turn]
            if turn in openers
            else []
            for turn in turn_ids
        }

    def results(self, calls: Sequence[Message], *, erased: bool = False) -> list[Message]:
        asked = {call.id for call in calls}
        found = (each for each in self._all.events.values() if each.answers in asked and (erased or is_message(each)))
        return sorted(map(bare, found))

    def next_to(self, places: Sequence[Message], count: int) -> list[list[Message]]:
        found = []
        for at in places:
            said = [bare(each) for each in self._said(at.agent_id)]
            after = [each for each in said if each.id > at.id]
            found.append([*said[: len(said) - len(after)][-count:], *after[:count]])
        return found

    def _waiting(self, agent_id: str) -> list[int]:
        turn = self._record(agent_id).open_turn
        answered = {each.answers for each in self._log(agent_id)}
        calls = (each for each in self._said(agent_id) if each.kind == "tool_call" and each.turn == turn)
        return [each.id for each in calls if turn is not None and each.id not in answered]

    def calls(self, agent_id: str, call_id: str, *, waiting_since: int | None = None) -> list[Message]:
        found = [each for each in self._log(agent_id) if each.kind == "tool_call" and each.call_id == call_id]
        if waiting_since is not None:
            found = [each for each in found if each.id in self._waiting(agent_id)]
        return [bare(each) for each in reversed(found)]

    def lookup(self, event_ids: Iterable[int]) -> list[Message]:
        return [bare(each) for each in self._with_ids(event_ids)]

    # Search

    def index(self, scope: SearchScope) -> MemoryIndex:
        said = [each for agent in self._all.agents for each in self._said(agent)]
        names = {agent: record.name for agent, record in self._all.agents.items()}
        return MemoryIndex(scope, sorted(said, key=lambda each: each.id), self._all.events, names)

    # Leases, memos

    def lease(self, agent_id: str) -> Lease | None:
        self._log(agent_id)
        return self._all.leases.get(agent_id)

    def memos(self, limit: int, *, ids: Sequence[int] | None = None, tags: Sequence[str] = ()) -> list[Memo]:
        if tags:
            matching = {each.id: len({*tags} & {*each.tags}) for each in self._all.memos.values()}
            ids = sorted((id for id in matching if matching[id]), key=lambda each: (-matching[each], -each))
        wanted = sorted(self._all.memos, reverse=True) if ids is None else ids
        return [memo(self._all.memos[id]) for id in wanted[:limit] if id in self._all.memos]

    def memo_tags(self, limit: int) -> list[tuple[str, int]]:
        return sorted(Counter(tag for each in self._all.memos.values() for tag in each.tags).items())[:limit]

    def memos_with(self, queries: Sequence[tuple[Sequence[str], int]], limit: int) -> list[list[Memo]]:
        order = {id: number for number, id in enumerate(self._all.events)}
        found = []
        for words, before in queries:
            earlier = [
                each
                for each in self._all.memos.values()
                if before not in order or order.get(each.event, -1) < order[before]
            ]
            held = {
                word: [
                    each.id
                    for each in earlier
                    if any(occurring([folded(word)], text) for text in (each.content, " ".join(each.tags)))
                ]
                for word in dict.fromkeys(words)
                if any(map(str.isalnum, word))
            }
            best = ranked({word: ids for word, ids in held.items() if ids}, max((m.id for m in earlier), default=0))
            found.append([memo(self._all.memos[id]) for id in best[:limit]])
        return found

    # Changes and copies

    def changes(self, after: str | None, limit: int) -> Changes:
        changes = self._all.changes
        if after is None:
            return Changes([], str(len(changes)))
        if not (after.isascii() and after.isdigit()):
            raise CommandError(f"'{after:.40}' is not a cursor; use the one of an earlier answer, or none to begin now")
        found = [changes[number] for number in range(int(after), len(changes))][:limit]
        return Changes(found, str(int(after) + len(found)))

    def copied_events(self, after: Mapping[str, int]) -> Iterator[CopiedEvent]:
        for each in list(self._all.events.values()):
            if each.id > after.get(each.agent, END):
                if row_name("events", each.id) in self._all.damaged:
                    raise DamagedError(f"event {each.id} of agent {each.agent[:8]} is not as it was recorded")
                yield each

    def copied_memos(self, after: int = 0) -> Iterator[CopiedMemo]:
        found = [each for id, each in sorted(self._all.memos.items()) if id > after]
        highest = self._all.highest.get("memo", 0)
        removed = [CopiedMemo(highest)] if highest > after and highest not in self._all.memos else []
        return iter([*found, *removed])

    def kept_texts(self, hashes: Collection[str]) -> dict[str, str]:
        return {hash: self._all.texts[hash] for hash in hashes if hash in self._all.texts}


class MemoryTransaction(MemoryMoment):
    """The writes of one transaction (see `foldmark.core.ports.Transaction`)."""

    def __init__(self, contents: Contents, clock: Clock, is_closed: Callable[[], bool], given: deque[int]) -> None:
        super().__init__(contents, clock, is_closed)
        self._given, self._drawn = given, Counter[str]()
        self._undoing: list[Callable[[], None]] = []
        self.done: list[Write] = []
        """Everything that was written."""

    def _put(self, table: str, key: Any, value: Any) -> None:
        self._all.put(table, key, value)
        self.done.append((table, key, value))

    def _remove(self, table: str, key: Any) -> None:
        if key in getattr(self._all, table):
            self._put(table, key, None)

    @contextmanager
    def whole(self) -> Iterator["MemoryTransaction"]:
        """Write everything inside the block or nothing: if it raises after a write, the whole transaction fails."""
        self.check()
        before = len(self.done)
        try:
            yield self
        except BaseException:
            if len(self.done) > before:
                self.over = "this transaction has failed and nothing of it was recorded; repeat it as a whole"
            raise

    def on_rollback(self, undo: Callable[[], None]) -> None:
        self._undoing.append(undo)

    def rolled_back(self) -> None:
        """Call the registered undo functions, the last one first."""
        while self._undoing:
            self._undoing.pop()()

    def changes(self, after: str | None, limit: int) -> Changes:
        raise StoreError("changes are committed events; read them outside of the transaction")

    # Events

    def append(
        self, agent_id: str, expected: int | None, drafts: Sequence[Draft], *, key: str | None = None
    ) -> list[int]:
        record, ids = self._record(agent_id), list[int]()
        if key is not None and (agent_id, key) in self._all.keys:
            return self._all.keys[agent_id, key]
        if all(draft.kind in METADATA_KINDS for draft in drafts) and drafts:
            expected = None
        if expected not in (None, record.head):
            raise ConflictError(agent_id, expected, record.head)
        ended, open_turn = record.ended, record.open_turn
        with self.whole():
            for draft in drafts:
                if ended and (why := refused(End.of(event(self._all.events[ended])), draft, open_turn)):
                    raise CommandError(why)
                data = encode_data(draft.kind, draft.data)
                count_tokens(draft.content, data)  # refuses what UTF-8 cannot hold
                if draft.kind in ("renamed", "deleted"):
                    self._name(agent_id, draft.content or None)
                id, run = self._draw("event"), self._all.runs.get(agent_id)
                turn, open_turn = place(draft.kind, id, open_turn)
                apart = draft.answers is not None and (run is None or draft.answers < run)
                called = draft.data["call_id"] if draft.data and draft.kind in ("tool_call", "tool_result") else None
                how = (draft.kind, draft.dialect, draft.actor, draft.created_at, draft.interrupted, called)
                self._add(CopiedEvent(id, agent_id, turn, *how, draft.answers, apart, None, draft.content, data))
                self._announce(Change(agent_id, id, draft.kind))
                ended = id if draft.kind in ("killed", "deleted") else ended
                ids.append(id)
            if key is not None and drafts:
                self._put("keys", (agent_id, key), ids)
        return ids

    def _announce(self, change: Change) -> None:
        self._put("changes", len(self._all.changes), change)

    def _draw(self, numbers: str) -> int:
        """Return a new id of an event or a memo."""
        newest = max(self._all.highest.get(numbers, 0), self._drawn[numbers])
        id = self._given.popleft() if self._given else newest + 1
        self._drawn[numbers] = max(id, newest)
        return id

    def _add(self, each: CopiedEvent) -> None:
        """Add an event to the log."""
        run = self._all.runs.get(each.agent)
        if each.kind == "tool_call":
            before = next((bare(one) for one in reversed(self._said(each.agent))), None)
            goes_on = before is not None and (before.turn_id, before.kind) == (each.turn, each.kind)
            self._put("runs", each.agent, run if goes_on else each.id)
        elif each.kind == "turn_ended" or (each.kind in MESSAGE_KINDS and each.kind != "tool_result"):
            self._put("runs", each.agent, None)
        self._put("events", each.id, each)
        self._put("highest", "event", max(each.id, self._all.highest.get("event", 0)))
        if each.kind == "request" and each.redacted is None:
            for hash, owner in owners(each.turn, data_of(each)):
                opener = self._all.events.get(owner.turn)
                if hash in self._all.texts and (opener is None or opener.redacted is None):
                    self._put("owners", (each.agent, owner, hash), True)

    def erase(self, owner: str, turn: int, last: int, by: int, *, mail: Sequence[int] = ()) -> None:
        log = [each for each in self._log(owner) if each.redacted is None and each.kind not in _KEPT]
        gone = [each for each in log if turn <= each.id <= last]
        if turn:
            gone = [each for each in gone if each.turn == turn and each.kind not in _KEPT_OF_A_TURN]
            carried = {*mail, *(id for each in gone if each.kind == "user" for id in mail_of(data_of(each)))}
            gone = [each for each in gone if not outlives(each.kind, each.data)]
            gone += [each for each in log if each.kind == "mail" and each.id in carried]
        with self.whole():
            for each in gone:
                data = without_content(each.kind, each.data, handed_down=turn > 0)
                self._put("events", each.id, replace(each, content="", data=data, apart=False, redacted=by))
            self._disown(lambda agent, of, _: agent == owner and turn in (0, of.turn))

    def _disown(self, ends: Callable[[str, Owner, str], bool]) -> None:
        """End what owns some texts, and erase those that nothing owns any more."""
        ended = [own for own in self._all.owners if ends(*own)]
        for own in ended:
            self._remove("owners", own)
        owned = {hash for _, _, hash in self._all.owners}
        for hash in {hash for _, _, hash in ended} - owned:
            self._remove("texts", hash)

    def keep_texts(self, texts: Mapping[str, str]) -> None:
        self.check()
        for hash, text in texts.items():
            if hash not in self._all.texts:
                self._put("texts", hash, text)

    # Agents

    def create_agent(
        self, record: AgentRecord, born: Fold | None = None, start: Size = NOTHING, *, at: int | None = None
    ) -> None:
        with self.whole():
            self._create(record, at or 0)
            self._announce(Change(record.id, None, BORN))
            if born is not None:
                self.save_fold(born, start)

    def _create(self, record: AgentRecord, at: int) -> None:
        if record.id in self._all.agents:
            raise StoreError(f"there is an agent {record.id[:8]} already")
        if record.parent is not None:
            self._log(record.parent)
        self._check_free(record.id, record.name)
        places = {*self._all.places.values()}
        made = AgentRecord(record.id, record.name, record.parent, record.fork_event, record.created_at)
        self._put("agents", record.id, made)
        self._put("places", record.id, at if at and at not in places else max(places, default=0) + 1)

    def _check_free(self, agent_id: str, name: str | None) -> None:
        if name is not None and any(each.name == name for each in self._all.agents.values() if each.id != agent_id):
            raise StoreError(f"the name '{name:.40}' is taken")

    def _name(self, agent_id: str, name: str | None) -> None:
        self._check_free(agent_id, name)
        self._put("agents", agent_id, replace(self._all.agents[agent_id], name=name))

    def save_fold(self, fold: Fold, beside: Size) -> None:
        self._log(fold.agent)
        self._put("folds", fold.agent, (fold, beside))

    # Leases, memos

    def lend(self, agent_id: str, lease: Lease | None) -> None:
        self._log(agent_id)
        if lease is None:
            self._remove("leases", agent_id)
        else:
            self._put("leases", agent_id, lease)

    def renew(self, holder: str, until: str) -> list[Lease]:
        held = [lease for lease in self._all.leases.values() if lease.holder == holder]
        renewed = [replace(lease, until=until) for lease in held]
        for lease in renewed:
            self.lend(lease.agent, lease)
        return sorted(renewed, key=lambda lease: self._all.places[lease.agent])

    def save_memo(self, content: str, tags: Sequence[str], agent_id: str | None, actor: str, created_at: str) -> int:
        "".join((content, *tags)).encode()  # refuses what UTF-8 cannot hold
        newest = next(reversed(self._all.events), 0)
        id = self._draw("memo")
        made = CopiedMemo(id, newest, agent_id, actor, created_at, content, tuple(sorted(set(tags))))
        self._put("memos", id, made)
        self._reserve_memos(id)
        return id

    def remove_memo(self, memo_id: int) -> None:
        with self.whole():
            self._remove("memos", memo_id)
            self._disown(lambda _, of, __: of.memo == memo_id > 0)

    # Records copied from another store

    def take_events(self, events: Sequence[CopiedEvent]) -> None:
        with self.whole():
            for each in events:
                last = max((one.id for one in self._log(each.agent)), default=0)
                if each.id <= last or each.id in self._all.events:
                    raise ConflictError(each.agent, each.id - 1, last)
                self._add(each)
                if each.kind == "deleted":
                    self._name(each.agent, None)
                if is_replayed(each.kind, each.data):
                    self._remove("folds", each.agent)

    def take_names(self, names: Mapping[str, str | None]) -> None:
        with self.whole():
            for agent in names:
                self._name(agent, None)
            for agent, name in names.items():
                self._name(agent, name)

    def take_erased(self, agent: str, event_ids: Sequence[int], by: int) -> None:
        for each in self._with_ids(event_ids):
            self._put("events", each.id, replace(each, redacted=by))

    def take_memos(self, memos: Sequence[CopiedMemo]) -> None:
        for each in memos:
            if not each.is_removed:
                self._put("memos", each.id, each)
            self._reserve_memos(each.id)

    def _reserve_memos(self, highest: int) -> None:
        self._put("highest", "memo", max(highest, self._all.highest.get("memo", 0)))

    def disown(self, agent: str, hashes: Collection[str]) -> None:
        with self.whole():
            self._disown(lambda one, _, text: one == agent and text in hashes)


class _Database:
    """The state that all stores over one database share."""

    def __init__(self) -> None:
        self.contents, self.lock = Contents(), threading.Lock()
        self.commits, self.changed = 0, threading.Condition()


class MemoryWatch:
    """See `foldmark.core.agents.Watch`."""

    def __init__(self, database: _Database, is_closed: Callable[[], bool]) -> None:
        self._database, self._is_closed, self._closed = database, is_closed, False
        self._seen = database.commits

    def _stop(self) -> bool:
        return self._closed or self._is_closed()

    def wait(self, seconds: float) -> bool:
        with self._database.changed:
            self._database.changed.wait_for(lambda: self._stop() or self._database.commits != self._seen, seconds)
            before, self._seen = self._seen, self._database.commits
            return before != self._seen and not self._stop()

    def close(self) -> None:
        with self._database.changed:
            self._closed = True
            self._database.changed.notify_all()


class MemoryStore:
    """A `Store` over a database in memory (see `foldmark.core.ports.Store`), which only this process can use."""

    sandbox = None
    vectors = None
    narrowed = False

    def __init__(
        self,
        beside: "MemoryStore | None" = None,
        *,
        clock: Clock | None = None,
        record: Callable[[list[Write], Contents], None] | None = None,
    ) -> None:
        """Open a new database, or that of the store `beside` once more. `clock` returns `Snapshot.now`. `record` gets
        the writes of a transaction and the contents after them, before they are committed; an error rolls back."""
        self._database: _Database = _Database() if beside is None else beside._database
        self._clock, self._record = clock or (lambda: timestamp(datetime.now(UTC))), record
        self._blocks, self._closed = threading.local(), False
        self.address = f"memory:{id(self._database)}"
        self.given = deque[int]()
        """The ids that the next events and memos get; once none is left, the store chooses them."""

    @property
    def _block(self) -> MemoryMoment | None:
        """The outermost block of this thread."""
        return getattr(self._blocks, "outermost", None)

    @property
    def in_block(self) -> bool:
        """True inside a block of this thread."""
        return self._block is not None

    def _is_closed(self) -> bool:
        return self._closed

    @contextmanager
    def read(self) -> Iterator[MemoryMoment]:
        outer = self._block
        moment = outer or MemoryMoment(self._database.contents, self._clock, self._is_closed)
        moment.check()
        self._blocks.outermost = moment
        try:
            yield moment
        finally:
            self._end(moment, outer)

    @contextmanager
    def write(self) -> Iterator[MemoryTransaction]:
        outer = self._block
        if isinstance(outer, MemoryTransaction):
            with outer.whole():
                yield outer
            return
        if outer is not None:
            raise StoreError("a block of `read` cannot write; write outside of it")
        with self._database.lock:
            copy = self._database.contents.copy()
            writing = self._blocks.outermost = MemoryTransaction(copy, self._clock, self._is_closed, self.given)
            try:
                writing.check()
                yield writing
                writing.check()
                self._commit(writing)
            except BaseException:
                writing.rolled_back()
                raise
            finally:
                self._end(writing, None)

    def _end(self, block: MemoryMoment, outer: MemoryMoment | None) -> None:
        self._blocks.outermost = outer
        if outer is None:
            block.over = block.over or "this moment has ended with its block of `read` or `write`"

    def _commit(self, writing: MemoryTransaction) -> None:
        if writing.done:
            if self._record is not None:
                self._record(writing.done, writing._contents)
            self._commit_contents(writing._contents)

    def _commit_contents(self, contents: Contents) -> None:
        self._database.contents = contents
        with self._database.changed:
            self._database.commits += 1
            self._database.changed.notify_all()

    def apply(self, writes: Iterable[Write], *, anew: bool = False) -> None:
        """Commit writes that were recorded elsewhere; if `anew`, in place of everything. Repeating it changes
        nothing. No transaction of this store may be open in which they are missing."""
        contents = Contents() if anew else self._database.contents.copy()
        for write in writes:
            contents.put(*write)
        self._commit_contents(contents)

    def watch(self) -> MemoryWatch:
        return MemoryWatch(self._database, self._is_closed)

    def forget_erased(self) -> bool:
        return self._block is None

    def damage(self) -> Iterator[str]:
        with self.read() as moment:
            yield from moment._all.damaged.values()
            for each in moment._all.events.values():
                if each.kind == "request" and each.redacted is None and not is_readable(data_of(each)):
                    yield f"agent {each.agent[:8]}: the record of its request, event {each.id}, is not readable"

    def close(self) -> None:
        with self._database.changed:
            self._closed = True
            self._database.changed.notify_all()


def is_message(each: CopiedEvent) -> bool:
    """Return True for a message that was not erased."""
    return each.kind in MESSAGE_KINDS and each.redacted is None


def row_name(table: str, key: Any) -> str:
    """Return the name of a row."""
    return f"{table} {key}"


def data_of(each: CopiedEvent) -> dict[str, Any] | None:
    """Return the data of an event; None if it has none, or if it is damaged."""
    try:
        return decode_data(each.kind, each.data)
    except DamagedError:
        return None


def tokens(each: CopiedEvent) -> int:
    """Return the size of an event; 0 if it was erased."""
    return count_tokens(each.content, each.data) if each.redacted is None else 0


def event(each: CopiedEvent) -> Event:
    """Return a stored event."""
    data = data_of(each)
    how = (each.dialect, each.actor, tokens(each), each.created_at, each.interrupted, each.answers)
    damaged = each.data is not None and data is None
    return Event(each.id, each.agent, each.turn, each.kind, each.content, data, *how, each.redacted, damaged)


def bare(each: CopiedEvent) -> Message:
    """Return a stored event without its text."""
    return Message(each.id, each.agent, each.turn, each.kind, each.answers)


def memo(each: CopiedMemo) -> Memo:
    """Return a stored memo."""
    return Memo(each.id, each.content, each.tags, each.agent, each.actor, each.created_at)


def _plans(each: CopiedEvent) -> bool:
    return (data_of(each) or {}).get("planning") is not None
