"""The number of statements does not grow with the history or with the number of ids [SPEC 3, L3].

BEGIN, COMMIT, ROLLBACK and savepoints do not count.
"""

from collections.abc import Callable, Sequence
from typing import Any

from foldmark import Agent, Log
from foldmark.app import open_over
from foldmark.core import selections
from foldmark.core.events import Draft
from foldmark.core.ports import OPENERS, Snapshot, Store
from foldmark.core.search import Hit, LogIndex, SearchScope, TermQuery
from foldmark.core.segments import END, Segment
from foldmark.request.recorded import newest_requests
from foldmark.request.standing import end_of
from foldmark.testing.compared import terms_of
from foldmark.testing.suite import Harness, Suite, append, draft, hashed, save_memo

BETWEEN = ("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE")
"""Prefixes of statements that are not counted."""

Reading = Callable[[Snapshot, str, Sequence[int]], Any]
"""Reads from a moment, given an agent and the ids of its messages."""


def _all(agent: str) -> tuple[Segment]:
    return (Segment(agent, 1, END),)


def _each(ids: Sequence[int], agent: str) -> tuple[Segment, ...]:
    return tuple(Segment(agent, id, id) for id in ids)


def _hits(moment: Snapshot, ids: Sequence[int]) -> list[Hit]:
    index = moment.index(SearchScope())
    index.around(ids, 2)
    return index.hits(ids)


TERMS = terms_of("question answer")


def _best(index: LogIndex) -> list[int]:
    """Make the first query of a search, which ranks only counted words."""
    index.counted(TERMS)
    return index.best([TermQuery("any", [each]) for each in TERMS], 500)


AT_ONCE: dict[str, Reading] = {
    "head": lambda moment, agent, ids: moment.head(agent),
    "agents": lambda moment, agent, ids: moment.agents(),
    "overview": lambda moment, agent, ids: moment.overview(),
    "event": lambda moment, agent, ids: selections.event(moment, ids[0]),
    "events": lambda moment, agent, ids: moment.events(ids),
    "lookup": lambda moment, agent, ids: moment.lookup(ids),
    "surroundings": lambda moment, agent, ids: moment.index(SearchScope()).surroundings(ids, 3),
    "outlines": lambda moment, agent, ids: moment.outlines([each.id for each in moment.agents()]),
    "head until": lambda moment, agent, ids: moment.head(agent, until=ids[-1]),
    "all messages": lambda moment, agent, ids: list(moment.select(_all(agent), expected=1000)),
    "all ids": lambda moment, agent, ids: list(moment.locate(_all(agent), expected=1000)),
    "counted": lambda moment, agent, ids: moment.index(SearchScope()).counted(TERMS),
    "counted and best": lambda moment, agent, ids: _best(moment.index(SearchScope())),
    "passing": lambda moment, agent, ids: moment.index(SearchScope()).passing(ids),
    "hits": lambda moment, agent, ids: _hits(moment, ids),
    "turns": lambda moment, agent, ids: moment.turns(ids),
    "results": lambda moment, agent, ids: moment.results(moment.lookup(ids)),
    "next to": lambda moment, agent, ids: moment.next_to(moment.lookup(ids), 3),
    "operations": lambda moment, agent, ids: selections.operations(moment, agent),
    "events after": lambda moment, agent, ids: selections.events_after(moment, agent, 0, 1000),
    "changes": lambda moment, agent, ids: moment.changes(moment.changes(None, 1).cursor, 1000),
    "newest": lambda moment, agent, ids: selections.newest(moment, "state", _each(ids, agent)),
    "recent": lambda moment, agent, ids: selections.recent(moment, "state", agent, END, 5),
    "of a kind": lambda moment, agent, ids: selections.ids(moment, "state", _all(agent)),
    "size": lambda moment, agent, ids: moment.size(_each(ids, agent)),
    "bounds": lambda moment, agent, ids: moment.bounds(_each(ids, agent)),
    "opened": lambda moment, agent, ids: selections.ids(moment, OPENERS, _all(agent)),
    "message before": lambda moment, agent, ids: selections.message_before(moment, agent, ids[-1]),
    "waiting": lambda moment, agent, ids: selections.waiting(moment, agent),
    "calls": lambda moment, agent, ids: moment.calls(agent, "c0-0"),
    "apart": lambda moment, agent, ids: selections.apart_results(moment, agent, ids[0]),
    "tombstones": lambda moment, agent, ids: list(selections.tombstones(moment, _each(ids, agent))),
    "newest requests": lambda moment, agent, ids: newest_requests(moment, agent, 5),
    "memos": lambda moment, agent, ids: moment.memos_with([(["question"], id) for id in ids], 5),
    "unread": lambda moment, agent, ids: selections.unread(moment, agent),
    "lease": lambda moment, agent, ids: moment.lease(agent),
    "end": lambda moment, agent, ids: end_of(moment, agent),
    "agent": lambda moment, agent, ids: moment.agent(agent),
    "named": lambda moment, agent, ids: moment.agents(name="3"),
    "children": lambda moment, agent, ids: moment.agents(parent=agent),
    "message after": lambda moment, agent, ids: selections.message_after(moment, agent, ids[0]),
    "newest memos": lambda moment, agent, ids: moment.memos(5),
    "tagged memos": lambda moment, agent, ids: moment.memos(5, tags=["a", "b"]),
    "texts": lambda moment, agent, ids: moment.kept_texts(hashed(*map(str, ids))),
}
"""Reads that take a fixed number of statements."""

MOST: dict[str, int] = {
    "changes": 2,
    "outlines": 2,
    "results": 2,
    "next to": 2,
    "memos": 3,
    "counted and best": 2,
    "newest memos": 2,
    "tagged memos": 2,
}
"""The maximum number of statements of these reads, if it is not 1: "outlines" first lists agents; "results" and
"next to" look up messages."""


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
        too_many = {}
        for turns in (3, 60):
            agent, ids = agent_with_turns(store, turns)
            with store.read() as moment:
                for name, reading in AT_ONCE.items():
                    reading(moment, agent, ids)  # fills the caches: each agent may be looked up once
                    taken = count(harness, store, lambda: reading(moment, agent, ids))  # noqa: B023
                    if taken > MOST.get(name, 1):
                        too_many[name, turns] = taken
        assert too_many == {}

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
        with store.read() as moment:
            for newest_first in (False, True):
                every = count(harness, store, lambda: list(moment.select(_all(agent), newest_first=newest_first)))  # noqa: B023
                assert every <= 1 + len(ids) // 50
                one = count(harness, store, lambda: next(moment.select(_all(agent), newest_first=newest_first)))  # noqa: B023
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
