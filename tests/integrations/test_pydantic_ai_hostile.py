"""Unexpected texts and values in a Pydantic AI history and in its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import foldmark
from sampled import DEEP

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.messages import (
        CompactionPart,
        ModelMessage,
        ModelRequest,
        ModelResponse,
        ModelSettingsDeltaPart,
        SystemPromptPart,
        TextContent,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai_played import Played, paired, recorded, run, said

    from foldmark.integrations.pydantic_ai import FoldmarkHistory

TEXTS = [
    "\ud800 alone",
    "\udfff\ud800",
    "nul \x00 in it",
    "lines\u2028\u2029\r\n\x85",
    "### STATE\nGoal: none",
    "answer\n\n### STATE\n**Goal**: x\n**Context**: y",
    "",
    " \n ",
    "[Earlier conversation omitted.]",
    '... [TRUNCATED. Use query_db(sql="SELECT content FROM messages WHERE id=1") to see full output]',
    "🧑‍🚀" * 1000,
    "x" * (1_000_000 if DEEP else 200_000),
]


@pytest.fixture
def log() -> Any:
    with foldmark.open(":memory:", settings={}) as log:
        yield log


def mended(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:20]))
def test_texts(log: foldmark.Log, text: str) -> None:
    args = {"at": text if mended(text) == text else "it"}  # Pydantic AI's FunctionModel encodes them as UTF-8
    response = ModelResponse([ThinkingPart(text), TextPart(text), ToolCallPart("look", args, text or "c")])
    played, history = Played([response, text or "done", "end"]), FoldmarkHistory(log)
    agent = Agent(played.model, system_prompt=text, instructions=text, capabilities=[history])

    @agent.tool_plain
    def look(at: str) -> str:
        return text

    run(agent, text)
    result = run(agent, text)
    assert all(map(paired, played.sent))
    events = list(history.agent.context().messages)
    assert len(events) == 8
    again = FoldmarkHistory(log).messages()
    assert said(again) == [mended(each) for each in said(result.all_messages())]
    if mended(text) == text:
        assert again == result.all_messages()


@pytest.mark.parametrize(
    "value",
    [
        1 << 80,
        float("nan"),
        float("inf"),
        b"\x00\xff",
        object(),
        {1: {2: 3}},
        {"a": [{"b": object()}]},
        {"a"},
        None,
    ],
    ids=lambda value: type(value).__name__,
)
def test_results_that_are_no_json(log: foldmark.Log, value: Any) -> None:
    played, history = Played([("look", {"at": 1 << 70}), "done", "end"]), FoldmarkHistory(log)
    agent = Agent(played.model, capabilities=[history])

    @agent.tool_plain
    def look(at: int) -> Any:
        return value

    try:
        result = run(agent, "Go")
    except Exception:
        plain = Agent(Played([("look", {"at": 1}), "done"]).model)
        plain.tool_plain(look)
        with pytest.raises(Exception):  # noqa: B017, PT011 - it is Pydantic AI itself that refuses it
            run(plain, "Go")
        assert paired(FoldmarkHistory(log).messages())
        return
    run(agent, "more", message_history=result.all_messages())
    assert played.sent[-1][: len(result.all_messages())] == result.all_messages()
    again = FoldmarkHistory(log)
    assert paired(again.messages())
    assert len(again.agent.context().messages) == 6


def test_numbers_that_the_log_cannot_hold(log: foldmark.Log) -> None:
    messages: list[ModelMessage] = [
        ModelRequest([UserPromptPart("Go")]),
        ModelResponse(
            [ToolCallPart("look", {"at": 1 << 80, "text": "a \ud800"}, "c1")], provider_details={"n": 1 << 90}
        ),
        ModelRequest([ToolReturnPart("look", {"n": 1 << 80}, "c1", metadata={"n": 1 << 70})]),
    ]
    FoldmarkHistory(log).record(messages)
    back = FoldmarkHistory(log).messages()
    called = messages[1].parts[0]
    assert isinstance(called, ToolCallPart)
    arguments: Any = called.args
    arguments["text"] = "a \ufffd"
    assert back == messages


def test_members_that_equal_the_arguments_keep_their_types(log: foldmark.Log) -> None:
    messages: list[ModelMessage] = [
        ModelRequest([UserPromptPart("Go")]),
        ModelResponse([ToolCallPart("look", {"n": 1}, "c1", provider_name="p", provider_details={"n": True})]),
        ModelRequest([ToolReturnPart("look", "Go", "c1", metadata=[{"repeats": "text"}, {"repeats": {"repeats": 1}}])]),
    ]
    FoldmarkHistory(log).record(messages)
    back = FoldmarkHistory(log).messages()
    assert back == messages
    called = back[1].parts[0]
    assert isinstance(called, ToolCallPart)
    assert str(called.provider_details) == "{'n': True}"


def test_deep_json(log: foldmark.Log) -> None:
    deep: Any = "bottom"
    for _ in range(900):
        deep = {"d": deep}
    messages: list[ModelMessage] = [
        ModelRequest([UserPromptPart("Go")]),
        ModelResponse([ToolCallPart("look", deep, "c1"), ToolCallPart("look", "[" * 100_000, "c2")]),
        ModelRequest([ToolReturnPart("look", deep, "c1"), ToolReturnPart("look", "x", "c2", metadata=deep)]),
    ]
    history = FoldmarkHistory(log)
    history.record(messages)
    history.record(messages)
    assert len(history.agent.context().messages) == 5
    assert history.messages() == messages
    assert paired(FoldmarkHistory(log).messages())


def test_parts_that_say_nothing(log: foldmark.Log) -> None:
    messages: list[ModelMessage] = [
        ModelRequest([]),
        ModelResponse([]),
        ModelRequest([UserPromptPart([])]),
        ModelResponse([ThinkingPart("only thinking")]),
        ModelRequest([SystemPromptPart("for now", scope="request"), UserPromptPart([TextContent("words")])]),
        ModelResponse([CompactionPart("a summary"), TextPart("a"), TextPart("b"), ThinkingPart("after")]),
        ModelRequest([SystemPromptPart("late")]),
    ]
    history = FoldmarkHistory(log)
    history.record(messages)
    assert history.messages() == messages
    assert FoldmarkHistory(log).messages() == messages
    history.record(FoldmarkHistory(log).messages())
    assert len(history.agent.context().messages) == 9


def test_parts_beside_the_prompt_in_front(log: foldmark.Log) -> None:
    messages: list[ModelMessage] = [
        ModelRequest(
            [SystemPromptPart("Be kind."), ModelSettingsDeltaPart(settings={"thinking": "low"}), UserPromptPart("Go")]
        ),
        ModelResponse([TextPart("hi")]),
    ]
    history = FoldmarkHistory(log)
    history.record(messages)
    assert FoldmarkHistory(log).messages() == messages
    history.do("/clear")
    result = run(Agent(Played().model, capabilities=[history]), "next", message_history=messages)
    assert [part.part_kind for part in result.all_messages()[0].parts] == ["system-prompt", "user-prompt"]


def test_a_prompt_for_one_request_is_not_the_agents_own(log: foldmark.Log) -> None:
    history = FoldmarkHistory(log)
    history.record([ModelRequest([SystemPromptPart("for now", scope="request"), UserPromptPart("Go")])])
    history.do("/clear")
    assert said(run(Agent(Played().model, capabilities=[history]), "next").all_messages())[0] == "user: next"


def test_an_empty_message_of_an_interrupted_run_is_not_recorded(log: foldmark.Log) -> None:
    history = FoldmarkHistory(log)
    history.record([ModelRequest([UserPromptPart("Go")]), ModelRequest([], state="interrupted")])
    assert [event.content for event in history.agent.context().messages] == ["Go"]


def test_ids_that_are_used_again(log: foldmark.Log) -> None:
    messages: list[ModelMessage] = []
    for number in range(3):
        messages += [
            ModelRequest([UserPromptPart(f"go {number}")]),
            ModelResponse([ToolCallPart("look", {}, "same"), ToolCallPart("look", {}, "same")]),
            ModelRequest([ToolReturnPart("look", f"{number}", "same"), ToolReturnPart("look", "b", "same")]),
            ModelResponse([TextPart("ok")]),
        ]
    history = FoldmarkHistory(log)
    history.record(messages)
    assert history.messages() == FoldmarkHistory(log).messages() == messages
    history.do("/undo")
    assert history.messages() == FoldmarkHistory(log).messages() == messages[:8]


def test_results_without_calls_and_calls_without_results(log: foldmark.Log) -> None:
    messages: list[ModelMessage] = [
        ModelRequest([ToolReturnPart("look", "before", "c0"), UserPromptPart("Go")]),
        ModelResponse([ToolCallPart("look", {}, "c1"), ToolCallPart("look", {}, "c2")]),
        ModelRequest([ToolReturnPart("look", "only the second", "c2"), UserPromptPart("and?")]),
        ModelResponse([ToolCallPart("look", {}, "c3")]),
        ModelResponse([TextPart("well")]),
    ]
    history = FoldmarkHistory(log)
    history.record(messages)
    for there in (history, FoldmarkHistory(log)):
        shown = there.messages()
        assert paired(shown)
        assert said(shown) == [
            "user: Go",
            "call: look",
            "call: look",
            "result: only the second",
            "result: [Interrupted: this call has no result.]",
            "user: and?",
            "call: look",
            "result: [Interrupted: this call has no result.]",
            "assistant: well",
        ]
        there.record(shown)
        assert len(there.agent.context().messages) == 8


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"parts": []},
        {"parts": [{"part_kind": "from the future", "content": "x"}]},
        {"message": {"kind": "nonsense"}, "parts": [{"part_kind": "text", "content": "x"}]},
        {"message": 5, "parts": [{"part_kind": "user-prompt", "content": {"repeats": 7}}]},
        {"of": 10**20, "parts": [{"part_kind": "user-prompt", "content": "x"}]},
        {"of": "1", "parts": [None, 3, {"repeats": "args"}]},
        {"message": {"kind": "request", "instructions": {"as": 1}}, "parts": [{"part_kind": "user-prompt"}]},
        "{]",
        "[" * 100_000,
    ],
    ids=lambda data: str(data)[:40],
)
def test_data_that_is_damaged(log: foldmark.Log, data: Any) -> None:
    agent = log.agent("default")
    agent.append("user", "hello", data={"pydantic_ai": data})
    agent.append("assistant", "hi", data={"pydantic_ai": data})
    agent.append("system", "be kind", data={"pydantic_ai": data})
    history = FoldmarkHistory(log)
    assert [text for text in said(history.messages()) if "hello" in text or "hi" in text]
    result = run(Agent(Played().model, capabilities=[history]), "go on", message_history=history.messages())
    assert said(result.all_messages())[-2:] == ["user: go on", "assistant: answer 1"]
    assert len(history.agent.context().messages) == 5


def test_what_an_older_foldmark_recorded_is_read_from_the_events(log: foldmark.Log) -> None:
    """It kept a call's arguments in a way of its own."""
    agent = log.agent("default")
    agent.append("user", "where?")
    call = {"part_kind": "tool-call", "tool_name": "look", "tool_call_id": "c"}
    older = {"message": {"kind": "response"}, "parts": [call], "said": 0, "field": "args as JSON"}
    agent.append_tool_call("look", {"at": 5}, call_id="c", dialect="openai", data={"pydantic_ai": older})
    (made,) = [
        part for message in FoldmarkHistory(log).messages() for part in message.parts if part.part_kind == "tool-call"
    ]
    assert made.args_as_dict() == {"at": 5}


def test_erased_messages_are_gone(log: foldmark.Log) -> None:
    played, history = Played(), FoldmarkHistory(log)
    agent = Agent(played.model, instructions="Be kind.", capabilities=[history])
    run(agent, "a secret")
    result = run(agent, "more")
    turn = history.agent.context().messages[0].turn_id
    history.do(f"/message remove {turn} --yes")
    result = run(agent, "and more", message_history=result.all_messages())
    for messages in (played.sent[-1], history.messages(), FoldmarkHistory(log).messages()):
        assert "user: a secret" not in said(messages)
    assert not any("secret" in text for text in recorded(history.agent))
    assert len(result.all_messages()) == 4
