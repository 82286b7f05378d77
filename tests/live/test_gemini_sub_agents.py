"""Sub-agents of a client that names neither them nor its session: each is a child of its session (SPEC 5.7)."""

import json
from threading import Barrier, Thread
from typing import Any

import pytest
from gemini_client import Client, GeminiRunning, NoIds, PlainWire
from plan import Answer, Fail, Http

from foldmark.log import Agent
from patience import LIMIT

TASK = "Your task: READ it."
KINDS = ["user", "assistant", "tool_call", "tool_call", "tool_result", "tool_result", "assistant"]


def sub_agent(gemini: GeminiRunning) -> Client:
    made = Client(gemini.gateway.url, gemini.client.model)
    made.functions = ["read_file", "complete_task"]
    made.contents = [{"role": "user", "parts": [{"text": TASK}]}]
    return made


def kinds(agent: Agent) -> list[str]:
    return [event.kind for event in agent.context().messages]


def test_a_sub_agent_is_a_child(gemini: GeminiRunning) -> None:
    client = gemini.client
    client.say("one")
    sub_agent(gemini).go_on()
    client.say("two")
    agent = gemini.agent
    assert gemini.recorded() == ["one", "two"]
    (child,) = agent.children
    assert gemini.recorded(child) == [TASK]


@pytest.mark.parametrize("gemini_wire", [PlainWire(), NoIds()], ids=["ids", "no ids"])
def test_two_with_the_same_task_at_once(gemini: GeminiRunning, gemini_wire: PlainWire) -> None:
    """Both ask at the same time, and the model answers both alike: only the ids of its calls differ."""
    gemini.client.model = gemini.client.model if gemini_wire.ids else "gemini-2.5-pro"
    gemini.client.say("one")
    both, answering = Barrier(2, timeout=LIMIT), gemini.model.__call__

    def together(body: Any) -> Answer | Http:
        both.wait()
        return answering(body)

    gemini.upstream._answering = together
    gemini.model.said = "Done."
    inner = [sub_agent(gemini) for _ in range(2)]
    threads = [Thread(target=each.go_on) for each in inner]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    children = gemini.agent.children
    assert [kinds(child) for child in children] == [KINDS, KINDS]
    for child in children:
        assert [event.kind for event in child.events(0, 1000)].count("filter") == 0
        pairs = [event.call_id for event in child.context().messages if event.call_id]
        assert pairs[:2] == pairs[2:]
    if gemini_wire.ids:
        sent = [[part["functionCall"]["id"] for part in each.contents[1]["parts"][1:]] for each in inner]
        own = [[event.call_id for event in child.context().messages if event.call_id][:2] for child in children]
        assert sorted(own) == sorted(sent)


def test_two_with_the_same_task_one_after_the_other(gemini: GeminiRunning) -> None:
    gemini.client.say("one")
    for _ in range(2):
        sub_agent(gemini).go_on()
    assert [kinds(child) for child in gemini.agent.children] == [KINDS, KINDS]


def test_one_that_asks_again(gemini: GeminiRunning) -> None:
    gemini.client.say("one")
    inner = sub_agent(gemini)
    for _ in range(2):
        gemini.model.fails.append(Fail("busy"))
        with pytest.raises(AssertionError, match="overloaded"):
            inner.go_on()
    inner.go_on()
    assert [kinds(child) for child in gemini.agent.children] == [KINDS]


def test_the_same_task_in_another_session(gemini: GeminiRunning) -> None:
    client = gemini.client
    client.say("one")
    sub_agent(gemini).go_on()
    client.contents = []
    client.say("something else")
    sub_agent(gemini).go_on()
    assert [len(agent.children) for agent in gemini.agents] == [1, 1]


def test_another_gateway_goes_on_with_both(gemini: GeminiRunning) -> None:
    gemini.client.say("one")
    inner = [sub_agent(gemini) for _ in range(2)]
    for number, each in enumerate(inner):
        gemini.model.said = f"To number {number}."
        each.go_on()
    gemini.again("r" * 32)
    for number, each in enumerate(inner):
        each.url = gemini.gateway.url
        each.say(f"Go on, {number}.")
    children = gemini.agent.children
    assert [gemini.recorded(child) for child in children] == [[TASK, "Go on, 0."], [TASK, "Go on, 1."]]
    assert "filter" not in json.dumps([[event.kind for event in child.events(0, 1000)] for child in children])
