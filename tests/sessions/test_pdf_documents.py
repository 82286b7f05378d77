"""Documents and signed thinking of imported sessions, in requests and in exports (SPEC 8)."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import rollout_records as codex
from exported import blocks_of, export_of, records_of
from random_logs import PDF, TARGETS, violations
from session_records import assistant, call, jsonl, result, user

import foldmark
from cases import case
from foldmark.core.assembly.media import PAGE

Load = Callable[..., Any]

ADDRESS = f"data:application/pdf;base64,{PDF}"
DOCUMENT = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}
READ = "PDF file read: /garden/beds.pdf (1.2KB)"

CLAUDE = jsonl(
    # A document in a prompt, one from a tool that answers with documents, and one from Read: Read's result is a line of
    # text, and the document follows in a record of the program.
    user([DOCUMENT, {"type": "text", "text": "Compare this with the others."}], "a"),
    assistant([call("toolu_1", "mcp__shed__fetch", which="plan")], "b", "a", "msg_1"),
    user(
        [result("toolu_1", [{"type": "text", "text": "Fetched."}, DOCUMENT])],
        "c",
        "b",
        toolUseResult=[{"type": "text"}],
    ),
    assistant([call("toolu_2", "Read", file_path="/garden/beds.pdf")], "d", "c", "msg_2"),
    user(
        [result("toolu_2", READ)],
        "e",
        "d",
        toolUseResult={"type": "pdf", "file": {"filePath": "/garden/beds.pdf", "base64": PDF, "originalSize": 1229}},
    ),
    user([DOCUMENT], "f", "e", isMeta=True),
)
CODEX = jsonl(
    codex.meta(),
    codex.item(
        "message",
        role="user",
        content=[
            {"type": "input_file", "filename": "plan.pdf", "file_data": ADDRESS},
            {"type": "input_text", "text": "What is in it?"},
        ],
    ),
    codex.call("c1"),
    codex.output("c1", [{"type": "input_text", "text": "Read."}, {"type": "input_file", "file_data": ADDRESS}]),
)
THOUGHTS = [
    {"type": "thinking", "thinking": "Two beds… “north” first.\n", "signature": "RXVFRQ=="},
    {"type": "redacted_thinking", "data": "b3BhcXVl"},
    {"type": "thinking", "thinking": "", "signature": "c2lnbmVk"},
]
THINKING = jsonl(
    user("Water the beds.", "a"),
    *(
        assistant([block], uuid, parent, "msg_1")
        for block, uuid, parent in zip(THOUGHTS, ("b", "c", "d"), ("a", "b", "c"), strict=True)
    ),
    assistant([call("toolu_1", "Bash", command="water")], "e", "d", "msg_1"),
    user([result("toolu_1", "dry")], "f", "e"),
)


def imported(content: bytes, load: Load, folder: Path, name: str = "session.jsonl") -> foldmark.Agent:
    path = folder / name
    path.write_bytes(content)
    agent: foldmark.Agent = load(path, name).agent
    return agent


def sent(agent: foldmark.Agent, provider: str, model: str) -> list[Any]:
    body = agent.request(provider=provider, model=model).body
    assert violations(provider, model, body) == []
    inner = body.get("request", body)
    messages = inner.get("messages") or inner.get("input") or inner["contents"]
    return [message for message in messages if message.get("role") not in ("system", "developer")]


def found(value: Any, kind: str) -> list[Any]:
    """Return all parts of a type in a JSON value, in order."""
    if isinstance(value, list):
        return [each for inner in value for each in found(inner, kind)]
    if not isinstance(value, dict):
        return []
    return [value] if value.get("type") == kind else found(list(value.values()), kind)


def written_again(agent: foldmark.Agent, load: Load, folder: Path) -> foldmark.Agent:
    return imported(b"".join(export_of(agent).content()), load, folder, "again.jsonl")


# -- documents ------------------------------------------------------------------------------------------------


def test_documents_reach_claude_where_they_stood(load: Any, tmp_path: Path) -> None:
    agent = imported(CLAUDE, load, tmp_path)
    first, _, fetched, _, last = sent(agent, "anthropic", "claude-opus-5")
    cached = {"cache_control": {"type": "ephemeral"}}
    assert first["content"] == [DOCUMENT, {"type": "text", "text": "Compare this with the others."}]
    assert fetched["content"][0]["content"] == [{"type": "text", "text": "Fetched."}, DOCUMENT]
    assert [{**block, "content": block.get("content")} for block in last["content"][:1]] == [
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": READ}
    ]
    assert last["content"][1:] == [{**DOCUMENT, **cached}]


@pytest.mark.parametrize("content", [CLAUDE, CODEX])
def test_documents_reach_every_model_or_a_note_does(content: Any, load: Any, tmp_path: Path) -> None:
    agent = imported(content, load, tmp_path)
    # Calls are sent only in their dialect; without isolation, the models of other dialects get them, too.
    agent.do("/config set isolation=off")
    number = content.count(b'"document"') or content.count(b'"input_file"')
    note = "(1 page) is not shown: this model does not take it.]"
    for provider, model in TARGETS:
        with case(provider, model):
            text = json.dumps(sent(agent, provider, model))
            if "gpt" in model or model == "o3" or provider in ("anthropic", "gemini", "gemini_gca"):
                taken = number
            else:
                taken = number if model.startswith("anthropic/") else 0
            assert (text.count(PDF), text.count(note)) == (taken, number - taken)


def test_openai_gets_documents_with_their_names(load: Any, tmp_path: Path) -> None:
    agent = imported(CODEX, load, tmp_path, codex.name())
    named, unnamed = ({"filename": name, "file_data": ADDRESS} for name in ("plan.pdf", "document.pdf"))
    assert found(sent(agent, "openai_responses", "gpt-5"), "input_file") == [
        {"type": "input_file", **named},
        {"type": "input_file", **unnamed},
    ]
    asked, _, answered, shown = sent(agent, "openai", "gpt-5")
    assert asked["content"] == [{"type": "text", "text": "What is in it?"}, {"type": "file", "file": named}]
    assert answered["content"] == "Read."
    assert [part.get("text", part.get("file")) for part in shown["content"]] == [
        "[Foldmark: documents in the result of call c1 (exec_command):]",
        unnamed,
    ]


@pytest.mark.parametrize(("model", "inside"), [("gemini-2.5-pro", False), ("gemini-3-pro-preview", True)])
def test_gemini_gets_documents_inline(model: Any, inside: Any, load: Any, tmp_path: Path) -> None:
    agent = imported(CODEX, load, tmp_path, codex.name())
    agent.do("/config set isolation=off")
    inline = {"inlineData": {"mimeType": "application/pdf", "data": PDF}}
    asked, _, answered = sent(agent, "gemini", model)
    assert asked["parts"] == [inline, {"text": "What is in it?"}]
    assert answered["parts"][0]["functionResponse"].get("parts", []) == [inline] * inside
    assert answered["parts"][1:] == [inline] * (not inside)


@pytest.mark.parametrize("content", [CLAUDE, CODEX])
def test_an_export_writes_documents_as_they_were_and_comes_back_equal(content: Any, load: Any, tmp_path: Path) -> None:
    agent = imported(content, load, tmp_path)
    records = records_of(export_of(agent))
    assert export_of(agent).left_out == []
    documents = [each for record in records for each in found(blocks_of(record), "document")]
    named = {"title": "plan.pdf"} if content is CODEX else {}
    assert documents == [{**DOCUMENT, **named}, *[DOCUMENT] * (len(documents) - 1)]
    assert len(documents) == (2 if content is CODEX else 3)
    again = written_again(agent, load, tmp_path)
    for one, other in zip(agent.context().messages, again.context().messages, strict=True):
        assert (one.kind, one.content) == (other.kind, other.content)
        assert (one.data or {}).get("blocks") == (other.data or {}).get("blocks")
    for provider, model in TARGETS if content is CLAUDE else ():
        assert (
            again.request(provider=provider, model=model).bytes == agent.request(provider=provider, model=model).bytes
        )


def test_a_document_counts_by_its_pages(load: Any, tmp_path: Path) -> None:
    long = b64encode(b64decode(PDF) + b"x" * 300_000)
    big = CLAUDE.replace(PDF.encode(), long)
    small, large = (
        imported(content, load, tmp_path, name).request(provider="anthropic", model="claude-opus-5").tokens
        for content, name in ((CLAUDE, "small.jsonl"), (big, "large.jsonl"))
    )
    assert 3 * PAGE < small == large < 5 * PAGE


def test_a_document_of_a_result_leaves_when_its_turn_is_over(load: Any, tmp_path: Path) -> None:
    agent = imported(CLAUDE, load, tmp_path)
    agent.configure("context_policy", "eager")
    agent.append("assistant", "They agree.")
    agent.end_turn()
    agent.append("user", "Good.")
    messages = sent(agent, "anthropic", "claude-opus-5")
    assert len(found(messages, "document")) == 2
    parts = agent.request(provider="anthropic", model="claude-opus-5").manifest.parts
    details = [part.detail for part in parts if "document" in part.detail]
    assert details == ["with 1 document", "1 document not sent: the turn is over", "with 1 document"]


# -- thinking -------------------------------------------------------------------------------------------------

BINDING = ["claude-fable-5-1", "claude-fable-5-2", "claude-mythos-5-1", "claude-opus-5-5", "claude-haiku-5-5"]
FREE = ["claude-opus-4-6", "claude-opus-4-8", "claude-opus-5", "claude-sonnet-5", "claude-fable-5"]


def thoughts(agent: foldmark.Agent, model: str) -> list[Any]:
    messages = sent(agent, "anthropic", model)
    return [block for kind in ("thinking", "redacted_thinking") for block in found(messages, kind)]


@pytest.mark.parametrize("model", FREE)
def test_imported_thinking_is_sent_while_its_turn_lasts(model: Any, load: Any, tmp_path: Path) -> None:
    agent = imported(THINKING, load, tmp_path)
    agent.do("/config set thinking=low")
    agent.do("/config set context_policy=eager")
    assert [block["type"] for block in sent(agent, "anthropic", model)[1]["content"]] == [
        *("thinking", "redacted_thinking", "thinking"),
        "tool_use",
    ]
    assert thoughts(agent, model) == [THOUGHTS[0], THOUGHTS[2], THOUGHTS[1]]
    agent.append("assistant", "Dry.", dialect="anthropic")
    agent.end_turn()
    agent.append("user", "And now?")
    assert thoughts(agent, model) == []


@pytest.mark.parametrize("model", BINDING)
def test_imported_thinking_is_never_sent_to_a_model_that_binds_it(model: Any, load: Any, tmp_path: Path) -> None:
    agent = imported(THINKING, load, tmp_path)
    agent.do("/config set thinking=low")
    assert thoughts(agent, model) == []
    own = {"type": "thinking", "thinking": "Mine.", "signature": "bWluZQ=="}
    agent.append("assistant", "I look again.", dialect="anthropic", data={"blocks": [own]})
    agent.append_tool_call("look", {}, call_id="c2", dialect="anthropic")
    agent.append_tool_result("c2", "wet", dialect="anthropic")
    assert thoughts(agent, model) == [], "nobody knows what it is bound to"


def test_thinking_is_exported_byte_for_byte_and_comes_back_equal(load: Any, tmp_path: Path) -> None:
    agent = imported(THINKING, load, tmp_path)
    found_ = export_of(agent)
    assert found_.left_out == []
    lines = [msgspec.json.encode(block) for block in THOUGHTS]
    assert [line for line in lines if sum(line in each for each in found_.lines) == 1] == lines
    again = written_again(agent, load, tmp_path)
    for model in (*FREE, *BINDING):
        one, other = (each.request(provider="anthropic", model=model).bytes for each in (agent, again))
        assert one == other
    assert [message.data for message in again.context().messages] == [
        message.data for message in agent.context().messages
    ]


def test_messages_after_a_result_join_its_turn_again(load: Any, tmp_path: Path) -> None:
    more = jsonl(assistant([{"type": "text", "text": "They agree."}], "g", "f", "msg_3"), user("Good.", "h", "g"))
    agent = imported(CLAUDE + more, load, tmp_path)
    marked = [record["message"]["content"] for record in records_of(export_of(agent)) if record.get("isMeta")]
    assert marked == [[DOCUMENT]]
    turns = [
        [(event.turn_id == event.id, event.kind) for event in each.context().messages]
        for each in (agent, written_again(agent, load, tmp_path))
    ]
    assert turns[0] == turns[1]
