"""Foldmark's own questions to a real model: a summary, a state block, a judgement [SPEC 3, 4]; and the exact count."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from plan import Answer, Fail, Reply, Say, Stalled, Use
from server import Loopback
from wire_anthropic import AnthropicWire

import foldmark
from foldmark import Agent, FoldmarkError
from foldmark.runtime.loop import Shown, turn
from foldmark.sending.models import provider
from patience import LIMIT
from planning_talk import IN_CHAT

Start = Callable[..., tuple[Agent, Loopback]]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    servers: list[Loopback] = []

    def begin(*answers: Answer) -> tuple[Agent, Loopback]:
        server = Loopback(AnthropicWire(), answers)
        servers.append(server.__enter__())
        monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key-1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        agent = foldmark.open(":memory:").agent("default")
        agent.do("/model anthropic/claude-sonnet-4-5")
        for number in range(4):
            agent.append("user", f"Question {number} {'word ' * 300}")
            agent.append("assistant", f"Answer {number}")
            agent.end_turn()
        return agent, server

    yield begin
    for server in servers:
        server.__exit__(None, None, None)
        assert server.refusals == []


def says(text: str, stop: str = "end") -> Reply:
    return Reply((Say((text,)),), stop)


def test_a_summary(start: Start) -> None:
    agent, server = start(says("They asked four questions."))
    assert "They asked four questions." in agent.do("/summarize").text
    assert [message.content for message in agent.context().messages] == ["They asked four questions."]
    assert len(server.asked) == 1


@pytest.mark.parametrize(("stop", "told"), [("length", "was cut off"), ("refused", "is a refusal")])
@pytest.mark.parametrize("command", ["/summarize", "/context rebuild"])
def test_half_an_answer_and_a_refusal_change_nothing(start: Start, command: str, stop: str, told: str) -> None:
    agent, _ = start(says("### STATE\nGoal: I can", stop))
    before = agent.standing().newest
    with pytest.raises(FoldmarkError, match=f"{told} .*; nothing was changed"):
        agent.do(command)
    assert agent.standing().newest == before


def test_a_question_that_is_too_long_is_put_once_more_about_fewer_turns(start: Start) -> None:
    agent, server = start(Fail("overflow", tokens=2_000, limit=1_000), says("### STATE\nGoal: answer"))
    agent.do("/context rebuild")
    first, second = (str(each.body) for each in server.asked)
    assert len(second) < len(first) * 0.7
    assert "Question 3" in second
    assert "Question 0" not in second
    assert agent.context().state == "Goal: answer"


def test_more_than_the_model_takes_is_not_sent_and_the_way_out_is_named(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".foldmark.toml").write_text('[models."anthropic/claude-sonnet-4-5"]\nwindow = 1000\n')
    monkeypatch.chdir(tmp_path)
    agent, server = start()
    with pytest.raises(FoldmarkError, match=r"takes at most 1,000; nothing was changed. Summarize less"):
        agent.do("/summarize")
    assert server.asked == []


def test_the_exact_count(start: Start) -> None:
    agent, server = start()
    server.tokens = 2_000
    result = agent.do("/context count")
    assert result.data["tokens"] == 2_000
    assert result.data["estimate"] == agent.request().tokens
    assert result.text.startswith("2,000 tokens by anthropic/claude-sonnet-4-5's own count; the estimate is ~")


def test_a_turn_that_is_cancelled_does_not_wait_for_a_question(start: Start) -> None:
    """The model's tool asks the model in a thread and gets no answer."""
    preview = {"action": "preview", "criteria": "word", "mode": "forget"}
    agent, server = start(
        Reply((Use("c1", "filter_context", preview),), "calls"), Stalled((Say(("Mess",)),)), says("never")
    )
    agent.do("/forget word", asking=IN_CHAT)
    events = list[object]()

    async def cancelled() -> None:
        given = agent.log.given
        task = asyncio.ensure_future(
            turn(agent, provider(agent.standing().config.model, given), None, Shown(events.append, events.append))
        )
        while len(server.asked) < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert server.gone.wait(LIMIT)
    (*_, result) = agent.context().messages
    assert (result.kind, "interrupted; nothing was changed" in result.content) == ("tool_result", True)
    assert agent.open_turn is None
