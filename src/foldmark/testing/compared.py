"""A store beside the oracle, the store in memory: every answer of the one is compared with that of the other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import zip_longest
from random import Random
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from foldmark.core.agents import Change
from foldmark.core.codec import utc
from foldmark.core.errors import ConflictError, DamagedError, StoreError
from foldmark.core.events import MESSAGE_KINDS
from foldmark.core.ports import (
    ALL,
    APART,
    ERASED,
    INDEXED_KINDS,
    MESSAGES,
    OPENERS,
    OPERATIONS,
    RESTORABLE,
    UNREAD,
    WAITING,
    Store,
)
from foldmark.core.search import Filters, SearchScope, Term, TermQuery
from foldmark.core.segments import END, Segment, normal
from foldmark.recall.query import read as read_query
from foldmark.testing.histories import HOLDERS, KEPT_TEXTS, NAMES, TAGS, WORDS, FixedJudge
from foldmark.testing.memory import MemoryStore
from foldmark.testing.suite import NOW

_GIVING = ("append", "save_memo")
"""Methods that return new ids, which the oracle then gives as well."""

UNORDERED = ("copied_events", "around")
"""Methods whose answers have no order."""


def exact(value: Any) -> Any:
    """Return an answer in a form that shows every difference but the order of keys and sets."""
    match value:
        case Mapping():
            return sorted((repr(key), exact(item)) for key, item in value.items())
        case frozenset():
            return sorted(value)
        case tuple() | list():
            return [exact(item) for item in value]
        case ConflictError():
            return ["conflict", value.agent, value.expected, value.found]
        case Exception():
            return type(value).__name__
        case _:
            return repr(value)


class Compared:
    """A moment, a transaction or an index beside that of the oracle. A call raises AssertionError if the answers or the
    kinds of errors differ; otherwise it returns the answer of the store."""

    def __init__(self, one: Any, two: Any, oracle: MemoryStore, unordered: Sequence[str] = UNORDERED) -> None:
        self._one, self._two, self._oracle, self._unordered = one, two, oracle, unordered

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **named: self._ask(name, *given, **named)

    def index(self, scope: SearchScope) -> Any:
        """Return both indexes."""
        return Compared(self._one.index(scope), self._two.index(scope), self._oracle)

    def on_rollback(self, undo: Callable[[], None]) -> None:
        """Have the store call `undo`."""
        self._one.on_rollback(undo)

    def best(self, wanted: list[TermQuery], limit: int) -> None:
        """Compare the messages that each query finds: ranking is up to the store."""
        for query in wanted:
            one, two = (each.best([query], limit) for each in (self._one, self._two))
            assert sorted(one) == sorted(two), query
            assert set(self._one.best([query], 2)) <= set(two)
            assert len(self._one.best([query], 2)) == min(2, len(two))
        assert len(self._one.best(wanted, limit)) == sum(len(self._two.best([query], limit)) for query in wanted)

    def copied_memos(self, after: int = 0) -> Any:
        """Compare copied memos, except for the newest event before each: stores may order conversations differently."""
        one, two = (list(each.copied_memos(after)) for each in (self._one, self._two))
        assert [replace(each, event=0) for each in one] == [replace(each, event=0) for each in two]
        return one

    def _ask(self, name: str, /, *given: Any, **named: Any) -> Any:
        one = _outcome(getattr(self._one, name), *given, **named)
        if name in _GIVING and not isinstance(one, Exception):
            self._oracle.given.extend(one if isinstance(one, list) else [one])
            if name == "save_memo":
                assert one > max((each.id for each in self._two.copied_memos()), default=0), "ids are never reused"
            if name == "append":
                ids = [self._two.newest_of_tree(given[0]), *(id for id in one if not self._two.lookup([id]))]
                assert ids == sorted({*ids}), "ids increase along a conversation and its forks"
        two = _outcome(getattr(self._two, name), *given, **named)
        self._oracle.given.clear()
        if name == "take_events" and isinstance(one, StoreError) and isinstance(two, StoreError):
            raise one  # which of several reasons it names is up to the store
        both = [each if isinstance(each, list) else [each] for each in (one, two)]
        if name in self._unordered:
            both = [sorted(each, key=repr) for each in both]
        if different := [pair for pair in zip_longest(*both) if exact(pair[0]) != exact(pair[1])]:
            raise AssertionError(f"{name}{given}: the store and the oracle answer differently, first {different[0]}")
        if isinstance(one, Exception):
            raise one
        return one


def _outcome(method: Callable[..., Any], /, *given: Any, **named: Any) -> Any:
    try:
        found = method(*given, **named)
        return list(found) if isinstance(found, Iterator) else found
    except Exception as error:
        return error


class ComparedStore:
    """A store whose moments and transactions are compared with those of the oracle."""

    def __init__(self, store: Store, oracle: MemoryStore, unordered: Sequence[str] = UNORDERED) -> None:
        self.store, self.oracle, self.address, self._unordered = store, oracle, store.address, unordered

    @contextmanager
    def read(self) -> Iterator[Any]:
        """Open a moment of both."""
        with self.store.read() as one, self.oracle.read() as two:
            yield Compared(one, two, self.oracle, self._unordered)

    @contextmanager
    def write(self) -> Iterator[Any]:
        """Open a transaction of both."""
        with self.store.write() as one, self.oracle.write() as two:
            yield Compared(one, two, self.oracle, self._unordered)

    def changes(self, after: tuple[str, str], limit: int) -> None:
        """Compare all changes after a cursor of each, read in pages."""
        one, two = (sorted(_pages(each, at, limit)) for each, at in zip((self.store, self.oracle), after, strict=True))
        assert one == two

    def cursors(self) -> tuple[str, str]:
        """Return the cursor of each now."""
        with self.store.read() as one, self.oracle.read() as two:
            return one.changes(None, 1).cursor, two.changes(None, 1).cursor


def _pages(store: Any, after: str, limit: int) -> Iterator[tuple[str, int, str]]:
    seen: dict[str, int] = {}
    while True:
        with store.read() as moment:
            page = moment.changes(after, limit)
        assert len(page.changes) <= limit
        if not page.changes:
            return
        after = page.cursor
        for each in page.changes:
            assert isinstance(each, Change)
            assert each.event_id is None or each.event_id > seen.get(each.agent_id, 0), "in the order of the ids"
            seen[each.agent_id] = each.event_id or 0
            yield each.agent_id, each.event_id or 0, each.kind


WHAT = (ALL, MESSAGES, OPENERS, OPERATIONS, ERASED, APART, WAITING, UNREAD, RESTORABLE, *INDEXED_KINDS)


def ask_all(
    moment: Any, agents: list[str], chance: Random, *, nobody: Sequence[str] = ("nobody",), is_copy: bool = False
) -> None:
    """Ask a moment every question, with arguments about these agents. `nobody` is the uuid of no agent. Of a copy, do
    not ask which memos came before an event: ids alone do not say that of another conversation's event."""
    ids = ask_agents(moment, agents, chance)
    moment.agents()
    moment.agents(unstarted=True)
    moment.overview()
    for name in NAMES:
        moment.agents(name=name)
    for agent in nobody:
        for ask in (moment.head, moment.agent, moment.lease, lambda parent: moment.agents(parent=parent)):
            with suppress(DamagedError):
                ask(agent)
        for ask in (moment.size, moment.bounds, moment.select, moment.locate):
            with suppress(DamagedError):
                ask((Segment(agent, 1, 2),))
    moment.outlines([*agents, *nobody])
    ask_memos(moment, [] if is_copy else ids, chance)
    ask_index(moment, agents, ids, chance)


def ask_agents(moment: Any, agents: list[str], chance: Random) -> list[int]:
    """Ask a moment everything about these agents and their events, and return the ids of these."""
    logs = {agent: list(moment.select((Segment(agent, 1, END),), ALL)) for agent in agents}
    ids = [each.id for log in logs.values() for each in log]
    places = [0, END, *(id + beside for id in ids for beside in (-1, 0, 1))]
    some = [*chance.choices(ids or [0], k=4), 10**15]
    for agent, log in logs.items():
        most = chance.randint(1, 3)
        record = moment.head(agent, until=chance.choice(places)).record
        assert moment.agent(agent) == moment.head(agent).record == record
        moment.agents(parent=agent)
        moment.lease(agent)
        for call_id in ("c0", "c1", "none"):
            moment.calls(agent, call_id)
            if record.open_turn is not None:
                moment.calls(agent, call_id, waiting_since=record.open_turn)
        said = moment.lookup([each.id for each in log if each.kind in MESSAGE_KINDS])
        for erased in (False, True):
            moment.results([each for each in said if each.kind == "tool_call"], erased=erased)
        moment.next_to(said, most)
    root = moment.agent(chance.choice(agents)).root
    tree = [agent for agent in agents if moment.agent(agent).root == root]
    drawn = [Segment(chance.choice(tree), *sorted(chance.choices(places, k=2))) for _ in range(chance.randrange(4))]
    for segments in (*((Segment(agent, 1, END),) for agent in agents), normal(drawn)):
        moment.size(segments)
        moment.bounds(segments)
        for what in WHAT:
            for read in (moment.select, moment.locate):
                read(segments, what, newest_first=chance.random() < 0.5, expected=chance.choice((1, 8, 1000, END)))
    moment.events(some)
    moment.lookup(some)
    moment.turns(list(dict.fromkeys(some)))
    moment.copied_events({agent: chance.choice(places) for agent in agents})
    moment.copied_events(dict.fromkeys(agents, 0))
    moment.kept_texts([*KEPT_TEXTS, "0" * 64])
    return ids


def ask_memos(moment: Any, events: list[int], chance: Random) -> None:
    """Ask a moment about memos."""
    some = [memo.id for memo in moment.memos(chance.choice((1, 1000)))]
    moment.memos(chance.choice((1, 1000)), ids=[*some, 0])
    moment.memos(chance.choice((1, 1000)), tags=chance.choices(TAGS, k=2))
    moment.memo_tags(chance.choice((1, 1000)))
    queries = [(chance.choices(WORDS, k=chance.randrange(3)), chance.choice([END, *events])) for _ in range(3)]
    moment.memos_with(queries, chance.choice((1, 1000)))


_NOON = utc(NOW)


def terms_of(query: str) -> list[Term]:
    """Return the terms of a typed query."""
    return list(read_query(query).terms)


def ask_index(moment: Any, agents: list[str], ids: list[int], chance: Random) -> None:
    """Search the messages of a moment."""
    visible, planned = (chance.sample(ids, len(ids) // 2) for _ in range(2))
    judge = FixedJudge(visible=visible, planned=planned)
    filters = Filters(
        role=chance.choice((None, None, "user", "client", "tool_call")),
        tool=chance.choice((None, None, None, "grep")),
        since=chance.choice((None, None, _NOON, _NOON + timedelta(seconds=1))),
        before=chance.choice((None, None, _NOON, _NOON + timedelta(seconds=1))),
        visible=chance.choice((None, None, True, False)),
    )
    scope = SearchScope(filters, agents=chance.choice((None, agents, agents[:1], [])), judge=judge)
    index = moment.index(chance.choice((SearchScope(), SearchScope(agents=agents), scope)))
    terms = terms_of(" ".join(chance.choices(HOLDERS, k=chance.randint(1, 3))))
    index.counted(terms)
    index.best(
        [TermQuery("all", terms), TermQuery("any", terms), *(TermQuery("any", [term]) for term in terms)], 10_000
    )
    judged = moment.index(SearchScope(judge=FixedJudge(planned=planned)))
    judged.best([TermQuery("any", terms_of("hello"))], 10_000)
    said = [each.id for agent in agents for each in moment.select((Segment(agent, 1, END),))]
    index.passing(said)
    near = chance.choices(said, k=3) if said else []
    found = index.around(near, chance.randrange(3))
    index.hits([each.id for run in found for each in run])
    index.surroundings(said, chance.randrange(3))


CHANCE = st.integers(0, 10**6).map(Random)
"""Chooses questions. What it chooses from depends on earlier examples, so Hypothesis must not draw each choice."""
