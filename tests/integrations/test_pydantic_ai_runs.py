"""Runs of Pydantic AI are recorded in a conversation and come back from it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import foldmark

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, UsageLimits
    from pydantic_ai.capabilities import ProcessHistory
    from pydantic_ai.exceptions import ModelHTTPError, UnexpectedModelBehavior, UsageLimitExceeded
    from pydantic_ai.messages import (
        BinaryContent,
        FilePart,
        ImageUrl,
        ModelMessagesTypeAdapter,
        ModelResponse,
        NativeToolCallPart,
        NativeToolReturnPart,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        UserPromptPart,
    )
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tools import DeferredToolResults
    from pydantic_ai_played import Played, paired, run, said

    from foldmark.integrations.pydantic_ai import FoldmarkHistory


@pytest.fixture
def log() -> Any:
    with foldmark.open(":memory:", settings={}) as log:
        yield log


def told(history: FoldmarkHistory) -> list[tuple[str, str]]:
    return [(event.kind, event.content) for event in history.agent.context().messages]


def again(log: foldmark.Log, name: str = "default") -> FoldmarkHistory:
    """Return another object for the same conversation, which knows only the log."""
    return FoldmarkHistory(log, name)


def test_a_run(log: foldmark.Log) -> None:
    history = FoldmarkHistory(log)
    agent = Agent(Played(["Hello!"]).model, system_prompt="Be kind.", instructions="Be short.", capabilities=[history])
    result = run(agent, "Hi")
    assert result.output == "Hello!"
    assert told(history) == [("system", "Be kind."), ("user", "Hi"), ("assistant", "Hello!")]
    assert history.agent.open_turn is None
    assert history.messages() == result.all_messages() == again(log).messages()
    assert "Hello!" in [hit.snippet for hit in log.search("hello")]


@pytest.mark.parametrize("passing", ["nothing", "history", "json"])
def test_several_runs_are_one_conversation(log: foldmark.Log, passing: str) -> None:
    played, history = Played(), FoldmarkHistory(log)
    agent = Agent(played.model, system_prompt="Be kind.", capabilities=[history])
    result, given = None, None
    for prompt in ("one", "two", "three"):
        if result is not None and passing != "nothing":
            given = result.all_messages()
        if given and passing == "json":
            given = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(given))
        result = run(agent, prompt, message_history=given)
        assert said(result.new_messages())[-2:] == [f"user: {prompt}", f"assistant: answer {len(played.sent)}"]
        assert len(result.new_messages()) == 2
    assert result is not None
    assert played.asked[-1] == [
        "system: Be kind.",
        "user: one",
        "assistant: answer 1",
        "user: two",
        "assistant: answer 2",
        "user: three",
    ]
    assert len(told(history)) == 7
    assert history.messages() == result.all_messages() == again(log).messages()
    turns = [event.turn_id for event in history.agent.context().messages if event.kind != "system"]
    assert len(set(turns)) == 3


def test_tools(log: foldmark.Log) -> None:
    history = FoldmarkHistory(log)
    played = Played([[("look", {"at": "sun"}), ("look", {"at": "moon"})], ("look", {"at": "sea"}), "Done."])
    agent = Agent(played.model, capabilities=[history])

    @agent.tool_plain
    def look(at: str) -> dict[str, str]:
        return {"seen": at}

    result = run(agent, "Look around")
    assert told(history) == [
        ("user", "Look around"),
        ("tool_call", '{"at":"sun"}'),
        ("tool_call", '{"at":"moon"}'),
        ("tool_result", '{"seen":"sun"}'),
        ("tool_result", '{"seen":"moon"}'),
        ("tool_call", '{"at":"sea"}'),
        ("tool_result", '{"seen":"sea"}'),
        ("assistant", "Done."),
    ]
    assert len({event.turn_id for event in history.agent.context().messages}) == 1
    assert history.messages() == result.all_messages() == again(log).messages()
    assert all(map(paired, played.sent))


def test_retries_of_a_tool_and_of_an_output(log: foldmark.Log) -> None:
    class City(BaseModel):
        name: str
        people: int

    played = Played(
        [
            ("look", {"at": "nowhere"}),
            ("look", {"at": 3}),
            ("final_result", {"name": "Lisbon", "people": "many"}),
            "This is no call.",
            ("final_result", {"name": "Lisbon", "people": 545_000}),
        ]
    )
    history = FoldmarkHistory(log)
    agent = Agent(played.model, output_type=City, retries=5, capabilities=[history])

    @agent.tool_plain
    def look(at: str) -> str:
        raise ModelRetry("Look somewhere.")

    result = run(agent, "Which city?")
    assert result.output == City(name="Lisbon", people=545_000)
    events = list(history.agent.context().messages)
    failed = [event.content for event in events if (event.data or {}).get("is_error")]
    assert len(failed) == 3
    assert "Look somewhere." in failed[0]
    assert [(event.kind, event.actor) for event in events if "call" in event.content][-1] == ("user", "system")
    assert history.messages() == result.all_messages() == again(log).messages()


def test_what_is_no_text_comes_back_as_it_was(log: foldmark.Log) -> None:
    response = ModelResponse(
        [
            ThinkingPart("Let me see.", signature="c2lnbmVk", provider_name="somebody"),
            NativeToolCallPart("web_search", {"query": "sea"}, "n1", provider_name="somebody"),
            NativeToolReturnPart("web_search", {"found": ["blue"]}, "n1", provider_name="somebody"),
            TextPart("Blue.", id="t1", provider_details={"x": [1, None]}),
            FilePart(BinaryContent(b"\x00\xff", media_type="image/png")),
        ],
        provider_name="somebody",
        provider_details={"finish": "ok"},
        finish_reason="stop",
    )
    history = FoldmarkHistory(log)
    agent = Agent(Played([response]).model, capabilities=[history])
    image = BinaryContent(b"\x89PNG\x00\xff", media_type="image/png")
    result = run(agent, ["What is", image, ImageUrl("https://example.com/sea.png"), "this?"])
    assert told(history) == [
        ("user", "What is\n[image/png, 6 bytes]\n[image-url https://example.com/sea.png]\nthis?"),
        ("assistant", "Blue."),
    ]
    back = again(log).messages()
    assert back == ModelMessagesTypeAdapter.validate_json(result.all_messages_json())
    prompt = back[0].parts[0]
    assert isinstance(prompt, UserPromptPart)
    content = list(prompt.content)[1]
    assert isinstance(content, BinaryContent)
    assert content.data == image.data


@pytest.mark.parametrize("answer", ["A streamed answer", ("look", {"at": "sun"})])
def test_streaming(log: foldmark.Log, answer: Any) -> None:
    played, history = Played([answer, "and an end"]), FoldmarkHistory(log)
    agent = Agent(played.model, capabilities=[history])

    @agent.tool_plain
    def look(at: str) -> str:
        assert told(history)[-1] == ("tool_call", '{"at":"sun"}')  # recorded before the call runs
        return f"seen {at}"

    async def stream() -> Any:
        async with agent.run_stream("Go") as stream:
            await stream.get_output()
        return stream

    messages = asyncio.run(stream()).all_messages()
    assert told(history)[0] == ("user", "Go")
    assert told(history)[-1][0] == "assistant"
    assert history.agent.open_turn is None
    assert history.messages() == messages == again(log).messages()


def test_a_stream_that_is_left(log: foldmark.Log) -> None:
    history = FoldmarkHistory(log)
    agent = Agent(Played(["one two three four five six"]).model, capabilities=[history])

    async def going() -> None:
        async with agent.run_stream("Go") as stream:
            async for _ in stream.stream_text(debounce_by=None):
                raise KeyError("enough")

    with pytest.raises(KeyError):
        asyncio.run(going())
    user, answer = history.agent.context().messages
    assert (user.content, user.interrupted) == ("Go", False)
    assert (answer.kind, answer.interrupted) == ("assistant", True)
    assert history.agent.open_turn is None
    assert run(Agent(Played().model, capabilities=[history]), "Go on").output == "answer 1"


def test_a_failure_keeps_what_was_said(log: foldmark.Log) -> None:
    played = Played([("look", {}), ModelHTTPError(500, "played"), "Back again."])
    history = FoldmarkHistory(log)
    agent = Agent(played.model, capabilities=[history])

    @agent.tool_plain
    def look() -> str:
        return "nothing"

    with pytest.raises(ModelHTTPError):
        run(agent, "Go")
    assert [kind for kind, _ in told(history)] == ["user", "tool_call", "tool_result"]
    assert history.agent.open_turn is None
    run(agent, "Once more")
    assert played.asked[-1] == ["user: Go", "call: look", "result: nothing", "user: Once more"]


def test_a_tool_that_breaks(log: foldmark.Log) -> None:
    played = Played([[("good", {}), ("bad", {})], "Oh."])
    history = FoldmarkHistory(log)
    agent = Agent(played.model, capabilities=[history])

    @agent.tool_plain
    def good() -> str:
        return "fine"

    @agent.tool_plain
    def bad() -> str:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        run(agent, "Go")
    for there in (history, again(log)):
        assert paired(there.messages())
        assert said(there.messages())[:3] == ["user: Go", "call: good", "call: bad"]
    run(agent, "What happened?")
    assert paired(played.sent[-1])
    assert played.asked[-1][-1] == "user: What happened?"
    assert "result: [Interrupted: this call has no result.]" in played.asked[-1]
    assert [kind for kind, _ in told(history)].count("tool_call") == 2
    assert not any("Interrupted: this" in text for _, text in told(history))


def test_cancelling(log: foldmark.Log) -> None:
    history = FoldmarkHistory(log)
    agent = Agent(Played([("wait", {})]).model, capabilities=[history])
    begun = asyncio.Event()

    @agent.tool_plain
    async def wait() -> str:
        begun.set()
        await asyncio.sleep(100)
        return "late"

    async def going() -> None:
        task = asyncio.create_task(agent.run("Go"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(going())
    assert [kind for kind, _ in told(history)] == ["user", "tool_call"]
    assert history.agent.open_turn is None
    assert paired(again(log).messages())


def test_a_limit(log: foldmark.Log) -> None:
    history = FoldmarkHistory(log)
    agent = Agent(Played([("look", {})] * 3).model, capabilities=[history])

    @agent.tool_plain
    def look() -> str:
        return "nothing"

    with pytest.raises(UsageLimitExceeded):
        run(agent, "Go", usage_limits=UsageLimits(request_limit=1))
    assert paired(history.messages())


def test_an_answer_that_is_refused(log: foldmark.Log) -> None:
    history = FoldmarkHistory(log)
    agent = Agent(Played([("nowhere", {})] * 3).model, retries=1, capabilities=[history])
    with pytest.raises(UnexpectedModelBehavior):
        run(agent, "Go")
    assert paired(again(log).messages())


def test_calls_that_are_answered_later(log: foldmark.Log) -> None:
    played = Played([("ask", {"what": "may I?"}), "Thank you."])
    history = FoldmarkHistory(log)
    agent = Agent(played.model, output_type=[str, DeferredToolRequests], capabilities=[history])

    @agent.tool_plain(requires_approval=True)
    def ask(what: str) -> str:
        return f"asked {what}"

    first = run(agent, "Go")
    assert isinstance(first.output, DeferredToolRequests)
    (call,) = first.output.approvals
    there = again(log)  # another process answers
    waiting = there.messages(waiting=True)
    assert waiting == first.all_messages()
    assert paired(there.messages())
    agent = Agent(played.model, output_type=[str, DeferredToolRequests], tools=[ask], capabilities=[there])
    results = DeferredToolResults(approvals={call.tool_call_id: True})
    second = run(agent, message_history=waiting, deferred_tool_results=results)
    assert second.output == "Thank you."
    assert played.asked[-1] == ["user: Go", "call: ask", "result: asked may I?"]
    assert said(there.messages()) == [*played.asked[-1], "assistant: Thank you."]
    assert [kind for kind, _ in told(there)] == ["user", "tool_call", "tool_result", "assistant"]


def test_the_test_model_with_every_kind_of_tool(log: foldmark.Log) -> None:
    history = FoldmarkHistory(log)
    agent = Agent(TestModel(), capabilities=[history])

    @agent.tool_plain
    def numbers(count: int, ratio: float, names: list[str]) -> list[float]:
        return [1.5] * count

    result = run(agent, "Go")
    assert history.messages() == result.all_messages() == again(log).messages()


def test_as_the_processor_of_process_history(log: foldmark.Log) -> None:
    played, history = Played([("look", {}), "one", "two", "three"]), FoldmarkHistory(log)
    agent = Agent(played.model, capabilities=[ProcessHistory(history)])

    @agent.tool_plain
    def look() -> str:
        return "seen"

    first = run(agent, "first")
    assert len(told(history)) == 3  # the answer comes with the next request
    second = run(agent, "second", message_history=first.all_messages())
    assert told(history)[-2:] == [("assistant", "one"), ("user", "second")]
    history.do("/undo")
    run(agent, "third", message_history=second.all_messages())
    assert played.asked[-1] == [
        "user: first",
        "call: look",
        "result: seen",
        "assistant: one",
        "user: [Earlier conversation omitted.]",
        "assistant: two",
        "user: third",
    ]


def test_a_path_opens_a_log(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with FoldmarkHistory(path, "work") as history:
        run(Agent(Played().model, capabilities=[history]), "Hi")
    with foldmark.open(path, settings={}) as log:
        assert [event.content for event in log.agent("work").context().messages] == ["Hi", "answer 1"]


def test_a_call_with_arguments_that_are_no_json(log: foldmark.Log) -> None:
    response = ModelResponse([ToolCallPart("look", '{"at": "su'), ToolCallPart("look", ""), ToolCallPart("look", None)])
    history = FoldmarkHistory(log)
    agent = Agent(Played([response, "Sorry."]).model, capabilities=[history])

    @agent.tool_plain
    def look(at: str = "sky") -> str:
        return at

    result = run(agent, "Go")
    assert [text for kind, text in told(history) if kind == "tool_call"] == ['"{\\"at\\": \\"su"', "{}", "{}"]
    assert history.messages() == result.all_messages() == again(log).messages()
