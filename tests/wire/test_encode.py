"""From a view to four wire formats: every log gives a body that the provider accepts [SPEC 5.2, L4]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import request_validators
from hypothesis import given
from hypothesis import strategies as st
from random_logs import call, logs, message, result, strings

from foldmark.core.config import Config
from foldmark.core.events import Event
from foldmark.core.prompt import EMPTY, GO_ON, OMITTED, Layer, Prompt, assemble
from foldmark.core.request import ToolSpec
from foldmark.core.truncation import HINT
from foldmark.core.view import INTERRUPTED, NO_OUTPUT, NO_RESULT, TOOL_MESSAGE, view
from foldmark.providers import gemini
from foldmark.providers.wires import WIRES

MODELS = {
    "anthropic": "claude-sonnet-4-6",
    "openai": "gpt-5",
    "gemini": "gemini-3-pro",
    "gemini_gca": "gemini-3-pro",
    "offline": "offline",
    **dict.fromkeys(("openai_responses", "openrouter", "ollama", "vllm"), "gpt-5"),
}
READ = ToolSpec("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
LIST = ToolSpec("mcp.server/list", " ", {"type": "object"})


def prompt(events: Sequence[Event], provider: str, system: str = "", config: Config | None = None) -> Prompt:
    shown = view(events, WIRES[provider].dialect, config or Config())
    return assemble([Layer("system", "system", system)], shown)


def body(
    events: Sequence[Event], provider: str, tools: Sequence[ToolSpec] = (), model: str | None = None, system: str = ""
) -> dict[str, Any]:
    return WIRES[provider].encode(model or MODELS[provider], prompt(events, provider, system), tools)


def violations(provider: str, sent: dict[str, Any]) -> list[str]:
    if provider == "gemini":
        return request_validators.gemini(sent, model=MODELS["gemini"])
    name = provider if provider in request_validators.VALIDATORS else WIRES[provider].dialect
    return request_validators.VALIDATORS[name](sent)


def entries_of(sent: dict[str, Any]) -> list[dict[str, Any]]:
    return sent.get("messages") or sent.get("input") or sent.get("contents") or sent["request"]["contents"]


providers = pytest.mark.parametrize("provider", WIRES)


@providers
@given(events=logs(), tools=st.sampled_from([(), (READ, LIST)]), system=st.sampled_from(["", "Be kind.", " \n"]))
def test_every_log_gives_a_valid_body(
    provider: str, events: list[Event], tools: tuple[ToolSpec, ...], system: str
) -> None:
    sent = body(events, provider, tools, system=system)
    assert violations(provider, sent) == []
    assert msgspec.json.encode(sent) == msgspec.json.encode(body(events, provider, tools, system=system))
    assert msgspec.json.decode(msgspec.json.encode(sent)) == sent


@providers
@given(events=logs())
def test_every_message_is_accounted_for_once(provider: str, events: list[Event]) -> None:
    made = prompt(events, provider)
    accounted = [part.event for part in made.parts if part.event] + [left.event for left in made.left_out]
    assert sorted(accounted) == [event.id for event in events]
    assert all(part.how == "synthetic" for part in made.parts if part.event is None)
    sent = strings(body(events, provider))
    assert all(part.text in sent for part in made.parts if part.kind != "tool_call")


@providers
@given(events=logs())
def test_every_text_is_sent_in_the_order_of_the_log(provider: str, events: list[Event]) -> None:
    sent = iter(strings(body(events, provider)))
    for event in events:
        foreign = event.kind == "tool" and prompt([event], provider).left_out
        if event.kind in ("user", "assistant", "summary", "tool") and event.content.strip() and not foreign:
            wanted = {"tool": TOOL_MESSAGE}.get(event.kind, "") + event.content
            assert wanted + INTERRUPTED * event.interrupted in sent


@providers
@given(events=logs())
def test_every_result_is_sent_whole_or_with_the_hint_or_named(provider: str, events: list[Event]) -> None:
    config = Config(truncate_recent=50, truncate_recent_count=1, truncate_active=20, truncate_inactive=5)
    made = prompt(events, provider, config=config)
    sent = strings(WIRES[provider].encode(MODELS[provider], made, ()))
    how = {part.event: part.how for part in made.parts}
    for event in events:
        if event.kind == "tool_result" and event.id in how:
            assert (how[event.id] == "truncated") == any(HINT.format(id=event.id) in text for text in sent)
            whole = event.content if event.content.strip() else NO_OUTPUT
            assert how[event.id] == "truncated" or whole in sent


EXCHANGE = [
    message(1, "user", "Look."),
    message(2, "assistant", "I do."),
    call(3, "c1", '{"path":"a"}'),
    call(4, "c2", '{"path":"b"}'),
    result(5, 4, "B", failed=True),
    result(6, 3, "A"),
    message(7, "user", "And?"),
]


def test_anthropic_form() -> None:
    assert body(EXCHANGE, "anthropic", [READ], system="Be kind.") == {
        "model": "claude-sonnet-4-6",
        "max_tokens": 8192,
        "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "read_file", "description": "Reads a file.", "input_schema": READ.parameters}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Look."}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I do."},
                    {"type": "tool_use", "id": "c1", "name": "read_file", "input": {"path": "a"}},
                    {"type": "tool_use", "id": "c2", "name": "read_file", "input": {"path": "b"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "A"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "B", "is_error": True},
                    {"type": "text", "text": "And?", "cache_control": {"type": "ephemeral"}},
                ],
            },
        ],
    }


@pytest.mark.parametrize("provider", ["openai", "offline"])
def test_openai_form(provider: str) -> None:
    assert body(EXCHANGE, provider, [READ], system="Be kind.") == {
        "model": MODELS[provider],
        "tools": [
            {
                "type": "function",
                "function": {"name": "read_file", "description": "Reads a file.", "parameters": READ.parameters},
            }
        ],
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Look."},
            {
                "role": "assistant",
                "content": "I do.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path":"a"}'}},
                    {"id": "c2", "type": "function", "function": {"name": "read_file", "arguments": '{"path":"b"}'}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "A"},
            {"role": "tool", "tool_call_id": "c2", "content": "B"},
            {"role": "user", "content": "And?"},
        ],
    }


GEMINI = {
    "systemInstruction": {"parts": [{"text": "Be kind."}]},
    "tools": [
        {
            "functionDeclarations": [
                {"name": "read_file", "description": "Reads a file.", "parametersJsonSchema": READ.parameters}
            ]
        }
    ],
    "contents": [
        {"role": "user", "parts": [{"text": "Look."}]},
        {
            "role": "model",
            "parts": [
                {"text": "I do."},
                {"functionCall": {"name": "read_file", "args": {"path": "a"}}},
                {"functionCall": {"name": "read_file", "args": {"path": "b"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "read_file", "response": {"output": "A"}}},
                {"functionResponse": {"name": "read_file", "response": {"error": "B"}}},
                {"text": "And?"},
            ],
        },
    ],
}


def test_gemini_form_and_its_wrapping() -> None:
    assert body(EXCHANGE, "gemini", [READ], "gemini-2.5-pro", "Be kind.") == GEMINI
    wrapped = body(EXCHANGE, "gemini_gca", [READ], "gemini-2.5-pro", "Be kind.")
    assert wrapped == {"model": "gemini-2.5-pro", "request": GEMINI}


def test_gemini_3_is_given_a_signature_for_the_first_call_of_an_answer() -> None:
    events = [message(1, "user"), call(2, signature="c2ln"), result(3, 2), call(4, "c2"), call(5, "c3"), result(6, 4)]
    events.append(call(7, "c4", signature="not base64!"))
    parts = [part for content in body(events, "gemini")["contents"] for part in content["parts"]]
    signatures = [part.get("thoughtSignature") for part in parts if "functionCall" in part]
    assert signatures == ["c2ln", gemini.UNSIGNED, None, gemini.UNSIGNED]
    older = [
        part for content in body(events, "gemini", model="gemini-2.5-pro")["contents"] for part in content["parts"]
    ]
    assert [part.get("thoughtSignature") for part in older if "functionCall" in part] == ["c2ln", None, None, None]


def test_anthropic_is_given_a_list_of_tools_whenever_there_are_calls() -> None:
    assert body(EXCHANGE, "anthropic")["tools"] == []
    assert "tools" not in body([message(1, "user")], "anthropic")


def test_tools_lose_what_a_provider_refuses() -> None:
    odd = ToolSpec("9 lives", "", {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]})
    (tool,) = body([], "anthropic", [odd])["tools"]
    assert tool["input_schema"] == {"type": "object", "properties": {"a": {}}}
    assert tool["name"].startswith("_9_lives_")
    assert "description" not in tool
    (declared,) = body([], "gemini", [LIST])["tools"][0]["functionDeclarations"]
    assert list(declared) == ["name"]
    assert body([], "openai", [LIST])["tools"][0]["function"]["parameters"]["properties"] == {}


@providers
def test_neighbours_of_one_role_are_merged_only_where_alternation_is_demanded(provider: str) -> None:
    events = [message(1, "user", "One."), message(2, "user", "Two."), message(3, "assistant", "Three.")]
    sent = body(events, provider)
    entries = entries_of(sent)
    merged = provider in ("anthropic", "gemini", "gemini_gca")
    assert len(entries) == (3 if merged else 4)
    assert [text for text in strings(entries) if text.endswith((".", ".]"))] == ["One.", "Two.", "Three.", GO_ON]


@providers
def test_an_empty_context_is_one_message(provider: str) -> None:
    sent = body([], provider)
    assert violations(provider, sent) == []
    assert EMPTY in strings(sent)


@providers
def test_a_context_that_does_not_begin_with_a_user_says_so(provider: str) -> None:
    for first in (message(1, "assistant", "Hello."), call(1)):
        sent = body([first], provider)
        assert violations(provider, sent) == []
        assert strings(entries_of(sent)).count(OMITTED) == 1


@providers
def test_a_pending_exchange_gets_its_results(provider: str) -> None:
    sent = body([message(1, "user"), call(2), call(3, "c2"), result(4, 3, "B")], provider)
    assert violations(provider, sent) == []
    assert [text for text in strings(sent) if text in (NO_RESULT, "B", GO_ON)] == [NO_RESULT, "B"]
