"""The contract fails for stores that break it: each of these breaks one promise, and the named tests detect it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from msgspec.structs import replace
from sqlite_harness import SqliteHarness

import foldmark
from foldmark.core import selections
from foldmark.core.agents import LIVES, Changes, Size, Watch, mail_of
from foldmark.core.codec import timestamp
from foldmark.core.errors import StoreError
from foldmark.core.events import Draft, Event
from foldmark.core.ports import ALL, MESSAGES, Head, Snapshot, Transaction
from foldmark.core.records import CopiedEvent, CopiedMemo
from foldmark.core.search import Hit, LogIndex, SearchScope, TermQuery
from foldmark.core.segments import END, Segment, Segments
from foldmark.stores.sqlite.store import SqliteStore
from foldmark.testing import Damage, StoreContract
from foldmark.testing.compared import ComparedStore
from foldmark.testing.memory import MemoryStore
from foldmark.testing.suite import root
from sampled import sampled


class Wrapped:
    """A moment or a transaction that forwards everything to a real one; subclasses override single methods."""

    def __init__(self, behind: Any, store: SqliteStore) -> None:
        self._behind: Transaction = behind
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)


class Broken(SqliteStore):
    """A store that wraps its moments and transactions in `wrapper`; the default wrapper breaks nothing."""

    wrapper: type[Wrapped] = Wrapped

    @contextmanager
    def read(self) -> Iterator[Any]:
        with super().read() as moment:
            yield self.wrapper(moment, self)

    @contextmanager
    def write(self) -> Iterator[Any]:
        with super().write() as transaction:
            yield self.wrapper(transaction, self)


class LosesTheLast(Wrapped):
    """Claims to have stored the last event of a batch, but has not."""

    def append(
        self, agent_id: str, expected: int | None, drafts: Sequence[Draft], *, key: str | None = None
    ) -> list[int]:
        if len(drafts) < 2:
            return self._behind.append(agent_id, expected, drafts, key=key)
        ids = self._behind.append(agent_id, expected, drafts[:-1], key=key)
        return [*ids, ids[-1] + 1]


class IgnoresExpected(Wrapped):
    """Ignores the expected head of an append."""

    def append(
        self, agent_id: str, expected: int | None, drafts: Sequence[Draft], *, key: str | None = None
    ) -> list[int]:
        return self._behind.append(agent_id, None, drafts, key=key)


class CutsAtNul(Wrapped):
    """Cuts texts at the first NUL, as C does."""

    def append(
        self, agent_id: str, expected: int | None, drafts: Sequence[Draft], *, key: str | None = None
    ) -> list[int]:
        cut = [Draft(**{**_fields(each), "content": each.content.partition("\0")[0]}) for each in drafts]
        return self._behind.append(agent_id, expected, cut, key=key)


class RoundsNumbers(Wrapped):
    """Stores numbers as floating point, as JavaScript does."""

    def append(
        self, agent_id: str, expected: int | None, drafts: Sequence[Draft], *, key: str | None = None
    ) -> list[int]:
        return self._behind.append(
            agent_id, expected, [Draft(**{**_fields(d), "data": _rounded(d.data)}) for d in drafts], key=key
        )


class KeepsHeads(Wrapped):
    """Reads the head of an agent only once, even if another program has changed it since."""

    def head(self, agent_id: str, *, until: int = END) -> Head:
        if hasattr(self._behind, "append") or until != END:
            return self._behind.head(agent_id, until=until)
        kept: dict[str, Head] = self._store.__dict__.setdefault("kept", {})
        return kept.setdefault(agent_id, self._behind.head(agent_id))


class TellsIdsBackwards(Wrapped):
    """Returns the ids of a batch in the wrong order."""

    def append(
        self, agent_id: str, expected: int | None, drafts: Sequence[Draft], *, key: str | None = None
    ) -> list[int]:
        return self._behind.append(agent_id, expected, drafts, key=key)[::-1]


class ShowsLate(Wrapped):
    """Hides the second newest message until a newer one comes, as if its commit had been overtaken."""

    def select(self, segments: Segments, what: str = MESSAGES, **how: Any) -> Iterator[Event]:
        found = list(self._behind.select(segments, what, **how))
        late = sorted(event.id for event in found)[-2:-1]
        return (event for event in found if event.id not in late)


class ShowsLateEverywhere(Broken):
    """Also in other processes, which need a class with a name."""

    wrapper = ShowsLate


class FindsLaterMemos(Wrapped):
    """Finds memos that were saved after the turn began."""

    def memos_with(self, queries: Sequence[tuple[Sequence[str], int]], limit: int) -> list[Any]:
        return self._behind.memos_with([(words, END) for words, _ in queries], limit)


class CommitsHalf(Broken):
    """Commits the writes of a block that raises."""

    @contextmanager
    def write(self) -> Iterator[Any]:
        error = None
        with SqliteStore.write(self) as transaction:
            try:
                yield transaction
            except BaseException as raised:
                error = raised
        if error is not None:
            raise error


class ReadsAnew(Broken):
    """Has no snapshots: each read sees the present state."""

    @contextmanager
    def read(self) -> Iterator[Any]:
        yield Now(None, self)


class Now(Wrapped):
    """Opens a new moment for each read."""

    def __getattr__(self, name: str) -> Any:
        def ask(*given: Any, **named: Any) -> Any:
            with SqliteStore.read(self._store) as moment:
                found = getattr(moment, name)(*given, **named)
                return list(found) if isinstance(found, Iterator) else found

        return ask


class UndoesNothing(Wrapped):
    """Never calls the registered undo functions after a rollback."""

    def on_rollback(self, undo: Callable[[], None]) -> None:
        pass


class AsksNoJudge(Wrapped):
    """Also finds messages of planning conversations."""

    def index(self, scope: SearchScope) -> Any:
        return self._behind.index(scope._replace(judge=None))


class StopsAtTheLimit(Wrapped):
    """Excludes messages only after it has limited the number of hits."""

    def index(self, scope: SearchScope) -> Any:
        return _Stopping(self._behind.index(scope._replace(judge=None)), scope)


class _Stopping:
    def __init__(self, index: Any, scope: SearchScope) -> None:
        self._index, self._scope = index, scope

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def best(self, wanted: Sequence[TermQuery], limit: int) -> list[int]:
        judge, found = self._scope.judge, self._index.best(wanted, limit)
        if judge is None:
            return list(found)
        agents = {hit.event_id: hit.agent_id for hit in self._hits(found)}
        judge.meet(agents.values())
        return [id for id in found if not judge.plans(agents[id], id)]

    def _hits(self, ids: list[int]) -> list[Hit]:
        self._index.around(ids, 0)
        hits: list[Hit] = self._index.hits(ids)
        return hits


class IgnoresUntil(Wrapped):
    """Always returns the newest events, even for an earlier `until`."""

    def head(self, agent_id: str, *, until: int = END) -> Head:
        return self._behind.head(agent_id)


class SeesNothingBeside(Wrapped):
    """Claims that there are no memos, mail or forks."""

    def head(self, agent_id: str, *, until: int = END) -> Head:
        head: Head = self._behind.head(agent_id, until=until)
        return head._replace(beside=frozenset())


class DeliversTwice(Wrapped):
    """Does not record that mail was carried."""

    def append(self, agent: str, expected: int | None, drafts: Sequence[Draft], *, key: str | None = None) -> list[int]:
        drafts = [replace(each, data=None) if mail_of(each.data) else each for each in drafts]
        return self._behind.append(agent, expected, drafts, key=key)


class OwnClock(Wrapped):
    """Uses a different clock for each store instead of the database's."""

    def now(self) -> str:
        return timestamp(datetime.now(UTC) + timedelta(seconds=id(self._store) % 7200))


class ShowsNoLease(Wrapped):
    """Reports no lease."""

    def lease(self, agent_id: str) -> None:
        return None


class ErasesNothing(Wrapped):
    """Erases nothing."""

    def erase(self, owner: str, turn: int, last: int, by: int, *, mail: Sequence[int] = ()) -> None:
        pass


class AsksOneByOne(Wrapped):
    """Runs one statement per event."""

    def events(self, event_ids: Sequence[int]) -> list[Any]:
        found = [selections.event(self._behind, each) for each in sorted(set(event_ids))]
        return [event for event in found if event is not None]


class SkipsBetweenPages(Wrapped):
    """Skips one change between two pages."""

    def changes(self, after: str | None, limit: int) -> Changes:
        page = self._behind.changes(after, limit)
        return page if after is None else Changes(page.changes, self._behind.changes(page.cursor, 1).cursor)


class TellsNoEnds(Wrapped):
    """Reports changes of events and mail only, not of agents."""

    def changes(self, after: str | None, limit: int) -> Changes:
        page = self._behind.changes(after, limit)
        return Changes([each for each in page.changes if each.kind not in LIVES], page.cursor)


class ForgetsAfter(Wrapped):
    """Starts each page of an agent's events from the first event."""

    def select(self, segments: Segments, what: str = MESSAGES, **how: Any) -> Iterator[Event]:
        if what == ALL:
            segments = tuple(Segment(agent, 1 if first < 10 else first, last) for agent, first, last in segments)
        return self._behind.select(segments, what, **how)


class CountsOneMore(Wrapped):
    """Counts one message too many."""

    def size(self, segments: Segments) -> Size:
        return self._behind.size(segments).plus(Size(1, 0))


class CopiesNothingApart(Wrapped):
    """Copies results as if each of them directly followed its call."""

    def copied_events(self, after: Mapping[str, int]) -> Iterator[CopiedEvent]:
        return (replace(event, apart=False) for event in self._behind.copied_events(after))


class KeepsFolds(Wrapped):
    """Keeps the stored segments of an agent when it takes over operations from another store."""

    def take_events(self, events: Sequence[CopiedEvent]) -> None:
        caches = [self._behind.head(agent).cache for agent in {event.agent for event in events}]
        self._behind.take_events(events)
        for cache in caches:
            if cache is not None:
                self._behind.save_fold(*cache)


class NumbersAnew(Wrapped):
    """Assigns ids that another store has already assigned."""

    def take_memos(self, memos: Sequence[CopiedMemo]) -> None:
        """Ignore the number of the newest memo if that was removed."""
        self._behind.take_memos([memo for memo in memos if not memo.is_removed])


class SeesNoDamage(SqliteStore):
    """Reports no damage."""

    def damage(self) -> Iterator[str]:
        return iter(())


class WritesLater(Broken):
    """In another process: claims to have stored an event before it has, and stores it only when it is closed."""

    _held: ExitStack | None = None

    @contextmanager
    def write(self) -> Iterator[Any]:
        if self._held is None and parent_process() is not None:
            self._held = ExitStack()
            self._held.enter_context(SqliteStore.write(self))
        with SqliteStore.write(self) as transaction:
            yield transaction


def _fields(draft: Draft) -> dict[str, Any]:
    return {name: getattr(draft, name) for name in draft.__struct_fields__}


def _rounded(value: Any) -> Any:
    match value:
        case dict():
            return {key: _rounded(item) for key, item in value.items()}
        case list():
            return [_rounded(item) for item in value]
        case int() if abs(value) > 2**53:
            return int(float(value))
    return value


def broken(wrapper: type[Wrapped]) -> type[SqliteStore]:
    """Return a store class whose moments and transactions are wrapped in `wrapper`."""
    return type(wrapper.__name__, (Broken,), {"wrapper": wrapper})


RANDOM = "test_random_histories_are_answered_as_by_the_oracle"
STORED = "test_any_event_is_read_as_it_was_stored"
COPIED = "test_copies_go_there_and_back"
KILLED = "test_a_process_killed_at_any_moment_loses_no_acknowledged_event"
FOUND_OUT: list[tuple[type[SqliteStore], str, dict[str, Any]]] = [
    (broken(LosesTheLast), STORED, {}),
    (broken(LosesTheLast), RANDOM, {}),
    (broken(IgnoresExpected), RANDOM, {}),
    (broken(CutsAtNul), STORED, {}),
    (broken(RoundsNumbers), STORED, {}),
    (broken(KeepsHeads), RANDOM, {}),
    (broken(TellsIdsBackwards), RANDOM, {}),
    (ShowsLateEverywhere, "test_two_processes_never_interleave", {}),
    (broken(FindsLaterMemos), RANDOM, {}),
    (broken(SkipsBetweenPages), RANDOM, {}),
    (broken(TellsNoEnds), RANDOM, {}),
    (broken(ForgetsAfter), RANDOM, {}),
    (CommitsHalf, RANDOM, {}),
    (ReadsAnew, "test_a_moment_does_not_change", {}),
    (broken(UndoesNothing), "test_a_rollback_calls_the_registered_undo_functions", {}),
    (broken(AsksNoJudge), RANDOM, {}),
    (broken(StopsAtTheLimit), RANDOM, {}),
    (broken(IgnoresUntil), RANDOM, {}),
    (broken(SeesNothingBeside), RANDOM, {}),
    (broken(DeliversTwice), RANDOM, {}),
    (broken(DeliversTwice), "test_mail_is_carried_exactly_once", {}),
    (broken(OwnClock), "test_the_clock_is_the_databases", {}),
    (broken(ShowsNoLease), RANDOM, {}),
    (broken(ShowsNoLease), "test_only_one_of_two_runtimes_takes_a_lease", {}),
    (broken(ErasesNothing), RANDOM, {}),
    (broken(CountsOneMore), "test_long_logs_are_read_in_pages", {"count": 1}),
    (broken(AsksOneByOne), "test_reading_takes_a_fixed_number_of_statements", {}),
    (broken(CopiesNothingApart), COPIED, {}),
    (broken(KeepsFolds), COPIED, {}),
    (broken(NumbersAnew), COPIED, {}),
    (SeesNoDamage, "test_planted_damage_is_found", {"damage": Damage.SUM}),
    (WritesLater, KILLED, {}),
]


def run(folder: Path, kind: type[SqliteStore], name: str, given: dict[str, Any]) -> None:
    """Run one test of the contract over a store of this class."""
    harness, test = SqliteHarness(folder, kind), getattr(StoreContract(), name)
    wanted = inspect.signature(test).parameters
    with (
        closing(harness.fresh()) as store,
        closing(harness.open(store.address)) as other,
        closing(harness.fresh()) as target,
    ):
        compared = ComparedStore(store, MemoryStore())
        fixtures = {"harness": harness, "store": store, "other": other, "target": target, "compared": compared}
        agents = {name: root(store) for name in ("agent",) if name in wanted}
        test(**{key: value for key, value in fixtures.items() if key in wanted}, **agents, **given)


@pytest.mark.parametrize(("kind", "name", "given"), FOUND_OUT, ids=lambda each: getattr(each, "__name__", ""))
def test_the_contract_detects_a_broken_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[SqliteStore], name: str, given: dict[str, Any]
) -> None:
    test = getattr(StoreContract, name)

    def search() -> None:
        """Any failing example is enough: the search for the smallest takes seconds. Random examples are short, and most
        of them find the fault; the long ones of the contract are for the others."""
        found = test._hypothesis_internal_use_settings
        for phase in (Phase.generate, Phase.explicit):
            monkeypatch.setattr(test, "_hypothesis_internal_use_settings", settings(found, phases=[phase]))
            (folder := tmp_path / phase.name).mkdir()
            run(folder, kind, name, given)

    with pytest.raises((AssertionError, pytest.fail.Exception, StoreError)):  # a copy itself sees that it differs
        search() if name in (RANDOM, STORED, COPIED) else run(tmp_path, kind, name, given)


SLOW = (RANDOM, KILLED, COPIED)
WHOLE = {name: (name, given) for _, name, given in FOUND_OUT if name not in SLOW}


@pytest.mark.parametrize("which", sampled([*WHOLE], 15))
def test_a_store_without_a_fault_passes_these_tests(tmp_path: Path, which: str) -> None:
    run(tmp_path, Broken, *WHOLE[which])


def test_the_contract_calls_every_method_of_a_store() -> None:
    """A copy, which calls some of them, is compared call by call."""
    package = Path(foldmark.__file__).parent
    every = [each for folder in ("testing", "copying") for each in (package / folder).rglob("*.py")]
    sources = [each for each in every if each.name not in ("memory.py", "memory_search.py")]
    text = "".join(each.read_text(encoding="utf-8") for each in sources)
    called = {*re.findall(r"\.(\w+)\(", text)}
    methods = {
        name for protocol in (Snapshot, Transaction, LogIndex, Watch) for name in dir(protocol) if name[0] != "_"
    }
    assert methods - called == set()
    assert len(methods) > 40
