"""Receipts agree with the contexts before and after an operation and name the cached prefix (SPEC 4)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings

import foldmark
from deeds import DEEDS, do, family
from foldmark import Agent, Event
from foldmark.core import selections
from foldmark.core.request import Request
from foldmark.dialects.dialect import dialect_named
from stored import stored

CACHING = "anthropic/claude-sonnet-4-5"


def talk(agent: Agent, *texts: str) -> list[int]:
    """Append one turn of a question and an answer for each text; return the ids of the turns."""
    turns = []
    for text in texts:
        turns.append(agent.append("user", text))
        agent.append("assistant", f"about {text} " * 3)
        agent.end_turn()
    return turns


def size(messages: Iterable[Event]) -> dict[str, int]:
    found = list(messages)
    return {"messages": len(found), "tokens": sum(message.tokens for message in found)}


@settings(max_examples=settings().max_examples // 2)
@given(DEEDS)
def test_a_receipt_counts_what_left_and_came_back(deeds: list[tuple[str, int, int]]) -> None:
    with foldmark.open(":memory:") as log:
        root = log.agent("root")
        for deed, number, who in deeds:
            there = family(root)
            agent = there[who % len(there)]
            before = {message.id: message for message in agent.context().messages}
            result = do(agent, deed, number)
            if result is None:
                continue
            after = {message.id: message for message in agent.context().messages}
            event = selections.event(stored(log), result.event_id)
            assert event is not None
            assert event.data is not None
            said = result.data
            assert (said["operation"], said["actor"]) == (event.kind, "human")
            assert said["before"] == size(before.values())
            assert said["left"] == size(message for id, message in before.items() if id not in after)
            assert said["after"] == size(after.values())
            # A summary has not returned: it is new.
            came = {id: message for id, message in after.items() if id not in before and id != result.event_id}
            assert said["returned"] == size(came.values())
            # A summary cannot know its own size, so no event records the size afterwards.
            told = (
                "left",
                "returned",
                "before",
                *(part for part in ("evicted", "whole_again", "changes") if part in said),
            )
            assert event.data["receipt"] == {part: said[part] for part in told}
            assert "cached_prefix" not in said


def test_erasing_has_a_receipt(agent: Agent) -> None:
    one, two, _ = talk(agent, "one", "two", "three")
    agent.do(f"/context drop {one}")
    gone = size(message for message in agent.context().messages if message.turn_id == two)
    before = size(agent.context().messages)
    result = agent.do(f"/message remove {two} --yes")
    event = selections.event(stored(agent.log), result.event_id or 0)
    assert event is not None
    assert result.data["left"] == result.data["erased"] == gone
    assert result.data["returned"] == {"messages": 0, "tokens": 0}
    assert result.data["before"] == before
    assert result.data["after"] == size(agent.context().messages)
    assert (event.data or {})["receipt"] == {name: result.data[name] for name in ("left", "returned", "before")}
    hidden = agent.do(f"/message remove {one} --yes").data
    assert hidden["left"] == {"messages": 0, "tokens": 0}
    assert hidden["erased"]["messages"] == 2
    assert hidden["before"] == hidden["after"]


@pytest.mark.parametrize("actor", ["human", "model"])
def test_an_operation_records_who_asked_for_it(agent: Agent, actor: str) -> None:
    talk(agent, "one")
    for line in ("/mark M", "/fork", "/clear M", "/clear"):
        result = agent.do(line, actor=actor)
        event = selections.event(stored(agent.log), result.event_id or 0)
        assert event is not None
        assert result.data["actor"] == event.actor == actor


# The cached prefix


def prefix(before: Request, after: Request) -> dict[str, int]:
    """Return the tokens of a request with which the next one begins, counted in blocks."""
    shared = dialect_named(before.dialect).shared(before.body, after.body)
    kept, of = min(int(before.tokens * shared), after.tokens), before.tokens
    return {"kept": kept, "of": of, "percent": 100 * kept // of}


@pytest.fixture
def caching(agent: Agent) -> Agent:
    agent.do("/system edit Answer in verse, always, and never in prose.")
    agent.do(f"/model {CACHING}")
    return agent


def test_without_a_cache_the_receipt_does_not_mention_one(agent: Agent) -> None:
    talk(agent, "one")
    assert "cached_prefix" not in agent.do("/mark").data
    agent.do(f"/model {CACHING}")
    assert "cached_prefix" in agent.do("/mark").data
    agent.do("/model offline")
    assert "cached_prefix" not in agent.do("/mark").data


def test_a_mark_keeps_the_whole_cached_prefix(caching: Agent) -> None:
    talk(caching, "one", "two")
    for line in ("/mark M", "/fork", "/fork M", "/pin 3"):
        assert caching.do(line).data["cached_prefix"]["percent"] == 100


def test_clear_keeps_the_cached_system_prompt(caching: Agent) -> None:
    talk(caching, "one " * 2000, "two")
    before = caching.next_request()
    said = caching.do("/clear").data["cached_prefix"]
    assert said == prefix(before, caching.next_request())
    assert 0 < said["percent"] < 90


def test_an_empty_context_has_an_empty_cached_prefix(agent: Agent) -> None:
    agent.do(f"/model {CACHING}")
    assert agent.do("/clear").data["cached_prefix"] == {"kept": 0, "of": 0, "percent": 100}


def test_a_drop_in_the_middle_keeps_the_cached_messages_before_it(caching: Agent) -> None:
    caching.configure("tools", "none")
    turns = talk(caching, "one", "two", "three", "four")
    before = caching.next_request()
    said = caching.do(f"/context drop {turns[2]}").data["cached_prefix"]
    assert said == prefix(before, caching.next_request())
    assert 40 < said["percent"] < 80


@settings(max_examples=settings().max_examples // 2)
@given(DEEDS)
def test_the_cached_prefix_is_that_of_the_next_request(deeds: list[tuple[str, int, int]]) -> None:
    """The receipt says what is then so."""
    with foldmark.open(":memory:") as log:
        root = log.agent("root")
        root.do("/system edit Be brief.")
        root.do(f"/model {CACHING}")
        for deed, number, who in deeds:
            if deed in ("summarize", "span"):
                continue  # needs a model, and there is none
            there = family(root)
            agent = there[who % len(there)]
            before = agent.next_request()
            result = do(agent, deed, number)
            if result is None:
                continue
            after, said = agent.next_request(), result.data["cached_prefix"]
            event = selections.event(stored(log), result.event_id)
            assert event is not None
            assert (event.data or {})["receipt"]["cached_prefix"] == said
            # A fork is reported to the parent's model with the next turn.
            assert said["percent"] == (100 if event.kind == "fork" else prefix(before, after)["percent"])


def test_a_restore_without_effect_keeps_the_whole_cached_prefix(caching: Agent) -> None:
    caching.do("/mark M")
    rewind = caching.do("/rewind M").event_id
    talk(caching, "one", "two")
    said = caching.do(f"/restore {rewind}").data
    assert said["before"] == said["after"]
    assert said["cached_prefix"]["percent"] == 100


def test_a_moving_window_keeps_only_the_cached_system_prompt(caching: Agent) -> None:
    """If the window is smaller than the context, a change may move its beginning."""
    talk(caching, *(f"long text {number} " * 600 for number in range(6)))
    caching.do("/context budget 12000")
    before = caching.next_request()
    said = caching.do("/undo").data["cached_prefix"]
    after = caching.next_request()
    assert before.manifest.edge.first != after.manifest.edge.first
    assert said == prefix(before, after)
    assert caching.do("/mark").data["cached_prefix"]["percent"] == 100
