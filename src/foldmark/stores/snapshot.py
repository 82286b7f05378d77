"""One moment of the log in any database (see `foldmark.core.ports.Snapshot`)."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec
from msgspec import structs

from foldmark.core.agents import AgentRecord, Changes, Size
from foldmark.core.codec import checksum
from foldmark.core.errors import CommandError, DamagedError, StoreError
from foldmark.core.events import Event
from foldmark.core.ports import BESIDE, Head, Overview
from foldmark.core.records import CopiedEvent, CopiedMemo
from foldmark.core.replay import Fold
from foldmark.core.search import Hit, Outline, Surroundings
from foldmark.core.segments import END, Segment, Segments
from foldmark.core.turns import Message
from foldmark.stores.beside import BesideReader
from foldmark.stores.reader import Fetched, Row, unknown_agent

T = TypeVar("T")

_FIRST_PAGE, PAGE = 8, 256
"""Number of rows read at first, and the maximum."""

_BEGINNING = 2000
_ENDED = "this moment has ended with the block of `read` or `write` that it belongs to; read inside of the block"
_BROKEN = "this transaction has failed and was rolled back: nothing of it was recorded. Repeat it as a whole"


def _follows(segment: Segment, before: Segment, newest_first: bool) -> bool:
    """Return True if every id of `segment` comes after every id of `before`, in the order of reading."""
    return segment.last < before.first if newest_first else segment.first > before.last


class LogSnapshot(BesideReader, Protocol):
    """The contents of the database during one transaction, which the store begins and ends."""

    _kinds: Any
    """`NEWEST_KINDS`, for a statement."""

    _cursor: ClassVar[re.Pattern[str]]
    """The form of a cursor of `changes`."""

    _over: str = ""
    """The reason why the moment can no longer be used; empty while it can."""

    def on_rollback(self, undo: Callable[[], None]) -> None:
        """Do nothing: everything that can be read is committed."""
        return

    def expire(self) -> None:
        """Refuse further reads."""
        self._over = self._over or _ENDED

    def _check(self) -> None:
        if self._over or self._is_broken():
            self._over = self._over or _BROKEN
            raise StoreError(self._over)

    def _is_broken(self) -> bool:
        """Return True if the database has already rolled back."""

    # Changes

    def changes(self, after: str | None, limit: int) -> Changes:
        if after is None:
            return self._changes_from_now()
        if self._cursor.fullmatch(after) is None:
            raise CommandError(f"'{after:.40}' is not a cursor; use the one of an earlier answer, or none to begin now")
        return self._changes_after(after, limit)

    def _changes_from_now(self) -> Changes:
        """Return no changes, and the cursor of this moment."""

    def _changes_after(self, after: str, limit: int) -> Changes:
        """Return the changes after a cursor."""

    # Agents

    def agents(self) -> list[AgentRecord]:
        return list(self._agents("agents"))

    def overview(self) -> list[Overview]:
        self.settle()
        found = []
        for *row, last_used, archived, body, messages, tokens in self._run("overview"):
            record = self._agent(row)
            fold = None if body is None else self._decoded(body, record.id)
            size = Size(messages, tokens).plus(record.own) if fold is not None and fold.grows else None
            found.append(Overview(record, last_used, archived, size))
        return found

    def agent(self, agent_id: str) -> AgentRecord | None:
        return next(self._agents("agent_by_id", id=agent_id), None)

    def root_of(self, agent_id: str) -> str:
        ((root,),) = self._run("root_of", **self._for_agent(agent_id))
        return str(root)

    def named(self, name: str) -> AgentRecord | None:
        return next(self._agents("agent_by_name", name=name), None)

    def children(self, agent_id: str) -> list[AgentRecord]:
        return list(self._agents("children", **self._for_agent(agent_id)))

    def unstarted(self) -> list[AgentRecord]:
        self.settle()
        return list(self._agents("unstarted"))

    def _agents(self, name: str, /, **bindings: Any) -> Iterator[AgentRecord]:
        return map(self._agent, self._run(name, **bindings))

    def head(self, agent_id: str) -> Head:
        rows, damaged = self._rows("head", agent=agent_id, kinds=self._kinds)
        if not rows:
            raise unknown_agent(agent_id)
        (key, root, *own, body, messages, tokens, memos, mail, children), *others = rows
        record = self._agent((*own, key, root))
        cache = None if body is None else (self._decoded(body, agent_id), Size(messages, tokens))
        events = [self._event(row[2:14], place in damaged) for place, row in enumerate(others, 1)]
        beside = frozenset(name for name, exists in zip(BESIDE, (memos, mail, children), strict=True) if exists)
        return Head(record, cache, {event.kind: event for event in events}, beside)

    def newest_of(self, agent_id: str, until: int) -> Mapping[str, Event]:
        found = self._events("anchors", **self._for_agent(agent_id), kinds=self._kinds, until=until)
        return {event.kind: event for event in found}

    def _decoded(self, body: str, agent_id: str) -> Fold:
        try:
            return self._fold(body)
        except (msgspec.MsgspecError, RecursionError):
            raise DamagedError(
                f"the stored segments of {agent_id[:8]} are not readable; `foldmark doctor --repair` rebuilds them"
            ) from None

    # Events

    def event(self, event_id: int) -> Event | None:
        return next(iter(self.events([event_id])), None)

    def events(self, event_ids: Sequence[int]) -> list[Event]:
        found = self._events("events", **self._for_events(set(event_ids))) if event_ids else []
        return sorted(found, key=lambda event: event.id)

    def events_after(self, agent_id: str, after: int, limit: int) -> list[Event]:
        self.settle()
        return self._events("events_after", **self._for_agent(agent_id), after=after, limit=limit)

    def operations(self, agent_id: str, *, after: int = 0, until: int = END) -> list[Event]:
        return self._events("operations", **self._for_agent(agent_id), after=after, until=until)

    def messages(
        self, segments: Segments, *, newest_first: bool = False, expected: int = _FIRST_PAGE
    ) -> Iterator[Event]:
        query = "messages_newest_first" if newest_first else "messages"

        def read(some: Segments, page: int) -> list[Event]:
            return self._events(query, **self._for_segments(some), page=page)

        return self._pages(segments, read, attrgetter("id"), expected, newest_first=newest_first)

    def ids(self, segments: Segments, *, expected: int = PAGE) -> Iterator[int]:
        def read(some: Segments, page: int) -> list[int]:
            return [id for (id,) in self._run("message_ids", **self._for_segments(some), page=page)]

        return self._pages(segments, read, int, expected, newest_first=True)

    def _pages(
        self,
        segments: Segments,
        read: Callable[[Segments, int], list[T]],
        id_of: Callable[[T], int],
        expected: int,
        *,
        newest_first: bool,
    ) -> Iterator[T]:
        """Yield the values that `read` returns for segments, ordered by id, at most one page of a segment at a time.

        It reads pages instead of keeping a cursor open, because a reader may stop halfway. One statement reads as many
        short segments as fill a page. Until `expected` values are found, it reads only the missing number; then it
        doubles the number each time.
        """
        left = list(segments if newest_first else reversed(segments))
        page, count = expected, 0
        while left:
            some, ids = list[Segment](), 0
            # Segments are read together only if their ids do not interleave; otherwise a page would not be in order.
            while left and ids < page and (not some or _follows(left[-1], some[-1], newest_first)):
                some.append(left.pop())
                _, first, last = some[-1]
                ids += last - first + 1
            found = sorted(read(tuple(some), page), key=id_of, reverse=newest_first)
            yield from found
            agent, first, last = some[-1]
            inside = [id for id in map(id_of, found) if first <= id <= last] if len(found) >= page else []
            # A full page: the segment may contain more, which is read next.
            if len(inside) >= page:
                left.append(
                    Segment(agent, first, inside[-1] - 1) if newest_first else Segment(agent, inside[-1] + 1, last)
                )
            count += len(found)
            page = max(_FIRST_PAGE, expected - count if count < expected else min(2 * count, PAGE))

    def newest(self, kind: str, segments: Segments) -> Event | None:
        return next(iter(self._events("newest", **self._for_segments(segments), kind=kind)), None) if segments else None

    def recent(self, kind: str, agent_id: str, until: int, limit: int) -> list[Event]:
        return self._events("recent", **self._for_agent(agent_id), kind=kind, until=until, limit=limit)

    def of_kind(self, kind: str, segments: Segments) -> list[int]:
        found = self._run("of_kind", **self._for_segments(segments), kind=kind) if segments else ()
        return sorted(id for (id,) in found)

    def size(self, segments: Segments) -> Size:
        if not segments:
            return Size(0, 0)
        ((messages, tokens),) = self._run("size", **self._for_segments(segments))
        return Size(messages, tokens)

    def bounds(self, segments: Segments) -> Segments:
        pairs = zip(segments, self._run("bounds", **self._for_segments(segments)) if segments else (), strict=True)
        return tuple(
            Segment(agent, oldest, newest)
            for (agent, _, _), (oldest, newest) in pairs
            if oldest is not None and newest is not None and oldest <= newest
        )

    def message_before(self, agent_id: str, event_id: int) -> Message | None:
        return next(self._messages("message_before", **self._for_agent(agent_id), id=event_id), None)

    def message_after(self, agent_id: str, event_id: int) -> Message | None:
        return next(self._messages("message_after", **self._for_agent(agent_id), id=event_id), None)

    def _messages(self, name: str, /, **bindings: Any) -> Iterator[Message]:
        return map(self._message, self._run(name, **bindings))

    def turns(self, turn_ids: Sequence[int]) -> dict[int, list[Message]]:
        found: dict[int, list[Message]] = {turn: [] for turn in turn_ids}
        for row in sorted(self._run("turns", **self._for_events(found))):
            found[row[2]].append(self._message(row))
        return found

    def results(self, calls: Sequence[Message], *, erased: bool = False) -> list[Message]:
        found = self._run("results_of", **self._for_events(call.id for call in calls), erased=erased) if calls else ()
        return [self._message(row) for row in sorted(found)]

    def next_to(self, places: Sequence[Message], count: int) -> list[list[Message]]:
        found: list[list[Message]] = [[] for _ in places]
        for number, *row in sorted(self._run("next_to", **self._for_messages(places), count=count)) if places else ():
            found[number].append(self._message(row))
        return found

    def apart_results(self, agent_id: str, event_id: int) -> list[Message]:
        return list(self._messages("apart_results", **self._for_agent(agent_id), id=event_id))

    def waiting(self, agent_id: str) -> list[Message]:
        return list(self._messages("waiting", **self._for_agent(agent_id)))

    def waiting_call(self, agent_id: str, turn: int, call_id: str) -> Message | None:
        agent = self._for_agent(agent_id)
        return next(self._messages("waiting_call", **agent, turn=turn, call_id=call_id), None)

    def calls(self, agent_id: str, call_id: str) -> list[Message]:
        return list(self._messages("calls_with_id", **self._for_agent(agent_id), call_id=call_id))

    def lookup(self, event_ids: Iterable[int]) -> list[Message]:
        ids = list(event_ids)
        found = {each.id: each for each in self._messages("lookup", **self._for_events(ids))} if ids else {}
        return [found[each] for each in ids if each in found]

    def erased_by(self, event_id: int) -> Event | None:
        return next(iter(self._events("erased_by", **self._for_events([event_id]))), None)

    # Search

    def surroundings(self, event_ids: Sequence[int], turns: int) -> list[Surroundings]:
        rows = self._run("surroundings", **self._for_events(event_ids), turns=turns, beginning=_BEGINNING, end=END)
        found = []
        for id, agent, name, kind, turn, at, tool, text, places in rows:
            hit = Hit(id, agent, name, kind, turn, at, 0.0, "", False, tool)
            (_, before), *behind = sorted((place, messages) for place, messages in msgspec.json.decode(places))
            # Damage can change the types of columns.
            found.append(Surroundings(hit, str(text or ""), before, behind))
        return found

    def outlines(self, agent_ids: Sequence[str]) -> dict[str, Outline]:
        folds: dict[str, Fold | None] = {}
        planning: dict[str, list[Event]] = defaultdict(list)
        rows, damaged = self._rows("outlines", agents=self._list(agent_ids))
        for place, (which, *row) in enumerate(rows):
            if which == 0:
                key, agent_id, body, root, *_ = row
                self._cache_agent(agent_id, (key, root))
                with suppress(DamagedError):
                    folds[agent_id] = None
                    folds[agent_id] = None if body is None else self._decoded(body, agent_id)
            else:
                event = self._event(row, place in damaged)
                planning[event.agent_id].append(event)
        in_order = {agent: sorted(events, key=lambda event: event.id) for agent, events in planning.items()}
        return {agent: Outline(fold, in_order.get(agent, ())) for agent, fold in folds.items()}

    def opened(self, segments: Segments) -> list[int]:
        found = self._run("opened", **self._for_segments(segments)) if segments else ()
        return sorted(id for (id,) in found)

    # Records to copy (see `foldmark.core.records`)

    def copied_events(self, after: Mapping[str, int]) -> Iterator[CopiedEvent]:
        begin = {self._key(agent): (agent, id) for agent, id in after.items()}
        for rows, damaged in self._copied_events({key: id for key, (_, id) in begin.items()}):
            for place, row in enumerate(rows):
                agent, since = begin.get(row[1], ("", row[0]))
                if row[0] > since:
                    yield _copied_event(agent, row, place in damaged)

    def _copied_events(self, after: Mapping[int, int]) -> Iterator[Fetched]:
        """Yield pages of events after an id for each agent's key. Those of a tree are in order; other events may be
        among them."""

    def copied_memos(self, after: int = 0) -> Iterator[CopiedMemo]:
        rows: list[Row] = [(after,)]
        while rows:
            rows, damaged = self._rows("copied_memos", after=rows[-1][0], limit=PAGE)
            for place, row in enumerate(rows):
                if place in damaged:
                    raise DamagedError(f"memo {row[0]}: a text is not valid UTF-8; run `foldmark doctor`")
                yield structs.replace(CopiedMemo(*row), tags=self._tags(row[-1]))

    def erased(self, agents: Collection[str]) -> Iterator[tuple[int, str, int]]:
        for id, key, by in self._run("erased", agents=self._list([self._key(agent) for agent in agents])):
            yield id, self._id(key), by

    def kept_texts(self, hashes: Collection[str]) -> dict[str, str]:
        return dict(self._run("kept_texts", hashes=self._list(sorted(hashes)))) if hashes else {}

    def highest_memo(self) -> int:
        ((number,),) = self._run("highest_memo")
        return int(number)


def _copied_event(agent: str, row: Row, damaged: bool) -> CopiedEvent:
    *columns, apart, by, content, data, sum = row
    try:
        texts = [each.encode() if isinstance(each, str) else each for each in (content, data)]
        damaged = damaged or (by is None and sum is not None and checksum(columns, texts[0], texts[1]) != sum)
        content, data = (None if each is None else each.decode() for each in texts)
    except (UnicodeError, TypeError, AttributeError):
        damaged = True
    id, _, turn, kind, dialect, actor, created_at, interrupted, call_id, answers = columns
    if damaged:
        raise DamagedError(
            f"event {id} of agent {agent[:8]} is not as it was recorded: it cannot be copied. `foldmark doctor` says "
            "what is wrong with it; its turn can be erased with `/message remove`"
        )
    fixed = (id, agent, turn, kind, dialect, actor, created_at, bool(interrupted), call_id, answers)
    return CopiedEvent(*fixed, bool(apart), by, content, data)
