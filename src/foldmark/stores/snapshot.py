"""One moment of the log in any database (see `foldmark.core.ports.Snapshot`)."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, TypeVar

from msgspec import structs

from foldmark.core.agents import AgentRecord, Changes, Lease, Size
from foldmark.core.codec import checksum
from foldmark.core.errors import CommandError, DamagedError
from foldmark.core.events import Event
from foldmark.core.ports import BESIDE, INDEXED_KINDS, MESSAGES, Head, Overview
from foldmark.core.records import CopiedEvent, CopiedMemo, Memo
from foldmark.core.replay import Fold
from foldmark.core.search import LogIndex, Outline, SearchScope
from foldmark.core.segments import END, Segment, Segments
from foldmark.core.turns import Message
from foldmark.stores.block import Reading
from foldmark.stores.rows import Row

T = TypeVar("T", Event, Message)

_ID = attrgetter("id")

_FIRST_PAGE, PAGE = 8, 256
"""Number of rows read at first, and the maximum."""

_AT_ONCE = 500
"""Segments whose events of a rare kind are read at once."""


class SqlSnapshot:
    """The contents of the database during one block, which the store begins and ends."""

    def __init__(self, block: Reading) -> None:
        self.block = block

    def on_rollback(self, undo: Callable[[], None]) -> None:
        self.block.on_rollback(undo)

    def now(self) -> str:
        return self.block.now()

    def changes(self, after: str | None, limit: int) -> Changes:
        if after is None:
            return self.block.changes_from_now()
        if self.block.cursor.fullmatch(after) is None:
            raise CommandError(f"'{after:.40}' is not a cursor; use the one of an earlier answer, or none to begin now")
        return self.block.changes_after(after, limit)

    # Agents

    def agents(
        self, *, parent: str | None = None, name: str | None = None, unstarted: bool = False
    ) -> list[AgentRecord]:
        block = self.block
        if parent is not None:
            return list(block.agents("children", **block.for_agent(parent)))
        if name is not None:
            return list(block.agents("agent_by_name", name=name))
        if unstarted:
            block.settle()
        return list(block.agents("unstarted" if unstarted else "agents"))

    def agent(self, agent_id: str) -> AgentRecord | None:
        with suppress(DamagedError):
            self.block.lock(agent_id)
        return next(self.block.agents("agent_by_id", id=agent_id), None)

    def head(self, agent_id: str, *, until: int = END) -> Head:
        block = self.block
        kept = block.kept_head(agent_id) if until == END else None
        if kept is not None:
            return kept
        block.lock(agent_id)
        rows, damaged = block.rows("head", agent=agent_id, kinds=block.kinds, until=until)
        if not rows:
            block.key(agent_id)  # raises
        (key, root, *own, body, messages, tokens, memos, mail, children), *others = rows
        record = block.agent((*own, key, root))
        cache = None if body is None else (block.decoded_fold(body, agent_id), Size(messages, tokens))
        events = [block.event(row[2:15], place in damaged) for place, row in enumerate(others, 1)]
        beside = frozenset(name for name, exists in zip(BESIDE, (memos, mail, children), strict=True) if exists)
        head = Head(record, cache, {event.kind: event for event in events}, beside)
        if until == END:
            block.keep_head(agent_id, head)
        return head

    def overview(self) -> list[Overview]:
        self.block.settle()
        found = []
        for *row, last_used, archived, body, messages, tokens in self.block.run("overview"):
            record = self.block.agent(row)
            fold = None if body is None else self.block.decoded_fold(body, record.id)
            size = Size(messages, tokens).plus(record.own) if fold is not None and fold.grows else None
            found.append(Overview(record, last_used, archived, size))
        return found

    def lease(self, agent_id: str) -> Lease | None:
        return next(map(lease_of, self.block.run("lease", **self.block.for_agent(agent_id))), None)

    # Events

    def events(self, event_ids: Sequence[int]) -> list[Event]:
        found = self.block.events("events", **self.block.for_events(set(event_ids))) if event_ids else []
        return sorted(found, key=_ID)

    def lookup(self, event_ids: Iterable[int]) -> list[Message]:
        ids = list(event_ids)
        found = {each.id: each for each in self.block.messages("lookup", **self.block.for_events(ids))} if ids else {}
        return [found[each] for each in ids if each in found]

    def select(
        self, segments: Segments, what: str = MESSAGES, *, newest_first: bool = False, expected: int = _FIRST_PAGE
    ) -> Iterator[Event]:
        return self._pages("select", self.block.events, segments, what, newest_first, expected)

    def locate(
        self, segments: Segments, what: str = MESSAGES, *, newest_first: bool = False, expected: int = PAGE
    ) -> Iterator[Message]:
        return self._pages("locate", self.block.messages, segments, what, newest_first, expected)

    def _pages(
        self, how: str, read: Callable[..., list[T]], segments: Segments, what: str, newest_first: bool, expected: int
    ) -> Iterator[T]:
        """Yield the events that a statement selects in segments, at most one page of a segment at a time.

        It reads pages instead of keeping a cursor open, because a reader may stop halfway. One statement reads as many
        short segments as fill a page, and of rarer events many segments, unless their ids interleave: then a page would
        not be in order. Until `expected` events are found, it reads only the missing number; then it doubles the number
        each time.
        """
        kind = {"kind": what} if what in INDEXED_KINDS else {}
        statement = f"{how} {'kind' if kind else what}{' newest first' if newest_first else ''}"
        ranges = _without_empty(segments)  # which would break the order of those around them
        left = list(ranges if newest_first else reversed(ranges))
        page, count, sign = max(expected, 1), 0, -1 if newest_first else 1
        while left:
            some = [left.pop()]
            ids = some[0].last - some[0].first + 1
            while left and _follows(left[-1], some[-1], newest_first):
                if ids >= page if what == MESSAGES else len(some) >= _AT_ONCE:
                    break
                some.append(left.pop())
                ids += some[-1].last - some[-1].first + 1
            found = read(statement, **kind, **self.block.for_segments(tuple(some)), page=page)
            found.sort(key=_ID, reverse=newest_first)
            end, places = len(found), [sign * event.id for event in found] if len(found) >= page else []
            for segment in some if places else ():
                low, high = sorted((sign * segment.first, sign * segment.last))
                begin = bisect_left(places, low)
                if bisect_right(places, high) - begin >= page:  # the segment may contain more, which is read next
                    end = begin + page
                    left.extend(reversed(some[some.index(segment) + 1 :]))
                    left.append(_rest(segment, found[end - 1].id, newest_first))
                    break
            yield from found[:end]
            count += end
            page = max(_FIRST_PAGE, expected - count if count < expected else min(2 * count, PAGE))

    def size(self, segments: Segments) -> Size:
        ranges = _without_empty(segments)
        if not ranges:
            return Size(0, 0)
        ((messages, tokens),) = self.block.run("size", **self.block.for_segments(ranges))
        return Size(messages, tokens)

    def bounds(self, segments: Segments) -> Segments:
        rows = self.block.run("bounds", **self.block.for_segments(segments)) if segments else ()
        return tuple(
            Segment(agent, oldest, newest)
            for (agent, _, _), (oldest, newest) in zip(segments, rows, strict=True)
            if oldest is not None and newest is not None and oldest <= newest
        )

    def turns(self, turn_ids: Sequence[int]) -> dict[int, list[Message]]:
        found: dict[int, list[Message]] = {turn: [] for turn in turn_ids}
        for row in sorted(self.block.run("turns", **self.block.for_events(found))):
            found[row[2]].append(self.block.message(row))
        return found

    def next_to(self, places: Sequence[Message], count: int) -> list[list[Message]]:
        found: list[list[Message]] = [[] for _ in places]
        rows = self.block.run("next_to", **self.block.for_messages(places), count=count) if places else ()
        for number, *row in sorted(rows):
            found[number].append(self.block.message(row))
        return found

    def calls(self, agent_id: str, call_id: str, *, waiting_since: int | None = None) -> list[Message]:
        agent = self.block.for_agent(agent_id)
        if waiting_since is None:
            return self.block.messages("calls_with_id", **agent, call_id=call_id)
        return self.block.messages("waiting_call", **agent, call_id=call_id, turn=waiting_since)

    def results(self, calls: Sequence[Message], *, erased: bool = False) -> list[Message]:
        ids = self.block.for_events(call.id for call in calls)
        return sorted(self.block.messages("results_of", **ids, erased=erased)) if calls else []

    # Search

    def outlines(self, agent_ids: Sequence[str]) -> dict[str, Outline]:
        folds: dict[str, Fold | None] = {}
        planning: dict[str, list[Event]] = defaultdict(list)
        rows, damaged = self.block.rows("outlines", agents=self.block.listed(agent_ids))
        for place, (which, *row) in enumerate(rows):
            if which == 0:
                key, agent_id, body, root, *_ = row
                self.block.cache_agent(agent_id, (key, root))
                with suppress(DamagedError):
                    folds[agent_id] = None
                    folds[agent_id] = None if body is None else self.block.decoded_fold(body, agent_id)
            else:
                event = self.block.event(row, place in damaged)
                planning[event.agent_id].append(event)
        in_order = {agent: sorted(events, key=_ID) for agent, events in planning.items()}
        return {agent: Outline(fold, in_order.get(agent, ())) for agent, fold in folds.items()}

    def index(self, scope: SearchScope) -> LogIndex:
        return self.block.index(scope)

    # Memos

    def memos(self, limit: int, *, ids: Sequence[int] | None = None, tags: Sequence[str] = ()) -> list[Memo]:
        if tags:
            run = self.block.run
            found = Counter(memo for tag in dict.fromkeys(tags) for (memo,) in run("memos_tagged", tag=tag))
            ids = sorted(found, key=lambda memo: (-found[memo], -memo))
        elif ids is None:
            ids = [memo for (memo,) in self.block.run("newest_memos", limit=limit)]
        return self._memos(ids[:limit])

    def _memos(self, ids: Collection[int]) -> list[Memo]:
        """Return these memos, in the order requested."""
        found = {}
        for id, content, tags, *others in self.block.run("memos", memos=self.block.listed(ids)) if ids else ():
            found[id] = Memo(id, content, self._tags(tags), *others)
        return [found[each] for each in ids if each in found]

    def _tags(self, stored: Any) -> tuple[str, ...]:
        return tuple(sorted(self.block.tags(stored)))

    def memos_with(self, queries: Sequence[tuple[Sequence[str], int]], limit: int) -> list[list[Memo]]:
        newest: dict[int, int | None] = dict(self.block.memos_before([before for _, before in queries]))
        each = list(dict.fromkeys(word for words, _ in queries for word in words))
        most = max((memo for memo in newest.values() if memo is not None), default=0)
        if not most or not each:
            return [[] for _ in queries]
        from foldmark.text.keywords import ranked  # takes 10 ms, only needed to search memos

        holding: dict[str, list[int]] = defaultdict(list)
        for index, memo in self.block.memos_holding(each, most):
            holding[each[index]].append(memo)
        best: list[list[int]] = []
        for number, (words, _) in enumerate(queries):
            last = newest[number] or 0
            earlier = {word: [memo for memo in holding[word] if memo <= last] for word in dict.fromkeys(words)}
            best.append(ranked({word: memos for word, memos in earlier.items() if memos}, last)[:limit])
        found = {memo.id: memo for memo in self._memos({memo for memos in best for memo in memos})}
        return [[found[memo] for memo in memos if memo in found] for memos in best]

    def memo_tags(self, limit: int) -> list[tuple[str, int]]:
        return [(str(tag), int(number)) for tag, number in self.block.run("memo_tags", limit=limit)]

    # Records to copy (see `foldmark.core.records`)

    def copied_events(self, after: Mapping[str, int]) -> Iterator[CopiedEvent]:
        self.block.settle()
        begin = {self.block.key(agent): (agent, id) for agent, id in after.items()}
        for rows, damaged in self.block.copied_events({key: id for key, (_, id) in begin.items()}):
            for place, row in enumerate(rows):
                agent, since = begin.get(row[1], ("", row[0]))
                if row[0] > since:
                    yield _copied_event(agent, row, place in damaged)

    def copied_memos(self, after: int = 0) -> Iterator[CopiedMemo]:
        rows: list[Row] = [(after,)]
        while rows:
            last = rows[-1][0]
            rows, damaged = self.block.rows("copied_memos", after=last, limit=PAGE)
            for place, row in enumerate(rows):
                if place in damaged:
                    raise DamagedError(f"memo {row[0]}: a text is not valid UTF-8; run `foldmark doctor`")
                yield structs.replace(CopiedMemo(*row), tags=self._tags(row[-1]))
        ((newest,),) = self.block.run("newest_memo")
        if newest > last:
            yield CopiedMemo(newest)

    def kept_texts(self, hashes: Collection[str]) -> dict[str, str]:
        return dict(self.block.run("kept_texts", hashes=self.block.listed(sorted(hashes)))) if hashes else {}


def _without_empty(segments: Segments) -> Segments:
    return tuple(each for each in segments if each.first <= each.last)


def _follows(segment: Segment, before: Segment, newest_first: bool) -> bool:
    """Return True if every id of `segment` comes after every id of `before`, in the order of reading."""
    return segment.last < before.first if newest_first else segment.first > before.last


def _rest(segment: Segment, reached: int, newest_first: bool) -> Segment:
    """Return what is left of a segment after an event."""
    return segment._replace(last=reached - 1) if newest_first else segment._replace(first=reached + 1)


def lease_of(row: Row) -> Lease:
    """Return the lease of a row."""
    *fields, interrupt = row
    return Lease(*fields, bool(interrupt))  # type: ignore[call-arg]


def _copied_event(agent: str, row: Row, damaged: bool) -> CopiedEvent:
    id, _, turn, kind, dialect, actor, created_at, interrupted, call_id, answers, apart, by, content, data, stored = row
    damaged = damaged or not isinstance(content, str) or not (data is None or isinstance(data, str))
    if damaged or (by is None and stored is not None and checksum(row[:10], content, data) != stored):
        raise DamagedError(
            f"event {id} of agent {agent[:8]} is not as it was recorded: it cannot be copied. `foldmark doctor` says "
            "what is wrong with it; its turn can be erased with `/message remove`"
        )
    fixed = (id, agent, turn, kind, dialect, actor, created_at, bool(interrupted), call_id, answers)
    return CopiedEvent(*fixed, bool(apart), by, content, data)
