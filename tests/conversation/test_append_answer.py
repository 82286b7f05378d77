"""A provider's answer is recorded as its dialect reads it, without guesses [S2]."""

from typing import Any

import pytest

import foldmark
from foldmark import Agent
from foldmark.core.errors import CommandError, ProviderError

CALL = {"id": "c1", "type": "function", "function": {"name": "grep", "arguments": '{"for": "x"}'}}
ANSWERS: dict[str, dict[str, Any]] = {
    "openai": {
        "choices": [
            {"message": {"role": "assistant", "content": "Let me look.", "tool_calls": [CALL]}, "finish_reason": "stop"}
        ]
    },
    "openai_responses": {
        "status": "completed",
        "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]},
            {"type": "function_call", "call_id": "c1", "name": "grep", "arguments": '{"for": "x"}'},
        ],
    },
    "anthropic": {
        "content": [
            {"type": "thinking", "thinking": "Where?", "signature": "c2ln"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "c1", "name": "grep", "input": {"for": "x"}},
        ],
        "stop_reason": "tool_use",
    },
    "gemini": {
        "candidates": [
            {
                "content": {
                    "parts": [
                        {"text": "Let me look."},
                        {"functionCall": {"name": "grep", "args": {"for": "x"}}, "thoughtSignature": "c2ln"},
                    ]
                },
                "finishReason": "STOP",
            }
        ]
    },
}
ANSWERS["gemini_gca"] = {"response": ANSWERS["gemini"]}


@pytest.fixture
def agent() -> Agent:
    agent = foldmark.open(":memory:").agent("default")
    agent.append("user", "Where is x?")
    return agent


@pytest.mark.parametrize("provider", ANSWERS)
def test_text_and_calls_of_every_dialect_are_recorded(agent: Agent, provider: str) -> None:
    said, called = agent.append_answer(provider, ANSWERS[provider])
    _, text, call = agent.context().messages
    assert (text.id, text.kind, text.content) == (said, "assistant", "Let me look.")
    assert (call.id, call.kind, call.content, (call.data or {})["name"]) == (called, "tool_call", '{"for":"x"}', "grep")
    assert call.call_id
    agent.append_tool_result(call.call_id or "", "found", dialect=call.dialect)
    body = str(agent.request(provider, "gemini-3-pro" if "gemini" in provider else "claude-opus-4-8").body)
    assert "found" in body
    assert ("c2ln" in body) == (provider not in ("openai", "openai_responses", "anthropic"))
    if provider == "anthropic":
        (block,) = (text.data or {})["blocks"]
        assert set(block.pop("bound")) == {"model", "prefix", "after"}
        assert block == {"type": "thinking", "thinking": "Where?", "signature": "c2ln"}


def test_an_answer_is_not_guessed_at(agent: Agent) -> None:
    for provider, other in (("anthropic", "openai"), ("openai_responses", "anthropic"), ("gemini", "openai")):
        with pytest.raises(ProviderError):
            agent.append_answer(provider, ANSWERS[other])
    with pytest.raises(CommandError, match="no provider 'mistral'"):
        agent.append_answer("mistral", {})
    assert len(agent.context().messages) == 1


def test_the_usage_is_recorded_with_the_request(agent: Agent) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 60}}
    agent.append_answer("openai", {**ANSWERS["openai"], "model": "gpt-5", "usage": usage})
    (turn,) = agent.do("/message list").data["turns"]
    assert turn["snapshot"] == 120


def test_an_answer_that_is_not_a_mapping_is_refused(agent: Agent) -> None:
    for wrong in ("text", None, [1], 7):
        with pytest.raises(CommandError, match=r"as from \.model_dump\(\), not "):
            agent.append_answer("openai", wrong)  # type: ignore[arg-type]
