"""`Agent.at` (SPEC 4): the context as it was after an event, whatever has happened since."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings

import foldmark
from deeds import DEEDS, Shown, do, family, shown
from foldmark import Agent, CommandError, Log
from foldmark.request.prepare import prepare
from stored import stored


@pytest.fixture
def log() -> Iterator[Log]:
    with foldmark.open(":memory:") as log:
        yield log


def said(agent: Agent, *texts: str) -> list[int]:
    """Append one turn for each text and return the ids of the turns."""
    turns = []
    for text in texts:
        turns.append(agent.append("user", text))
        agent.append("assistant", f"about {text}")
        agent.end_turn()
    return turns


def texts(agent: Agent, event_id: int) -> list[str]:
    return [message.content for message in agent.at(event_id).messages]


@settings(max_examples=settings().max_examples // 2)
@given(DEEDS)
def test_every_past_context_can_be_read(deeds: list[tuple[str, int, int]]) -> None:
    """The contexts of every agent after every step are compared at the end."""
    with foldmark.open(":memory:") as log:
        root = log.agent("root")
        past: dict[tuple[str, int], Shown] = {}
        for deed, number, who in deeds:
            there = family(root)
            agent = there[who % len(there)]
            before = agent.standing().newest
            do(agent, deed, number)
            if agent.standing().newest == before and before:
                continue
            for each in family(root):
                context = each.context()
                if context.at:
                    past[each.id, context.at] = shown(context)
        for (agent_id, event_id), then in past.items():
            agent = log.agent(agent_id)
            assert shown(agent.at(event_id)) == then
            assert agent.at(event_id).at == event_id
        for agent in family(root):
            if (context := agent.context()).at:
                now = agent.at(context.at)
                assert shown(now) == shown(context)
                assert now.segments == context.segments
                assert now.scratchpad == context.scratchpad


def test_a_context_inside_a_turn_can_be_read(log: Log) -> None:
    agent = log.agent("root")
    first = agent.append("user", "one")
    second = agent.append("assistant", "two")
    agent.end_turn()
    assert texts(agent, first) == ["one"]
    assert texts(agent, second) == ["one", "two"]


def test_a_past_context_has_the_scratchpad_of_that_time(log: Log) -> None:
    agent = log.agent("root")
    (turn,) = said(agent, "one")
    first = agent.do("/scratchpad edit one").data["event"]
    second = agent.do("/scratchpad edit two").data["event"]
    pads = [agent.at(event_id).scratchpad for event_id in (turn, first, second)]
    assert pads == [None, "one", "two"]


def test_a_past_context_of_a_fork(log: Log) -> None:
    agent = log.agent("root")
    one, two = said(agent, "one", "two")
    fork = agent.do("/fork")
    child = log.agent(fork.data["child"])
    assert fork.event_id is not None
    said(child, "three")
    later = said(agent, "four")[0]
    assert texts(child, fork.event_id) == ["one", "about one", "two", "about two"]
    # An id between two of the child's own, whichever agent it belongs to.
    assert texts(child, fork.event_id + 1)[-1] == "three"
    with pytest.raises(CommandError, match=f"this agent was born with event {fork.event_id}, after event {two}"):
        child.at(two)
    with pytest.raises(CommandError, match=f"there is no event {later} of this agent yet; its newest is"):
        child.at(later)
    assert texts(agent, later)[-1] == "four"
    assert texts(agent, one) == ["one"]


def test_an_id_of_another_agents_event_names_a_moment(log: Log) -> None:
    agent, other = log.agent("root"), log.agent("other")
    said(agent, "one")
    between = said(other, "elsewhere")[0]
    said(agent, "two")
    assert texts(agent, between) == ["one", "about one"]


@pytest.mark.parametrize(("event_id", "why"), [(0, "events are numbered from 1"), (-3, "events are numbered from 1")])
def test_an_unknown_event_is_refused(log: Log, event_id: int, why: str) -> None:
    agent = log.agent("root")
    said(agent, "one")
    with pytest.raises(CommandError, match=why):
        agent.at(event_id)


def test_an_event_of_the_future_is_refused(log: Log) -> None:
    agent = log.agent("root")
    with pytest.raises(CommandError, match=r"there is no event 1 of this agent yet; its newest is 0"):
        agent.at(1)
    said(agent, "one")
    with pytest.raises(CommandError, match=r"there is no event 4 of this agent yet; its newest is 3"):
        agent.at(4)
    with pytest.raises(CommandError, match=rf"there is no event {2**70} of this agent yet"):
        agent.at(2**70)


def test_reading_the_past_changes_nothing(log: Log) -> None:
    agent = log.agent("root")
    (turn,) = said(agent, "one")
    agent.do("/mark M")
    said(agent, "two")
    agent.do("/clear")
    before = shown(agent.context())
    agent.at(turn).turns(5)
    assert shown(agent.context()) == before
    assert agent.standing().newest == agent.context().at


def test_messages_erased_since_stay_erased(log: Log) -> None:
    agent = log.agent("root")
    one, _ = said(agent, "one", "two")
    then = agent.context().at
    agent.do("/clear")
    assert texts(agent, then) == ["one", "about one", "two", "about two"]
    agent.do(f"/message remove {one} --yes")
    assert texts(agent, then) == ["two", "about two"]
    assert shown(agent.at(then)).size[0] == 2
    assert texts(agent, one) == []


def test_a_past_context_during_a_planning_conversation(log: Log) -> None:
    """After the filter the context has no planning conversation, neither in the rest of the turn nor later."""
    agent = log.agent("root")
    said(agent, "one", "two")
    first = agent.append("user", "forget one")
    filtered = agent.apply_filter("forget", [1], planning=(first, None))
    done = agent.append("assistant", "Done")
    agent.end_turn()
    after = said(agent, "three")[0]
    assert texts(agent, first) == ["one", "about one", "two", "about two", "forget one"]
    for event_id in (filtered, done):
        assert texts(agent, event_id) == ["about one", "two", "about two"]
    assert texts(agent, after) == ["about one", "two", "about two", "three"]


def test_later_operations_do_not_change_a_steady_request_of_the_past(log: Log) -> None:
    agent = log.agent("root")
    agent.configure("context_policy", "steady")
    agent.append("user", "one")
    then, past = agent.request("anthropic", "claude-sonnet-4-6"), agent.standing().newest
    agent.append("assistant", "about one")
    agent.end_turn()
    said(agent, "two")
    agent.do("/undo")
    at = agent.stood(stored(log), past)
    again = prepare(stored(log), at, at.config, "anthropic", "claude-sonnet-4-6", tools=agent.tools())
    assert again.body["messages"] == then.body["messages"]
