"""How many statements reading and writing take: no more for a longer history, nor for more ids at once [SPEC 3, L3].

BEGIN, COMMIT, ROLLBACK and savepoints do not count.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from foldmark import Agent, Log
from foldmark.app import open_over
from foldmark.core.ports import Snapshot, Store
from foldmark.core.segments import END, Segment
from foldmark.testing.harness import Harness
from foldmark.testing.suite import NOW, Suite, append, call, draft, result, root

BETWEEN = ("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE")
"""How statements begin that do not count."""

Reading = Callable[[Snapshot, str, Sequence[int]], Any]
"""Reads of a moment, given an agent and ids of its messages."""


def _all(agent: str) -> tuple[Segment]:
    return (Segment(agent, 1, END),)


def _each(ids: Sequence[int], agent: str) -> tuple[Segment, ...]:
    return tuple(Segment(agent, id, id) for id in ids)


AT_ONCE: dict[str, Reading] = {
    "head": lambda moment, agent, ids: moment.head(agent),
    "agents": lambda moment, agent, ids: moment.agents(),
    "overview": lambda moment, agent, ids: moment.overview(),
    "event": lambda moment, agent, ids: moment.event(ids[0]),
    "events": lambda moment, agent, ids: moment.events(ids),
    "lookup": lambda moment, agent, ids: moment.lookup(ids),
    "hits": lambda moment, agent, ids: moment.hits(ids),
    "turns": lambda moment, agent, ids: moment.turns(ids),
    "results": lambda moment, agent, ids: moment.results(moment.lookup(ids)),
    "next to": lambda moment, agent, ids: moment.next_to(moment.lookup(ids), 3),
    "operations": lambda moment, agent, ids: moment.operations(agent),
    "events after": lambda moment, agent, ids: moment.events_after(agent, 0, 1000),
    "changes": lambda moment, agent, ids: moment.changes(moment.changes(None, 1).cursor, 1000),
    "newest": lambda moment, agent, ids: moment.newest("state", _each(ids, agent)),
    "recent": lambda moment, agent, ids: moment.recent("state", agent, END, 5),
    "of a kind": lambda moment, agent, ids: moment.of_kind("state", _all(agent)),
    "size": lambda moment, agent, ids: moment.size(_each(ids, agent)),
    "weight": lambda moment, agent, ids: moment.weight(_each(ids, agent)),
    "bounds": lambda moment, agent, ids: moment.bounds(_each(ids, agent)),
    "opened": lambda moment, agent, ids: moment.opened(_all(agent)),
    "turns after": lambda moment, agent, ids: moment.turns_after(agent, 0, 10),
    "message before": lambda moment, agent, ids: moment.message_before(agent, ids[-1]),
    "waiting": lambda moment, agent, ids: moment.waiting(agent),
    "calls": lambda moment, agent, ids: moment.calls(agent, "c1"),
    "apart": lambda moment, agent, ids: moment.apart_results(agent, ids[0]),
    "tombstones": lambda moment, agent, ids: moment.tombstones(_each(ids, agent)),
    "newest sent": lambda moment, agent, ids: moment.newest_sent(agent, 5),
    "memos": lambda moment, agent, ids: moment.memos_with([(["deploy"], id) for id in ids], 5),
    "unread": lambda moment, agent, ids: moment.unread(agent),
    "lease": lambda moment, agent, ids: moment.lease(agent),
    "end": lambda moment, agent, ids: moment.end(agent),
}
"""Everything that is read with a fixed number of statements."""

MOST: dict[str, int] = {"changes": 2, "results": 2, "next to": 2, "memos": 3}
"""How many, where it is more than one; a lookup is among those of "results" and "next to"."""


def count(harness: Harness, store: Store, act: Callable[[], object]) -> int:
    """How many statements `act` runs."""
    with harness.counting(store) as statements:
        act()
    return sum(not text.lstrip().upper().startswith(BETWEEN) for text in statements)


def spoken(store: Store, turns: int) -> tuple[str, list[int]]:
    """An agent with so many turns, each with a call and its result, and the ids of all its messages."""
    agent, ids = root(store), []
    with store.write() as writing:
        for number in range(turns):
            opener, asked = writing.append(agent, None, [draft(content=f"deploy {number}"), call("c1")])
            (answer,) = writing.append(agent, None, [result("c1", asked)])
            (text, *_) = writing.append(
                agent, None, [draft("assistant", "quartz"), draft("state", f"{number}"), draft("turn_ended", "")]
            )
            ids += [opener, asked, answer, text]
    return agent, ids


class Budgets(Suite):
    """Of the store by itself, and of what people do with it."""

    def test_reading_takes_a_fixed_number_of_statements(self, store: Store, harness: Harness) -> None:
        with store.write() as writing:
            writing.save_memo("deploy", (), None, "human", NOW)
        too_many = {}
        for turns in (3, 60):
            agent, ids = spoken(store, turns)
            with store.read() as moment:
                for name, reading in AT_ONCE.items():
                    reading(moment, agent, ids)  # what a store keeps of an agent, it may read once
                    taken = count(harness, store, lambda: reading(moment, agent, ids))  # noqa: B023
                    if taken > MOST.get(name, 1):
                        too_many[name, turns] = taken
        assert too_many == {}

    def test_a_head_takes_one_statement_of_who_knows_nothing_of_the_agent(
        self, store: Store, other: Store, harness: Harness
    ) -> None:
        agent, _ = spoken(store, 3)
        with other.read() as moment:
            assert count(harness, other, lambda: moment.head(agent)) == 1

    def test_appending_takes_no_more_behind_a_long_history(self, store: Store, harness: Harness) -> None:
        found = set()
        for turns in (3, 60):
            agent, _ = spoken(store, turns)
            found.add(count(harness, store, lambda: append(store, agent, draft())))  # noqa: B023
            many = count(harness, store, lambda: append(store, agent, *[draft()] * 20))  # noqa: B023
            assert many <= 20 * max(found)
        assert len(found) == 1
        assert found.pop() <= 12

    def test_messages_are_read_in_pages(self, store: Store, harness: Harness) -> None:
        agent, ids = spoken(store, 150)
        with store.read() as moment:
            for newest_first in (False, True):
                every = count(harness, store, lambda: list(moment.messages(_all(agent), newest_first=newest_first)))  # noqa: B023
                assert every <= 1 + len(ids) // 50
                one = count(harness, store, lambda: next(moment.messages(_all(agent), newest_first=newest_first)))  # noqa: B023
                assert one == 1

    # What people do: the budgets of the specification's operations, in any store

    def test_where_an_agent_stands_takes_one_statement(self, store: Store, harness: Harness) -> None:
        log = open_over(store)
        agent, _ = grown(log, 5)
        agent.configure("system", "Be brief.")
        assert count(harness, store, lambda: agent.standing().config) == 1
        assert agent.standing().config.system == "Be brief."

    @pytest.mark.parametrize("line", ["/mark here", "/config set memos_injected=2"])
    def test_a_command_that_changes_no_message(self, store: Store, harness: Harness, line: str) -> None:
        agent, _ = grown(open_over(store), 5)
        assert count(harness, store, lambda: agent.do(line)) <= 6

    @pytest.mark.parametrize("calls", [1, 12])
    def test_a_drop(self, store: Store, harness: Harness, calls: int) -> None:
        agent, turns = grown(open_over(store), 20, calls)
        for some in (turns[1:3], turns[5:17]):
            line = f"/context drop {' '.join(map(str, some))}"
            assert count(harness, store, lambda: agent.do(line)) <= 10  # noqa: B023

    @pytest.mark.parametrize("mode", ["forget", "remember"])
    def test_a_filter_of_any_size(self, store: Store, harness: Harness, mode: str) -> None:
        log, found = open_over(store), set()
        for size in (20, 200, 2000):
            agent, _ = grown(log, size // 2, name=f"{mode} {size}")
            ids = [message.id for message in agent.context().messages][:size]
            found.add(count(harness, store, lambda: agent.apply_filter(mode, ids)))  # noqa: B023
        assert len(found) == 1
        assert found.pop() <= (12 if mode == "forget" else 14)

    def test_a_filter_of_one_call_among_thousands(self, store: Store, harness: Harness) -> None:
        """More messages around it are read with each statement, so that there are few."""
        agent, _ = grown(open_over(store), 1, calls=3000)
        middle = [message.id for message in agent.context().messages if message.kind == "tool_call"][1500]
        assert count(harness, store, lambda: agent.apply_filter("forget", [middle])) <= 20
        assert [message.kind for message in agent.context().messages] == ["user", "assistant"]

    @pytest.mark.parametrize(("policy", "most"), [("steady", 23), ("eager", 10)])
    def test_a_request_whatever_came_since_its_boundary(
        self, store: Store, harness: Harness, policy: str, most: int
    ) -> None:
        log, found = open_over(store), []
        with store.write() as writing:
            writing.save_memo("Question 3 is about results.", (), None, "human", NOW)
        for turns in (4, 30, 60):
            agent, _ = grown(log, turns, name=f"{policy} {turns}")
            agent.configure("context_policy", policy)
            agent.append("user", "What is the result of question 3?")
            found.append(count(harness, store, lambda: agent.request("openai", "gpt-5")))  # noqa: B023
        assert max(found) <= most
        assert max(found) - min(found) <= 4  # pages of messages

    def test_a_search_however_much_it_finds(self, store: Store, harness: Harness) -> None:
        log, found = open_over(store), []
        for turns in (4, 40, 80):
            agent, _ = grown(log, turns, name=f"{turns}")
            found.append(count(harness, store, lambda: log.search(f"question {turns}", limit=40)))  # noqa: B023
            assert log.search(f"answer {turns - 1}")[0].agent_id == agent.id
        assert max(found) <= 25


def grown(log: Log, turns: int, calls: int = 1, name: str = "default") -> tuple[Agent, list[int]]:
    """An agent with so many turns, which are returned, each with so many parallel calls."""
    agent, found = log.agent(name), []
    with agent.batch():
        for number in range(turns):
            found.append(agent.append("user", f"Question {number}"))
            ids = [f"c{number}-{each}" for each in range(calls)]
            for each in ids:
                agent.append_tool_call("look", {"at": number}, call_id=each, dialect="openai")
            for each in ids:
                agent.append_tool_result(each, f"Result {number}", dialect="openai")
            agent.append("assistant", f"Answer {number}")
            agent.record("state", f"Goal: {number}")
            agent.end_turn()
    return agent, found
