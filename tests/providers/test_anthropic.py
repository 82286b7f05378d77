"""The particulars of Anthropic's dialect: cache points, thinking with signatures, events and error messages."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan import Fail, Http, Reply, Say, Think, Use
from rules_anthropic import anthropic as violations
from rules_anthropic import manual_thinking
from server import Loopback
from wire_anthropic import AnthropicWire, error

from foldmark.core.assembly.media import Document, Image, Medium
from foldmark.core.assembly.prompt import Prompt, assemble
from foldmark.core.assembly.view import AnsweredCall, Calls, Step, View, ViewMessage
from foldmark.core.errors import ContextOverflowError, ProviderError
from foldmark.core.request import (
    BOUND,
    Compacted,
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
from foldmark.dialects.anthropic.messages import encode, parse
from foldmark.dialects.anthropic.thinking import bind, mark
from foldmark.installation import installs
from foldmark.providers.anthropic_api import connect
from foldmark.providers.registry import Access
from foldmark.request.usage import usage_data, usage_of

MODEL = "claude-opus-5-5"
UNBOUND = "claude-opus-5"
KEY = "sk-ant-7f3a91c2"
TOOLS = (ToolSpec("look", "Looks.", {"type": "object"}), ToolSpec("seek", "Seeks.", {"type": "object"}))
POINT = {"type": "ephemeral"}
PIXEL = Image("image/png", "aGk=")
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "ZGF0YQ=="}
DROP = {"prefix_mismatch_behavior": "drop_block"}


def used(
    call_id: str = "c1", result: str = "seen", failed: bool = False, media: tuple[Medium, ...] = ()
) -> AnsweredCall:
    return AnsweredCall(call_id, "look", '{"at":"a"}', result, failed, None, media)


def user(text: str) -> ViewMessage:
    return ViewMessage("user", text)


def model(text: str, *kept: dict[str, Any]) -> ViewMessage:
    return ViewMessage("assistant", text, (), kept)


def prompt(*steps: Step, stable: str = "Be brief.", anchors: str = "", settled: int = 0) -> Prompt:
    return Prompt(stable, steps, anchors=anchors, settled=settled)


def fitting(*steps: Step, name: str = MODEL, tools: Sequence[ToolSpec] = ()) -> tuple[Step, ...]:
    """Return the steps with each thinking block bound to the content before it here."""
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Calls) or step.role == "assistant":
            calls = [ToolCall(call.call_id, call.name, {}) for call in step.calls] if isinstance(step, Calls) else []
            asked = encode(name, prompt(*found), tools)
            pieces = bind(lambda asked=asked: asked, (step.text, *map(Kept, step.kept), *calls))  # type: ignore[misc]
            step = step._replace(kept=tuple(piece.block for piece in pieces if isinstance(piece, Kept)))
        found.append(step)
    return tuple(found)


def messages(*steps: Step, name: str = UNBOUND, thinking: str = "default") -> list[dict[str, Any]]:
    """Return the messages with role and blocks, without cache points."""
    body = encode(name, prompt(*steps), options=Options(thinking=thinking))
    assert violations(body) + manual_thinking(body) == []
    return [{"role": m["role"], "content": [_plain(block) for block in m["content"]]} for m in body["messages"]]


def _plain(block: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "cache_control"}


def points(body: dict[str, Any]) -> list[str]:
    """Return the positions of the cache points; everything up to each of them is cached."""
    found = [f"tool {tool['name']}" for tool in body.get("tools", ()) if tool.get("cache_control") == POINT]
    found += [block["text"] for block in body.get("system", ()) if block.get("cache_control") == POINT]
    for message in body["messages"]:
        found += [_named(block) for block in message["content"] if block.get("cache_control") == POINT]
    assert json.dumps(body).count("cache_control") == len(found)
    return found


def _named(block: dict[str, Any]) -> str:
    names = {"tool_result": "tool_use_id", "tool_use": "name", "image": "type"}
    return str(block[names.get(block["type"], block["type"])])


# Requests


def test_the_system_prompt_is_cached_and_changing_layers_follow_it() -> None:
    assert encode(MODEL, prompt(user("Hi"), anchors="### STATE\nGoal: greet")) == {
        "model": MODEL,
        "max_tokens": 8192,
        "system": [
            {"type": "text", "text": "Be brief.", "cache_control": POINT},
            {"type": "text", "text": "### STATE\nGoal: greet"},
        ],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": POINT}]}],
    }


LONG = (user("A"), model("B"), user("C"), Calls("D", (used("c1"), used("c2"))), model("E"), user("F"))


@pytest.mark.parametrize(
    ("settled", "expected"),
    [(0, []), (1, ["A"]), (2, ["B"]), (3, ["C"]), (4, ["c2"]), (5, ["E"]), (6, [])],
)
def test_cache_points_follow_the_parts_that_stay_the_same(settled: int, expected: list[str]) -> None:
    for stable, anchors, first in (("S", "", "S"), ("S", "N", "S"), ("", "N", "tool seek"), ("", "", "tool seek")):
        made = prompt(*LONG, stable=stable, anchors=anchors, settled=settled)
        assert points(encode(MODEL, made, TOOLS)) == [first, *expected, "F"]
    assert points(encode(MODEL, prompt(*LONG, stable="", anchors="N", settled=settled))) == [*expected, "F"]


def test_a_cache_point_may_be_inside_a_merged_message() -> None:
    steps = (user("A"), user("B"), user("C"), Calls("", (used(),)), user("D"), user("E"))
    for settled, block in ((1, "A"), (2, "B"), (3, "C"), (4, "c1"), (5, "D")):
        assert points(encode(MODEL, prompt(*steps, settled=settled))) == ["Be brief.", block, "E"]


def test_a_cache_point_of_an_empty_step_moves_to_the_step_before() -> None:
    steps = (user("A"), model("", THOUGHT), user("B"))
    assert points(encode(MODEL, prompt(*steps, settled=2))) == ["Be brief.", "A", "B"]


def test_the_last_cache_point_may_be_a_result_or_an_image() -> None:
    assert points(encode(MODEL, prompt(user("A"), Calls("", (used("c1"), used("c2"))))))[-1] == "c2"
    (message,) = encode(MODEL, prompt(ViewMessage("user", "", (PIXEL,))))["messages"]
    assert message["content"][0]["cache_control"] == POINT


def test_images_come_before_the_text_and_inside_results() -> None:
    link = Image(url="https://example.org/cat.png")
    steps = ViewMessage("user", "See?", (PIXEL, link)), Calls("", (used("c1", media=(PIXEL,)), used("c2", "bad", True)))
    asked, _, answered = messages(*steps)
    data = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    assert asked["content"] == [
        data,
        {"type": "image", "source": {"type": "url", "url": "https://example.org/cat.png"}},
        {"type": "text", "text": "See?"},
    ]
    assert answered["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "seen"}, data]},
        {"type": "tool_result", "tool_use_id": "c2", "content": "bad", "is_error": True},
    ]


def test_documents_come_before_the_text_and_inside_results() -> None:
    plan, book = Document("JVBERi0=", "plan.pdf", 600), Document("JVBERi0=", "book.pdf", 601)
    steps = ViewMessage("user", "See?", (plan, PIXEL, book)), Calls("", (used("c1", media=(Document("JVBERi0="),)),))
    asked, _, answered = messages(*steps)
    data = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}
    assert asked["content"] == [
        {**data, "title": "plan.pdf"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "text", "text": book.note},
        {"type": "text", "text": "See?"},
    ]
    assert answered["content"][0]["content"] == [{"type": "text", "text": "seen"}, data]


def test_foreign_thinking_is_sent_to_models_that_do_not_bind_it() -> None:
    other = {**THOUGHT, "imported": True}

    def thinking(model: str) -> list[Any]:
        thought = fitting(user("See?"), Calls("", (used(),), (THOUGHT,)), name=model, tools=TOOLS)[1].kept[0]
        steps = user("See?"), Calls("", (used(),), (other, thought)), ViewMessage("assistant", "And", (), (other,))
        body = encode(model, prompt(*steps, user("Go on.")), TOOLS, Options(thinking="low"))
        blocks = [block for message in body["messages"] for block in message["content"]]
        return [block for block in blocks if block["type"] == "thinking"]

    assert thinking("claude-opus-5") == [THOUGHT, THOUGHT, THOUGHT]
    assert thinking("claude-opus-5-5") == thinking("claude-fable-5-1") == [THOUGHT]


def test_a_failed_result_with_an_image_keeps_the_image() -> None:
    (result,) = messages(user("See?"), Calls("", (used(failed=True, media=(PIXEL,)),)))[-1]["content"]
    assert [block["type"] for block in result["content"]] == ["text", "image"]
    assert "is_error" not in result


def answer_of(*steps: Step, **how: str) -> list[str]:
    """Return the main field of each block of the model's first message."""
    message = messages(user("A"), *steps, **how)[1]
    assert message["role"] == "assistant"
    return [_shortly(block) for block in message["content"]]


def _shortly(block: dict[str, Any]) -> str:
    names = {"thinking": "signature", "redacted_thinking": "data", "tool_use": "name"}
    return str(block[names.get(block["type"], block["type"])])


def test_kept_blocks_are_sent_unchanged_before_the_text() -> None:
    message = messages(user("A"), Calls("I look.", (used(),), (THOUGHT, HIDDEN)))[1]
    assert message["content"][:2] == [THOUGHT, HIDDEN]
    assert answer_of(Calls("I look.", (used(),), (THOUGHT, HIDDEN))) == ["c2ln", "ZGF0YQ==", "I look.", "look"]


def test_incomplete_thinking_is_ignored() -> None:
    odd: tuple[dict[str, Any], ...] = (
        {"type": "thinking", "thinking": "Hm."},
        {"type": "thinking", "thinking": None, "signature": "x"},
        {"type": "redacted_thinking", "data": 7},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": ["thinking"]},
        {},
    )
    assert answer_of(model("B", *odd, {**HIDDEN, "more": 1}), user("C")) == ["ZGF0YQ==", "B"]


def test_thinking_between_texts_is_sent_at_its_position() -> None:
    second, third = {**THOUGHT, "signature": "two", "after": 4}, {**HIDDEN, "after": 9}
    assert answer_of(Calls("One.Two.\n", (used(),), (THOUGHT, second, third))) == [
        "c2ln",
        "One.",
        "two",
        "Two.\n",
        "ZGF0YQ==",
        "look",
    ]
    for after in (0, -1, 99, "4", None, 9):  # nothing may follow the text at the end of an answer
        assert answer_of(model("One.Two.\n", {**second, "after": after}), user("B")) == ["two", "One.Two.\n"]


def test_thinking_alone_is_not_a_message_and_joins_the_next_answer() -> None:
    assert [m["role"] for m in messages(user("A"), model("", THOUGHT), user("B"))] == ["user"]
    assert answer_of(model("", THOUGHT), model("B"), user("C")) == ["c2ln", "B"]
    assert answer_of(model("", THOUGHT), model(" ", HIDDEN), Calls("", (used(),))) == ["c2ln", "ZGF0YQ==", "look"]
    assert answer_of(model("", THOUGHT), user("B"), model("C"), user("D"))[-1:] == ["C"]


def test_a_prompt_without_steps_gives_no_messages() -> None:
    assert encode(MODEL, Prompt("", ())) == {"model": MODEL, "max_tokens": 8192, "messages": []}


ADAPTIVE = {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize(
    ("name", "level", "parameter", "effort"),
    [
        *(
            (name, "default", None, None)
            for name in ("claude-opus-5-5", "claude-haiku-4-5", "claude-3-5-haiku", "other")
        ),
        *((name, "medium", ADAPTIVE, "medium") for name in ("claude-opus-5-5", "claude-opus-4-7", "claude-fable-6")),
        ("anthropic.claude-sonnet-5", "low", ADAPTIVE, "low"),
        ("claude-opus-4-6", "high", {"type": "adaptive"}, "high"),
        ("claude-haiku-4-5-20251001", "low", {"type": "enabled", "budget_tokens": 2048}, None),
        ("claude-haiku-4-5@20251001", "medium", {"type": "enabled", "budget_tokens": 4096}, None),
        ("claude-sonnet-4-20250514", "high", {"type": "enabled", "budget_tokens": 6144}, None),
        ("claude-3-7-sonnet-20250219", "high", {"type": "enabled", "budget_tokens": 6144}, None),
        ("claude-3-5-haiku-20241022", "high", None, None),
        ("other-model", "high", None, None),
        *(
            (name, "off", {"type": "disabled"}, None)
            for name in ("claude-opus-5", "claude-sonnet-5", "claude-haiku-5-5")
        ),
        *((name, "off", {"type": "disabled"}, None) for name in ("claude-opus-4-8", "claude-haiku-4-5")),
        ("claude-sonnet-5-5", "off", {"type": "between_tools"}, None),
        *((name, "off", None, "low") for name in ("claude-opus-5-5", "claude-fable-5", "claude-mythos-5-1")),
        ("claude-3-opus-20240229", "off", None, None),
        ("other-model", "off", None, None),
    ],
)
def test_thinking_is_requested_in_the_form_of_each_model(
    name: str, level: str, parameter: dict[str, Any] | None, effort: str | None
) -> None:
    body = encode(name, prompt(user("Hi")), options=Options(thinking=level))
    assert body.get("thinking") == parameter
    assert body.get("output_config") == ({"effort": effort} if effort else None)
    assert violations(body) + manual_thinking(body) == []


@pytest.mark.parametrize(("output", "budget"), [(1024, None), (1025, 1024), (2000, 1024), (64_000, 16_000)])
def test_a_budget_leaves_room_for_the_answer(output: int, budget: int | None) -> None:
    body = encode("claude-haiku-4-5", prompt(user("Hi")), options=Options(output, "low"))
    assert body["max_tokens"] == output
    assert body.get("thinking", {}).get("budget_tokens") == budget


def test_no_budget_is_requested_amid_calls_made_without_thinking() -> None:
    old, high = "claude-sonnet-4-5", Options(thinking="high")
    unthought, thought = Calls("", (used("c1"),)), Calls("", (used("c2"),), (THOUGHT,))
    assert "thinking" not in encode(old, prompt(user("A"), thought, unthought), options=high)
    assert answer_of(thought, unthought, name=old, thinking="high") == ["look"]  # then no thinking is sent
    assert encode(old, prompt(user("A"), unthought, thought), options=high)["thinking"]["type"] == "enabled"
    assert "thinking" in encode(old, prompt(user("A"), unthought, model("B"), user("C")), options=high)
    assert "thinking" in encode("claude-opus-4-6", prompt(user("A"), unthought), options=high)


def test_with_a_budget_an_answer_that_holds_thinking_begins_with_it() -> None:
    late = {**THOUGHT, "after": 2}
    for steps in ((model("B"), model("C", THOUGHT), user("D")), (model("B.C", late), user("D"))):
        texts = [block for block in answer_of(*steps, name="claude-haiku-4-5", thinking="low") if block != "D"]
        assert "".join(texts).replace(".", "") == "BC"
        assert "c2ln" in answer_of(*steps, name="claude-opus-4-6", thinking="low")


def test_earlier_thinking_is_not_sent_to_a_model_that_does_not_think() -> None:
    step = Calls("B", (used(),), (THOUGHT,))
    for name, level in (("claude-sonnet-4-6", "default"), ("claude-sonnet-4-5", "default"), ("claude-opus-5", "off")):
        assert answer_of(step, name=name, thinking=level) == ["B", "look"]
    for name, level in (("claude-sonnet-4-6", "low"), ("claude-opus-5", "default"), ("claude-opus-5-5", "off")):
        assert answer_of(*fitting(user("A"), step, name=name)[1:], name=name, thinking=level) == ["c2ln", "B", "look"]


def test_requests_to_binding_models_ask_to_drop_invalid_thinking() -> None:
    steps = fitting(user("A"), Calls("", (used(),), (THOUGHT,)))
    assert encode(MODEL, prompt(*steps))["thinking"] == {"type": "adaptive", "block_binding": DROP}
    low = encode(MODEL, prompt(*steps), options=Options(thinking="low"))
    assert low["thinking"] == {**ADAPTIVE, "block_binding": DROP}
    assert "thinking" not in encode("claude-opus-5", prompt(*steps))
    assert "thinking" not in encode(MODEL, prompt(user("A"), Calls("", (used(),))))


ONE, TWO, THREE = ({"type": "thinking", "thinking": "Hm.", "signature": name} for name in ("one", "two", "three"))


def sent_of(*steps: Step, stable: str = "Be brief.", tools: Sequence[ToolSpec] = TOOLS) -> list[str]:
    """Return the signatures of the thinking blocks that are sent."""
    body = encode(MODEL, prompt(*steps, stable=stable), tools)
    assert BOUND not in json.dumps(body)
    return [b["signature"] for m in body["messages"] for b in m["content"] if b["type"] == "thinking"]


def test_thinking_is_sent_while_its_prefix_stays_the_same() -> None:
    steps = user("A"), Calls("", (used(),), (ONE,)), model("B", TWO), user("C"), Calls("", (used("c2"),), (THREE,))
    fit = fitting(*steps, tools=TOOLS)
    assert sent_of(*fit) == sent_of(*fit, tools=TOOLS[::-1]) == sent_of(*fit, user("D")) == ["one", "two", "three"]
    assert sent_of(*fit, stable="Be quick.") == sent_of(*fit, tools=TOOLS[:1]) == sent_of(user("a"), *fit[1:]) == []
    changed = *fit[:3], user("c"), fit[4]
    assert sent_of(*changed) == ["one", "two"]
    # Thinking after the change is bound to a prefix without the third block.
    again = fitting(*changed[:4], model("D", {**THREE, "signature": "four"}), tools=TOOLS)[4]
    assert sent_of(*changed[:4], again, user("E")) == ["one", "two", "four"]
    assert sent_of(*fit[:4], again, user("E")) == ["one", "two"]


def test_thinking_may_be_left_out_at_the_beginning_but_not_in_between() -> None:
    steps = user("A"), Calls("", (used(),), (ONE,)), Calls("", (used("c2"),), (TWO,)), model("B", THREE), user("C")
    a, first, second, third, c = fitting(*steps, tools=TOOLS)
    assert sent_of(a, first._replace(kept=()), second, third, c) == ["two", "three"]
    assert sent_of(a, first, second._replace(kept=()), third, c) == ["three"]
    assert sent_of(a, first, second._replace(kept=(TWO,)), third, c) == ["three"]
    assert sent_of(a, first, second, third._replace(kept=()), c) == ["one", "two"]


def test_the_prefix_of_a_block_begins_at_a_compaction() -> None:
    made = {"type": "compaction", "content": "They asked.", "encrypted_content": "b3Bh"}
    asked = encode(MODEL, prompt(user("A"), model("B"), user("C")), TOOLS)
    *_, kept = (
        piece
        for piece in bind(lambda: asked, ("Now.", Compacted((made,), "They asked.", 0, 0), Kept(ONE)))
        if isinstance(piece, Kept)
    )
    summary = ViewMessage("assistant", "", (), (made,), native=True)
    assert sent_of(summary, ViewMessage("assistant", "Now.", (), (kept.block,)), user("D")) == ["one"]


def test_a_model_that_is_newer_than_the_table_binds_by_its_version() -> None:
    step = model("B", ONE)
    assert answer_of(step, user("C"), name="claude-opus-6") == ["B"]
    assert answer_of(step, user("C"), name="claude-opus-5") == ["one", "B"]
    body = encode("claude-opus-6", prompt(user("A"), step, user("C")), options=Options(binds=False))
    assert ONE in body["messages"][1]["content"]


BLOCKS: list[dict[str, Any]] = [THOUGHT, HIDDEN, {**THOUGHT, "after": 1}, {**HIDDEN, "after": 2}, {"type": "other"}]
KEPT = st.lists(st.sampled_from(BLOCKS), max_size=2).map(lambda kept: tuple(kept))
TEXT = st.sampled_from(["", "A", "B\n", "CDE", " "])


@st.composite
def views(draw: st.DrawFn) -> View:
    """Draw a view, with kept blocks and images at all positions."""
    steps: list[Step] = []
    for number in range(draw(st.integers(0, 6))):
        images = draw(st.sampled_from([(), (PIXEL,)]))
        match draw(st.sampled_from(["user", "assistant", "calls"])):
            case "user":
                steps.append(ViewMessage("user", draw(TEXT).strip() or ("" if images else "Q"), images))
            case "assistant":
                kept = draw(KEPT)
                steps.append(ViewMessage("assistant", draw(TEXT) if kept else "R", (), kept))
            case _:
                calls = (used(f"c{number}a", "x", draw(st.booleans()), images), used(f"c{number}b"))
                steps.append(Calls(draw(TEXT), calls[: draw(st.integers(1, 2))], draw(KEPT)))
    part = Part("window", None, None, "user")
    return View(tuple(steps), (part,), (), draw(st.integers(0, len(steps))))


@given(
    view=views(),
    name=st.sampled_from(["claude-3-5-haiku", "claude-haiku-4-5", "claude-opus-4-6", "claude-opus-5", MODEL, "other"]),
    level=st.sampled_from(["default", "off", "low", "high"]),
    system=st.sampled_from(["", "Be brief."]),
    tools=st.sampled_from([(), TOOLS]),
)
def test_every_prompt_is_accepted(view: View, name: str, level: str, system: str, tools: Sequence[ToolSpec]) -> None:
    made = assemble([Part("system", None, None, "system", text=system)], view)
    body = encode(name, made, tools, Options(thinking=level))
    assert violations(body) + manual_thinking(body) == []
    assert len(points(body)) <= 4
    assert '"after"' not in json.dumps(body)
    assert msgspec.json.encode(body) == msgspec.json.encode(encode(name, made, tools, Options(thinking=level)))


# Answers


def message(*content: Any, stop: Any = "end_turn", usage: Any = None) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(content), "stop_reason": stop, "usage": usage}


TEXT_BLOCK = {"type": "text", "text": "I look.", "citations": None}
CALL = {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "a"}}


def test_a_whole_message_is_parsed_in_order() -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": None, "output_tokens": 2}
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    assert parse(message(THOUGHT, TEXT_BLOCK, search, HIDDEN, CALL, stop="tool_use", usage=usage)) == (
        Kept(THOUGHT),
        "I look.",
        Kept({"type": "carried", "of": "anthropic", "block": search, "after": 7}),
        Kept({**HIDDEN, "after": 7}),
        ToolCall("c1", "look", {"at": "a"}),
        Usage(5, 3, 0, 2),
        Stopped("calls", "tool_use"),
    )


def test_kept_blocks_of_an_answer_are_sent_back_at_their_positions() -> None:
    pieces = parse(message(THOUGHT, TEXT_BLOCK, HIDDEN, CALL, stop="tool_use"))
    kept = tuple(piece.block for piece in pieces if isinstance(piece, Kept))
    assert messages(user("A"), Calls("I look.", (used(),), kept))[1]["content"] == [
        THOUGHT,
        {"type": "text", "text": "I look."},
        HIDDEN,
        CALL,
    ]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("pause_turn", "end"),
        ("tool_use", "calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refused"),
        ("compaction", "compacted"),
        ("", "end"),
    ],
)
def test_the_reason_why_an_answer_ended_is_parsed(said: str, why: str) -> None:
    assert parse(message(TEXT_BLOCK, stop=said))[-1] == Stopped(why, said)


def calls_of(*content: Any, stop: str) -> list[str]:
    return [piece.call_id for piece in parse(message(*content, stop=stop)) if isinstance(piece, ToolCall)]


def test_a_call_that_the_limit_may_have_cut_is_left_out() -> None:
    second = {**CALL, "id": "c2"}
    assert calls_of(CALL, second, stop="tool_use") == ["c1", "c2"]
    assert calls_of(CALL, second, stop="max_tokens") == ["c1"]
    assert calls_of(CALL, second, TEXT_BLOCK, stop="max_tokens") == ["c1", "c2"]
    assert calls_of(CALL, second, stop="refusal") == []


def test_the_last_of_several_calls_tells_the_size_of_the_request() -> None:
    """Searches of the provider and its compactions call the model again; the usage is the sum."""
    calls = [
        {"type": "message", "input_tokens": 10, "cache_read_input_tokens": 40_000, "output_tokens": 9},
        {"type": "compaction", "input_tokens": 90_000},
        {"type": "message", "input_tokens": 20, "cache_creation_input_tokens": 41_000, "output_tokens": 9},
        {"type": "advisor_message", "input_tokens": 77},
    ]
    sums = {"input_tokens": 30, "cache_read_input_tokens": 40_000, "cache_creation_input_tokens": 41_000}
    usage = parse(message(TEXT_BLOCK, usage={**sums, "iterations": calls}))[-2]
    assert isinstance(usage, Usage)
    assert (usage.input, usage.size) == (81_030, 41_020)
    assert usage_of(usage_data("anthropic", "m", usage, None)) == usage
    for others in ([], [calls[0]], [calls[1]], None, [7]):
        alone = parse(message(TEXT_BLOCK, usage={**sums, "iterations": others}))[-2]
        assert isinstance(alone, Usage)
        assert alone.size == alone.input == 81_030


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (None, Usage()),
        ([], Usage()),
        ({"input_tokens": True, "output_tokens": "7", "cache_read_input_tokens": -1}, Usage()),
        ({"input_tokens": 2**80, "output_tokens": 7.5, "cache_creation_input_tokens": 4}, Usage(cache_write=4)),
    ],
)
def test_missing_or_invalid_usage_is_none(counts: Any, usage: Usage) -> None:
    assert parse(message(TEXT_BLOCK, usage=counts))[-2] == usage


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
_BLOCK = st.builds(
    lambda kind, fields: {"type": kind, **fields},
    st.sampled_from(["text", "thinking", "redacted_thinking", "tool_use", "image", None, [], 7]),
    st.dictionaries(
        st.sampled_from(["text", "thinking", "signature", "data", "id", "name", "input"]), _JSON, max_size=5
    ),
)


@given(content=st.lists(_BLOCK | _JSON, max_size=4) | _JSON, stop=_JSON | st.just("max_tokens"), usage=_JSON)
def test_any_message_is_parsed_or_a_provider_error(content: Any, stop: Any, usage: Any) -> None:
    try:
        pieces = parse({"content": content, "stop_reason": stop, "usage": usage})
    except ProviderError:
        return
    assert [type(piece) for piece in pieces[-2:]] == [Usage, Stopped]
    assert all(piece.encode() is not None for piece in pieces if isinstance(piece, str))


# The wire


class Scripted(AnthropicWire):
    """A server that answers every request with these events or this HTTP response."""

    def __init__(self, *events: bytes, http: Http | None = None) -> None:
        super().__init__()
        self.events, self.http = events, http

    def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
        yield from self.events

    def failure(self, fail: Fail) -> Http:
        assert self.http is not None
        return self.http

    def is_count(self, path: str) -> bool:
        return self.http is None and super().is_count(path)


def request(*steps: Step) -> Request:
    body = encode(MODEL, prompt(*(steps or (user("Hi"),))), TOOLS)
    manifest = Manifest((), (), Edge(None, None, 0))
    return Request("anthropic", MODEL, "anthropic", body, msgspec.json.encode(body), 1, manifest)


async def _all(url: str, asked: Request, key: str | None) -> list[Piece]:
    async with aclosing(connect(MODEL, Access(key, url)).answer(asked)) as answer:
        return [piece async for piece in answer]


def ask(server: Loopback, asked: Request | None = None, key: str | None = KEY) -> list[Piece]:
    return asyncio.run(_all(server.url, asked or request(), key))


def heard(*events: bytes) -> list[Piece]:
    with Loopback(Scripted(*events), [Reply(())]) as server:
        return ask(server)


def failed(*events: bytes, http: Http | None = None) -> ProviderError:
    with Loopback(Scripted(*events, http=http), [Reply(()) if http is None else Fail("busy")]) as server:
        with pytest.raises(ProviderError) as caught:
            ask(server)
        assert server.refusals == []
    text = str(caught.value)
    assert text == caught.value.args[0]  # one line
    assert text.endswith((".", ")"))
    assert KEY not in text
    return caught.value


event = AnthropicWire().event
START = event("message_start", message={"content": [], "usage": {"input_tokens": 9, "output_tokens": 1}})
STOP = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5}) + event("message_stop")


def block(index: int, first: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    begin = event("content_block_start", index=index, content_block=first)
    middle = [event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return b"".join([begin, *middle, event("content_block_stop", index=index)])


HELLO = block(0, {"type": "text", "text": "He"}, {"type": "text_delta", "text": "llo"})


def test_the_encoded_body_is_sent_with_stream_as_its_last_field() -> None:
    asked = request(*fitting(user("Naïve 🐈?"), Calls("", (used(),), (THOUGHT,)), tools=TOOLS))
    with Loopback(AnthropicWire(), [Reply((Say(("Hi",)),))]) as server:
        ask(server, asked)
    (received,) = server.asked
    assert msgspec.json.encode(received.body) == asked.bytes[:-1] + b',"stream":true}'
    assert received.headers["anthropic-beta"] == "thinking-binding-controls-2026-08-01"
    assert received.headers["x-stainless-retry-count"] == "0"


def test_a_call_has_the_tools_own_name() -> None:
    asked = msgspec.structs.replace(request(), names={"look": "mcp.server/look"})
    with Loopback(AnthropicWire(), [Reply((Use("c1", "look", {}), Use("c2", "seek", {})), "calls")]) as server:
        calls = [piece.name for piece in ask(server, asked) if isinstance(piece, ToolCall)]
    assert calls == ["mcp.server/look", "seek"]


def test_without_thinking_no_beta_is_requested() -> None:
    with Loopback(AnthropicWire(), [Reply(())]) as server:
        ask(server)
    assert "anthropic-beta" not in server.asked[0].headers


def test_pieces_come_in_order_and_kept_blocks_at_the_end() -> None:
    parts = (Think("Hm.", "c2ln"), Say(("I ", "look.")), Think("Yes.", "dHdv"), Use("c1", "look", {"at": "a"}))
    with Loopback(AnthropicWire(), [Reply(parts, "calls", Usage(1, 2, 3, 4))]) as server:
        pieces = ask(server)
    shown = [piece.text if isinstance(piece, Thought) else piece for piece in pieces[:-5]]
    assert shown == ["H", "m.", "I ", "look.", "Ye", "s."]
    first, second = (piece.block.pop(BOUND) for piece in pieces if isinstance(piece, Kept))
    assert first["model"] == MODEL
    assert first["after"] is None
    assert second["after"] == mark(THOUGHT)
    assert first["prefix"] != second["prefix"]
    assert pieces[-5:] == [
        Kept(THOUGHT),
        Kept({"type": "thinking", "thinking": "Yes.", "signature": "dHdv", "after": 7}),
        ToolCall("c1", "look", {"at": "a"}),
        Usage(1, 2, 3, 4),
        Stopped("calls", "tool_use"),
    ]


def test_the_server_only_accepts_unchanged_thinking() -> None:
    wire = AnthropicWire()
    with Loopback(wire, [Reply((Think("Hm.", "c2ln"),)), Reply(()), Reply(())]) as server:
        (kept,) = [piece.block for piece in ask(server) if isinstance(piece, Kept)]
        ask(server, request(user("Hi"), Calls("", (used(),), (kept,))))
        with pytest.raises(ProviderError, match="Invalid `signature` in `thinking` block"):
            ask(server, request(user("Hi"), Calls("", (used(),), ({**kept, "thinking": "Ha."},))))


def test_pings_and_unknown_events_are_ignored() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = heard(
        event("ping"),
        START,
        event("ping"),
        block(0, search, {"type": "input_json_delta", "partial_json": '{"query"'}),
        block(1, {"type": "web_search_tool_result", "content": []}),
        event("content_block_resumed", index=0),
        block(2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hi"}, {"type": "citations_delta"}),
        block(3, {"type": "redacted_thinking", "data": "ZGF0YQ=="}),
        STOP,
        event("ping"),
    )
    assert isinstance(found[3], Kept)
    assert found == [
        "Hi",
        Kept({"type": "carried", "of": "anthropic", "block": {**search, "input": '{"query"'}}),
        Kept({"type": "carried", "of": "anthropic", "block": {"type": "web_search_tool_result", "content": []}}),
        Kept({**HIDDEN, "after": 2, BOUND: found[3].block[BOUND]}),
        Usage(9, 0, 0, 5),
        Stopped("end", "end_turn"),
    ]


def test_citations_compactions_and_the_container_are_streamed() -> None:
    cited = {"type": "web_search_result_location", "url": "https://a.example"}
    made = {"type": "compaction", "content": "They asked.", "encrypted_content": "b3Bh"}
    container = {"id": "container_1", "expires_at": "2030-01-01T00:00:00Z"}
    delta = {"type": "compaction_delta", "content": "They asked.", "encrypted_content": "b3Bh"}
    found = heard(
        START,
        block(0, {"type": "compaction", "content": None}, delta),
        block(
            1,
            {"type": "text", "text": "", "citations": []},
            {"type": "citations_delta", "citation": cited},
            {"type": "text_delta", "text": "Hi"},
        ),
        event("message_delta", delta={"container": container, "stop_reason": "end_turn"}, usage={"output_tokens": 5}),
        event("message_stop"),
    )
    assert found == [
        "Hi",
        Compacted((made,), "They asked."),
        Kept({"type": "text", "citations": [cited], "length": 2}),
        Kept({"type": "container", "container": container}),
        Usage(9, 0, 0, 5),
        Stopped("end", "end_turn"),
    ]


def test_the_last_reported_usage_counts() -> None:
    sums = {"input_tokens": 20, "cache_read_input_tokens": 4, "cache_creation_input_tokens": None, "output_tokens": 8}
    more = event("message_delta", delta={"stop_reason": "end_turn"}, usage=sums)
    last = event("message_delta", delta={}, usage={"output_tokens": 11}) + event("message_stop")
    assert heard(START, HELLO, more, last)[-2:] == [Usage(20, 4, 0, 11), Stopped("end", "end_turn")]
    bare = event("message_delta", delta={"stop_reason": "end_turn"}) + event("message_stop")
    assert heard(event("message_start", message={"content": []}), bare)[-2] == Usage()


def test_half_of_a_character_does_not_reach_the_log() -> None:
    torn = HELLO.replace(b'"llo"', b'"\\ud83d"')
    assert heard(START, torn, STOP)[:2] == ["He", "\ufffd"]
    piece = {"type": "input_json_delta", "partial_json": '{"at": "TORN"}'}
    call = block(0, {**CALL, "input": {}}, piece).replace(b"TORN", b"\\ud83d")
    assert heard(START, call, STOP)[0] == ToolCall("c1", "look", {"at": "\ufffd"})


def test_a_call_cut_by_the_limit_is_not_made() -> None:
    parts = (Use("c1", "look", {"at": "a"}), Use("c2", "look", {"at": "b"}))
    with Loopback(AnthropicWire(), [Reply(parts, "length")]) as server:
        assert ask(server)[:-2] == [ToolCall("c1", "look", {"at": "a"})]


DELTA = {"type": "text_delta", "text": "x"}
TEXT_START = event("content_block_start", index=0, content_block={"type": "text", "text": ""})


@pytest.mark.parametrize(
    "events",
    [
        (),
        (b"event: message_start\ndata: {not JSON\n\n",),
        (b"event: message_start\ndata: \xff\n\n",),
        (b"<html>Sign in</html>",),
        (event("message_start"), STOP),
        (event("message_start", message=[]), STOP),
        (START, START),
        (HELLO, STOP),
        (STOP,),
        (START, event("content_block_delta", index=0, delta=DELTA), STOP),
        (START, HELLO, event("content_block_delta", index=0, delta=DELTA), STOP),
        (START, HELLO, HELLO, STOP),
        (START, event("content_block_stop", index=0), STOP),
        (START, event("content_block_start", index=True, content_block={"type": "text"}), STOP),
        (START, event("content_block_start", index=0), STOP),
        (START, TEXT_START, STOP),
        (START, TEXT_START, event("content_block_delta", index=0), STOP),
        (START, TEXT_START, event("content_block_delta", index=0, delta={"type": "text_delta"}), STOP),
        (START, block(0, {"type": "text", "text": ""}, {"type": "thinking_delta", "thinking": "x"}), STOP),
        (START, block(0, {"type": "text"}), STOP),
        (START, block(0, CALL, DELTA), STOP),
        (START, block(0, CALL, {"type": "input_json_delta", "partial_json": {}}), STOP),
        (START, block(0, {"type": "tool_use", "id": "c1", "input": {}}), STOP),
        (START, block(0, {"type": "tool_use", "id": 7, "name": "look", "input": {}}), STOP),
        (START, event("message_delta", delta=None), STOP),
        (START, b"event: message_delta\ndata: 7\n\n", STOP),
    ],
)
def test_an_answer_that_cannot_be_understood_is_an_error(events: tuple[bytes, ...]) -> None:
    failure = failed(*events)
    assert failure.kind == "answer"
    assert str(failure).startswith("Anthropic's answer cannot be understood: ")


def test_a_stream_that_breaks_off_can_be_repeated() -> None:
    for events in ((START,), (START, HELLO), (START, TEXT_START)):
        assert failed(*events).kind == "network"


@pytest.mark.parametrize(
    ("kind", "said", "expected"),
    [
        ("overloaded_error", "Overloaded", "busy"),
        ("api_error", "Internal server error", "busy"),
        ("timeout_error", "Request timed out", "busy"),
        ("rate_limit_error", "Slow down", "rate"),
        ("authentication_error", "invalid x-api-key", "key"),
        ("invalid_request_error", "messages: odd", "request"),
        ("invalid_request_error", "prompt is too long: 250001 tokens > 200000 maximum", "overflow"),
        ("novel_error", "New", "busy"),
        (None, None, "busy"),
    ],
)
def test_an_error_in_the_middle_of_an_answer_is_raised(kind: Any, said: Any, expected: str) -> None:
    failure = failed(START, HELLO, event("error", error={"type": kind, "message": said}))
    assert failure.kind == expected
    assert (said or "") in str(failure)


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (400, "messages.0: odd", "request"),
        (401, "invalid x-api-key", "key"),
        (402, "Your credit balance is too low", "key"),
        (403, "Your account may not use this model", "key"),
        (404, "model: claude-nobody", "request"),
        (409, "conflict", "request"),
        (422, "odd", "request"),
        (429, "rate limit", "rate"),
        (500, "Internal server error", "busy"),
        (502, "Bad gateway", "busy"),
        (504, "timed out", "busy"),
        (529, "Overloaded", "busy"),
    ],
)
def test_errors_quote_the_words_of_the_api(status: int, words: str, kind: str) -> None:
    failure = failed(http=error(status, words))
    assert (failure.kind, failure.retry_after) == (kind, None)
    assert f"({status}): {words}. " in str(failure)


@pytest.mark.parametrize(
    "content", [b"<html><body>Bad Gateway</body></html>", b"", b"[]", b'{"error": 7}', b"\xff\xfe"]
)
def test_errors_of_other_servers_are_explained(content: bytes) -> None:
    failure = failed(http=Http(502, {"content-type": "text/html"}, content))
    assert failure.kind == "busy"
    assert "<" not in str(failure)
    assert len(str(failure)) < 200


def test_long_error_messages_are_shortened() -> None:
    assert 300 < len(str(failed(http=error(400, "word\n" * 100_000)))) < 600


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "9", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "9", "retry-after-ms": "soon"}, 9.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Sun, 21 Oct 2001 07:28:00 GMT"}, 0.0),
    ],
)
def test_the_server_says_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    http = error(429, "rate limit")
    assert failed(http=http._replace(headers={**http.headers, **headers})).retry_after == seconds


@pytest.mark.parametrize(
    ("status", "words", "tokens", "limit"),
    [
        (400, "prompt is too long: 208310 tokens > 200000 maximum", 208_310, 200_000),
        (400, "prompt is too long: 1,208,310 tokens > 1,000,000 maximum", 1_208_310, 1_000_000),
        (
            400,
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length",
            242_959,
            200_000,
        ),
        (400, "input length and max_tokens exceed context limit: \n 189136 + 20000 > 204648", 209_136, 204_648),
        (400, "prompt is too long", None, None),
        (400, "Input is too long for requested model.", None, None),
        (413, "Request exceeds the maximum size", None, None),
    ],
)
def test_a_request_that_is_too_long_is_an_overflow(
    status: int, words: str, tokens: int | None, limit: int | None
) -> None:
    failure = failed(http=error(status, words))
    assert isinstance(failure, ContextOverflowError)
    assert (failure.kind, failure.tokens, failure.limit) == ("overflow", tokens, limit)


def test_the_key_is_never_shown() -> None:
    failure = failed(http=error(401, f"the key {KEY} is not known"))
    assert "the key … is not known" in str(failure)
    assert KEY not in repr(connect(MODEL, Access(KEY)))


@pytest.fixture
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """A home without any settings of Anthropic."""
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))


@pytest.mark.usefixtures("_bare")
def test_the_key_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with Loopback(AnthropicWire(), [Reply(())]) as server:
        with pytest.raises(ProviderError, match="Set ANTHROPIC_API_KEY") as caught:
            ask(server, key=None)
        assert caught.value.kind == "key"
        assert server.requests == []
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY + "\n")
        with pytest.raises(ProviderError, match="the key alone"):
            ask(server, key=None)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        ask(server, key=None)
    assert KEY in str(server.asked[0].headers)


@pytest.mark.usefixtures("_bare")
@pytest.mark.parametrize("key", ["", " ", "sk ant", "sk-ant\n", "schlüssel"])
def test_an_invalid_key_is_not_sent(key: str) -> None:
    with Loopback(AnthropicWire()) as server, pytest.raises(ProviderError, match="ANTHROPIC_API_KEY") as caught:
        ask(server, key=key)
    assert (caught.value.kind, server.requests) == ("key", [])


@pytest.mark.parametrize("url", ["ftp://example.org", "example.org", "http://a:b"])
def test_a_wrong_address_is_an_error(url: str) -> None:
    with pytest.raises(ProviderError, match="address") as caught:
        asyncio.run(_all(url, request(), KEY))
    assert caught.value.kind == "request"


def test_without_the_sdk_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ProviderError, match=re.escape(installs("anthropic"))) as caught:
        asyncio.run(_all("http://127.0.0.1:1", request(), KEY))
    assert caught.value.kind == "sdk"


def count(server: Loopback) -> int:
    steps = fitting(user("A"), Calls("", (used(),), (THOUGHT,)), tools=TOOLS)
    return asyncio.run(connect(MODEL, Access(KEY, server.url)).count(request(*steps)))


def test_counting_sends_only_fields_that_cost_tokens() -> None:
    with Loopback(AnthropicWire(), tokens=4321) as server:
        assert count(server) == 4321
    (received,) = server.requests
    assert list(received.body) == ["model", "thinking", "system", "tools", "messages"]


@pytest.mark.parametrize("content", [b"{}", b"[]", b"7", b'{"input_tokens": "7"}', b'{"input_tokens": true}', b"<p>"])
def test_an_invalid_count_is_an_error(content: bytes) -> None:
    class Odd(AnthropicWire):
        def counted(self, tokens: int) -> Http:
            return Http(200, {"content-type": "application/json"}, content)

    with Loopback(Odd()) as server, pytest.raises(ProviderError) as caught:
        count(server)
    assert caught.value.kind == "answer"


GOOD_HEADERS = {"authorization": f"Bearer {KEY}", "anthropic-version": "2026-10-21"}


@pytest.mark.parametrize(
    ("path", "headers", "change", "status", "words"),
    [
        ("/v1/chat", GOOD_HEADERS, {}, 404, "not_found_error"),
        ("/v1/messages", {"anthropic-version": "2026-10-21"}, {}, 401, "authentication_error"),
        ("/v1/messages", {**GOOD_HEADERS, "authorization": "Bearer "}, {}, 401, "authentication_error"),
        ("/v1/messages", {"x-api-key": KEY}, {}, 400, "anthropic-version: header is required"),
        ("/v1/messages", GOOD_HEADERS, {"temperature": 1}, 400, "temperature: unknown field"),
        (
            "/v1/messages",
            GOOD_HEADERS,
            {"thinking": {"type": "disabled"}},
            400,
            "disabled is not supported by opus 5.5",
        ),
        ("/v1/messages", GOOD_HEADERS, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, 400, "enabled is not"),
        ("/v1/messages", GOOD_HEADERS, {"thinking": {"type": "adaptive", "block_binding": DROP}}, 400, "block_binding"),
        ("/v1/messages/count_tokens", GOOD_HEADERS, {}, 400, "max_tokens: Extra inputs are not permitted"),
    ],
)
def test_the_server_refuses_what_the_api_refuses(
    path: str, headers: dict[str, str], change: dict[str, Any], status: int, words: str
) -> None:
    body = {**request().body, "stream": True}
    assert AnthropicWire().refuse("/v1/messages", GOOD_HEADERS, body) is None
    refusal = AnthropicWire().refuse(path, headers, {**body, **change})
    assert refusal is not None
    assert refusal.status == status
    assert words in refusal.body.decode()


def test_a_cache_point_marks_the_settled_history_of_a_turn_ago() -> None:
    made = prompt(*LONG, settled=4)._replace(earlier=2)
    assert points(encode(MODEL, made)) == ["Be brief.", "B", "c2", "F"]
    assert points(encode(MODEL, made._replace(earlier=0))) == ["Be brief.", "c2", "F"]
