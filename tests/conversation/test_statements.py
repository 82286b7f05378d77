"""How many statements an operation takes (SPEC 3, L3): no more for more messages, turns or ids.

BEGIN, COMMIT and savepoints do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import foldmark
from foldmark import Agent, Log
from foldmark.core.codec import utc
from foldmark.core.ports import Hit
from foldmark.core.recall import Filters
from foldmark.log import memos

BETWEEN = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")


@pytest.fixture
def log() -> Iterator[Log]:
    with foldmark.open(":memory:", settings={}) as log:
        yield log


def grown(log: Log, turns: int, calls: int = 1, name: str = "default") -> tuple[Agent, list[int]]:
    """An agent with so many turns, which are returned, each with so many parallel calls."""
    agent, found = log.agent(name), []
    with agent.batch():
        for number in range(turns):
            found.append(agent.append("user", f"Question {number}"))
            ids = [f"c{number}-{each}" for each in range(calls)]
            for call in ids:
                agent.append_tool_call("look", {"at": number}, call_id=call, dialect="openai")
            for call in ids:
                agent.append_tool_result(call, f"Result {number}", dialect="openai")
            agent.append("assistant", f"Answer {number}")
            agent.record("state", f"Goal: {number}")
            agent.end_turn()
    return agent, found


def statements(log: Log, act: Callable[[], object]) -> int:
    """How many statements `act` runs."""
    ran: list[str] = []

    def trace(_: object, sql: str, __: object) -> bool:
        ran.append(sql)
        return True

    log.store._db.exec_trace = trace  # type: ignore[attr-defined]
    try:
        act()
    finally:
        log.store._db.exec_trace = None  # type: ignore[attr-defined]
    return sum(not sql.lstrip().upper().startswith(BETWEEN) for sql in ran)


def test_where_an_agent_stands_and_its_settings(log: Log) -> None:
    agent, _ = grown(log, 5)
    agent.configure("system", "Be brief.")
    assert statements(log, lambda: agent.standing().config) == 1
    assert agent.standing().config.system == "Be brief."


@pytest.mark.parametrize("line", ["/mark here", "/config set memos_injected=2"])
def test_a_command_that_changes_no_message(log: Log, line: str) -> None:
    agent, _ = grown(log, 5)
    assert statements(log, lambda: agent.do(line)) <= 6


@pytest.mark.parametrize("calls", [1, 12])
def test_a_drop(log: Log, calls: int) -> None:
    agent, turns = grown(log, 20, calls)
    for some in (turns[1:3], turns[5:17]):
        line = f"/context drop {' '.join(map(str, some))}"
        assert statements(log, lambda: agent.do(line)) <= 10  # noqa: B023


@pytest.mark.parametrize("mode", ["forget", "remember"])
def test_a_filter_of_any_size(log: Log, mode: str) -> None:
    found = set()
    for size in (20, 200, 2000):
        agent, _ = grown(log, size // 2, name=f"{mode} {size}")
        ids = [message.id for message in agent.context().messages][:size]
        found.add(statements(log, lambda: agent.apply_filter(mode, ids)))  # noqa: B023
    assert len(found) == 1
    assert found.pop() <= (12 if mode == "forget" else 14)


def test_a_filter_of_one_call_among_thousands(log: Log) -> None:
    """More messages around it are read with each statement, so that there are few."""
    agent, _ = grown(log, 1, calls=3000)
    call = next(message.id for message in agent.context().messages if message.kind == "tool_call")
    assert statements(log, lambda: agent.apply_filter("forget", [call + 1500])) <= 20
    assert [message.kind for message in agent.context().messages] == ["user", "assistant"]


@pytest.mark.parametrize(("policy", "most"), [("steady", 23), ("eager", 10)])
def test_a_request_whatever_came_since_its_boundary(log: Log, policy: str, most: int) -> None:
    memos.save(log.agent("other"), "Question 3 is about results.", (), "human")
    found = []
    for turns in (4, 30, 60):
        agent, _ = grown(log, turns, name=f"{policy} {turns}")
        agent.configure("context_policy", policy)
        agent.append("user", "What is the result of question 3?")
        found.append(statements(log, lambda: agent.request("openai", "gpt-5")))  # noqa: B023
    assert max(found) <= most
    assert max(found) - min(found) <= 4  # pages of messages


@pytest.fixture(params=[(1, 2), (3, 40), (30, 6)], ids=lambda size: f"{size[0]} conversations of {size[1]} turns")
def conversations(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    """Conversations of a file that was just opened, so that nothing of them is known yet; the first has a fork."""
    number, turns = request.param
    with foldmark.open(tmp_path / "log.db", settings={}) as log:
        for name in range(number):
            agent, (*_, last) = grown(log, turns, name=f"c{name}")
            agent.do(f"/context drop {last}")
        log.agent("c0").do("/fork")
    with foldmark.open(tmp_path / "log.db", settings={}) as log:
        yield log


@pytest.mark.parametrize(
    ("filters", "most"),
    [
        (Filters(), 5),
        (Filters(role="user", since=utc("2020-01-01")), 5),
        (Filters(visible=True), 5),
        (Filters(visible=False), 5),
        (Filters(agent="c0"), 6),
        (Filters(project="c"), 6),
    ],
)
def test_a_search_however_much_it_finds(conversations: Log, filters: Filters, most: int) -> None:
    """Which embeddings there are, how many messages hold each word, the best, their agents, what stands around them;
    and before that the agents, where a filter names some."""
    found: list[Hit] = []
    assert statements(conversations, lambda: found.extend(conversations.search("question 1", 40, filters))) == most
    assert len({hit.agent_id for hit in found}) == (1 if filters.agent else len(conversations.agents()) - 1)
    assert statements(conversations, lambda: conversations.search("What is question 1?", 40, filters)) == most


@pytest.mark.parametrize(
    ("line", "most"),
    [
        ("/recall question 1", 8),
        ("/recall --limit 200 question answer result", 8),
        ("/recall --role user question 1", 7),
        ("/recall --forgotten question 1", 8),  # most of the best are in a context: more are read
        ("/recall --agent c0 question 1", 8),
    ],
)
def test_a_recall_however_much_it_finds(conversations: Log, line: str, most: int) -> None:
    """Beside those of a search, memos unless a filter rules them out, where the hits stand, and their agents again."""
    agent = conversations.agent("c0")
    assert statements(conversations, lambda: agent.do(line)) <= most
    assert agent.do(line).data["runs"]
    (fork,) = agent.children
    assert fork.standing().visible  # what it was born with is read once
    assert statements(conversations, lambda: fork.do(line)) <= most


def test_a_search_of_which_most_is_left_out(log: Log) -> None:
    """The best 120 are all of a planning conversation."""
    agent = log.agent("default")
    said = [agent.append("user", "A zebra stood among the other animals of the herd.") for _ in range(3)]
    agent.end_turn()
    with agent.batch():
        agent.do("/forget zebra")
        for _ in range(200):
            agent.append("user", "zebra")
    found: list[Hit] = []
    assert statements(log, lambda: found.extend(log.search("zebra"))) == 6
    assert sorted(hit.event_id for hit in found) == said


@pytest.mark.parametrize("budget", [2, 45])
def test_a_search_for_common_words(log: Log, monkeypatch: pytest.MonkeyPatch, budget: int) -> None:
    monkeypatch.setattr("foldmark.recall.searching.BUDGET", budget)
    for name in range(3):
        grown(log, 40, name=f"{name}")
    assert statements(log, lambda: log.search("question 7")) <= 6
    assert statements(log, lambda: log.search("question answer 7")) <= 6
