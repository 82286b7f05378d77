"""From a view to four wire formats: every log yields a body that the provider accepts [SPEC 5.2, L4]."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_logs import (
    CITED,
    FOUND,
    IMAGES,
    KEPT,
    MODELS,
    NO_IMAGES,
    NO_KEPT,
    READ,
    REASONING,
    REDACTED,
    SEARCH,
    SPEAKERS,
    THINKING,
    call,
    image,
    logs,
    message,
    models_of,
    result,
    strings,
    texts_of,
    tool_lists,
    violations,
)

from foldmark.core.assembly.prompt import EMPTY, GO_ON, OMITTED, Prompt, assemble
from foldmark.core.assembly.view import view
from foldmark.core.assembly.wire import HINT, INTERRUPTED, NO_RESULT, TOOL_MESSAGE
from foldmark.core.config import THINKING as THINKING_LEVELS
from foldmark.core.config import Config
from foldmark.core.events import Event
from foldmark.core.request import PLAIN, Options, Part, ToolSpec
from foldmark.providers.registry import BUILT_IN, dialect_of
from foldmark.wires.gemini import UNSIGNED
from sampled import DEEP

USUAL = {
    "anthropic": "claude-sonnet-4-6",
    "openai": "gpt-5",
    "gemini": "gemini-3-pro",
    "gemini_gca": "gemini-3-pro",
    "offline": "offline",
    **dict.fromkeys(("openai_responses", "openrouter", "ollama", "vllm"), "gpt-5"),
}
MESSAGES = ("pinned", "window")
LIST = ToolSpec("mcp.server/list", " ", {"type": "object"})
LAYERS = (
    Part("system", None, None, "system", text="System: be kind."),
    Part("system", 900, None, "system", text=" \n"),
    Part("guidelines", None, None, "guidelines", text="Guidelines: read."),
    Part("state", 901, None, "state", text="State: begun."),
    Part("scratchpad", None, None, "scratchpad", text="Scratchpad: notes."),
    Part("memos", None, None, "memos", text="Memos: none."),
)
SMALL: dict[str, Any] = {
    "truncate_recent": 50,
    "truncate_recent_count": 1,
    "truncate_active": 20,
    "truncate_inactive": 5,
}
configs = st.builds(
    lambda small, **more: Config(**more, **(SMALL if small else {})),
    small=st.booleans(),
    truncation=st.booleans(),
    isolation=st.booleans(),
    truncate_shape=st.sampled_from(["head", "head-tail"]),
)


class Wanted(NamedTuple):
    """The inputs of a request."""

    model: str
    events: list[Event]
    config: Config = Config()
    window: int = 0
    layers: tuple[Part, ...] = ()
    anchors_last: bool = False
    instruction: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    options: Options = PLAIN

    def prompt(self, provider: str) -> Prompt:
        config = msgspec.structs.replace(self.config, isolation=False) if provider == "offline" else self.config
        shown = view(self.events, dialect_of(provider), config, self.window)
        return assemble(self.layers, shown, self.instruction, anchors_last=self.anchors_last)

    def body(self, provider: str) -> dict[str, Any]:
        return dialect_of(provider).encode(self.model, self.prompt(provider), self.tools, self.options)


@st.composite
def wanted(draw: st.DrawFn, provider: str) -> Wanted:
    """Draw a log, the start of its window, and everything else that shapes a request."""
    events = draw(logs())
    return Wanted(
        draw(st.sampled_from(models_of(provider))),
        events,
        draw(configs),
        draw(st.sampled_from([0, *(event.id for event in events), 10**6])),
        tuple(layer for layer in LAYERS if draw(st.booleans())),
        draw(st.booleans()),
        draw(st.sampled_from([None, None, "Sum up."])),
        draw(tool_lists),
        Options(draw(st.sampled_from([1, 1024, 8192, 64_000])), draw(st.sampled_from(THINKING_LEVELS))),
    )


def body(
    events: Sequence[Event], provider: str, tools: Sequence[ToolSpec] = (), model: str | None = None, system: str = ""
) -> dict[str, Any]:
    layers = (Part("system", None, None, "system", text=system),)
    return Wanted(model or USUAL[provider], list(events), layers=layers, tools=tuple(tools)).body(provider)


def entries_of(sent: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sent.get("messages") or sent.get("input") or sent.get("contents") or []
    return found or list(sent["request"]["contents"])


providers = pytest.mark.parametrize("provider", BUILT_IN)
speakers = pytest.mark.parametrize("provider", SPEAKERS)


@speakers
@given(data=st.data())
def test_every_log_gives_a_body_that_the_provider_accepts(provider: str, data: st.DataObject) -> None:
    each = data.draw(wanted(provider))
    sent = each.body(provider)
    assert violations(provider, each.model, sent) == []
    assert msgspec.json.encode(sent) == msgspec.json.encode(each.body(provider))
    assert msgspec.json.decode(msgspec.json.encode(sent)) == sent


@speakers
@given(data=st.data())
def test_every_message_is_accounted_for_once_and_its_text_is_sent(provider: str, data: st.DataObject) -> None:
    each = data.draw(wanted(provider))
    made = each.prompt(provider)
    own = [layer.event for layer in each.layers if layer.event]
    accounted = [part.event for part in made.parts if part.event] + [left.event for left in made.left_out]
    assert sorted(accounted) == [*(event.id for event in each.events), *own]
    assert all(part.how == "synthetic" for part in made.parts if part.event is None and part.layer in MESSAGES)
    assert all(
        (part.layer == "pinned") == (part.event < each.window)
        for part in made.parts
        if part.event in {event.id for event in each.events}
    )
    sent = texts_of(each.body(provider))
    for part in made.parts:
        if part.kind != "tool_call":
            assert part.text.strip() in "\n".join(sent)


@speakers
@given(data=st.data())
def test_every_text_is_sent_in_the_order_of_the_log(provider: str, data: st.DataObject) -> None:
    each = data.draw(wanted(provider))
    left = {left.event for left in each.prompt(provider).left_out}
    sent, place = "\n".join(texts_of(each.body(provider))), 0
    for event in each.events:
        if event.kind in ("user", "assistant", "summary") and event.content.strip():
            assert event.id not in left
        elif event.kind != "tool" or event.id in left:
            continue
        text = {"tool": TOOL_MESSAGE}.get(event.kind, "") + event.content
        text = (text + INTERRUPTED * (event.kind == "assistant" and event.interrupted)).strip()
        place = sent.index(text, place) + len(text)


@speakers
@given(data=st.data())
def test_the_layers_are_sent_once(provider: str, data: st.DataObject) -> None:
    each = data.draw(wanted(provider))
    sent = "\n".join(strings(each.body(provider)))
    for layer in LAYERS:
        assert not layer.text.strip() or sent.count(layer.text) == (layer in each.layers)


@speakers
@given(data=st.data())
def test_every_result_is_sent_whole_or_with_the_hint_or_is_listed_as_left_out(
    provider: str, data: st.DataObject
) -> None:
    each = data.draw(wanted(provider))
    made, sent = each.prompt(provider), strings(each.body(provider))
    parts = {part.event: part for part in made.parts}
    for event in each.events:
        if event.kind == "tool_result" and event.id in parts:
            part = parts[event.id]
            assert (part.how == "truncated") == any(HINT.format(id=event.id) in text for text in sent)
            assert part.how == "truncated" or (event.content if event.content.strip() else part.text) in sent


EXCHANGE = [
    message(1, "user", "Look."),
    message(2, "assistant", "I do."),
    call(3, "c1", '{"path":"a"}'),
    call(4, "c2", '{"path":"b"}'),
    result(5, 4, "B", failed=True),
    result(6, 3, "A"),
    message(7, "user", "And?"),
]


def test_the_form_of_an_anthropic_body() -> None:
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
def test_the_form_of_an_openai_body(provider: str) -> None:
    assert body(EXCHANGE, provider, [READ], system="Be kind.") == {
        "model": USUAL[provider],
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


def test_the_form_of_a_gemini_body_and_its_wrapping() -> None:
    assert body(EXCHANGE, "gemini", [READ], "gemini-2.5-pro", "Be kind.") == GEMINI
    wrapped = body(EXCHANGE, "gemini_gca", [READ], "gemini-2.5-pro", "Be kind.")
    assert wrapped == {"model": "gemini-2.5-pro", "request": GEMINI}


def test_gemini_3_gets_a_signature_for_the_first_call_of_an_answer() -> None:
    events = [message(1, "user"), call(2, signature="c2ln"), result(3, 2), call(4, "c2"), call(5, "c3"), result(6, 4)]
    events.append(call(7, "c4", signature="not base64!"))
    parts = [part for content in body(events, "gemini")["contents"] for part in content["parts"]]
    signatures = [part.get("thoughtSignature") for part in parts if "functionCall" in part]
    assert signatures == ["c2ln", UNSIGNED, None, UNSIGNED]
    older = [
        part for content in body(events, "gemini", model="gemini-2.5-pro")["contents"] for part in content["parts"]
    ]
    assert [part.get("thoughtSignature") for part in older if "functionCall" in part] == ["c2ln", None, None, None]


def test_anthropic_gets_a_list_of_tools_whenever_there_are_calls() -> None:
    assert body(EXCHANGE, "anthropic")["tools"] == []
    assert "tools" not in body([message(1, "user")], "anthropic")


def test_tools_are_sent_without_fields_that_a_provider_refuses() -> None:
    odd = ToolSpec("9 lives", "", {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]})
    (tool,) = body([], "anthropic", [odd])["tools"]
    assert tool["input_schema"] == {"type": "object", "properties": {"a": {}}}
    assert tool["name"].startswith("_9_lives_")
    assert "description" not in tool
    (declared,) = body([], "gemini", [LIST])["tools"][0]["functionDeclarations"]
    assert list(declared) == ["name"]
    assert body([], "openai", [LIST])["tools"][0]["function"]["parameters"]["properties"] == {}


@providers
def test_adjacent_messages_of_one_role_are_merged_only_if_roles_must_alternate(provider: str) -> None:
    events = [message(1, "user", "One."), message(2, "user", "Two."), message(3, "assistant", "Three.")]
    sent = body(events, provider)
    entries = entries_of(sent)
    merged = provider in ("anthropic", "gemini", "gemini_gca")
    assert len(entries) == (3 if merged else 4)
    assert [text for text in strings(entries) if text.endswith((".", ".]"))] == ["One.", "Two.", "Three.", GO_ON]


@providers
def test_an_empty_context_is_sent_as_one_message(provider: str) -> None:
    sent = body([], provider)
    assert violations(provider, USUAL[provider], sent) == []
    assert EMPTY in strings(sent)


@providers
def test_a_context_that_does_not_begin_with_a_user_message_says_so(provider: str) -> None:
    for first in (message(1, "assistant", "Hello."), call(1)):
        sent = body([first], provider)
        assert violations(provider, USUAL[provider], sent) == []
        assert strings(entries_of(sent)).count(OMITTED) == 1


@providers
def test_a_pending_exchange_gets_its_results(provider: str) -> None:
    sent = body([message(1, "user"), call(2), call(3, "c2"), result(4, 3, "B")], provider)
    assert violations(provider, USUAL[provider], sent) == []
    assert [text for text in strings(sent) if text in (NO_RESULT, "B", GO_ON)] == [NO_RESULT, "B"]


# Blocks that a provider would almost accept


def thinking_of(provider: str) -> Wanted:
    """Return a request that lets a model of the provider think, so that its thinking is sent back."""
    model = {"anthropic": "claude-sonnet-4-5", "openai": "qwen3"}.get(provider, USUAL[provider])
    return Wanted(model, [], tools=(READ,), options=Options(8192, "low"))


def with_block(provider: str, text: str, block: dict[str, Any]) -> list[list[str]]:
    """Return the violations of requests whose active turn holds an answer with `block`, alone and before calls."""
    said = message(2, "assistant", text, dialect=dialect_of(provider).recorded, blocks=[block])
    found = []
    for events in ([message(1, "user"), said], [message(1, "user"), said, call(3), result(4, 3)]):
        each = thinking_of(provider)._replace(events=events)
        found.append(violations(provider, each.model, each.body(provider)))
    return found


@providers
@pytest.mark.parametrize("text", ["", "I look."])
def test_blocks_are_sent_in_order(provider: str, text: str) -> None:
    family = {"gemini_gca": "gemini"}.get(dialect_of(provider).recorded, dialect_of(provider).recorded)
    for block in KEPT[family]:
        assert with_block(provider, text, block) == [[], []]


ODD = [
    ("anthropic", {**THINKING, "signature": ""}),
    ("anthropic", {**REDACTED, "data": ""}),
    ("openai_responses", {**REASONING, "encrypted_content": " "}),
    ("openai_responses", {**REASONING, "summary": [{"type": "other"}]}),
    ("openai_responses", {**REASONING, "summary": [{"type": "summary_text", "text": 7}]}),
    ("openai_responses", {"type": "phase", "phase": "other"}),
    ("openrouter", {"type": "reasoning_details", "details": [7]}),
]


@pytest.mark.parametrize(("provider", "block"), ODD)
def test_blocks_that_a_provider_would_refuse_are_not_sent(provider: str, block: dict[str, Any]) -> None:
    assert with_block(provider, "I look.", block) == [[], []]


@pytest.mark.parametrize("text", ["", "I look."])
@pytest.mark.parametrize(
    "blocks",
    [
        [THINKING, SEARCH, FOUND, {**THINKING, "signature": "ZW5k", "after": 7}],
        [THINKING, {**CITED, "length": 7}, {**THINKING, "signature": "ZW5k", "after": 7}, REDACTED],
        [THINKING, SEARCH],
    ],
)
def test_thinking_at_the_end_of_an_answer_is_not_sent(text: str, blocks: list[dict[str, Any]]) -> None:
    """Anthropic refuses it there. An answer ends so if it was cut off, or if the call after it never got a result."""
    said = message(2, "assistant", text, dialect="anthropic", blocks=blocks)
    for events in ([message(1, "user"), said], [message(1, "user"), said, message(3, "user"), call(4), result(5, 4)]):
        each = thinking_of("anthropic")._replace(events=events)
        assert violations("anthropic", each.model, each.body("anthropic")) == []


@speakers
def test_unknown_content_among_the_blocks_is_ignored(provider: str) -> None:
    foreign = [block for blocks in KEPT.values() for block in blocks]
    for block in (*NO_KEPT, *foreign, *IMAGES, *NO_IMAGES):
        assert with_block(provider, "", block) == with_block(provider, "I look.", block) == [[], []], block


@providers
@pytest.mark.parametrize(
    ("text", "failed"),
    list(product(["", " ", "It failed."], [True, False])) if DEEP else [("", True), (" ", False), ("It failed.", True)],
)
def test_images_of_results_are_sent(provider: str, text: str, failed: bool) -> None:
    events = [message(1, "user"), call(2), result(3, 2, text, failed=failed, blocks=IMAGES), call(4, "c2")]
    for each in (events, [*events, message(5, "user", "And?")], [*events, message(5, "user", turn=5)]):
        for model in MODELS[provider]:
            assert violations(provider, model, body(each, provider, model=model)) == []


@providers
def test_whitespace_beside_blocks_is_not_sent(provider: str) -> None:
    family = {"gemini_gca": "gemini"}.get(dialect_of(provider).recorded, dialect_of(provider).recorded)
    for block in KEPT[family]:
        assert with_block(provider, " ", block) == [[], []]


@providers
def test_whitespace_beside_images_is_not_sent(provider: str) -> None:
    sent = body([message(1, "user", " ", blocks=[image()])], provider)
    assert violations(provider, USUAL[provider], sent) == []


def test_reasoning_is_sent_only_to_models_that_reason() -> None:
    """ "Reasoning input items can only be provided to a reasoning or computer use model." """
    said = message(2, "assistant", "I look.", dialect="openai", blocks=[REASONING])
    for model, seen in (("gpt-5", True), ("gpt-4o", False)):
        sent = body([message(1, "user"), said], "openai_responses", model=model)
        assert any(item.get("type") == "reasoning" for item in sent["input"]) == seen
