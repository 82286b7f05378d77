"""Parts of an answer that a turn records besides text and calls, and its automatic work [SPEC 5.2, 5.4, 5.5]."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest

import foldmark
from foldmark import Agent, Log
from foldmark.core import selections
from foldmark.core.errors import ContextOverflowError, ProviderError
from foldmark.core.request import Compacted, Kept, Piece, Request, Stopped, Thought, ToolCall, Usage, Waiting
from foldmark.request.recorded import newest_requests
from foldmark.request.usage import usage_of
from foldmark.runtime.loop import Shown, turn
from stored import stored

THINKING = {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"}


class Model:
    """A model that plays its answers, each a list of pieces and failures."""

    def __init__(self, *answers: list[Piece | Exception]) -> None:
        self.answers, self.requests = list(answers), list[Request]()

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        self.requests.append(request)
        for piece in self.answers.pop(0):
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def count(self, request: Request) -> int:
        return len(request.bytes)


@pytest.fixture
def log() -> Iterator[Log]:
    with foldmark.open(":memory:") as log:
        yield log


@pytest.fixture
def agent(log: Log) -> Agent:
    agent = log.agent("default")
    agent.do("/model anthropic/claude-test")
    return agent


def play(agent: Agent, text: str, *answers: list[Piece | Exception]) -> tuple[Model, list[Piece]]:
    model, seen = Model(*answers), list[Piece]()
    asyncio.run(turn(agent, model, text, Shown(seen.append, seen.append, seen.append)))
    return model, seen


def test_a_pause_for_a_compaction_is_recorded_and_the_model_asked_again(log: Log, agent: Agent) -> None:
    block = {"type": "compaction", "content": "They asked for x."}
    model, _ = play(
        agent,
        "What is x?",
        [Compacted((block,), "They asked for x."), Usage(9, 0, 0, 5), Stopped("compacted", "compaction")],
        ["Seven.", Usage(9, 0, 0, 5), Stopped("end", "end_turn")],
    )
    (summary,) = recorded(log, "summary")
    assert summary.data["native"] == {"anthropic": [block]}
    first = model.requests[1].body["messages"][0]["content"][0]
    assert {**first, "cache_control": None} == {**block, "cache_control": None}
    assert "What is x?" not in model.requests[1].bytes.decode()
    assert [message.content for message in agent.context().messages] == ["They asked for x.", "Seven."]
    assert agent.open_turn is None


def recorded(log: Log, kind: str) -> list[Any]:
    events = (selections.event(stored(log), each) for each in range(1, log.agent("default").standing().newest + 1))
    return [event for event in events if event is not None and event.kind == kind]


def blocks(request: Request) -> list[list[str]]:
    """Return the block types of each assistant message."""
    return [[b["type"] for b in m["content"]] for m in request.body["messages"] if m["role"] == "assistant"]


def test_thinking_is_sent_back_while_its_turn_lasts_and_not_later(agent: Agent) -> None:
    call = ToolCall("c1", "slash", {"command": "mark", "args": "A"})
    model, _ = play(agent, "Go.", [Thought("Let"), Kept(THINKING), "Marking.", call], ["Done."])
    assert blocks(model.requests[1]) == [["thinking", "text", "tool_use"]]
    assert model.requests[1].body["messages"][1]["content"][0] == THINKING
    model, _ = play(agent, "Next.", ["Yes."])
    assert blocks(model.requests[0])[0] == ["thinking", "text", "tool_use"]  # requests only grow
    agent.do("/config set context_policy=eager")
    model, _ = play(agent, "And next.", ["Yes."])
    assert blocks(model.requests[0])[0] == ["text", "tool_use"]
    agent.do("/model openai/gpt-5")
    assert "thinking" not in str(agent.request().body["messages"])


def test_thinking_without_a_text_is_kept_with_the_calls(agent: Agent) -> None:
    call = ToolCall("c1", "slash", {"command": "mark", "args": "A"})
    model, _ = play(agent, "Go.", [Kept(THINKING), call], ["Done."])
    assert blocks(model.requests[1]) == [["thinking", "tool_use"]]
    assert [message.kind for message in agent.context().messages][:3] == ["user", "assistant", "tool_call"]


def test_thinking_of_an_answer_that_broke_off_is_not_kept(agent: Agent) -> None:
    with pytest.raises(ProviderError):
        play(agent, "Go.", [Kept(THINKING), "I was", ProviderError("network", "gone")])
    said = list(agent.context().messages)[-1]
    assert (said.content, said.interrupted, said.data) == ("I was", True, None)


def test_a_signature_stays_with_its_call(agent: Agent) -> None:
    agent.do("/model gemini/gemini-3-pro")
    call = ToolCall("c1", "slash", {"command": "mark", "args": "A"}, "c2lnbmVk")
    model, _ = play(agent, "Go.", [call], ["Done."])
    assert "'thoughtSignature': 'c2lnbmVk'" in str(model.requests[1].body)


def test_the_usage_of_an_answer_is_recorded(log: Log, agent: Agent) -> None:
    play(agent, "Go.", ["Yes.", Usage(500, 30, 20, 7), Stopped("end", "end_turn")])
    (event,) = recorded(log, "usage")
    assert event.data["stopped"] == "end_turn"
    (sent,) = newest_requests(stored(log), agent.id, 5)
    assert (event.data["request"], event.id) == (sent.id, sent.id + 2)
    found = usage_of(event.data)
    assert found is not None
    assert (found.input, found.output) == (550, 7)
    assert usage_of({"fresh": "many"}) is None


def test_a_turn_shows_what_its_last_request_weighed(agent: Agent) -> None:
    call = ToolCall("c1", "slash", {"command": "mark", "args": "A"})
    play(agent, "Go.", ["On it.", call, Usage(500, 30, 20, 7)], ["Done.", Usage(100, 500, 50, 9)])
    play(agent, "And?", ["Yes."])
    first, second = agent.do("/message list").data["turns"]
    assert (first["snapshot"], "· 659 tokens" in first["where"]) == (659, True)
    assert "· ~" in second["where"]
    child = agent.log.agent(agent.do("/fork").data["child"])
    assert child.do("/message list").data["turns"][0]["snapshot"] == 659


def test_an_estimate_that_was_far_off_is_calibrated_and_the_next_one_is_right(log: Log, agent: Agent) -> None:
    size = agent.request().size
    play(agent, "Go.", ["Yes.", Usage(fresh=size)])  # one token per byte
    (_, config) = recorded(log, "config")
    assert "anthropic/claude-test" in config.content
    request = agent.request()
    assert request.tokens == pytest.approx(len(request.bytes), rel=0.05)
    assert agent.request("openai", "gpt-5").tokens == -(-len(agent.request("openai", "gpt-5").bytes) // 4)
    agent.do("/config set context_size=3")
    assert agent.request().tokens == request.tokens


def test_an_absurd_report_calibrates_nothing(log: Log, agent: Agent) -> None:
    for tokens in (0, 10**9):
        play(agent, "Go.", ["Yes.", Usage(fresh=tokens)])
    assert len(recorded(log, "config")) == 1


def test_a_request_that_was_too_long_is_sent_once_more_with_fewer_turns(agent: Agent) -> None:
    for number in range(20):
        play(agent, f"Question {number}. " + "word " * 400, ["Answer. " * 200])
    refusal = ContextOverflowError("too long", tokens=40_000, limit=20_000)
    model, seen = play(agent, "Well?", [refusal], ["Yes."])
    first, second = model.requests
    assert second.tokens < first.tokens * 0.5
    assert second.manifest.edge.why == "budget"
    assert second.body["messages"][-1] == first.body["messages"][-1]
    assert seen == ["Yes."]
    with pytest.raises(ContextOverflowError):
        play(agent, "And now?", [refusal], [refusal])


def test_the_rest_of_the_turn_stays_within_what_was_found_to_fit(agent: Agent) -> None:
    for number in range(20):
        play(agent, f"Question {number}. " + "word " * 400, ["Answer. " * 200])
    call = ToolCall("c1", "slash", {"command": "mark", "args": "A"})
    refusal = ContextOverflowError("too long", tokens=40_000, limit=20_000)
    model, _ = play(agent, "Well?", [refusal], [call], ["Yes."])
    first, second, third = model.requests
    assert third.tokens < first.tokens * 0.5
    assert third.manifest.edge.first == second.manifest.edge.first


def test_a_newest_turn_that_is_too_long_by_itself_is_an_error_and_the_text_is_kept(agent: Agent) -> None:
    with pytest.raises(ContextOverflowError):
        play(agent, "word " * 1000, [ContextOverflowError("too long")])
    assert [message.kind for message in agent.context().messages] == ["user"]
    assert agent.open_turn is None


def test_thoughts_and_waiting_are_shown_and_not_recorded(agent: Agent) -> None:
    _, seen = play(agent, "Go.", [Waiting(2.0, "busy"), Thought("Hm."), "Yes.", Stopped("length", "max_tokens")])
    assert seen == [Waiting(2.0, "busy"), Thought("Hm."), "Yes.", Stopped("length", "max_tokens")]
    assert [message.content for message in agent.context().messages] == ["Go.", "Yes."]


# Reminders


def reminders(agent: Agent) -> list[str]:
    return [each.content for each in agent.context().messages if (each.data or {}).get("reminder")]


@pytest.mark.parametrize(
    ("share", "told"), [(50, None), (62, "slash mark"), (77, "slash fork"), (90, "/summarize"), (120, "/summarize")]
)
def test_a_model_is_reminded_in_its_own_turn(agent: Agent, share: int, told: str | None) -> None:
    agent.do("/context budget 0")
    agent.append("user", "x" * (agent.window * 3 * share // 100 - 4000))
    agent.end_turn()
    model, _ = play(agent, "Hi.", ["Yes."])
    said = reminders(agent)
    assert len(said) == (told is not None)
    if told:
        assert told in said[0]
        assert f"{share - 1}%" in said[0] or f"{share}%" in said[0]
        assert said[0] in str(model.requests[0].body["messages"][-1])


def test_a_reminder_comes_once_a_minute(log: Log, agent: Agent) -> None:
    clock = ["2026-01-01T00:00:00.000000Z"]
    log.clock = lambda: clock[0]
    agent.do("/context budget 0")
    agent.append("user", "x" * (agent.window * 2))
    agent.end_turn()
    for minute, count in (("00:00", 1), ("00:30", 1), ("00:59", 1), ("01:00", 2), ("01:30", 2), ("02:01", 3)):
        clock[0] = f"2026-01-01T00:{minute}.000000Z"
        play(agent, "Hi.", ["Yes."])
        assert len(reminders(agent)) == count
    agent.do("/config set warn_threshold=90")
    clock[0] = "2026-01-01T01:00:00.000000Z"
    play(agent, "Hi.", ["Yes."])
    assert len(reminders(agent)) == 3


def test_a_turn_that_somebody_else_ended_does_not_stay_open(agent: Agent) -> None:
    class Ended(Model):
        async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
            if not self.requests:
                agent.end_turn()
            async for piece in super().answer(request):
                yield piece

    call = ToolCall("c1", "slash", {"command": "mark", "args": "A"})
    asyncio.run(turn(agent, Ended(["On it.", call], ["Done."]), "Go.", Shown(lambda _: None, lambda _: None)))
    assert agent.open_turn is None
    assert [message.content for message in agent.context().messages][-1] == "Done."


def test_settings_that_cannot_be_read_are_passed_over(agent: Agent) -> None:
    for junk in ({"truncate_recent": 1.5, "context_size": 3}, None, {"calibration": None}, 7):
        agent.record("config", data={"settings": junk})
        assert agent.standing().config.truncate_recent == 5000
        agent.request("openai", "gpt-5")
    agent.record("config", data={"settings": {"truncate_recent": 1.5, "context_size": 3}})
    assert agent.standing().config.context_size == 3
