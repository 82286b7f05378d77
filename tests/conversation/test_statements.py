"""How many statements an operation takes (SPEC 3, L3): no more for more messages, turns or ids.

BEGIN, COMMIT and savepoints do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import foldmark
from foldmark import Agent, Log
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


def test_a_search_however_much_it_finds(log: Log) -> None:
    found = []
    for turns in (4, 40, 80):
        agent, _ = grown(log, turns, name=f"{turns}")
        found.append(statements(log, lambda: log.search(f"question {turns}", limit=40)))  # noqa: B023
        assert log.search(f"answer {turns - 1}")[0].agent_id == agent.id
    assert max(found) <= 25
