"""The particulars of OpenAI's dialect: its two forms, and the deviations of compatible servers (SPEC 5)."""

from __future__ import annotations

import asyncio
import copy
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing, suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan import Fail, Http, Reply, Say, Use
from random_logs import logs
from request_validators import VALIDATORS
from server import Loopback
from wire_openai import OpenAIWire, ResponsesWire

from foldmark.core.assembly.media import Document, Image, Medium
from foldmark.core.assembly.prompt import Prompt, assemble
from foldmark.core.assembly.view import AnsweredCall, Calls, Step, ViewMessage, view
from foldmark.core.config import Config
from foldmark.core.errors import ContextOverflowError, ProviderError
from foldmark.core.events import Event
from foldmark.core.ports import Provider
from foldmark.core.request import (
    Edge,
    Kept,
    Manifest,
    Options,
    Part,
    Piece,
    Request,
    Stopped,
    Thought,
    ToolCall,
    ToolSpec,
    Usage,
)
from foldmark.dialects.openai import chat as openai
from foldmark.dialects.openai import responses as openai_responses
from foldmark.dialects.openai.chat import CHAT
from foldmark.dialects.openai.stream import CompletionReader
from foldmark.installation import installs
from foldmark.providers import openai_api, openai_responses_api
from foldmark.providers.openai_api import countable
from foldmark.providers.registry import Access

KEY = "test-key-7f3a91c2"
LOOK = ToolSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})
PNG = Image("image/png", "aGk=")
CAT = Image(url="https://example.org/cat.png")
ASKED = ViewMessage("user", "See a.")
RS = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VjcmV0", "status": "completed"}
CONTENT = {"type": "reasoning_content", "text": "Hm."}
DETAILS = {"type": "reasoning_details", "details": [{"type": "reasoning.encrypted", "data": "x"}]}


def used(call_id: str = "c1", result: str = "seen", media: tuple[Medium, ...] = ()) -> AnsweredCall:
    return AnsweredCall(call_id, "look", '{"at":"a"}', result, False, None, media)


def chat(*steps: Step, model: str = "gpt-5", tools: Sequence[ToolSpec] = (LOOK,), thinking: str = "default") -> Any:
    body = openai.encode(model, Prompt("", steps), tools, Options(thinking=thinking))
    assert VALIDATORS["openai"](body) == []
    return body


def responses(
    *steps: Step, model: str = "gpt-5", tools: Sequence[ToolSpec] = (LOOK,), thinking: str = "default"
) -> Any:
    body = openai_responses.encode(model, Prompt("", steps), tools, Options(thinking=thinking))
    assert VALIDATORS["openai_responses"](body) == []
    return body


# Requests


def test_images_of_a_user_are_sent() -> None:
    said = ViewMessage("user", "What is it?", (PNG, CAT))
    assert chat(said)["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is it?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
                {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
            ],
        }
    ]
    assert responses(said)["input"] == [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is it?"},
                {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
                {"type": "input_image", "image_url": "https://example.org/cat.png", "detail": "auto"},
            ],
        }
    ]
    alone = ViewMessage("user", " ", (PNG,))
    assert len(chat(alone)["messages"][0]["content"]) == len(responses(alone)["input"][0]["content"]) == 1


PLAN = Document("JVBERi0=", "plan.pdf", 2)


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1-mini", "gpt-5", "ft:gpt-4o:x", "o3", "chatgpt-4o-latest"])
def test_documents_of_a_user_are_sent_as_files(model: str) -> None:
    file = {"filename": "plan.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}
    said = ViewMessage("user", "Read.", (PLAN,))
    assert chat(said, model=model)["messages"][0]["content"][1] == {"type": "file", "file": file}
    assert responses(said, model=model)["input"][0]["content"][1] == {"type": "input_file", **file}


@pytest.mark.parametrize("model", ["gpt-4", "gpt-3.5-turbo", "o3-mini", "qwen3", "openai/gpt-oss-120b", "offline"])
def test_a_model_that_reads_no_documents_gets_a_note(model: str) -> None:
    steps = ViewMessage("user", "Read.", (PLAN,)), Calls("", (used(media=(PLAN,)),))
    asked, *_, shown = chat(*steps, model=model)["messages"]
    assert [part["text"] for part in asked["content"]] == ["Read.", PLAN.note]
    assert shown["content"][1] == {"type": "text", "text": PLAN.note}
    items = responses(*steps, model=model)["input"]
    assert items[0]["content"][1] == items[-1]["output"][1] == {"type": "input_text", "text": PLAN.note}


def test_openrouter_reads_documents_for_the_models_that_do() -> None:
    for model in ("openai/gpt-5", "anthropic/claude-sonnet-4.5", "google/gemini-3-pro"):
        assert chat(ViewMessage("user", "Read.", (PLAN,)), model=model)["messages"][0]["content"][1]["type"] == "file"


def test_images_of_results_follow_all_results_in_chat_completions() -> None:
    step = Calls("", (used("c1", media=(PNG,)), used("c2", "B"), used("c3", "C", (CAT,))))
    *_, first, second, third, shown = chat(ASKED, step)["messages"]
    assert [m["tool_call_id"] for m in (first, second, third)] == ["c1", "c2", "c3"]
    assert [part.get("text") for part in shown["content"]] == [
        "[Foldmark: images in the result of call c1 (look):]",
        None,
        "[Foldmark: images in the result of call c3 (look):]",
        None,
    ]
    assert shown["role"] == "user"


def test_images_of_results_are_in_the_output_of_responses() -> None:
    items = responses(ASKED, Calls("", (used(media=(PNG,)), used("c2", "B"))))["input"]
    assert items[3]["output"] == [
        {"type": "input_text", "text": "seen"},
        {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
    ]
    assert items[4]["output"] == "B"


def test_thinking_is_sent_back_to_the_server_that_showed_it() -> None:
    step = Calls("I look.", (used(),), (CONTENT, RS, DETAILS))
    _, asked, _ = chat(ASKED, step, model="qwen/qwen3")["messages"]
    assert asked["reasoning_content"] == "Hm."
    assert asked["reasoning_details"] == DETAILS["details"]
    renamed = {**CONTENT, "field": "reasoning"}
    _, asked, _ = chat(ASKED, Calls("", (used(),), (renamed,)), model="gpt-oss-120b")["messages"]
    assert asked["reasoning"] == "Hm."
    assert "reasoning_content" not in asked


def test_openais_own_models_are_sent_no_thinking_in_chat_completions() -> None:
    _, asked, _ = chat(ASKED, Calls("I look.", (used(),), (CONTENT, RS, DETAILS)), model="gpt-5")["messages"]
    assert sorted(asked) == ["content", "role", "tool_calls"]


def test_encrypted_thinking_precedes_the_item_that_followed_it() -> None:
    phase = {"type": "phase", "phase": "commentary"}
    step = Calls("I look.", (used(),), (RS, phase, CONTENT))
    assert responses(ASKED, step, ViewMessage("user", "Well?"))["input"][1:4] == [
        {"type": "reasoning", "summary": [], "encrypted_content": "c2VjcmV0"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I look."}],
            "phase": "commentary",
        },
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":"a"}'},
    ]
    thought, called, _ = responses(ASKED, Calls("", (used(),), (RS,)))["input"][1:]
    assert (thought["type"], called["type"]) == ("reasoning", "function_call")


@pytest.mark.parametrize("kept", [RS, CONTENT, DETAILS])
def test_thinking_alone_is_not_a_message(kept: dict[str, Any]) -> None:
    steps = (ASKED, ViewMessage("assistant", "", kept=(kept,)), ViewMessage("user", "Go on."))
    assert [m["role"] for m in chat(*steps, model="qwen3")["messages"]] == ["user", "user"]
    assert [i["role"] for i in responses(*steps)["input"]] == ["user", "user"]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "reasoning_content", "text": 5},
        {"type": "reasoning_details", "details": "x"},
        {"type": "reasoning", "encrypted_content": None},
        {"type": "reasoning", "encrypted_content": "x", "summary": "y"},
        {"type": "phase", "phase": 1},
        {"type": ["reasoning"]},
        {},
    ],
)
def test_blocks_of_any_shape_give_a_valid_body(block: dict[str, Any]) -> None:
    steps = (ASKED, Calls("I look.", (used(),), (block,)), ViewMessage("assistant", "Yes.", kept=(block,)), ASKED)
    chat(*steps, model="qwen3")
    responses(*steps)


def test_deepseek_gets_the_thinking_that_it_demands() -> None:
    steps = (
        ASKED,
        Calls("", (used(),)),
        ViewMessage("assistant", "There."),
        ASKED,
        Calls("", (used("c2"),), (CONTENT,)),
    )
    messages = chat(*steps, model="deepseek/deepseek-v4-pro")["messages"]
    assert [m["reasoning_content"] for m in messages if m["role"] == "assistant"] == [" ", " ", "Hm."]
    plain = chat(ASKED, ViewMessage("assistant", "There."), ASKED, model="deepseek-v4-pro", tools=())["messages"]
    assert "reasoning_content" not in plain[1]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("gpt-5", ["minimal", "low", "medium", "high"]),
        ("gpt-5-mini-2025-08-07", ["minimal", "low", "medium", "high"]),
        ("gpt-5.1", ["none", "low", "medium", "high"]),
        ("gpt-5.6-terra", ["none", "low", "medium", "high"]),
        ("gpt-6", ["none", "low", "medium", "high"]),
        ("gpt-5-codex", ["low", "low", "medium", "high"]),
        ("gpt-5.2-pro", [None, None, None, "high"]),
        ("o3", ["low", "low", "medium", "high"]),
        ("o4-mini", ["low", "low", "medium", "high"]),
        ("o1-mini", [None] * 4),
        ("gpt-5-chat-latest", [None] * 4),
        ("gpt-4.1", [None] * 4),
        ("gpt-4o", [None] * 4),
        ("gpt-oss-120b", [None] * 4),
        ("openai/gpt-5", [None] * 4),
        ("deepseek-v4-pro", [None] * 4),
        ("", [None] * 4),
    ],
)
def test_the_level_of_thinking_is_sent_in_the_models_own_words(model: str, words: list[str | None]) -> None:
    levels = ("off", "low", "medium", "high")
    for level, word in zip(levels, words, strict=True):
        sent = openai.encode(model, Prompt("", (ASKED,)), (), Options(thinking=level))
        assert sent.get("reasoning_effort") == word
        reasoning = openai_responses.encode(model, Prompt("", (ASKED,)), (), Options(thinking=level)).get("reasoning")
        assert reasoning == (None if word is None else {"effort": word, "summary": "auto"})
    assert "reasoning_effort" not in openai.encode(model, Prompt("", (ASKED,)), (), Options())


def test_chat_completions_give_tools_to_newer_models_only_without_thinking() -> None:
    for level in ("default", "high"):
        assert chat(ASKED, model="gpt-5.6", thinking=level)["reasoning_effort"] == "none"
    assert chat(ASKED, model="gpt-5.6", thinking="high", tools=())["reasoning_effort"] == "high"
    assert responses(ASKED, model="gpt-5.6", thinking="high")["reasoning"]["effort"] == "high"


def test_nothing_is_stored_and_no_limit_is_set() -> None:
    body = responses(ASKED)
    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])
    assert "include" not in responses(ASKED, model="gpt-4.1")
    for sent in (body, chat(ASKED)):
        assert not {"max_tokens", "max_completion_tokens", "max_output_tokens", "parallel_tool_calls"} & sent.keys()


def test_a_prompt_without_steps_gives_a_valid_body() -> None:
    assert openai.encode("gpt-5", Prompt("", ()))["messages"] == []
    assert openai_responses.encode("gpt-5", Prompt("", ()))["input"] == []


# Breakpoints of the prompt cache

ANSWERED = ViewMessage("assistant", "There.")
TALK = (
    ASKED,
    ANSWERED,
    ViewMessage("user", "And b?"),
    Calls("", (used("c1"), used("c2"))),
    ANSWERED,
    ViewMessage("user", "Now c."),
)
"""Two finished turns, the older of two steps and the newer of three, and an active one."""
MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def cached(prompt: Prompt, model: str = "gpt-5.6") -> tuple[Any, Any]:
    """Return the messages of one form and the items of the other."""
    chat, plain = openai.encode(model, prompt, (LOOK,)), openai_responses.encode(model, prompt, (LOOK,))
    assert VALIDATORS["openai"](chat) == VALIDATORS["openai_responses"](plain) == []
    return chat["messages"], plain["input"]


def marks(messages: list[dict[str, Any]]) -> list[tuple[Any, int, int]]:
    """Remove the breakpoints and return their positions: role or type, index of the message, index of its part."""
    return [
        (message.get("role", message.get("type")), index, place)
        for index, message in enumerate(messages)
        for field in ("content", "output")
        if isinstance(message.get(field), list)
        for place, part in enumerate(message[field])
        if part.pop("prompt_cache_breakpoint", None)
    ]


def test_breakpoints_follow_the_text_that_stays_the_same() -> None:
    prompt = Prompt("Be brief.", TALK, anchors="### STATE", settled=5, earlier=2)
    chat, plain = cached(prompt)
    assert chat[0]["content"] == [
        {"type": "text", "text": "Be brief.", **MARK},
        {"type": "text", "text": "\n\n### STATE"},
    ]
    assert chat[1] == {"role": "user", "content": [{"type": "text", "text": "See a.", **MARK}]}
    assert chat[6] == {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "seen", **MARK}]}
    assert marks(chat) == [("system", 0, 0), ("user", 1, 0), ("tool", 6, 0)]
    assert plain[0] == {
        "role": "developer",
        "content": [
            {"type": "input_text", "text": "Be brief.", **MARK},
            {"type": "input_text", "text": "\n\n### STATE"},
        ],
    }
    assert plain[1] == {"role": "user", "content": [{"type": "input_text", "text": "See a.", **MARK}]}
    assert plain[7] == {
        "type": "function_call_output",
        "call_id": "c2",
        "output": [{"type": "input_text", "text": "seen", **MARK}],
    }
    assert marks(plain) == [("developer", 0, 0), ("user", 1, 0), ("function_call_output", 7, 0)]
    assert "instructions" not in openai_responses.encode("gpt-5.6", prompt)


def test_the_next_turn_repeats_the_breakpoints_of_a_turn() -> None:
    """Otherwise the second request could not read from the cache what the first one wrote to it."""
    more = (*TALK, ANSWERED, ViewMessage("user", "And d?"))
    for form in (0, 1):
        first = cached(Prompt("Be brief.", TALK, settled=5, earlier=2))[form]
        second = cached(Prompt("Be brief.", more, settled=7, earlier=5))[form]
        before, after = marks(first), marks(second)
        assert before[-1] == after[-2]
        assert after[-1] == ("user", len(second) - 3, 0)
        upto = before[-1][1] + 1
        assert second[2:upto] == first[2:upto]


@pytest.mark.parametrize(
    ("prompt", "chat", "plain"),
    [
        (Prompt("", (ASKED,)), [], []),
        (Prompt("Be brief.", (ASKED,)), [("system", 0, 0)], [("developer", 0, 0)]),
        (Prompt("", (ASKED,), anchors="### STATE"), [], []),
        # both coincide: the newer turn has nothing that can carry a breakpoint
        (
            Prompt("", (ASKED, ANSWERED, ANSWERED, ASKED), settled=3, earlier=2),
            [("user", 0, 0)],
            [("user", 0, 0)],
        ),
        # an empty result cannot carry one, so the result before it does, or the question
        (
            Prompt("", (ASKED, Calls("", (used("c1"), used("c2", ""))), ANSWERED, ASKED), settled=3),
            [("tool", 2, 0)],
            [("function_call_output", 3, 0)],
        ),
        (
            Prompt("", (ASKED, Calls("", (used("c1", " \n"), used("c2", ""))), ANSWERED, ASKED), settled=3),
            [("user", 0, 0)],
            [("user", 0, 0)],
        ),
        # the last part carries it, even if it is an image
        (
            Prompt("", (ViewMessage("user", "What?", (PNG, CAT)), ANSWERED, ASKED), settled=2),
            [("user", 0, 2)],
            [("user", 0, 2)],
        ),
        (
            Prompt("", (ASKED, Calls("", (used("c1", "A", (PNG,)),)), ANSWERED, ASKED), settled=3),
            [("user", 3, 1)],
            [("function_call_output", 2, 1)],
        ),
        # the active turn carries none
        (Prompt("", (ASKED, Calls("", (used(),))), settled=0), [], []),
    ],
)
def test_breakpoints_follow_the_parts_that_stay_the_same(prompt: Prompt, chat: list[Any], plain: list[Any]) -> None:
    messages, items = cached(prompt)
    assert (marks(messages), marks(items)) == (chat, plain)


@pytest.mark.parametrize(
    ("model", "knows"),
    [
        *((model, True) for model in ("gpt-5.6", "gpt-5.6-luna", "gpt-5.10", "gpt-6-sol", "gpt-6.1-terra", "gpt-10")),
        *((model, False) for model in ("gpt-5", "gpt-5.5-pro", "gpt-4.1", "gpt-4o", "o3", "gpt-oss-120b", "")),
        *((model, False) for model in ("openai/gpt-5.6", "qwen3", "deepseek-v4-pro", "gpt-5.6-chat-latest")),
    ],
)
def test_breakpoints_are_sent_to_models_that_know_them(model: str, knows: bool) -> None:
    prompt = Prompt("Be brief.", TALK, anchors="### STATE", settled=5, earlier=2)
    chat, plain = openai.encode(model, prompt, (LOOK,)), openai_responses.encode(model, prompt, (LOOK,))
    assert len(marks(chat["messages"])) == len(marks(plain["input"])) == (3 if knows else 0)
    if not knows:
        assert chat["messages"][0] == {"role": "system", "content": "Be brief.\n\n### STATE"}
        assert plain["instructions"] == "Be brief.\n\n### STATE"
        assert all(isinstance(message.get("content") or "", str) for message in chat["messages"])


def unmarked(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages as they are for models that know no breakpoints."""
    bare = copy.deepcopy(messages)
    marks(bare)
    for message in bare:
        for field in ("content", "output"):
            parts = message.get(field)
            if message.get("role") != "assistant" and isinstance(parts, list) and all("text" in part for part in parts):
                message[field] = "".join(part["text"] for part in parts)
    return bare


@given(logs(), st.booleans(), st.sampled_from(["", "Be kind."]))
def test_breakpoints_change_nothing_that_a_model_reads(events: list[Event], anchors_last: bool, system: str) -> None:
    layers = [
        Part("system", None, None, "system", text=system),
        Part("state", None, None, "state", text="### STATE\nGoal: none"),
    ]
    prompt = assemble(layers, view(events, CHAT, Config()), anchors_last=anchors_last)
    chat, plain = cached(prompt)
    older = openai.encode("gpt-5.5", prompt, (LOOK,)), openai_responses.encode("gpt-5.5", prompt, (LOOK,))
    assert unmarked(chat) == older[0]["messages"]
    said = [{"role": "developer", "content": older[1]["instructions"]}] if prompt.system else []
    assert unmarked(plain) == [*said, *older[1]["input"]]
    for messages in (chat, plain):
        assert messages == cached(prompt)[messages is plain]
        # One in the system text, and at most two in the history.
        found = marks(messages)
        assert found[:1] == [(messages[0]["role"], 0, 0)] or not system
        assert len(found) <= bool(system) + min(2, prompt.settled)


# Whole answers


def call(call_id: Any, arguments: Any = '{"at":"a"}', name: Any = "look") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def completion(finish: Any = "stop", usage: Any = None, **message: Any) -> dict[str, Any]:
    return {
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}],
        "usage": usage,
    }


SEEN = ToolCall("c1", "look", {"at": "a"})
COST = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 40}}

COMPLETIONS: list[tuple[dict[str, Any], list[Piece]]] = [
    (completion(content="Hi.", usage=COST), ["Hi.", Usage(60, 40, 0, 7), Stopped("end", "stop")]),
    (completion("tool_calls", content=None, tool_calls=[call("c1")]), [SEEN, Stopped("calls", "tool_calls")]),
    (completion("stop", content="I look.", tool_calls=[call("c1")]), ["I look.", SEEN, Stopped("calls", "stop")]),
    (completion("tool_calls", content="Hi."), ["Hi.", Stopped("end", "tool_calls")]),
    (completion("length", content="It be", tool_calls=[call("c1", '{"at"')]), ["It be", Stopped("length", "length")]),
    (completion("content_filter", content=None), [Stopped("refused", "content_filter")]),
    (completion("stop", content=None, refusal="I won't."), ["I won't.", Stopped("refused", "stop")]),
    (completion(None, content="Hi."), ["Hi.", Stopped("end", "")]),
    (completion("eos", content=[{"type": "text", "text": "Hi."}, 5]), ["Hi.", Stopped("end", "eos")]),
    (
        completion(content="Hi.", reasoning_content="Hm.", usage={"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}),
        [Kept(CONTENT), "Hi.", Usage(5, 4, 0, 0), Stopped("end", "stop")],
    ),
    (
        completion(content="Hi.", reasoning="Hm."),
        [Kept({**CONTENT, "field": "reasoning"}), "Hi.", Stopped("end", "stop")],
    ),
    (
        completion(content="Hi.", reasoning="Hm.", reasoning_details=DETAILS["details"]),
        [Kept(DETAILS), "Hi.", Stopped("end", "stop")],
    ),
    (
        completion(
            tool_calls=[call("c1"), call("c1"), call(None), call("", "at=a"), call("c5", ""), call("c6", {"n": 1})]
        ),
        [
            SEEN,
            ToolCall("c1-2", "look", {"at": "a"}),
            ToolCall("call_2", "look", {"at": "a"}),
            ToolCall("call_3", "look", "at=a"),
            ToolCall("c5", "look", {}),
            ToolCall("c6", "look", {"n": 1}),
            Stopped("calls", "stop"),
        ],
    ),
    (
        completion(content="Hi.", usage={"prompt_tokens": True, "completion_tokens": -1, "prompt_tokens_details": []}),
        ["Hi.", Usage(cache_known=False), Stopped("end", "stop")],
    ),
    (
        completion(
            content="Hi.",
            usage={"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 99, "cache_write_tokens": 99}},
        ),
        ["Hi.", Usage(0, 10, 0, 0), Stopped("end", "stop")],
    ),
    ({"role": "assistant", "content": "Hi.", "tool_calls": [call("c1")]}, ["Hi.", SEEN]),
    (completion(content="Hi.", tool_calls=[5, {"function": 1}, None]), ["Hi.", Stopped("end", "stop")]),
    (completion(content="Hi.", tool_calls="x", reasoning=5), ["Hi.", Stopped("end", "stop")]),
]


@pytest.mark.parametrize(("answer", "pieces"), COMPLETIONS)
def test_a_chat_completion_is_parsed_into_pieces(answer: dict[str, Any], pieces: list[Piece]) -> None:
    before = msgspec.json.encode(answer)
    assert list(openai.parse(answer)) == pieces
    assert msgspec.json.encode(answer) == before


@pytest.mark.parametrize("choices", [None, [], {}, [5], [{"message": "Hi."}], [{"delta": {}}]])
def test_an_invalid_chat_completion_is_refused(choices: Any) -> None:
    with pytest.raises(ProviderError) as raised:
        openai.parse({"choices": choices})
    assert raised.value.kind == "answer"


def response(*output: Any, status: Any = "completed", **more: Any) -> dict[str, Any]:
    return {"object": "response", "status": status, "output": list(output), **more}


def message(*texts: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": text} for text in texts], **more}


FC = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": '{"at":"a"}'}
REFUSAL = {"type": "message", "content": [{"type": "refusal", "refusal": "I won't."}]}

RESPONSES: list[tuple[dict[str, Any], list[Piece]]] = [
    (
        response(RS, message("I ", "look."), FC, usage={"input_tokens": 100, "output_tokens": 7}),
        [Kept(RS), "I look.", SEEN, Usage(100, 0, 0, 7, cache_known=False), Stopped("calls", "completed")],
    ),
    (
        response(
            message("Hi."),
            usage={"input_tokens": 100, "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 50}},
        ),
        ["Hi.", Usage(10, 40, 50, 0), Stopped("end", "completed")],
    ),
    (response(message("One."), message("Two.")), ["One.\n\nTwo.", Stopped("end", "completed")]),
    (
        response(message("Hi.", phase="final_answer")),
        [Kept({"type": "phase", "phase": "final_answer"}), "Hi.", Stopped("end", "completed")],
    ),
    (response({"type": "message", "content": "Hi."}), ["Hi.", Stopped("end", "completed")]),
    (response(REFUSAL), ["I won't.", Stopped("refused", "completed")]),
    (
        response(message("It be"), FC, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        ["It be", Stopped("length", "max_output_tokens")],
    ),
    (
        response(status="incomplete", incomplete_details={"reason": "content_filter"}),
        [Stopped("refused", "content_filter")],
    ),
    (response(FC, FC), [SEEN, ToolCall("c1-2", "look", {"at": "a"}), Stopped("calls", "completed")]),
    (response({**FC, "arguments": "{"}), [ToolCall("c1", "look", "{"), Stopped("calls", "completed")]),
    (
        response(
            5, {"type": []}, {**RS, "encrypted_content": None}, message(), {"type": "message", "content": 7}, usage=5
        ),
        [Stopped("end", "completed")],
    ),
]


@pytest.mark.parametrize(("answer", "pieces"), RESPONSES)
def test_a_response_is_parsed_into_pieces(answer: dict[str, Any], pieces: list[Piece]) -> None:
    assert list(openai_responses.parse(answer)) == pieces


@pytest.mark.parametrize("answer", [{}, {"status": "completed"}, response(status="queued"), response(status=[1])])
def test_an_invalid_response_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(ProviderError) as raised:
        openai_responses.parse(answer)
    assert raised.value.kind == "answer"


# Streams of compatible servers


def delta(finish: Any = None, **parts: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": parts, "finish_reason": finish}]}


def called(index: int | None, call_id: Any = None, name: Any = None, arguments: Any = None) -> dict[str, Any]:
    found: dict[str, Any] = {"function": {"name": name, "arguments": arguments}}
    found |= {} if index is None else {"index": index}
    return delta(tool_calls=[found | ({} if call_id is None else {"id": call_id})])


A, B = '{"at":"a"}', '{"at":"b"}'
TWO = [SEEN, ToolCall("c2", "seek", {"at": "b"})]

STREAMED_CALLS: dict[str, tuple[list[dict[str, Any]], list[ToolCall]]] = {
    "pieces by index": (
        [
            called(0, "c1", "look", ""),
            called(0, arguments='{"at"'),
            called(1, "c2", "seek"),
            called(0, None, None, ':"a"}'),
            called(1, None, None, B),
        ],
        TWO,
    ),
    "without index, whole": ([called(None, "c1", "look", A), called(None, "c2", "seek", B)], TWO),
    "without index, in pieces": (
        [called(None, "c1", "look", '{"at":'), called(None, arguments='"a"}'), called(None, "c2", "seek", B)],
        TWO,
    ),
    "all with index 0": ([called(0, "c1", "look", A), called(0, "c2", "seek", B)], TWO),
    "without index and ids": (
        [called(None, None, "look", A), called(None, None, "look", B)],
        [ToolCall("call_0", "look", {"at": "a"}), ToolCall("call_1", "look", {"at": "b"})],
    ),
    "all with index 0, without ids": (
        [called(0, "", "look", A), called(0, "", "seek", B)],
        [ToolCall("call_0", "look", {"at": "a"}), ToolCall("call_1", "seek", {"at": "b"})],
    ),
    "the tail with another index": (
        [called(0, "c1", "look", A), called(0, "c2", "seek", '{"at":'), called(1, None, None, '"b"}')],
        TWO,
    ),
    "names and ids again, or empty": (
        [called(0, "c1", "look", '{"at":'), called(0, "c1", "look", '"a'), called(0, "", "", '"}')],
        [SEEN],
    ),
    "a name with every piece, without index": (
        [called(None, "c1", "look", '{"at":'), called(None, "c1", "look", '"a"}')],
        [SEEN],
    ),
    "an id with every piece, and a wrong index": (
        [called(0, "c1", "look", '{"at":'), called(7, "c1", None, '"a"}')],
        [SEEN],
    ),
    "one id for two": (
        [called(0, "c1", "look", A), called(1, "c1", "look", A)],
        [SEEN, ToolCall("c1-2", "look", {"at": "a"})],
    ),
    "said twice": ([called(0, "c1", "look", A), called(0, "c1", "look", A)], [SEEN]),
    "arguments that are no text": ([called(0, "c1", "look", {"at": "a"})], [SEEN]),
    "no arguments": ([called(0, "c1", "look")], [ToolCall("c1", "look", {})]),
    "wrong types": (
        [called(0, 5, ["look"], None), delta(tool_calls=[{"index": 0}, 7]), delta(tool_calls=5)],
        [ToolCall("call_0", "", {})],
    ),
}


FIELDS = (
    *(
        "choices",
        "delta",
        "message",
        "content",
        "refusal",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "id",
        "index",
    ),
    *("reasoning", "reasoning_content", "reasoning_details", "type", "text", "summary", "usage", "prompt_tokens"),
    *("prompt_tokens_details", "cached_tokens", "finish_reason", "output", "status", "encrypted_content", "phase"),
)


def streamed(chunks: Sequence[dict[str, Any]]) -> list[Piece]:
    reader = CompletionReader("Server")
    shown: list[Piece] = [piece for chunk in chunks for piece in reader.add(chunk)]
    return [*shown, *reader.pieces()]


@pytest.mark.parametrize("name", STREAMED_CALLS)
def test_calls_of_any_server_are_put_together(name: str) -> None:
    chunks, calls = STREAMED_CALLS[name]
    assert streamed([*chunks, delta("stop")]) == [*calls, Stopped("calls", "stop")]


def test_pieces_of_thinking_that_belong_together_are_joined() -> None:
    def thought(text: str, **more: Any) -> dict[str, Any]:
        return delta(reasoning=text, reasoning_details=[{"type": "reasoning.text", "text": text, "index": 0, **more}])

    secret = {"type": "reasoning.encrypted", "data": "eA==", "index": 0}
    chunks = [thought("Hm, "), thought("so.", signature="c2ln"), delta(reasoning_details=[secret]), delta("stop")]
    details = [{"type": "reasoning.text", "text": "Hm, so.", "index": 0, "signature": "c2ln"}, secret]
    kept = Kept({"type": "reasoning_details", "details": details})
    assert streamed(chunks) == [Thought("Hm, "), Thought("so."), kept, Stopped("end", "stop")]


def test_thinking_in_the_details_only_is_shown() -> None:
    details = [{"type": "reasoning.summary", "summary": "Hm."}]
    assert streamed([delta("stop", reasoning_details=details)])[0] == Thought("Hm.")


def test_thinking_under_two_names_is_read_once() -> None:
    chunks = [delta(reasoning="Hm.", reasoning_content="Hm."), delta("stop", content="So.")]
    assert streamed(chunks) == [Thought("Hm."), "So.", Kept(CONTENT), Stopped("end", "stop")]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(_JSON.map(lambda value: {"choices": [{"delta": value}], "usage": value}) | _JSON, max_size=3))
def test_any_stream_and_any_answer_is_parsed_or_a_provider_error(values: list[Any]) -> None:
    for value in values:
        for parse in (openai.parse, openai_responses.parse):
            with suppress(ProviderError):
                parse(value if isinstance(value, dict) else {"choices": [{"message": value}], "status": "completed"})
    with suppress(ProviderError):
        for piece in streamed([value for value in values if isinstance(value, dict)]):
            assert not isinstance(piece, ToolCall) or isinstance(piece.call_id + piece.name, str)


# Through the SDK


class Played(OpenAIWire):
    """A server that answers with the given lines or the given HTTP response."""

    model = "qwen3"

    def __init__(self, *lines: str | dict[str, Any], http: Http | None = None) -> None:
        self._lines, self._http = lines, http

    def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
        for line in self._lines:
            yield (line if isinstance(line, str) else f"data: {json.dumps(line)}\n\n").encode()

    def failure(self, fail: Fail) -> Http:
        assert self._http is not None
        return self._http


class PlayedResponses(Played):
    """The same server for the other form."""

    provider, model, path = "openai_responses", "gpt-5", "/responses"


def request_for(model: str = "qwen3", names: dict[str, str] | None = None) -> Request:
    return made(openai.encode(model, Prompt("Be brief.", (ASKED,)), (LOOK,)), model, names)


def made(body: dict[str, Any], model: str = "gpt-5", names: dict[str, str] | None = None) -> Request:
    manifest = Manifest((), (), Edge(None, None, 0))
    return Request("openai", model, "openai", body, msgspec.json.encode(body), 1, manifest, names=names or {})


async def _listen(provider: Provider, request: Request) -> list[Piece]:
    async with aclosing(provider.answer(request)) as answer:
        return [piece async for piece in answer]


def asked(wire: Played, request: Request | None = None, *, key: str | None = KEY) -> tuple[list[Piece], Loopback]:
    """Return the pieces of an answer of this server, and the server."""
    plain = isinstance(wire, PlayedResponses)
    module = openai_responses_api if plain else openai_api
    answer = Fail("request") if wire._http else Reply(())
    with Loopback(wire, [answer]) as server:
        provider = module.connect(wire.model, Access(key, f"{server.url}/v1"))
        request = request or (made(responses(ASKED)) if plain else request_for())
        return asyncio.run(_listen(provider, request)), server


def refused(wire: Played) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        asked(wire)
    assert KEY not in str(raised.value)
    assert raised.value.__cause__ is None
    return raised.value


DONE = "data: [DONE]\n\n"


def test_the_request_is_sent_with_the_field_for_streaming() -> None:
    request = request_for()
    _, server = asked(Played(delta("stop"), DONE), request)
    (received,) = server.requests
    assert received.body == {**request.body, "stream": True, "stream_options": {"include_usage": True}}
    assert list(received.body)[: len(request.body)] == list(request.body)
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.path == "/v1/chat/completions"
    added = ',"stream":true,"stream_options":{"include_usage":true}'
    assert int(received.headers["content-length"]) == len(request.bytes) + len(added)
    assert received.headers["content-type"] == "application/json"
    request = made(responses(ASKED))
    _, server = asked(PlayedResponses({"type": "response.completed", "response": response()}), request)
    assert server.requests[0].body == {**request.body, "stream": True}


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([delta(content="Hi."), delta("stop"), {"choices": [], "usage": COST}, DONE], id="as OpenAI"),
        pytest.param([delta(content="Hi."), delta("stop"), {"choices": [], "usage": COST}], id="no [DONE]"),
        pytest.param([delta(content="Hi."), delta("stop"), {"choices": None, "usage": COST}, DONE], id="null choices"),
        pytest.param([delta(content="Hi."), {**delta("stop"), "usage": COST}, DONE], id="usage with the end"),
        pytest.param(
            [{**delta(content="Hi."), "usage": {"prompt_tokens": 1}}, {**delta("stop"), "usage": COST}, DONE],
            id="usage in every chunk",
        ),
        pytest.param(
            [": OPENROUTER PROCESSING\n\n", "\n", delta(content="Hi."), delta("stop"), {"usage": COST}, DONE],
            id="comments",
        ),
        pytest.param(
            [{"choices": [{"delta": {"content": "Hi."}}]}, {"choices": [{"finish_reason": "stop"}]}, {"usage": COST}],
            id="hardly any fields",
        ),
        pytest.param(
            [
                delta(content="Hi.", role=None, tool_calls=None, refusal=None),
                delta("stop", content=None),
                {"usage": COST},
            ],
            id="nulls",
        ),
        pytest.param(
            [
                delta(content="Hi."),
                {"choices": [{"index": 1, "delta": {"content": "Ho."}}, 5]},
                delta("stop"),
                {"usage": COST},
            ],
            id="another choice",
        ),
    ],
)
def test_streams_of_any_server_are_parsed(lines: list[str | dict[str, Any]]) -> None:
    pieces, _ = asked(Played(*lines))
    assert pieces == ["Hi.", Usage(60, 40, 0, 7), Stopped("end", "stop")]


def test_without_reported_usage_there_is_none() -> None:
    assert asked(Played(delta(content="Hi."), delta("stop"), DONE))[0] == ["Hi.", Stopped("end", "stop")]


def test_a_server_that_does_not_stream_is_read() -> None:
    head = {"content-type": "application/json; charset=utf-8"}
    whole = completion(content="Hi.", tool_calls=[call("c1")], usage=COST)
    wire = Played(http=Http(200, head, json.dumps(whole).encode()))
    assert asked(wire)[0] == ["Hi.", SEEN, Usage(60, 40, 0, 7), Stopped("calls", "stop")]
    told = response(message("Hi."))
    wire = PlayedResponses(http=Http(200, head, json.dumps(told).encode()))
    assert asked(wire)[0] == ["Hi.", Stopped("end", "completed")]


def test_tools_are_called_by_their_own_names() -> None:
    wire = Played(called(0, "c1", "look", A), called(1, "c2", "other", A), delta("stop"), DONE)
    pieces, _ = asked(wire, request_for(names={"look": "mcp.server/look"}))
    assert [piece.name for piece in pieces if isinstance(piece, ToolCall)] == ["mcp.server/look", "other"]
    wire = PlayedResponses({"type": "response.completed", "response": response(FC)})
    pieces, _ = asked(wire, made(responses(ASKED), names={"look": "mcp.server/look"}))
    assert pieces[0] == ToolCall("c1", "mcp.server/look", {"at": "a"})


def test_breakpoints_pass_through_the_sdk() -> None:
    prompt = Prompt("Be brief.", TALK, anchors="### STATE", settled=5, earlier=2)
    _, server = asked(Played(delta("stop"), DONE), made(openai.encode("gpt-5.6", prompt)))
    assert len(marks(server.requests[0].body["messages"])) == 3
    end = {"type": "response.completed", "response": response()}
    _, server = asked(PlayedResponses(end), made(openai_responses.encode("gpt-5.6", prompt)))
    assert len(marks(server.requests[0].body["input"])) == 3


def test_halves_of_characters_are_joined_or_replaced() -> None:
    lines = [r'data: {"choices":[{"delta":{"content":"\ud83d\ude00 \ud83d"},"finish_reason":"stop"}]}' + "\n\n"]
    assert asked(Played(*lines))[0][0] == "😀 \ufffd"


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **more}


def test_messages_and_summaries_of_a_response_are_kept_apart() -> None:
    pieces, _ = asked(
        PlayedResponses(
            event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="One "),
            event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="thought."),
            event("reasoning_summary_text.delta", output_index=0, summary_index=1, delta="Another."),
            event("output_text.delta", output_index=1, delta="I "),
            event("output_text.delta", output_index=1, delta="look."),
            event("refusal.delta", output_index=2, delta="No."),
            event("completed", response=response(RS, message("I look."), message("No."))),
        )
    )
    assert pieces == [
        *(Thought(text) for text in ("One ", "thought.", "\n\nAnother.")),
        *("I ", "look.", "\n\nNo."),
        Kept(RS),
        Stopped("end", "completed"),
    ]


def test_a_response_with_an_empty_end_is_assembled_from_its_items() -> None:
    pieces, _ = asked(
        PlayedResponses(
            event("output_item.done", output_index=1, item=FC),
            event("output_item.done", output_index=0, item=RS),
            event("completed", response=response()),
        )
    )
    assert pieces == [Kept(RS), SEEN, Stopped("calls", "completed")]


def test_text_that_was_not_streamed_comes_at_the_end() -> None:
    events = [
        event("output_text.delta", output_index=0, delta="I "),
        event("completed", response=response(message("I look."))),
    ]
    assert asked(PlayedResponses(*events))[0] == ["I ", "look.", Stopped("end", "completed")]


# Failures

HTML = Http(200, {"content-type": "text/html"}, b"<html>Welcome</html>")


@pytest.mark.parametrize(
    ("wire", "kind", "words"),
    [
        (Played(http=HTML), "answer", "answered with text/html instead of a stream of events"),
        (Played("data: {no json\n\n"), "answer", "cannot be understood"),
        (Played("data: [1, 2]\n\n"), "answer", "cannot be understood: [1, 2]"),
        (Played("data: null\n\n"), "answer", "cannot be understood: None"),
        (Played('data: {"choices":[{"delta":' + "[" * 100_000 + "\n\n"), "answer", "cannot be understood"),
        (Played(delta(content="It be")), "network", "ended in the middle of the answer"),
        (Played(), "network", "ended in the middle of the answer"),
        (Played(delta("error")), "busy", "broke off its answer (error)"),
        (
            Played({"choices": [{"error": {"code": 502, "message": "Upstream died"}, "finish_reason": "error"}]}),
            "busy",
            "is overloaded or broken (502): Upstream died.",
        ),
        (Played({"error": {"code": 429, "message": "Slow down"}}), "rate", "Slow down"),
        (Played({"error": "out of memory"}), "busy", "out of memory"),
        (Played({"error": {"code": "invalid_prompt", "message": "Not this"}}), "request", "Not this"),
        (Played({"error": {"type": "invalid_request_error", "message": "Not this"}}), "request", "Not this"),
        (Played({"error": {"type": "server_error", "code": None, "message": "Sorry"}}), "busy", "Sorry"),
        (Played({"error": {"code": "invalid_api_key", "message": "Expired"}}), "key", "Expired"),
        (PlayedResponses(event("created")), "network", "ended in the middle of the answer"),
        (PlayedResponses({"type": "error", "code": "server_error", "message": "Sorry"}), "busy", "Sorry"),
        (
            PlayedResponses({"type": "error", "error": {"code": "rate_limit_exceeded", "message": "Slow"}}),
            "rate",
            "limits how often it may be asked: Slow.",
        ),
        (
            PlayedResponses(event("failed", response=response(status="failed", error={"code": "server_error"}))),
            "busy",
            "is overloaded or broken",
        ),
        (
            PlayedResponses(event("failed", response=response(status="failed", error={"code": "image_too_large"}))),
            "request",
            "broke off its answer",
        ),
        (PlayedResponses(event("failed", response=response(status="failed"))), "answer", "(status: failed)"),
        (PlayedResponses(event("completed", response={"output": 5})), "answer", "without a whole response"),
    ],
)
def test_an_answer_that_breaks_off_is_an_error(wire: Played, kind: str, words: str) -> None:
    error = refused(wire)
    assert error.kind == kind
    assert words in str(error)


def _http(status: int, error: Any, **headers: str) -> Http:
    body = error if isinstance(error, bytes) else json.dumps({"error": error}).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Http(status, {"content-type": "application/json", **named}, body)


@pytest.mark.parametrize(
    ("http", "kind", "words", "wait"),
    [
        (_http(401, {"message": "No key"}), "key", "refused the request (401): No key. Check the key", None),
        (_http(403, {"message": "Not in your country"}), "key", "Not in your country", None),
        (_http(402, {"message": "Insufficient credits"}), "request", "the account has no quota or credit left", None),
        (
            _http(429, {"message": "You exceeded your current quota", "code": "insufficient_quota"}, retry_after="5"),
            "request",
            "Waiting does not help",
            None,
        ),
        (_http(429, {"message": "Slow"}, retry_after_ms="1500", retry_after="9"), "rate", "Slow", 1.5),
        (_http(429, {"message": "Please try again in 2.5s. See …"}), "rate", "try again in 2.5s", 2.5),
        (_http(429, {"message": "Please try again in 250ms"}), "rate", "limits how often", 0.25),
        (_http(429, {"message": "Slow"}, retry_after="99999999999"), "rate", "Slow", 86_400.0),
        (_http(429, {"message": "Slow"}, retry_after="Mon, 01 Jan 2001 00:00:00 GMT"), "rate", "Slow", 0.0),
        (_http(429, {"message": "Slow"}, retry_after="soon"), "rate", "Slow", None),
        (_http(429, {"message": "Slow"}, retry_after="-1"), "rate", "Slow", None),
        (_http(429, {"message": "Request too large for gpt-4o on TPM"}), "request", "/context budget", None),
        (_http(500, {"message": "Sorry"}), "busy", "is overloaded or broken (500): Sorry.", None),
        (_http(503, b"<html><h1>Down</h1></html>", retry_after="3"), "busy", "is overloaded or broken (503).", 3.0),
        (_http(504, b""), "busy", "(504)", None),
        (_http(408, "timeout"), "busy", "timeout", None),
        (
            _http(404, "model 'x' not found, try pulling it first"),
            "request",
            "try pulling it first. Check the model",
            None,
        ),
        (_http(400, {"message": "a\nb\t" + "c" * 5000}), "request", "(400): a b ccc", None),
        (_http(400, None), "request", "refused the request (400).", None),
        (_http(400, {"message": ["odd"]}), "request", "['odd']", None),
        (_http(413, b"too big"), "request", "too big. A smaller", None),
        (
            _http(422, json.dumps({"detail": [{"loc": ["body"], "msg": "field required"}]}).encode()),
            "request",
            "field required",
            None,
        ),
        (
            _http(400, {"message": "Provider returned error", "metadata": {"raw": "No such tool"}}),
            "request",
            "Provider returned error: No such tool.",
            None,
        ),
    ],
)
def test_refusals_quote_the_words_of_the_server(http: Http, kind: str, words: str, wait: float | None) -> None:
    error = refused(Played(http=http))
    assert (error.kind, error.retry_after) == (kind, wait)
    assert words in str(error)
    assert len(str(error)) < 1000
    assert "<" not in str(error)


@pytest.mark.parametrize(
    ("message", "more", "tokens", "limit"),
    [
        (
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens.",
            {"code": "context_length_exceeded"},
            204308,
            128000,
        ),
        (
            "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in …",
            {},
            122946,
            16384,
        ),
        (
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            {},
            None,
            None,
        ),
        (
            "This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens (…)",
            {"code": 400},
            42832,
            32768,
        ),
        (
            "You passed 1015 input tokens and requested 10. However, the model's context length is only 1024 tokens, …",
            {"code": 400},
            1015,
            1024,
        ),
        (
            "the request exceeds the available context size. try increasing the context size or enable context shift",
            {"type": "exceed_context_size_error", "n_prompt_tokens": 14429, "n_ctx": 8192},
            14429,
            8192,
        ),
        ("request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it", {}, 9000, 8192),
        ("Requested tokens (2285) exceed context window of 2048", {}, 2285, 2048),
        ("The input (70000 tokens) is longer than the model's context length (65536 tokens).", {}, 70000, 65536),
        ("The prompt (total length 9001) is too long to fit into the model (context length 8192).", {}, 9001, 8192),
        ("the input length exceeds the context length", {}, None, None),
        ("This model's maximum prompt length is 131072 but the request contains 140000 tokens.", {}, 140000, 131072),
        (
            "Provider returned error",
            {"metadata": {"raw": "prompt is too long: 210,000 tokens > 200,000 maximum"}},
            210_000,
            200_000,
        ),
        ("Too much", {"code": "context_length_exceeded"}, None, None),
    ],
)
def test_many_servers_words_for_a_long_request_are_recognized(
    message: str, more: Any, tokens: int | None, limit: int | None
) -> None:
    body = {"message": message, **more}
    for wire in (Played(http=_http(400, body)), Played({"error": body})):
        error = refused(wire)
        assert isinstance(error, ContextOverflowError)
        assert (error.tokens, error.limit) == (tokens, limit)
        assert "/context budget" in str(error)
    event = {"type": "error", **body} if "type" not in more else {"type": "error", "error": body}
    assert isinstance(refused(PlayedResponses(event)), ContextOverflowError)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (f"Incorrect API key provided: {KEY}.", "Incorrect API key provided: …"),
        ("Incorrect API key provided: sk-proj-abc123_x*****wxyz. Find it", "Incorrect API key provided: sk-… Find it"),
        ("Incorrect API key provided: test-key*****91c2.", "Incorrect API key provided: …"),
    ],
)
def test_keys_are_not_repeated_in_errors(message: str, shown: str) -> None:
    text = str(refused(Played(http=_http(401, {"message": message}))))
    assert shown.rstrip(".") in text
    assert "wxyz" not in text
    assert "91c2" not in text


# Access


@pytest.mark.parametrize("module", [openai_api, openai_responses_api])
def test_a_missing_key_or_a_wrong_address_is_an_error(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for access, kind, words in (
        (Access(), "key", "OPENAI_API_KEY"),
        (Access(key=""), "key", "OPENAI_API_KEY"),
        *(
            (Access(KEY, url), "request", "begins with http:// or https://")
            for url in (
                "localhost:11434",
                "ollama",
                "",
                "http://",
                "http://[",
                "ftp://x",
                "http://x:port",
                "http://x:99999",
            )
        ),
    ):
        with pytest.raises(ProviderError) as raised:
            module.connect("gpt-5", access)
        assert raised.value.kind == kind
        assert words in str(raised.value)
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ProviderError) as raised:
        module.connect("gpt-5", Access(KEY))
    assert raised.value.kind == "sdk"
    assert str(raised.value).endswith(installs("openai"))


def test_a_configured_server_gets_only_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "sk-secret")

    class Open(Played):
        def refuse(self, path: str, headers: Any, body: dict[str, Any]) -> Http | None:
            assert "authorization" not in headers
            assert "sk-secret" not in str(headers)
            return None

    assert asked(Open(delta(content="Hi."), delta("stop"), DONE), key=None)[0][0] == "Hi."


def test_a_server_that_requires_a_key_is_reported() -> None:
    with pytest.raises(ProviderError) as raised:
        asked(Played(), key=None)
    assert raised.value.kind == "key"
    assert "You didn't provide an API key" in str(raised.value)


# Counting


def test_chat_completions_are_counted_as_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_api, "OWN_HOSTS", ("127.0.0.1",))
    step = Calls("I look.", (used(media=(PNG, PLAN)), used("c2", "B")))
    body = openai.encode(
        "gpt-5", Prompt("Be brief.", (ASKED, step, ViewMessage("user", "?", (CAT,)))), (LOOK,), Options(thinking="low")
    )
    with Loopback(ResponsesWire(), tokens=4321) as server:
        provider = openai_api.connect("gpt-5", Access(KEY, server.url))
        assert asyncio.run(provider.count(made(body))) == 4321
        assert server.refusals == []
        sent = server.requests[0].body
    assert ResponsesWire().texts(sent) == OpenAIWire().texts(body)
    assert sent["reasoning"] == {"effort": "low"}
    assert countable(openai.encode("gpt-5", Prompt("", ()))) == {"model": "gpt-5", "input": []}


@pytest.mark.parametrize("module", [openai_api, openai_responses_api])
def test_a_server_without_counting_is_reported(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    request = made(chat(ASKED) if module is openai_api else responses(ASKED))
    with Loopback(OpenAIWire()) as server:  # this wire has no path for counting
        provider = module.connect("gpt-5", Access(KEY, server.url))
        for own in ((), ("127.0.0.1",)):
            monkeypatch.setattr(openai_api, "OWN_HOSTS", own)
            with pytest.raises(ProviderError) as raised:
                asyncio.run(provider.count(request))
            assert raised.value.kind == "request"
            assert "has no counting endpoint" in str(raised.value)


@pytest.mark.parametrize(
    "counted", [{}, {"input_tokens": "5"}, {"input_tokens": -1}, {"input_tokens": True}, [], "x", None]
)
def test_an_invalid_count_is_an_error(counted: Any) -> None:
    class Odd(ResponsesWire):
        def counted(self, tokens: int) -> Http:
            return Http(200, {"content-type": "application/json"}, json.dumps(counted).encode())

    with Loopback(Odd()) as server, pytest.raises(ProviderError) as raised:
        asyncio.run(openai_responses_api.connect("gpt-5", Access(KEY, server.url)).count(made(responses(ASKED))))
    assert raised.value.kind == "answer"


def test_the_loopback_servers_refuse_what_real_servers_refuse() -> None:
    """They refuse a path, a key and a body, and only one of them counts."""
    body = chat(ASKED)
    headers = {"authorization": f"Bearer {KEY}"}
    for wire, good in ((OpenAIWire(), body), (ResponsesWire(), responses(ASKED))):
        sent = {**good, "stream": True}
        assert wire.refuse(f"/v1{wire.path}", headers, sent) is None
        statuses = [
            wire.refuse("/v1/engines", headers, sent),
            wire.refuse(wire.path, {}, sent),
            wire.refuse(wire.path, headers, {**sent, "modle": "x"}),
            wire.refuse(wire.path, headers, good),
        ]
        assert [http.status for http in statuses if http] == [404, 401, 400, 400]
    counting = ResponsesWire().refuse("/responses/input_tokens", headers, responses(ASKED))
    assert counting is not None
    assert b"Unknown parameter: 'store'" in counting.body
    reply = Reply((Say(("Hi",)), Use("c1", "look", {})), "calls")
    plain = b"".join(OpenAIWire().stream(reply, {"model": "x", "stream": True}))
    assert b'"prompt_tokens"' not in plain


def test_a_marked_body_is_counted_like_an_unmarked_one() -> None:
    made = Prompt(
        "Be brief.", (ViewMessage("user", "Hi."), Calls("", (used("c1"),)), ViewMessage("user", "And?")), settled=2
    )
    new, old = (countable(openai.encode(name, made)) for name in ("gpt-5.6", "gpt-5.5"))
    assert VALIDATORS["openai_responses"](new) == []
    assert new["instructions"] == old["instructions"]
