"""The token count of a request, by bytes and with the tokenizer [SPEC 5.4]."""

from math import ceil
from typing import Any

import msgspec
import pytest

import foldmark
from foldmark.core.assembly import media
from foldmark.core.assembly.media import Image
from foldmark.core.config import Config
from foldmark.tokens import openai
from foldmark.tokens.counting import BytesRuler, TokenizerRuler, calibration_key, count, ruler
from foldmark.tokens.openai import prompt_tokens

TOKENIZER = Config(token_counting="tokenizer")


def test_one_module_decides_how_tokens_are_counted() -> None:
    data = b"x" * 1000
    assert count("openai", "gpt-5", data) == 250
    assert count("gemini", "gemini-2.5-pro", data) == 250
    assert count("nobody", "nothing", data) == 250
    assert count("anthropic", "claude-haiku-4-5", data) == 334
    assert count("anthropic", "claude-opus-4-8", data) == count("openrouter", "anthropic/claude-opus-4-8", data) == 441
    assert count("nobody", "eu.claude-sonnet-5-v1", data) == 419
    assert count("anthropic", "claude-haiku-4-5", data, tokenizer=True) == 334


def test_the_dispatch_point_counts_a_body_with_the_tokenizer_when_asked() -> None:
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "hello world"}]}
    # 3 for the reply, 3 for the message, 1 for its role, 2 for its content
    assert count("openai", "gpt-5", msgspec.json.encode(body), tokenizer=True) == 9
    assert count("openai_responses", "gpt-5", b"hello world, no JSON", tokenizer=True) == 5
    assert count("openai", "gpt-5", b"\xff\xfe[1, 2", tokenizer=True) > 0


def test_every_message_costs_three_tokens_and_its_texts() -> None:
    body = {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "name": "ada", "content": [{"type": "text", "text": "Hello there"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "now", "arguments": '{"tz": 1}'}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "noon"},
        ]
    }
    texts = ["system", "Be brief.", "user", "ada", "Hello there", "assistant", "now", '{"tz": 1}', "tool", "noon"]
    assert prompt_tokens(body) == 3 + 4 * 3 + sum(openai.count(text) for text in texts)


def test_responses_items_are_counted_like_messages() -> None:
    body = {
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hello there"}]},
            {"type": "function_call", "call_id": "c1", "name": "now", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "noon"},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Thinking"}]},
        ],
    }
    texts = ["system", "Be brief.", "user", "Hello there", "now", "{}", "noon", "Thinking"]
    assert prompt_tokens(body) == 3 + 5 * 3 + sum(openai.count(text) for text in texts)
    assert prompt_tokens({"input": "Hello there"}) == 3 + 3 + 1 + 2


def test_sealed_thinking_costs_a_fraction_of_its_length() -> None:
    def cost(length: Any) -> Any:
        return prompt_tokens({"input": [{"type": "reasoning", "summary": [], "encrypted_content": "x" * length}]})

    assert cost(800) == cost(0)
    assert cost(8880) - cost(0) == 1000


def test_tools_cost_nine_tokens_and_their_declarations() -> None:
    tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    added = prompt_tokens({**body, "tools": [tool]}) - prompt_tokens(body)
    declared = "namespace functions {\n\ntype now = () => any;\n\n} // namespace functions"
    assert added == 9 + openai.count(declared)
    assert prompt_tokens({**body, "tools": []}) == prompt_tokens(body)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 50_000}},
        {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 50_000},
    ],
)
def test_an_image_is_counted_regardless_of_its_bytes(part: Any) -> None:
    def body(*more: Any) -> Any:
        return {"messages": [{"role": "user", "content": [{"type": "text", "text": "Look"}, *more]}]}

    assert prompt_tokens(body(part)) - prompt_tokens(body()) == media.TOKENS


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": 3, "input": None, "tools": "x", "instructions": 5},
        {"messages": [3, None, "x", {"role": 3, "content": 4, "tool_calls": [5, {"function": 6}]}]},
        {"input": [{"content": [7, {"text": 8}], "summary": 9, "encrypted_content": 10}]},
    ],
)
def test_unknown_parts_count_next_to_nothing(body: Any) -> None:
    assert 3 <= prompt_tokens(body) <= 6


def test_sizes_add_up() -> None:
    one, two = {"role": "user", "content": "First of all."}, {"role": "assistant", "content": "And then?"}
    empty, first, second, both = (prompt_tokens({"messages": m}) for m in ([], [one], [two], [one, two]))
    assert both - empty == (first - empty) + (second - empty)


def test_the_tokenizer_measures_only_models_of_openai() -> None:
    assert isinstance(ruler("openai", "gpt-5", Config()), BytesRuler)
    assert isinstance(ruler("openai", "gpt-5", TOKENIZER), TokenizerRuler)
    assert isinstance(ruler("openai_responses", "gpt-5", TOKENIZER), TokenizerRuler)
    for provider in ("anthropic", "gemini", "ollama", "openrouter", "offline"):
        assert isinstance(ruler(provider, "m", TOKENIZER), BytesRuler)
    assert ruler("anthropic", "m", Config()).ratio == 3.0
    assert ruler("openai", "m", Config()).ratio == 4.0


def test_bytes_and_tokenizer_are_calibrated_separately() -> None:
    calibration = {"openai/gpt-5": 3.2, "tokenizer:openai/gpt-5": 0.9, "anthropic/claude": 2.7}
    by_bytes, by_tokens = Config(calibration=calibration), Config(token_counting="tokenizer", calibration=calibration)
    assert ruler("openai", "gpt-5", by_bytes).tokens(3200) == 1000
    assert ruler("openai", "gpt-5", by_tokens).tokens(900) == 1000
    assert ruler("anthropic", "claude", by_tokens).tokens(2700) == 1000
    assert calibration_key("openai", "gpt-5", by_bytes) == "openai/gpt-5"
    assert calibration_key("openai", "gpt-5", by_tokens) == "tokenizer:openai/gpt-5"
    assert calibration_key("anthropic", "claude", by_tokens) == "anthropic/claude"


@pytest.mark.parametrize("ratio", [0.0, -3.0, 1e-9, 1e9, float("nan"), float("inf")])
def test_an_impossible_calibration_is_ignored(ratio: Any) -> None:
    assert ruler("openai", "gpt-5", Config(calibration={"openai/gpt-5": ratio})).ratio == 4.0


def test_bytes_of_an_image_do_not_count() -> None:
    picture = Image("image/png", "A" * 400_000)
    data = b"{}" + picture.data.encode()
    measured = BytesRuler(4.0)
    assert measured.tokens(measured.size({}, data, [picture])) == ceil(2 / 4 + media.TOKENS)


def test_an_agents_setting_decides_how_its_requests_are_measured() -> None:
    log = foldmark.open(":memory:")
    agent = log.agent("a")
    agent.append("user", "学而时习之，不亦说乎？" * 20)
    by_bytes = agent.request(provider="openai", model="gpt-5")
    assert by_bytes.tokens == ceil(len(by_bytes.bytes) / 4)
    agent.do("/config set token_counting=tokenizer")
    by_tokens = agent.request(provider="openai", model="gpt-5")
    assert by_tokens.bytes == by_bytes.bytes
    assert by_tokens.tokens == prompt_tokens(by_tokens.body) == count("openai", "m", by_tokens.bytes, tokenizer=True)
    assert agent.request(provider="anthropic", model="claude").tokens == ceil(
        len(agent.request(provider="anthropic", model="claude").bytes) / 3
    )
    log.close()


def test_the_window_follows_the_tokenizers_count() -> None:
    log = foldmark.open(":memory:")
    agent = log.agent("a")
    agent.do("/config set token_counting=tokenizer")
    agent.do("/context budget 3000")
    agent.do("/config set context_policy=eager")
    for number in range(60):
        agent.append("user", f"Question {number}: " + "why is this so, and since when? " * 5)
        agent.append("assistant", "Because it always was. " * 5)
        agent.end_turn()
    agent.append("user", "And now?")  # the window is measured at the event that opened the newest turn
    request = agent.request(provider="openai", model="gpt-5")
    assert request.manifest.edge.why == "budget"
    assert 2850 <= request.tokens <= 3000
    log.close()
