"""Clear, rewind, forget and similar operations on a Pydantic AI agent's history, between runs and inside a tool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import foldmark
from planning_talk import IN_CHAT

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai_played import Played, paired, recorded, run, said

    from foldmark.integrations.pydantic_ai import FoldmarkHistory


@pytest.fixture
def log() -> Any:
    with foldmark.open(":memory:", settings={}) as log:
        yield log


def ids(history: FoldmarkHistory, text: str) -> list[int]:
    return [event.id for event in history.agent.context().messages if text in event.content]


@pytest.mark.parametrize("passing", [False, True])
def test_between_runs(log: foldmark.Log, passing: bool) -> None:
    played, history = Played(), FoldmarkHistory(log)
    agent = Agent(played.model, system_prompt="Be kind.", capabilities=[history])
    result = run(agent, "one")

    def say(prompt: str) -> list[str]:
        nonlocal result
        result = run(agent, prompt, message_history=result.all_messages() if passing else None)
        assert paired(played.sent[-1])
        return played.asked[-1]

    first = ["system: Be kind.", "user: one", "assistant: answer 1"]
    history.do("/mark M")
    assert say("two") == [*first, "user: two"]
    history.do("/clear M")
    assert say("three") == [*first, "user: three"]
    history.do("/undo")
    undo = history.do("/undo").event_id
    assert say("four") == ["system: Be kind.", "user: four"]
    history.do(f"/restore {undo}")
    assert say("five") == [*first, "user: four", "assistant: answer 4", "user: five"]
    history.agent.apply_filter("forget", ids(history, "answer 4"))
    assert say("six") == [*first, "user: four", "user: five", "assistant: answer 5", "user: six"]
    cleared = history.do("/clear").event_id
    assert say("seven") == ["system: Be kind.", "user: seven"]
    history.do(f"/restore {cleared}")
    assert say("eight")[:3] == first
    assert say("nine")[-3:] == ["user: eight", "assistant: answer 8", "user: nine"]
    assert said(history.messages())[:-1] == played.asked[-1]
    assert len(result.new_messages()) == 2


def test_all_messages_holds_no_more_than_the_context(log: foldmark.Log) -> None:
    history = FoldmarkHistory(log)
    agent = Agent(Played().model, capabilities=[history])
    run(agent, "secret")
    history.do("/clear")
    assert said(run(agent, "open").all_messages()) == ["user: open", "assistant: answer 2"]
    assert recorded(history.agent) == ["secret", "answer 1", "open", "answer 2"]


def test_a_context_that_begins_with_an_answer(log: foldmark.Log) -> None:
    played, history = Played(), FoldmarkHistory(log)
    agent = Agent(played.model, system_prompt="Be kind.", capabilities=[history])
    result = run(agent, "one")
    history.agent.apply_filter("forget", ids(history, "one"))
    omitted = ["system: Be kind.", "user: [Earlier conversation omitted.]", "assistant: answer 1"]
    for number in (2, 3):
        result = run(agent, "more", message_history=result.all_messages())
        assert played.asked[-1][:3] == omitted
        assert len(played.asked[-1]) == 2 * number
    assert not ids(history, "omitted")
    assert len(history.agent.context().messages) == 6


def test_messages_added_by_foldmark_reach_the_next_run(log: foldmark.Log) -> None:
    played, history = Played(), FoldmarkHistory(log)
    agent = Agent(played.model, capabilities=[history])
    run(agent, "one")
    history.do("/note Remember the sea.")
    result = run(agent, "two")
    wanted = ["user: one", "assistant: answer 1", "user: Remember the sea.", "user: two", "assistant: answer 2"]
    assert said(result.all_messages()) == wanted
    result = run(agent, "three", message_history=result.all_messages())
    assert said(result.all_messages()) == [*wanted, "user: three", "assistant: answer 3"]
    assert [event.content for event in history.agent.context().messages].count("Remember the sea.") == 1


def test_a_summary_takes_the_place_of_what_it_says(log: foldmark.Log) -> None:
    played, history = Played(), FoldmarkHistory(log)
    agent = Agent(played.model, capabilities=[history])
    run(agent, "one")
    run(agent, "two")
    summary = history.do("/summarize").event_id
    asked = (run(agent, "three"), played.asked[-1])[1]
    assert asked[0] == "user: [Earlier conversation omitted.]"
    assert asked[1].startswith("assistant: ")
    assert asked[2:] == ["user: three"]
    history.do(f"/restore {summary}")
    run(agent, "four")
    assert played.asked[-1][:4] == ["user: one", "assistant: answer 1", "user: two", "assistant: answer 2"]


def with_tools(history: FoldmarkHistory, played: Played, line: Callable[[], str]) -> Agent[None, str]:
    agent = Agent(played.model, system_prompt="Be kind.", capabilities=[history])

    @agent.tool_plain
    def look() -> str:
        return "seen the sea"

    @agent.tool_plain
    def operate() -> str:
        return history.do(line(), actor="model").text

    return agent


def test_foldmarks_own_tools(log: foldmark.Log) -> None:
    played = Played(
        [
            "first answer",
            ("slash", {"command": "mark", "args": "HERE"}),
            "marked",
            [("recall", {"query": "first"}), ("slash", {"command": "clear", "args": "HERE"})],
            "cleared",
            ("slash", {"command": "clear", "args": "NOWHERE"}),
            "sorry",
        ]
    )
    history = FoldmarkHistory(log, tools=["slash", "recall"])
    agent = Agent(played.model, capabilities=[history])
    for prompt in ("one", "two", "three", "four"):
        run(agent, prompt)
    assert all(map(paired, played.sent))
    assert sum("Rewound to 'HERE' at your request" in text for text in played.asked[4]) == 2
    assert any("first answer" in text for text in played.asked[4][2:])
    assert "there is no mark" in played.asked[6][-1].lower() or "NOWHERE" in played.asked[6][-1]
    with pytest.raises(foldmark.CommandError, match="there is no tool 'nothing'"):
        FoldmarkHistory(log, tools=["nothing"])


@pytest.mark.parametrize("fresh", [False, True])
def test_a_shortened_result_that_comes_back_is_no_change(log: foldmark.Log, fresh: bool) -> None:
    played = Played([("read", {}), "done"])
    page = "line\n" * 1000

    def agent() -> Agent[None, str]:
        made = Agent(played.model, capabilities=[FoldmarkHistory(log, truncation=True)])

        def read() -> str:
            return page

        made.tool_plain(read)
        return made

    first = agent()
    result = run(first, "Read")
    result = run(agent() if fresh else first, "And now?", message_history=result.all_messages())
    given = ModelMessagesTypeAdapter.validate_json(result.all_messages_json()) if fresh else result.all_messages()
    plain = FoldmarkHistory(log)
    run(Agent(played.model, capabilities=[plain]), "Whole again", message_history=given)
    assert f"result: {page}" in played.asked[-1]
    assert [event.kind for event in plain.agent.context().messages].count("tool_result") == 1


@pytest.mark.parametrize("calls", ["operate", "operate look", "look operate"])
def test_a_tool_clears_during_a_run(log: foldmark.Log, calls: str) -> None:
    played = Played([[(name, {}) for name in calls.split()], ("look", {}), "done"])
    history = FoldmarkHistory(log)
    result = run(with_tools(history, played, lambda: "/clear"), "Go")
    assert result.output == "done"
    for sent in played.sent[1:]:
        assert paired(sent)
        assert said(sent)[0] == "system: Be kind."
        assert sum("Context cleared at your request" in text for text in said(sent)) == len(calls.split())
        assert isinstance(sent[-1], ModelRequest)
    assert played.asked[2][-2:] == ["call: look", "result: seen the sea"]
    assert said(result.all_messages()) == [*played.asked[-1], "assistant: done"]
    assert said(FoldmarkHistory(log).messages()) == [*played.asked[-1], "assistant: done"]
    again = run(with_tools(history, Played(["hm"]), lambda: ""), "next", message_history=result.all_messages())
    assert said(again.all_messages()) == [*played.asked[-1], "assistant: done", "user: next", "assistant: hm"]


def test_a_tool_rewinds_during_a_run(log: foldmark.Log) -> None:
    lines = iter(["/mark HERE", "/clear HERE", "/clear HERE"])
    played = Played(
        [("look", {}), ("operate", {}), ("look", {}), ("operate", {}), ("look", {}), ("operate", {}), "done"]
    )
    history = FoldmarkHistory(log)
    result = run(with_tools(history, played, lambda: next(lines)), "Go")
    assert all(map(paired, played.sent))
    before = ["system: Be kind.", "user: Go", "call: look", "result: seen the sea"]
    assert played.asked[2][:4] == before
    assert played.asked[4][: len(before)] == before
    assert "Rewound to 'HERE' at your request" in played.asked[4][-1]
    assert "2 times in this turn" in played.asked[6][-1]
    assert said(result.all_messages())[-1] == "assistant: done"
    assert len(result.all_messages()) == len(history.messages())


def test_a_forgotten_exchange_goes_whole(log: foldmark.Log) -> None:
    response = ModelResponse([TextPart("Let me see."), ToolCallPart("look", {}), ToolCallPart("look", {})])
    played, history = Played([response, "done"]), FoldmarkHistory(log)
    agent = with_tools(history, played, lambda: "")
    result = run(agent, "Go")
    forgot = history.agent.apply_filter("forget", ids(history, "seen")[:1])
    between = "user: [Earlier conversation omitted.]"
    shown = ["system: Be kind.", "user: Go", "assistant: Let me see.", between, "assistant: done", "user: more"]
    run(agent, "more", message_history=result.all_messages())
    assert played.asked[-1] == shown
    history.do(f"/restore {forgot}")
    run(agent, "still more", message_history=result.all_messages())
    assert played.asked[-1][3:7] == ["call: look", "call: look", "result: seen the sea", "result: seen the sea"]
    assert played.sent[-1][:4] == result.all_messages()[:4]


def test_the_window_holds_whole_turns_and_pins(log: foldmark.Log) -> None:
    answers: list[Any] = [("look", {}), "seen"]
    played = Played(answers * 6)
    history = FoldmarkHistory(log, window=True)
    agent = with_tools(history, played, lambda: "")
    for prompt in ("one", "two", "three", "four"):
        run(agent, prompt)
    history.do("/context window 2")
    first = next(event.turn_id for event in history.agent.context().messages if event.content == "one")
    history.do(f"/pin {first}")
    result = run(agent, "five")
    assert [text for text in said(result.all_messages()) if text.startswith(("user", "system"))] == [
        "system: Be kind.",
        "user: one",
        "user: four",
        "user: five",
    ]
    assert all(map(paired, played.sent))
    history.do("/context window 0")
    run(agent, "six", message_history=result.all_messages())
    users = [text for text in played.asked[-1] if text.startswith("user")]
    assert users == [f"user: {n}" for n in ("one", "two", "three", "four", "five", "six")]


def test_a_token_budget(log: foldmark.Log) -> None:
    played, history = Played(), FoldmarkHistory(log, window=True)
    agent = Agent(played.model, capabilities=[history])
    history.do("/context budget 12000")
    for number in range(12):
        run(agent, f"{number} " + "words " * 600)
    assert played.asked[-1][-1].startswith("user: 11")
    assert 2 < len(played.asked[-1]) < 23
    assert played.asked[-1][0].startswith("user: ")


def test_old_results_are_shortened_and_come_back(log: foldmark.Log) -> None:
    history = FoldmarkHistory(log, truncation=True)
    history.do("/config set context_policy=eager")
    played = Played([("read", {}), "done"])
    agent = Agent(played.model, capabilities=[history])
    page = "line\n" * 1000

    @agent.tool_plain
    def read() -> str:
        return page

    result = run(agent, "Read")
    assert played.asked[1][-1] == f"result: {page}"
    result = run(agent, "And now?", message_history=result.all_messages())
    (short,) = (text for text in played.asked[-1] if text.startswith("result"))
    assert len(short) < 500
    assert "TRUNCATED" in short
    (event,) = [event for event in history.agent.context().messages if event.kind == "tool_result"]
    assert event.content == page
    history.do("/config set truncation=off")
    run(agent, "And now?", message_history=result.all_messages())
    assert f"result: {page}" in played.asked[-1]


def test_a_fork_goes_its_own_way(log: foldmark.Log) -> None:
    played, parent = Played(), FoldmarkHistory(log)
    result = run(Agent(played.model, capabilities=[parent]), "one")
    child = FoldmarkHistory(log, parent.do("/fork").data["child"])
    agent = Agent(played.model, capabilities=[child])
    run(agent, "two", message_history=result.all_messages())
    assert played.asked[-1] == ["user: one", "assistant: answer 1", "user: two"]
    assert said(parent.messages()) == ["user: one", "assistant: answer 1"]
    parent.do("/clear")
    assert len(child.messages()) == 4


def test_two_agents_with_one_history(log: foldmark.Log) -> None:
    history = FoldmarkHistory(log)
    first, second = Played(["I am the first."]), Played(["I am the second."])
    one = Agent(first.model, system_prompt="You are one.", capabilities=[history])
    two = Agent(second.model, system_prompt="You are two.", capabilities=[history])
    run(one, "Who are you?")
    run(two, "And you?")
    assert second.asked[-1] == [
        "system: You are two.",
        "user: Who are you?",
        "assistant: I am the first.",
        "user: And you?",
    ]
    run(one, "Again?")
    assert first.asked[-1][0] == "system: You are one."
    assert len(first.asked[-1]) == 6


def test_an_agent_inside_of_another(log: foldmark.Log) -> None:
    history = FoldmarkHistory(log)
    inner = Played(["inner answer"])
    helper = Agent(inner.model, capabilities=[history])
    outer = Played([[("ask", {}), ("look", {})], "outer answer", "the end"])
    agent = Agent(outer.model, capabilities=[history])

    @agent.tool_plain
    async def ask() -> str:
        return (await helper.run("inner question")).output

    @agent.tool_plain
    def look() -> str:
        return "seen"

    run(agent, "outer question")
    run(agent, "what now?")
    for sent in (*inner.sent, *outer.sent):
        assert paired(sent)
    assert inner.asked[0][-1] == "user: inner question"
    assert outer.asked[1][-2:] == ["result: inner answer", "result: seen"]
    kinds = [event.kind for event in history.agent.context().messages]
    assert {kind: kinds.count(kind) for kind in kinds} == {"user": 3, "tool_call": 2, "tool_result": 2, "assistant": 3}
    turns = [event.turn_id or 0 for event in history.agent.context().messages]
    assert turns == sorted([turns[0]] * 8 + [turns[-1]] * 2)
    assert len(set(turns)) == 2


def test_runs_side_by_side(log: foldmark.Log) -> None:
    history = FoldmarkHistory(log)
    played = Played([("look", {}) if i < 4 else f"done {i}" for i in range(8)])
    agent = Agent(played.model, capabilities=[history])

    @agent.tool_plain
    async def look() -> str:
        await asyncio.sleep(0)
        return "seen"

    async def together() -> None:
        await asyncio.gather(*(agent.run(f"task {i}") for i in range(4)))

    asyncio.run(together())
    for sent in played.sent:
        assert paired(sent)
        assert isinstance(sent[-1], ModelRequest)
    kinds = [event.kind for event in history.agent.context().messages]
    assert {kind: kinds.count(kind) for kind in kinds} == {"user": 4, "tool_call": 4, "tool_result": 4, "assistant": 4}
    assert paired(history.messages())


@pytest.mark.parametrize("passing", [False, True])
def test_an_evicted_result_is_sent_as_its_placeholder(log: foldmark.Log, passing: bool) -> None:
    played, history = Played([("look", {}), "seen"]), FoldmarkHistory(log)
    agent = Agent(played.model, capabilities=[history])

    @agent.tool_plain
    def look() -> str:
        return "a long result"

    result = run(agent, "one")
    (found,) = [event.id for event in history.agent.context().messages if event.kind == "tool_result"]
    done = history.do(f"/context evict {found}").event_id
    result = run(agent, "two", message_history=result.all_messages() if passing else None)
    (sent,) = [line for line in played.asked[-1] if line.startswith("result: ")]
    assert f"WHERE id={found}" in sent
    history.do(f"/restore {done}")
    run(agent, "three", message_history=result.all_messages() if passing else None)
    assert "result: a long result" in played.asked[-1]
    assert [text for text in recorded(history.agent) if "Evicted" in text] == []


def test_an_offer_never_enters_the_context(log: foldmark.Log) -> None:
    played, history = Played(), FoldmarkHistory(log)
    agent = Agent(played.model, capabilities=[history])
    run(agent, "apples")
    run(agent, "pears")
    offer = history.do("/forget apples").data["offer"]
    history.do(f"/agree {offer}")
    run(agent, "plums")
    assert played.asked[-1] == ["user: pears", "assistant: answer 2", "user: plums"]
    history.do("/forget pears")
    history.agent.do("/forget plums", asking=IN_CHAT)  # a chat on the same conversation
    assert not any("/forget" in text for text in said(history.messages()))
    run(agent, "yes")
    assert played.asked[-1][-1] == "user: yes"
    assert not any("/forget" in text for text in played.asked[-1])
    run(agent, "five")
    assert played.asked[-1][-3:] == ["user: yes", "assistant: answer 4", "user: five"]


def test_a_tool_forgets_inside_a_run(log: foldmark.Log) -> None:
    played, history = Played(["Hello.", ("tidy", {})]), FoldmarkHistory(log)
    agent = Agent(played.model, capabilities=[history])
    run(agent, "apples")

    @agent.tool_plain
    def tidy() -> str:
        return history.do(f"/agree {history.do('/forget apples').data['offer']}").text

    run(agent, "pears")
    assert played.asked[-1][0] == "user: pears"
    assert not any("apples" in text for text in played.asked[-1][:-1])
