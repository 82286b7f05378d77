"""The snapshot of every message, and the dialect of every text (SPEC 4.1, 5.4; S2)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

import foldmark
from foldmark import Agent, Log
from foldmark.core.segments import Segment
from foldmark.request.usage import Weighed, snapshots


@pytest.fixture
def log() -> Iterator[Log]:
    with foldmark.open(":memory:", settings={}) as log:
        yield log


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("default")


def counted(agent: Agent, fresh: int, output: int) -> None:
    """Record a provider's usage for the newest answer."""
    agent.record("usage", data={"fresh": fresh, "cache_read": 10, "cache_write": 0, "output": output})


def weighed(agent: Agent, turn: int) -> list[Weighed | None]:
    with agent.reading() as (moment, at):
        places = tuple(Segment(agent.id, each.id, each.id) for each in moment.turns([turn])[turn])
        messages = list(moment.select(places))
        found = snapshots(moment, at, messages, moment.size)
    return [found.get(message.id) for message in messages]


def working_turn(agent: Agent) -> int:
    """Append a turn of two requests, for an answer with two calls and one that ends the turn; return its id."""
    turn = agent.append("user", "Read both.")
    agent.append("assistant", "I read them.")
    agent.append_tool_call("read_file", {"path": "a"}, call_id="a")
    agent.append_tool_call("read_file", {"path": "b"}, call_id="b")
    counted(agent, 100, 5)
    agent.append_tool_result("a", "one")
    agent.append_tool_result("b", "two")
    agent.append("assistant", "Done.")
    counted(agent, 200, 7)
    agent.end_turn()
    return turn


def test_all_messages_of_one_interaction_have_one_snapshot(agent: Agent) -> None:
    turn = working_turn(agent)
    first, second = Weighed(115, True), Weighed(217, True)
    assert weighed(agent, turn) == [first, first, first, first, second, second, second]


def test_messages_without_a_count_are_estimated(agent: Agent) -> None:
    agent.append("user", "before " * 10)
    agent.append("assistant", "so it was")
    agent.end_turn()
    turn = agent.append("user", "and now")
    answer = agent.append("assistant", "so it is")
    agent.end_turn()
    up_to_there = Weighed(agent.at(answer).size.tokens, False)
    assert weighed(agent, turn) == [up_to_there, up_to_there]


def test_the_count_of_a_later_turn_does_not_count_for_an_earlier_one(agent: Agent) -> None:
    turn = agent.append("user", "fails")
    agent.end_turn(interrupted=True)
    working_turn(agent)
    assert [each and each.counted for each in weighed(agent, turn)] == [False]


def test_dropped_messages_keep_their_counts_and_have_no_estimate(agent: Agent) -> None:
    plain = agent.append("user", "hello")
    agent.end_turn()
    turn = working_turn(agent)
    agent.do("/clear")
    assert weighed(agent, plain) == [None]
    assert {each and each.tokens for each in weighed(agent, turn)} == {115, 217}


def test_message_show_has_the_snapshot_of_every_message(agent: Agent) -> None:
    turn = working_turn(agent)
    shown = agent.do(f"/message show {turn}")
    lines = shown.text.splitlines()[1:]
    assert [line.partition(" · ")[2].partition(":")[0] for line in lines] == ["115 tokens"] * 4 + ["217 tokens"] * 3
    assert [each["snapshot"] for each in shown.data["messages"]] == [115] * 4 + [217] * 3
    assert all(each["snapshot_counted"] for each in shown.data["messages"])


# Dialects


def dialects(agent: Agent) -> list[str | None]:
    return [message.dialect for message in agent.context().messages]


def test_a_text_carries_the_dialect_of_its_agents_model(agent: Agent) -> None:
    agent.append("user", "offline")
    agent.do("/model anthropic/claude-opus-4-8")
    agent.append("user", "claude")
    agent.append("assistant", "yes")
    agent.do("/config set model=gemini/gemini-2.5-pro")
    agent.do("/note gemini")
    agent.append("assistant", "as its own", dialect="anthropic")
    assert dialects(agent) == ["openai", "anthropic", "anthropic", "gemini", "anthropic"]
    rows = agent.call_tool("query_db", {"sql": "SELECT count(*) FROM messages WHERE parsing_strategy IS NULL"})
    assert "0" in rows


def test_a_child_and_another_writer_know_the_dialect(log: Log, agent: Agent) -> None:
    agent.append("user", "before")
    with foldmark.open(":memory:", settings={"model": "anthropic/claude-opus-4-8"}) as other:
        mine = other.agent("x")
        mine.append("user", "x")
        assert dialects(mine) == ["anthropic"]
    same = log.agent(agent.id)
    same.context()
    same.do("/model gemini/gemini-2.5-pro")
    agent.context()  # catches up
    agent.append("user", "after")
    child = log.agent(agent.do("/fork").data["child"])
    child.append("user", "child")
    assert dialects(child) == ["openai", "gemini", "gemini"]


def test_rolled_back_settings_do_not_count(agent: Agent) -> None:
    with suppress(RuntimeError), agent.batch():
        agent.do("/model anthropic/claude-opus-4-8")
        agent.append("user", "never recorded")
        raise RuntimeError
    agent.append("user", "recorded")
    assert dialects(agent) == ["openai"]


def test_blocks_in_an_unnamed_form_have_no_dialect(agent: Agent) -> None:
    """Otherwise they would be sent unchanged in that dialect."""
    agent.append("user", "hello")
    agent.append("assistant", "text", data={"blocks": [{"type": "of nobody"}]})
    assert dialects(agent) == ["openai", None]


def test_the_dialect_of_a_text_is_looked_up_once(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.append("user", "first")
    looked: list[object] = []
    standing = agent.standing

    def recorded() -> object:
        looked.append(None)
        return standing()

    monkeypatch.setattr(agent, "standing", recorded)
    for _ in range(20):
        agent.append("assistant", "more")
    assert looked == []
