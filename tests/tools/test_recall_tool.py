"""`recall` as the model's tool: the hits of `/recall`, the messages around them, and no echo (SPEC 4.1, 7)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

import foldmark
from foldmark import Agent, CommandError, Log
from foldmark.tools.knowledge import RECALL


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
    assert model == [*person, f"    messages {first} sent"]
    assert "sent" in model[1]


def test_it_says_where_each_is_and_which_query_db_reads(log: Log, agent: Agent) -> None:
    (gone,) = say(agent, "A zebra that is forgotten.")
    agent.do("/clear")
    (here,) = say(agent, "A zebra that is here.")
    (other,) = say(log.agent("other"), "A zebra elsewhere.")
    said = recall(agent, "zebra").splitlines()
    assert {line.strip() for line in said if line.startswith("    messages")} == {
        f"messages {other} of another conversation (around reads them)",
        f"messages {gone} out; messages {here} sent",
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
    assert recall(agent, "zebra") == "No messages match: zebra"
    with pytest.raises(CommandError, match="there is no word to search for"):
        recall(agent, "?!")
    for neither in ({}, {"query": " "}, {"query": "zebra", "around": "1"}, {"query": "", "around": " "}):
        with pytest.raises(CommandError, match="recall takes an object with query, or else with around"):
            agent.call_tool("recall", neither)


def test_the_answer_is_bounded(agent: Agent) -> None:
    for number in range(150):
        say(agent, f"zebra {number} " + "and more " * 500, "a", "b", "c")
    found = recall(agent, "zebra")
    assert len(found) < 10_000
    assert "These are the 20 best" in found


def test_many_recalls_do_not_hide_what_they_found(agent: Agent) -> None:
    (first,) = say(agent, "The zebra crossing is closed, and whatever else there is to be said of crossings today.")
    for number in range(60):
        agent.append("user", "Hm?")
        agent.append_tool_call("recall", {"query": "zebra"}, call_id=f"c{number}")
        agent.append_tool_result(f"c{number}", "zebra")
        agent.end_turn()
    found = agent.call_tool("recall", {"query": "zebra", "limit": 5})
    assert found.startswith("Found 1 message in 1 run of turns")
    assert f"messages {first}" in found


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, {1, 2, 4, 6}),
        ({"role": "user"}, {1, 4, 6}),
        ({"role": "", "since": None, "tool": ""}, {1, 2, 4, 6}),
        ({"agent": "other"}, {6}),
        ({"forgotten": True}, {1, 2}),
        ({"forgotten": False}, {4, 6}),
        ({"before": "2000-01-01"}, set()),
        ({"since": "2000-01-01"}, {1, 2, 4, 6}),
        ({"tool": "grep"}, set()),
    ],
)
def test_filters(log: Log, agent: Agent, filters: dict[str, object], expected: set[int]) -> None:
    agent.append("user", "zebra one")
    agent.append("assistant", "zebra two")
    agent.end_turn()
    (dropped, other) = (say(agent, "zebra four"), say(log.agent("other"), "zebra six"))
    assert (dropped, other) == ([4], [6])
    agent.do("/context drop 1")
    found = agent.call_tool("recall", {"query": "zebra", **filters})
    named = re.findall(r"(?:^    |; )messages ([0-9, ]+) ", found, re.MULTILINE)
    assert {int(id) for ids in named for id in ids.split(", ")} == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "person"},
        {"since": "yesterday"},
        {"limit": 0},
        {"limit": 51},
        {"limit": "5"},
        {"forgotten": "yes"},
        {"conversation": "other"},
        {"agent": ["other"]},
    ],
)
def test_wrong_filters(agent: Agent, wrong: dict[str, object]) -> None:
    with pytest.raises(CommandError):
        agent.call_tool("recall", {"query": "zebra", **wrong})


def test_memos_are_found(agent: Agent) -> None:
    agent.do("/memo add A zebra has stripes #zoo")
    assert "memo 1 [zoo]\n    A zebra has stripes" in recall(agent, "stripes")


# Messages around a hit


def test_around_a_message_of_any_conversation(log: Log, agent: Agent) -> None:
    ids = say(log.agent("other"), *[f"number {n}" for n in range(9)])
    found = agent.call_tool("recall", {"around": ids[4]})
    assert found == agent.call_tool("recall", {"around": f"other:{ids[4]}"})
    head, *lines = found.splitlines()
    assert head.startswith("conversation 'other', agent ")
    assert [line for line in lines if line.startswith("number")] == [f"number {n}" for n in range(1, 8)]
    assert [line[:2] for line in lines if " message " in f" {line[2:]}"] == ["- "] * 3 + ["> "] + ["- "] * 3


def test_around_says_what_is_forgotten_or_erased(agent: Agent) -> None:
    a, b, c = say(agent, "one", "two", "three")
    agent.do(f"/context drop {a}")
    agent.do(f"/message remove {c} --yes")
    found = agent.call_tool("recall", {"around": str(b)})
    assert ", out:\none" in found
    assert ", erased by a human on " in found
    assert "three" not in found


def test_around_is_bounded(agent: Agent) -> None:
    ids = say(agent, *["x" * 100_000] * 9)
    found = agent.call_tool("recall", {"around": ids[4]})
    assert 20_000 < len(found) < 27_000
    assert f"[99,000 more characters: around: {ids[3]}]" in found
    assert "[80,000 more characters]" in found


@pytest.mark.parametrize(
    "wrong", ["99", 99, "-1", -1, "root", "root:99", "nobody:1", "\ud800:1", "a\0:1", ":", "9" * 50, 10**30]
)
def test_around_what_is_not_there(agent: Agent, wrong: object) -> None:
    say(agent, "one")
    with pytest.raises(CommandError, match=r"there is (no message|nothing at)"):
        agent.call_tool("recall", {"around": wrong})


def test_what_was_read_is_not_found_again(agent: Agent) -> None:
    (first,) = say(agent, "The zebra crossing is closed.")
    agent.append("user", "What was around it?")
    agent.append_tool_call("recall", {"around": str(first)}, call_id="c1")
    agent.append_tool_result("c1", agent.call_tool("recall", {"around": str(first)}))
    agent.end_turn()
    assert recall(agent, "zebra").startswith("Found 1 message in 1 run")


def test_it_is_told_in_few_words() -> None:
    """The schema is part of every request."""
    assert len(json.dumps(RECALL.spec.parameters)) < 650
    assert [*RECALL.spec.parameters["properties"]] == [*RECALL.arguments.__struct_fields__]
