"""The number of statements does not grow with the history or with the number of ids [SPEC 3, L3].

BEGIN, COMMIT, ROLLBACK and savepoints do not count.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

from foldmark import Agent, Log
from foldmark.app import open_over
from foldmark.core.events import Draft
from foldmark.core.ports import ERASED, MESSAGES, WAITING, Store
from foldmark.core.search import SearchScope, TermQuery
from foldmark.core.segments import END, Segment
from foldmark.testing.compared import ask_all, terms_of
from foldmark.testing.suite import Harness, Suite, append, draft, hashed, save_memo

BETWEEN = ("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE")
"""Prefixes of statements that are not counted."""

MOST = {"memos": 2, "memos_with": 3, "events": 2, "lookup": 2, "turns": 2, "copied_events": 8}
"""The maximum number of statements of a method, if it is not 1: events that do not exist may take another one, and
events to copy come in pages."""


class Counted:
    """A moment or an index. The most statements that a call of each method took are in `taken`; the first call with
    some arguments may look up each agent once. Messages are read in one page."""

    def __init__(self, behind: Any, count: Callable[[Callable[[], object]], int], taken: dict[str, int]) -> None:
        self._behind, self._count, self.taken = behind, count, taken

    def __getattr__(self, name: str) -> Any:
        def ask(*given: Any, **named: Any) -> Any:
            more = {**named, "expected": 10_000} if name in ("select", "locate") else named
            found = self._asked(name, *given, **more)
            number = self._count(lambda: self._asked(name, *given, **more))
            self.taken[name] = max(number, self.taken.get(name, 0))
            return found

        return ask

    def _asked(self, name: str, /, *given: Any, **named: Any) -> Any:
        found = getattr(self._behind, name)(*given, **named)
        return list(found) if isinstance(found, Iterator) else found

    def index(self, scope: SearchScope) -> Any:
        """Count the calls of an index."""
        return Counted(self._behind.index(scope), self._count, self.taken)


def ask_much(moment: Any, agent: str, ids: Sequence[int]) -> None:
    """Ask a moment about many events at once."""
    each, said = tuple(Segment(agent, id, id) for id in ids), moment.lookup(ids)
    for what in (MESSAGES, "state", ERASED, WAITING):
        moment.select(each, what)
        moment.locate(each, what)
    for ask in (moment.events, moment.turns, lambda ids: moment.kept_texts(hashed(*map(str, ids)))):
        ask(ids)
    for about in (moment.size, moment.bounds):
        about(each)
    moment.results(said)
    moment.next_to(said, 3)
    moment.memos_with([(["question"], id) for id in ids], 5)
    moment.changes(moment.changes(None, 1).cursor, 1000)
    index, terms = moment.index(SearchScope()), terms_of("question answer")
    index.counted(terms)
    index.best([TermQuery("any", [term]) for term in terms], 500)
    index.around(ids, 2)
    for ask in (index.hits, index.passing, lambda ids: index.surroundings(ids, 3)):
        ask(ids)


def count(harness: Harness, store: Store, act: Callable[[], object]) -> int:
    """Return the number of statements that `act` runs."""
    with harness.counting(store) as statements:
        act()
    return sum(not text.lstrip().upper().startswith(BETWEEN) for text in statements)


def agent_with_turns(store: Store, turns: int) -> tuple[str, list[int]]:
    """Return a new agent with `turns` turns, each with a call and its result, and the ids of all its messages."""
    agent, _ = named_agent_with_turns(open_over(store), turns, name=f"{turns}")
    return agent.id, [message.id for message in agent.context().messages]


class Budgets(Suite):
    """The budgets of the store's methods."""

    def test_reading_takes_a_fixed_number_of_statements(self, store: Store, harness: Harness) -> None:
        save_memo(store, "question")
        for turns in (3, 60):
            agent, ids = agent_with_turns(store, turns)
            with store.read() as moment:
                some, many = (Counted(moment, partial(count, harness, store), {}) for _ in range(2))
                ask_all(some, [agent], Random(turns))
                ask_much(many, agent, ids)
            assert {name: number for name, number in some.taken.items() if number > MOST.get(name, 1)} == {}
            assert {name for name, number in many.taken.items() if number > 1} <= {"memos_with"}

    def test_a_head_takes_one_statement_without_any_cache(self, store: Store, other: Store, harness: Harness) -> None:
        agent, _ = agent_with_turns(store, 3)
        with other.read() as moment:
            assert count(harness, other, lambda: moment.head(agent)) == 1

    def test_an_append_takes_no_more_statements_after_a_long_history(self, store: Store, harness: Harness) -> None:
        found = set()
        for turns in (3, 60):
            agent, _ = agent_with_turns(store, turns)
            found.add(count(harness, store, lambda: append(store, agent, draft())))  # noqa: B023
            many = count(harness, store, lambda: append(store, agent, *[draft()] * 20))  # noqa: B023
            assert many <= 20 * max(found)
        assert len(found) == 1
        assert found.pop() <= 12

    def test_messages_are_read_in_pages(self, store: Store, harness: Harness) -> None:
        agent, ids = agent_with_turns(store, 150)
        own = (Segment(agent, 1, END),)
        with store.read() as moment:
            for newest_first in (False, True):
                every = count(harness, store, lambda: list(moment.select(own, newest_first=newest_first)))  # noqa: B023
                assert every <= 1 + len(ids) // 50
                one = count(harness, store, lambda: next(moment.select(own, newest_first=newest_first)))  # noqa: B023
                assert one == 1


def named_agent_with_turns(log: Log, turns: int, calls: int = 1, name: str = "default") -> tuple[Agent, list[int]]:
    """Return an agent with `turns` turns of `calls` parallel calls each, and the ids of these turns.

    These are the events that the agent would record, but appended turn by turn, which takes a fraction of the time.
    """
    agent, openers, end = log.agent(name).id, list[int](), list[Draft]()
    with log.store.write() as writing:
        for number in range(turns):
            begin = [draft(content=f"Question {number}", dialect="openai")]
            datas = [{"call_id": f"c{number}-{each}"} for each in range(calls)]
            for data in datas:
                wanted = {**data, "name": "look"}
                begin.append(draft("tool_call", f'{{"at":{number}}}', data=wanted, dialect="openai", actor="model"))
            opener, *asked = writing.append(agent, None, [*end, *begin])[len(end) :]
            openers.append(opener)
            end = [
                draft("tool_result", f"Result {number}", data=data, answers=id, dialect="openai", actor="system")
                for data, id in zip(datas, asked, strict=True)
            ]
            end.append(draft("assistant", f"Answer {number}", dialect="openai", actor="model"))
            end += [draft("state", f"Goal: {number}", actor="system"), draft("turn_ended", "", actor="system")]
        writing.append(agent, None, end)
    return log.agent(name), openers
