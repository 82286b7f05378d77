"""`recall` as the model's tool: what `/recall` finds, with ids, and no echo of itself (SPEC 4.1, 7)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import foldmark
from foldmark import Agent, CommandError, Log


@pytest.fixture
def log() -> Iterator[Log]:
    with foldmark.open(":memory:", settings={}) as log:
        yield log


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("root")


def say(agent: Agent, *texts: str) -> list[int]:
    ids = []
    for text in texts:
        ids.append(agent.append("user", text))
        agent.end_turn()
    return ids


def recall(agent: Agent, query: str) -> str:
    return agent.call_tool("recall", {"query": query})


def test_it_answers_as_a_person_is_answered_with_ids(agent: Agent) -> None:
    (first,) = say(agent, "The zebra crossing is closed.")
    person = agent.do("/recall zebra").text.splitlines()
    model = recall(agent, "zebra").splitlines()
    assert model == [*person, f"    messages {first} in the context"]
    assert "in the context" in model[1]


def test_it_says_where_each_is_and_which_query_db_reads(log: Log, agent: Agent) -> None:
    (gone,) = say(agent, "A zebra that is forgotten.")
    agent.do("/clear")
    (here,) = say(agent, "A zebra that is here.")
    (other,) = say(log.agent("other"), "A zebra elsewhere.")
    said = recall(agent, "zebra").splitlines()
    assert {line.strip() for line in said if line.startswith("    messages")} == {
        f"messages {other} (not of this conversation, query_db has none)",
        f"messages {here} in the context; messages {gone} not in the context",
    }


def test_the_turn_that_goes_on_and_earlier_recalls_are_not_found(agent: Agent) -> None:
    (first,) = say(agent, "The zebra crossing is closed.")
    for number in range(3):
        agent.append("user", "What about the zebra?" if number == 2 else "Hm?")
        agent.append_tool_call("recall", {"query": "zebra"}, call_id=f"c{number}")
        found = recall(agent, "zebra")
        assert found.startswith("Found 1 message in 1 run of turns")
        assert f"messages {first}" in found
        agent.append_tool_result(f"c{number}", found)
        agent.end_turn()


def test_it_changes_nothing(agent: Agent) -> None:
    say(agent, "A zebra.")
    before = agent.context().at
    recall(agent, "zebra")
    assert agent.context().at == before


def test_nothing_found_and_nothing_asked(agent: Agent) -> None:
    assert recall(agent, "zebra") == "Nothing was ever said with a word of: zebra"
    with pytest.raises(CommandError, match="there is no word to search for"):
        recall(agent, "?!")
    with pytest.raises(CommandError, match="recall takes an object with query"):
        agent.call_tool("recall", {})


def test_the_answer_is_bounded(agent: Agent) -> None:
    for number in range(150):
        say(agent, f"zebra {number} " + "and more " * 500, "a", "b", "c")
    found = recall(agent, "zebra")
    assert len(found) < 10_000
    assert "more, in which less was found" in found
