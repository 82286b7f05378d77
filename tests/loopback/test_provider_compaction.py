"""Summaries that Anthropic's API writes on request (beta `compact-2026-09-04`) [SPEC 5.7]."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from plan import Answer, Reply, Say
from server import Loopback
from wire_anthropic import AnthropicWire

import foldmark
from foldmark import Agent, CommandError, FoldmarkError
from foldmark.request.recorded import newest_requests
from foldmark.sending import models
from foldmark.sending.questions import make_window_summary, window_summary_due
from foldmark.sending.rebuilding import rebuilt
from sampled import sampled
from stored import stored

Start = Callable[..., tuple[Agent, Loopback]]
MODEL = "anthropic/claude-opus-5-5"
GIST = "They asked four questions."


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    servers: list[Loopback] = []

    def begin(*answers: Answer, **settings: Any) -> tuple[Agent, Loopback]:
        server = Loopback(AnthropicWire(), answers or [says(GIST), says("And then they asked more.")])
        servers.append(server.__enter__())
        monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key-1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        given = {"model": MODEL, "provider_compaction": True, "context_policy": "steady", **settings}
        agent = foldmark.open(":memory:", settings=given).agent("default")
        for number in range(4):
            ask(agent, number)
        return agent, server

    yield begin
    for server in servers:
        server.__exit__(None, None, None)
        assert server.refusals == []


def ask(agent: Agent, number: int, *, sent: bool = False) -> None:
    agent.append("user", f"Question {number}")
    if sent:
        agent.record_sent(agent.request())
    agent.append_tool_call("look", {"at": number}, call_id=f"c{number}", dialect="anthropic")
    agent.append_tool_result(f"c{number}", f"Result {number}. " * 50, dialect="anthropic")
    agent.append("assistant", f"Answer {number}\n\n### STATE\nGoal: {number}")
    agent.end_turn()


def says(text: str, stop: str = "end") -> Reply:
    return Reply((Say((text,)),), stop)


def turns(agent: Agent) -> list[int]:
    return [each.id for each in agent.context().messages if each.id == each.turn_id]


def unmarked(value: Any) -> Any:
    """Return a value without its cache marks."""
    if isinstance(value, dict):
        return {key: unmarked(each) for key, each in value.items() if key != "cache_control"}
    return [unmarked(each) for each in value] if isinstance(value, list) else value


def body(agent: Agent) -> Any:
    return unmarked(json.loads(agent.request().bytes))


def test_the_api_sums_up_what_would_be_sent(start: Start) -> None:
    agent, server = start()
    before = body(agent)
    done = agent.do("/summarize -- it is long")
    assert GIST in done.text
    (asked,) = server.asked
    assert asked.body["compaction"] == {"type": "summarize"}
    assert "compact-2026-09-04" in asked.headers["anthropic-beta"]
    sent = unmarked(asked.body)
    assert (sent["system"], sent["tools"]) == (before["system"], before["tools"])
    assert before["messages"][-1]["content"] == [{"type": "text", "text": "[Go on.]"}]
    assert sent["messages"] == before["messages"][:-1]

    # The receipt and the way back are those of any summary.
    assert (done.data["operation"], done.data["reason"], done.data["left"]["messages"]) == ("summary", "it is long", 16)
    assert [message.content for message in agent.context().messages] == [GIST]
    assert agent.context().state == "Goal: 3"
    newest = newest_requests(stored(agent.log), agent.id, 1)[0].number
    record = agent.do(f"/context sent {newest}").data
    assert (record["verdict"], record["purpose"]) == ("identical", "compaction")

    agent.append("user", "And now?")
    signed = {"type": "compaction", "content": GIST, "signature": "signed 0"}
    assert body(agent)["messages"][0] == {"role": "assistant", "content": [signed]}
    assert "Question 1" not in agent.request().bytes.decode()
    assert "Question 1" in agent.request("openai", "gpt-5").bytes.decode()
    agent.do(f"/restore {done.event_id}")
    assert "compaction" not in body(agent)["messages"][0]["content"][0]
    assert "Question 1" in agent.request().bytes.decode()


@pytest.mark.parametrize("policy", ["eager", "steady"])
def test_recent_turns_stay_behind_the_block(start: Start, policy: str) -> None:
    agent, server = start(context_policy=policy)
    kept = {message.id for message in agent.context().messages if (message.turn_id or 0) >= turns(agent)[2]}
    before = body(agent)
    agent.do(f"/summarize ..{turns(agent)[1]}")
    sent = unmarked(server.asked[0].body)
    assert sent["messages"] == before["messages"][: len(sent["messages"])]
    assert sent["messages"][-1]["content"][-1]["text"] == "Answer 1"
    newest = newest_requests(stored(agent.log), agent.id, 1)[0].number
    assert agent.do(f"/context sent {newest}").data["verdict"] == "identical"
    left = agent.do(f"/context sent {newest}").data["request"]["manifest"]["left_out"]
    assert {each["event"] for each in left if each["why"] == "kept"} == kept
    messages = body(agent)["messages"]
    assert messages[0]["content"][0]["type"] == "compaction"
    assert "Answer 1" not in json.dumps(messages)
    assert "Question 2" in json.dumps(messages[1])


def test_turns_that_stay_are_sent_as_they_were(start: Start) -> None:
    """This keeps the model's thinking in them valid: the API accepts its summary in place of the summarized turns."""
    agent, server = start()
    agent.do(f"/context budget {BUDGET}")  # a boundary, after which results stay whole
    for number in range(4, 12):
        ask(agent, number, sent=True)
    before = body(agent)["messages"]
    done = agent.do(f"/summarize ..{turns(agent)[6]}")
    asked = unmarked(server.asked[0].body)["messages"]
    assert before[: len(asked)] == asked
    behind = [{"role": "assistant", "content": [{"type": "compaction", "content": GIST, "signature": "signed 0"}]}]
    assert body(agent)["messages"] == [*behind, *before[len(asked) :]]
    check_rebuilt(agent)

    # The request grows from there (L8), and the newest state precedes each new question.
    ask(agent, 12, sent=True)
    agent.append("user", "And now?")
    after = body(agent)["messages"]
    assert after[: len(before) - len(asked)] == [*behind, *before[len(asked) : -1]]
    assert [block["text"] for block in after[len(before) - len(asked)]["content"]] == [
        "### STATE\nGoal: 11",
        "Question 12",
    ]
    assert after[-1]["content"][0]["text"] == "### STATE\nGoal: 12"
    check_rebuilt(agent)
    assert "Question 3" in agent.request("openai", "gpt-5").bytes.decode()

    # A boundary shortens the kept results like all others, and undoing the summary is a boundary.
    agent.do(f"/pin {turns(agent)[0]}")
    assert body(agent)["messages"][0] == behind[0]
    assert "TRUNCATED" in json.dumps(body(agent)["messages"][1:4])
    check_rebuilt(agent)
    agent.do(f"/restore {done.event_id}")
    assert body(agent)["messages"][0]["role"] == "user"
    check_rebuilt(agent)


BUDGET = 20_000


def check_rebuilt(agent: Agent) -> None:
    record = agent.record_sent(agent.request()).number
    assert rebuilt(agent, record).verdict == "identical"


def test_what_stayed_gives_way_where_the_budget_would_be_passed(start: Start) -> None:
    agent, _ = start(tools="none")
    agent.do("/context budget 8000")
    for number in range(4, 10):
        ask(agent, number)
    agent.do(f"/summarize ..{turns(agent)[6]}")
    settled, sizes, numbers = [], [], range(10, 40)
    for number in numbers:
        ask(agent, number)
        agent.append("user", "Well?")
        request = agent.request()
        settled.append(request.manifest.plan.settled)
        sizes.append(request.tokens)
        if number in sampled(numbers, 10):
            check_rebuilt(agent)
        agent.append("assistant", "So.")
        agent.end_turn()
    assert settled == sorted(settled)
    assert 2 <= len(set(settled)) <= 12
    assert max(sizes) <= 8000


def test_a_second_summary_includes_the_first(start: Start) -> None:
    agent, server = start()
    first = agent.do("/summarize").event_id
    ask(agent, 4)
    second = agent.do("/summarize").event_id
    assert [block["type"] for block in server.asked[1].body["messages"][0]["content"][:1]] == ["compaction"]
    agent.append("user", "And now?")
    assert json.dumps(body(agent)).count('"compaction"') == 1
    agent.do(f"/restore {first}")
    assert "Question 1" not in agent.request().bytes.decode()
    agent.do(f"/restore {second}")
    assert "Question 1" in agent.request().bytes.decode()


def test_messages_sent_meanwhile_stay_after_it(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, _ = start()
    before, pieces = agent.standing().newest, models.pieces

    def meanwhile(request: Any, given: Any) -> Any:
        found = pieces(request, given)
        ask(agent, 4)
        return found

    monkeypatch.setattr(models, "pieces", meanwhile)
    agent.do("/summarize")
    messages = body(agent)["messages"]
    assert messages[0]["content"][0]["content"] == GIST
    assert "Question 4" in json.dumps(messages[1])
    assert all(message.id > before for message in agent.context().messages)


def test_what_the_window_has_cut_is_summed_up_with_the_rest(start: Start) -> None:
    agent, server = start(context_size=1)
    assert "Question 0" not in agent.request().bytes.decode()
    agent.do("/summarize")
    assert "Question 0" in json.dumps(server.asked[0].body)


@pytest.mark.parametrize("policy", ["eager", "steady"])
def test_a_step_of_the_window_is_summed_up_by_the_api(start: Start, policy: str) -> None:
    agent, server = start(context_policy=policy, window_summary=True, context_size=3)
    for number in range(4, 14):
        ask(agent, number)
    wanted = window_summary_due(agent)
    assert wanted is not None
    event_id = make_window_summary(agent, wanted)
    assert "Question 10" in json.dumps(server.asked[0].body)
    assert "Question 11" not in json.dumps(server.asked[0].body)
    operation, pin = agent.do("/operations").data["operations"]
    assert pin["operation"] == "pin"
    assert (operation["id"], operation["operation"], operation["actor"]) == (event_id, "summary", "system")
    assert window_summary_due(agent) is None
    messages = body(agent)["messages"]
    assert messages[0]["content"][0]["content"] == GIST
    assert "Question 11" in json.dumps(messages[1])
    ask(agent, 14)  # the window advances, and the summary stays before it
    messages = body(agent)["messages"]
    assert messages[0]["content"][0]["content"] == GIST
    assert "Question 11" not in json.dumps(messages)
    agent.do(f"/restore {event_id}")
    agent.do("/context window 0")
    assert "Question 10" in agent.request().bytes.decode()


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"provider_compaction": False}, "/summarize"),
        ({"model": "anthropic/claude-haiku-4-5"}, "/summarize"),
        ({}, "/summarize M"),
        ({}, "/summarize 7.."),
    ],
)
def test_elsewhere_foldmark_asks_for_a_summary_itself(start: Start, settings: Any, line: str) -> None:
    agent, server = start(**settings)
    agent.do("/mark M")
    ask(agent, 4)
    assert GIST in agent.do(line).text
    assert "compaction" not in server.asked[0].body
    assert "compaction" not in agent.request().bytes.decode()


@pytest.mark.parametrize(("stop", "told"), [("length", "was cut off"), ("refused", "is a refusal")])
def test_no_summary_changes_nothing(start: Start, stop: str, told: str) -> None:
    agent, _ = start(says("They", stop))
    before = agent.standing().newest
    with pytest.raises(FoldmarkError, match=f"{told} .*; nothing was changed"):
        agent.do("/summarize")
    assert agent.standing().newest == before


def test_an_empty_answer_says_what_to_do(start: Start) -> None:
    agent, _ = start(says(""))
    with pytest.raises(FoldmarkError, match=r"wrote no summary \(end_turn\); nothing was changed.*compaction=off"):
        agent.do("/summarize")


def test_it_is_refused_together_with_context_editing(start: Start) -> None:
    agent, server = start(provider_editing="clear_tool_uses")
    with pytest.raises(CommandError, match="provider_compaction and provider_editing exclude each other"):
        agent.do("/summarize")
    assert server.asked == []
    agent.do("/config set provider_compaction=off")
    with pytest.raises(CommandError, match="exclude each other"):
        agent.do("/config set provider_compaction=on")
    agent.do("/config set provider_editing=off provider_compaction=on")
    with pytest.raises(CommandError, match="exclude each other"):
        agent.do("/config set provider_editing=clear_tool_uses")
