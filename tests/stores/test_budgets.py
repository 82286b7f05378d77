"""The number of statements of commands, requests and searches [SPEC 3, L3].

The contract says that each method of a store takes a fixed number, so these numbers depend on which methods are called.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from foldmark import Log
from foldmark.app import open_over
from foldmark.core.codec import utc
from foldmark.core.ports import Store
from foldmark.core.search import Filters, Hit
from foldmark.operations.effects import Asking
from foldmark.testing import Harness
from foldmark.testing.parts.budgets import count, named_agent_with_turns
from foldmark.testing.suite import root, save_memo, send

SIZES = ((1, 2), (3, 40), (20, 3))
"""Numbers of conversations, and of turns in each of them."""

REQUESTS = (
    *(("steady", "nothing", 5), ("steady", "memos", 7), ("steady", "mail", 7)),
    *(("steady", "children", 11), ("steady", "waiting children", 11)),
    *(("eager", "nothing", 2), ("eager", "memos", 3), ("eager", "mail", 5)),
    *(("eager", "children", 8), ("eager", "waiting children", 8)),
)
"""Policy, content beside the agent's own events, and the maximum number of statements of a request."""

SEARCHES = (
    (Filters(), 5),
    (Filters(role="user", since=utc("2020-01-01")), 5),
    (Filters(visible=True), 5),
    (Filters(visible=False), 5),
    (Filters(agent="c0"), 6),
    (Filters(project="c"), 6),
)

RECALLS = (
    ("/recall question 1", 8),
    ("/recall --limit 200 question answer result", 8),
    ("/recall --role user question 1", 7),
    ("/recall --forgotten question 1", 8),  # most of the best messages are in a context, so more are read
    ("/recall --agent c0 question 1", 8),
)
PLACES = 16
"""Maximum number of statements that say which of an agent's own messages are sent: those of its next request, and one
for its operations."""


@pytest.fixture
def harness(on_each_store: Harness) -> Harness:
    return on_each_store


@pytest.fixture
def store(harness: Harness) -> Iterator[Store]:
    with closing(harness.fresh()) as store:
        yield store


def test_the_standing_of_an_agent_takes_one_statement(store: Store, harness: Harness) -> None:
    log = open_over(store)
    agent, _ = named_agent_with_turns(log, 5)
    agent.configure("system", "Be brief.")
    assert count(harness, store, lambda: agent.standing().config) == 1
    assert agent.standing().config.system == "Be brief."


@pytest.mark.parametrize("turns", [5, 200])
@pytest.mark.parametrize(("line", "most"), [("/mark here", 6), ("/config set memos_injected=2", 20)])
def test_the_statements_of_a_small_command(store: Store, harness: Harness, line: str, most: int, turns: int) -> None:
    """The receipt of a setting compares the next request before and after."""
    agent, _ = named_agent_with_turns(open_over(store), turns)
    assert count(harness, store, lambda: agent.do(line)) <= most


@pytest.mark.parametrize("calls", [1, 12])
def test_the_statements_of_a_drop(store: Store, harness: Harness, calls: int) -> None:
    agent, turns = named_agent_with_turns(open_over(store), 20, calls)
    for some in (turns[1:3], turns[5:17]):
        line = f"/context drop {' '.join(map(str, some))}"
        assert count(harness, store, lambda: agent.do(line)) <= 8  # noqa: B023


@pytest.mark.parametrize("mode", ["forget", "remember"])
def test_a_filter_takes_a_fixed_number_of_statements(store: Store, harness: Harness, mode: str) -> None:
    log, found = open_over(store), set()
    for size in (20, 2000):
        agent, _ = named_agent_with_turns(log, size // 3, name=f"{mode} {size}")
        ids = [message.id for message in agent.context().messages][:size]
        found.add(count(harness, store, lambda: agent.apply_filter(mode, ids)))  # noqa: B023
    assert len(found) == 1
    assert found.pop() <= (12 if mode == "forget" else 13)


def test_the_statements_of_a_filter_of_one_call_among_thousands(store: Store, harness: Harness) -> None:
    """Each statement reads more messages around the call than the previous one, so a few are enough."""
    agent, _ = named_agent_with_turns(open_over(store), 1, calls=2000)
    middle = [message.id for message in agent.context().messages if message.kind == "tool_call"][1000]
    assert count(harness, store, lambda: agent.apply_filter("forget", [middle])) <= 16
    assert [message.kind for message in agent.context().messages] == ["user", "assistant"]


@pytest.mark.parametrize(("policy", "beside", "most"), REQUESTS)
def test_the_statements_of_a_request(store: Store, harness: Harness, policy: str, beside: str, most: int) -> None:
    """Each turn since the boundary records a state. Memos, mail and children add a fixed number of statements."""
    log, found = open_over(store), []
    sender = root(store)
    if beside == "memos":
        for number in range(12):
            save_memo(store, f"Question {number} is about results.")
    for turns in (4, 60):
        agent, _ = named_agent_with_turns(log, turns, name=f"{turns}")
        agent.configure("context_policy", policy)
        if "children" in beside:
            for number in range(turns // 7 + 1):
                child = log.agent(agent.do("/fork").data["child"])
                if beside == "children":
                    child.append("user", f"Begin with question {number}")
        elif beside == "mail":
            send(store, sender, agent.id, *(f"Mail {number}" for number in range(turns)))
        agent.append("user", "What is the result of question 3?")
        found.append(count(harness, store, lambda: agent.request("openai", "gpt-5")))  # noqa: B023
    assert max(found) <= most


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_statements_of_a_search(store: Store, harness: Harness, size: tuple[int, int]) -> None:
    """One statement each for the embedders, the number of messages with each word, the best ones, their outlines
    and their neighbours. A filter that names agents adds one."""
    conversations(open_over(store), *size)
    for filters, most in SEARCHES:
        with closing(harness.open(store.address)) as other:
            log, found = open_over(other), list[Hit]()
            taken = count(harness, other, lambda: found.extend(log.search("question 1", 40, filters)))  # noqa: B023
            assert taken <= most, filters
            assert len({hit.agent_id for hit in found}) == (1 if filters.agent else size[0]), filters
            again = count(harness, other, lambda: log.search("What is question 1?", 40, filters))  # noqa: B023
            assert again <= most, filters


@pytest.mark.parametrize("size", SIZES[:2], ids=str)
def test_the_statements_of_a_recall(store: Store, harness: Harness, size: tuple[int, int]) -> None:
    """Three more than a search: memos (unless a filter excludes them), the turns of the hits, their outlines. Those
    that say where an agent's own hits are do not depend on the hits."""
    conversations(open_over(store), *size)
    for line, most in RECALLS:
        with closing(harness.open(store.address)) as other:
            agent = open_over(other).agent("c0")
            assert count(harness, other, lambda: agent.do(line)) <= most + PLACES, line  # noqa: B023
            assert agent.do(line).data["runs"], line
            (fork,) = agent.children
            assert fork.standing().visible, line  # the birth is read once
            assert count(harness, other, lambda: fork.do(line)) <= most + PLACES, line  # noqa: B023


def test_the_statements_of_a_search_that_excludes_the_best(store: Store, harness: Harness) -> None:
    """The best 120 messages all belong to a planning conversation."""
    log = open_over(store)
    agent = log.agent("default")
    said = [agent.append("user", "A zebra stood among the other animals of the herd.") for _ in range(3)]
    agent.end_turn()
    with agent.batch():
        agent.do("/forget zebra", asking=Asking(in_chat=True))
        for _ in range(200):
            agent.append("user", "zebra")
    found: list[Hit] = []
    assert count(harness, store, lambda: found.extend(log.search("zebra"))) <= 6
    assert sorted(hit.event_id for hit in found) == said


@pytest.mark.parametrize("budget", [2, 45])
def test_the_statements_of_a_search_for_common_words(
    store: Store, harness: Harness, monkeypatch: pytest.MonkeyPatch, budget: int
) -> None:
    monkeypatch.setattr("foldmark.recall.searching.BUDGET", budget)
    log = open_over(store)
    for name in range(3):
        named_agent_with_turns(log, 40, name=f"{name}")
    for query in ("question 7", "question answer 7"):
        assert count(harness, store, lambda: log.search(query)) <= 6  # noqa: B023


def conversations(log: Log, number: int, turns: int) -> None:
    """Create `number` conversations with `turns` turns each, drop the last turn of each, and fork the first."""
    for name in range(number):
        agent, (*_, last) = named_agent_with_turns(log, turns, name=f"c{name}")
        agent.do(f"/context drop {last}")
    log.agent("c0").do("/fork")
