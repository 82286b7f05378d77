"""Content that Anthropic's API omits from requests automatically: enabled by a setting, recorded [SPEC 5.7]."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from plan import Reply, Say, Use
from server import Loopback
from talking import Seen, connect, conversation, events
from wire_anthropic import AnthropicWire

from foldmark import Agent, CommandError
from foldmark.core.assembly.wire import tool_name
from foldmark.core.request import Usage
from foldmark.request.prepare import prepare
from foldmark.request.recorded import newest_requests
from foldmark.runtime.loop import turn
from stored import stored

WIRE = AnthropicWire()
ASKED = "clear_tool_uses trigger=50000 keep=5 clear_at_least=9000 exclude=look+over.there, clear_thinking keep=2"
EDITS = [
    {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}},
    {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": 50000},
        "keep": {"type": "tool_uses", "value": 5},
        "clear_at_least": {"type": "input_tokens", "value": 9000},
        "exclude_tools": ["look", tool_name("over.there")],
    },
]
APPLIED = (
    {"type": "clear_thinking_20251015", "cleared_thinking_turns": 3, "cleared_input_tokens": 15000},
    {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8, "cleared_input_tokens": 50000},
)
LOOK = Reply((Say(("Looking.",)), Use("c1", "look", {"at": "x"})), "calls")


def test_edits_are_sent_and_what_was_applied_is_recorded() -> None:
    seen = Seen()
    with conversation(WIRE, {"look": lambda _: "seen"}) as agent:
        agent.do(f"/config set provider_editing={ASKED}")
        answers = [LOOK, Reply((Say(("It is there.",)),), usage=Usage(100, 40, 0, 20, APPLIED))]
        with Loopback(AnthropicWire(), answers) as server:
            asyncio.run(turn(agent, connect(WIRE, server.url), "Look.", seen.show))
            assert (server.refusals, server.left) == ([], 0)
        for received in server.asked:
            assert received.body["context_management"] == {"edits": EDITS}
            assert received.body["thinking"] == {"type": "adaptive"}
            assert "context-management-2025-06-27" in received.headers["anthropic-beta"]
            assert received.body["messages"][0]["content"][0]["text"] == "Look."
        first, second = [event for event in events(agent) if event.kind == "usage"]
        assert "altered" not in (first.data or {})
        assert (second.data or {})["altered"] == list(APPLIED)
        newest = newest_requests(stored(agent.log), agent.id, 1)[0].number
        assert agent.do(f"/context sent {newest}").data["verdict"] == "identical"
        (result,) = [each.id for each in agent.context().messages if each.kind == "tool_result"]
        said = agent.do(f"/context explain {result}").text
        assert "the provider left out of the request: 8 tool uses, 3 thinking turns, 65,000 input tokens" in said
        (usage,) = [piece for piece in seen.others if isinstance(piece, Usage) and piece.altered]
        assert usage.cleared == 65000


def test_what_was_left_out_counts_when_estimates_are_calibrated() -> None:
    with conversation(WIRE) as agent:
        size = len(agent.request().bytes)
        answer = Reply((Say(("Yes.",)),), usage=Usage(10, 0, 0, 5, ({"cleared_input_tokens": size},)))
        with Loopback(AnthropicWire(), [answer]) as server:
            asyncio.run(turn(agent, connect(WIRE, server.url), "So?", Seen().show))
        assert agent.standing().config.calibration["anthropic/claude-opus-5-5"] < 1.5


def bodies(agent: Agent) -> dict[str, Any]:
    """Return the body of a request for an answer, and of one of Foldmark's own questions."""
    at, (provider, _, model) = agent.standing(), agent.standing().config.model.partition("/")
    return {
        "answer": agent.request().body,
        "summary": prepare(stored(agent.log), at, at.config, provider, model, only=at.visible, purpose="summary").body,
    }


def test_off_by_default_and_not_for_what_foldmark_itself_asks() -> None:
    with conversation(WIRE) as agent:
        agent.append("user", "Hi.")
        assert "context_management" not in bodies(agent)["answer"]
        agent.configure("provider_editing", "clear_tool_uses")
        found = bodies(agent)
        assert found["answer"]["context_management"] == {"edits": [{"type": "clear_tool_uses_20250919"}]}
        assert "thinking" not in found["answer"]
        assert "context_management" not in found["summary"]


def test_thinking_is_cleared_only_where_the_model_thinks() -> None:
    with conversation(WIRE) as agent:
        agent.append("user", "Hi.")
        agent.configure("provider_editing", "clear_thinking keep=all")
        assert agent.request("anthropic", "claude-sonnet-4-6").body.keys() & {"context_management", "thinking"} == set()
        agent.configure("thinking", "low")
        body = agent.request("anthropic", "claude-sonnet-4-6").body
        assert body["context_management"] == {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
        assert body["thinking"] == {"type": "adaptive"}
        assert "context_management" not in json.dumps(agent.request("openai", "gpt-5").body)


def test_edits_precede_the_one_for_a_compaction_by_the_api() -> None:
    made = {"type": "compaction", "content": "They asked for x."}
    answer = {"content": [made, {"type": "text", "text": "Seven."}], "stop_reason": "end_turn"}
    with conversation(WIRE) as agent:
        agent.append("user", "What is x?")
        agent.append_answer("anthropic", answer)
        agent.append("user", "And y?")
        agent.configure("provider_editing", "clear_tool_uses")
        edits = agent.request().body["context_management"]["edits"]
        assert [edit["type"] for edit in edits] == ["clear_tool_uses_20250919", "compact_20260112"]


def test_an_answer_recorded_whole_keeps_what_was_applied() -> None:
    with conversation(WIRE) as agent:
        agent.append("user", "Hi.")
        content = [{"type": "text", "text": "Hello."}]
        applied = {"applied_edits": [*APPLIED, "odd"]}
        agent.append_answer("anthropic", {"content": content, "usage": {}, "context_management": applied})
        (usage,) = [event for event in events(agent) if event.kind == "usage"]
        assert (usage.data or {})["altered"] == list(APPLIED)


@pytest.mark.parametrize(
    "value",
    [
        *("on", "", "clear", "clear_tool_uses, clear_tool_uses", "clear_tool_uses keep=-1", "clear_tool_uses trigger"),
        *("clear_thinking keep=0", "clear_thinking trigger=5", "clear_tool_uses keep=all", "clear_tool_uses exclude="),
    ],
)
def test_an_invalid_value_of_provider_editing_is_refused(value: str) -> None:
    with conversation(WIRE) as agent:
        with pytest.raises(CommandError, match="provider_editing must be 'off', or one or both of"):
            agent.do(f"/config set provider_editing={value}")
        assert agent.standing().config.provider_editing == "off"
