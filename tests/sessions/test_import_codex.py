"""Importing Codex rollouts (SPEC 8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from exported import as_sent, check_chain, export_of, records_of
from request_validators import VALIDATORS, anthropic
from session_records import TIME, jsonl, user

from foldmark.core.assembly.eviction import OPAQUE
from foldmark.sessions.conversion.importing import default_name

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "codex"
REAL_FILES = sorted(REAL.glob("*.jsonl"))
real_files = pytest.mark.skipif(not REAL_FILES, reason="the real rollouts are not here")


def line(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": TIME, "type": kind, "payload": payload}


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return line("response_item", type=kind, **fields)


def says(role: str, *texts: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text} for text in texts])


def asks(call_id: str, name: str = "shell", arguments: str = '{"command":["ls"]}', **fields: Any) -> dict[str, Any]:
    return item("function_call", name=name, arguments=arguments, call_id=call_id, **fields)


def gives(call_id: str, output: Any = "done", kind: str = "function_call_output") -> dict[str, Any]:
    return item(kind, call_id=call_id, output=output)


META = line("session_meta", id="019982b8-3422-79e0-8b3b-05abaf4f3c3e", cwd="/x")


@real_files
@pytest.mark.parametrize("path", REAL_FILES, ids=lambda path: path.stem)
def test_real_file(path: Path, load: Any) -> None:
    read = [json.loads(each) for each in path.read_bytes().splitlines()]
    items = [each["payload"] for each in read if each["type"] == "response_item"]
    imported = load(path)
    count = {kind: sum(each["type"] == kind for each in items) for kind in ("function_call", "function_call_output")}
    assert imported.report.messages["tool_call"] == count["function_call"] > 10
    assert imported.report.messages["tool_result"] == count["function_call_output"]
    assert all(event.answers for event in imported.of("tool_result"))
    assert {event.dialect for event in imported.messages} == {"openai"}
    outputs = {each["call_id"]: each["output"] for each in items if each["type"] == "function_call_output"}
    assert {event.call_id: event.content for event in imported.of("tool_result")} == outputs
    thought = sum(each["type"] == "reasoning" and each["encrypted_content"] is not None for each in items)
    assert sum(bool((event.data or {}).get("blocks")) for event in imported.of("assistant")) == thought
    assert imported.report.records["response_item"] == len(items)
    assert imported.report.turns == 1
    assert imported.report.broken == []
    exported = records_of(export_of(imported.agent))
    check_chain(exported)
    body = {"model": "claude-x", "max_tokens": 1, "tools": [], "messages": as_sent(exported)}
    assert anthropic(body) == []
    for provider, model in (("openai_responses", "gpt-5"), ("anthropic", "claude-opus-4-8")):
        assert imported.agent.request(provider, model).bytes


def test_items_become_messages(session: Any) -> None:
    encrypted = {"summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "ZW5j"}
    imported = session(
        META,
        says("developer", "Sandbox."),
        says("user", "<environment_context>"),
        says("user", "hello"),
        item("reasoning", id="rs_1", content=None, **encrypted),
        item("reasoning", summary=[], encrypted_content=None),
        asks("c1", namespace="mcp__x"),
        gives("c1", '{"output":"a","metadata":{"exit_code":1}}'),
        item("custom_tool_call", name="apply_patch", input="*** Begin", call_id="c2"),
        gives("c2", [{"type": "input_text", "text": "one"}, {"type": "input_text", "text": "two"}]),
        asks("c3", arguments="not json"),
        gives("c3", {"content": "no", "success": False}),
        item("local_shell_call", call_id="c4", action={"command": ["ls"]}),
        gives("c4", "x", "local_shell_call_output"),
        says("assistant", "bye"),
        says("user", "again"),
    )
    assert imported.turns == [
        ["<environment_context>", "hello", "", "c1", "c1", "c2", "c2", "c3", "c3", "c4", "c4", "bye"],
        ["again"],
    ]
    (thought,) = (event for event in imported.of("assistant") if not event.content)
    assert thought.data == {"blocks": [{"type": "reasoning", **encrypted}]}
    calls = [(event.data["name"], json.loads(event.content)) for event in imported.of("tool_call")]
    assert calls == [
        ("mcp__x__shell", {"command": ["ls"]}),
        ("apply_patch", {"input": "*** Begin"}),
        ("shell", "not json"),
        ("local_shell", {"command": ["ls"]}),
    ]
    results = [(event.content, event.data.get("is_error", False)) for event in imported.of("tool_result")]
    assert results == [
        ('{"output":"a","metadata":{"exit_code":1}}', False),
        ("one\ntwo", False),
        ("no", True),
        ("x", False),
    ]
    assert [kept["payload"].get("type") for kept in imported.kept] == [None, "message", "reasoning"]
    assert {event.data["source"] for event in imported.of("record")} == {"codex"}


def test_images(session: Any) -> None:
    png = {"type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "high"}
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
    odd = gives("c1", [png, {"type": "input_image", "image_url": "file:///x"}, 7])
    imported = session(
        META,
        item("message", role="user", content=[{"type": "input_text", "text": "look"}, png]),
        asks("c1"),
        odd,
        says("assistant", "ok"),
        item("message", role="user", content=[png]),
    )
    look, alone = imported.of("user")
    assert (look.content, look.data) == ("look", {"blocks": [block]})
    assert (alone.content, alone.data) == ("", {"blocks": [block]})
    (answer,) = imported.of("tool_result")
    assert (answer.content, answer.data["blocks"]) == ("", [block])
    assert imported.kept == [META, odd]


@pytest.mark.parametrize(
    "record",
    [
        item("message", role="user", content=7),
        item("message", role=["user"], content="x"),
        item("message", role="user", content=[]),
        item("message", role="assistant", content=[{"type": "output_text", "text": 7}]),
        item("function_call", name="x", arguments="{}"),
        item("function_call", name=7, arguments="{}", call_id="c"),
        item("function_call_output", call_id="c", output=None),
        item("function_call_output", call_id="c", output=7),
        item("function_call_output", output="x"),
        item("reasoning", encrypted_content=7),
        item("ghost_snapshot", ghost_commit={}),
        {"type": "response_item", "payload": None},
        {"type": "response_item", "payload": {"type": ["message"]}},
        line("event_msg", type="user_message", message="hello"),
        line("event_msg", type="token_count", info={"last_token_usage": []}),
        line("event_msg", type="thread_rolled_back", num_turns="all"),
        line("compacted", message=" ", replacement_history=[]),
        line("compacted", message=None),
        {"type": "user", "message": {"content": "of another program"}},
    ],
)
def test_records_that_are_no_messages_are_kept_whole(record: Any, session: Any) -> None:
    imported = session(META, says("user", "hello"), record)
    assert imported.said == [("user", "hello")]
    assert imported.kept == [META, record]


def test_a_compaction_keeps_what_it_repeats(session: Any) -> None:
    history = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandbox."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "two"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "S"}]},
        None,
        {"type": "message"},
    ]
    before = [META, says("user", "one"), says("assistant", "a"), says("user", "two"), asks("c1"), gives("c1")]
    compacted = line("compacted", message="S", replacement_history=history)
    imported = session(*before, compacted, says("assistant", "b"), says("user", "three"))
    assert imported.shown == ["two", "S", "b", "three"]
    (made,) = imported.of("summary")
    imported.agent.do(f"/restore {made.id}")
    assert imported.shown == ["one", "a", "two", "c1", "c1", "b", "three"]
    texts = [each["content"] for each in sent(session(OTHER, *before[1:], compacted), "openai_responses", "gpt-5.1")]
    assert texts == ["two", "S"]  # as Codex sends them
    assert {event.role for event in session(OTHER, *before[1:], compacted).agent.context().messages} == {"user"}
    assert session(META, says("user", "S"), line("compacted", message="S", replacement_history=history)).shown == ["S"]
    assert session(META, line("compacted", message="S"), says("user", "one")).said == [("user", "S"), ("user", "one")]


def spoken(text: str, role: str = "user") -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "id": "m", "role": role, "content": [{"type": kind, "text": text}]}


OTHER = line("session_meta", id="019982b8-3422-79e0-8b3b-05abaf4f3c3f", cwd="/x")
OPAQUE_ITEM = {"type": "compaction", "encrypted_content": "b3BhcXVl"}
HISTORY = [
    {"type": "ghost_snapshot", "ghost_commit": {"id": "x"}},
    spoken("Sandbox.", "developer"),
    spoken("one"),
    {**OPAQUE_ITEM, "type": "compaction_summary", "id": "c", "metadata": {}},
]
BEFORE = [META, says("user", "one"), asks("c1"), gives("c1"), says("assistant", "a")]
COMPACTED = line("compacted", message="", replacement_history=HISTORY)
AFTER = [says("user", "two"), says("assistant", "b")]


def made_by(imported: Any) -> Any:
    """Return the text and the items of the only summary."""
    (made,) = imported.of("summary")
    return made.content, made.data["native"]


def sent(imported: Any, provider: str, model: str) -> Any:
    body = imported.agent.request(provider=provider, model=model).body
    assert VALIDATORS[provider](body) == []
    return body["input"] if "input" in body else body["messages"]


@pytest.mark.parametrize(("message", "text"), [("S", "S"), ("", "(no summary available)")])
def test_a_compaction_without_a_history_keeps_all_prompts(message: str, text: str, session: Any) -> None:
    imported = session(*BEFORE, *AFTER, line("compacted", message=message), says("user", "three"))
    assert imported.shown == ["one", "two", text, "three"]
    imported.agent.do(f"/restore {imported.of('summary')[0].id}")
    assert imported.shown == ["one", "c1", "c1", "a", "two", "b", "three"]


def test_a_compaction_goes_on_with_its_history(session: Any) -> None:
    imported = session(*BEFORE, COMPACTED, *AFTER)
    text, native = made_by(imported)
    assert text == f"one\n\n{OPAQUE}"
    kept = {"type": "message", "role": "user", "content": spoken("one")["content"]}
    assert native == {"openai_responses": [kept, OPAQUE_ITEM]}
    assert imported.shown == [text, "two", "b"]
    assert imported.kept == [META]
    assert sent(imported, "openai_responses", "gpt-5.1")[:2] == [kept, OPAQUE_ITEM]
    imported.agent.do(f"/restore {imported.of('summary')[0].id}")
    assert imported.shown == ["one", "c1", "c1", "a", "two", "b"]


def test_another_provider_and_an_export_get_the_messages_in_place_of_a_compaction(session: Any) -> None:
    imported = session(*BEFORE, COMPACTED, *AFTER)
    assert OPAQUE not in json.dumps(sent(imported, "anthropic", "claude-opus-4-5"))
    texts = [record["message"]["content"] for record in records_of(export_of(imported.agent))]
    assert texts[0] == "one"
    assert texts[-2:] == ["two", [{"type": "text", "text": "b"}]]
    assert OPAQUE not in json.dumps(texts)


def test_a_compaction_at_the_beginning_of_a_rollout_holds_its_history(session: Any) -> None:
    imported = session(META, COMPACTED, *AFTER)
    assert made_by(imported)[1]["openai_responses"][-1] == OPAQUE_ITEM
    assert imported.shown == [f"one\n\n{OPAQUE}", "two", "b"]


def test_a_history_with_answers_and_calls_is_held_as_it_is(session: Any) -> None:
    call = {"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "k"}
    output = {"type": "function_call_output", "call_id": "k", "output": "x"}
    history = [spoken("one"), spoken("other words", "assistant"), call, output]
    imported = session(*BEFORE, line("compacted", message="S", replacement_history=history), *AFTER)
    text, native = made_by(imported)
    assert text == "one\n\nother words\n\nS"
    assert [item["type"] for item in native["openai_responses"]] == [item["type"] for item in history]
    assert imported.shown == [text, "two", "b"]


def test_items_that_the_provider_would_refuse_leave_the_history(session: Any) -> None:
    odd = [
        *(None, 7, {}, {"type": 7}, {"type": "message", "role": "user"}, {"type": "message", "role": ["user"]}),
        {"type": "message", "role": "user", "content": []},
        {"type": "reasoning", "summary": []},
        {"type": "compaction"},
        {"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "alone"},
        {"type": "function_call", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "k", "output": "x"},
        {"type": "function_call_output", "call_id": ["k"], "output": "x"},
    ]
    imported = session(*BEFORE, line("compacted", message="", replacement_history=[*odd, *HISTORY]), *AFTER)
    assert [item["type"] for item in made_by(imported)[1]["openai_responses"]] == ["message", "compaction"]
    assert sent(imported, "openai_responses", "gpt-5.1")[1] == OPAQUE_ITEM
    big = json.loads('{"type": "x", "n": 1e999, "i": 123456789012345678901234567890, "s": "\\ud800"}')
    hostile = session(OTHER, *BEFORE[1:], line("compacted", message="", replacement_history=[big, *HISTORY]), *AFTER)
    assert hostile.shown[-2:] == ["two", "b"]


def test_a_compaction_that_codex_skips_is_none(session: Any) -> None:
    odd = line("compacted", message="", replacement_history=HISTORY, replacement_history_metadata=[])
    imported = session(*BEFORE, odd, *AFTER)
    assert imported.shown == ["one", "c1", "c1", "a", "two", "b"]
    assert imported.kept == [META, odd]


def test_a_later_compaction_replaces_an_earlier_one(session: Any) -> None:
    history = [spoken("one"), spoken("two"), OPAQUE_ITEM]
    later = line("compacted", message="", replacement_history=history)
    imported = session(*BEFORE, COMPACTED, *AFTER, later, says("user", "three"))
    assert imported.shown == [f"one\n\ntwo\n\n{OPAQUE}", "three"]
    _, second = imported.of("summary")
    assert sent(imported, "openai_responses", "gpt-5.1")[2] == OPAQUE_ITEM
    imported.agent.do(f"/restore {second.id}")
    assert imported.shown == [f"one\n\n{OPAQUE}", "two", "b", "three"]


def test_a_compaction_in_a_turn_that_was_rolled_back_is_undone(session: Any) -> None:
    back = line("event_msg", type="thread_rolled_back", num_turns=1)
    after = session(*BEFORE, *AFTER, COMPACTED, says("user", "three"), back, says("user", "four"))
    assert after.shown == [f"one\n\n{OPAQUE}", "four"]
    within = session(OTHER, *BEFORE[1:], *AFTER, COMPACTED, says("assistant", "c"), back, says("user", "four"))
    assert within.shown == ["one", "c1", "c1", "a", "four"]
    assert not within.of("summary")


@pytest.mark.parametrize("first", range(5, 9))
def test_a_compaction_that_comes_later_is_as_in_one_import(first: int, load: Any, session: Any, tmp_path: Path) -> None:
    records = [*BEFORE, COMPACTED, *AFTER]
    path = tmp_path / "growing.jsonl"
    path.write_bytes(jsonl(*records[:first]))
    load(path, "growing")
    path.write_bytes(jsonl(*records))
    grown, whole = load(path, "growing"), session(OTHER, *records[1:])
    assert grown.shown == whole.shown
    assert made_by(grown) == made_by(whole)
    assert path.read_bytes() == jsonl(*records)


def test_rolled_back_turns_are_out_of_the_context(session: Any) -> None:
    imported = session(
        META,
        says("user", "<environment_context>"),
        says("user", "one"),
        says("assistant", "a"),
        says("user", "two"),
        says("assistant", "b"),
        says("user", "three"),
        says("assistant", "c"),
        line("event_msg", type="thread_rolled_back", num_turns=2),
        says("user", "four"),
    )
    assert imported.shown == ["<environment_context>", "one", "a", "four"]
    assert imported.report.dropped == 2
    gone = session(META, says("user", "one"), line("event_msg", type="thread_rolled_back", num_turns=9))
    assert gone.shown == []
    assert gone.said == [("user", "one")]


def test_usage_is_recorded_once_for_each_answer(session: Any) -> None:
    spent = {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 3, "total_tokens": 13}
    told = line("event_msg", type="token_count", info={"total_token_usage": spent, "last_token_usage": spent})
    imported = session(
        META, line("turn_context", model="gpt-x"), says("user", "one"), says("assistant", "a"), told, told
    )
    assert [event.data for event in imported.of("usage")] == [
        {"model": "gpt-x", "response": None, "input": 6, "output": 3, "cache_read": 4, "cache_write": 0}
    ]


def test_the_first_object_decides_the_format(session: Any) -> None:
    codex = session(7, "x", META, says("user", "hello"), user("of another program"))
    assert codex.said == [("user", "hello")]
    claude = session(user("hello"), META, says("user", "of another program"))
    assert claude.said == [("user", "hello")]


def test_default_name() -> None:
    name = "rollout-2025-09-25T21-12-14-019982b8-3422-79e0-8b3b-05abaf4f3c3e.jsonl"
    assert default_name(Path("folder") / name) == "codex-019982b8"


def test_torn_lines(session: Any) -> None:
    whole = jsonl(META, says("user", "hello"), says("assistant", "bye"))
    for cut in (1, 20, 100):
        imported = session(whole[:-cut])
        assert imported.said[:1] == [("user", "hello")]
        assert len(imported.report.broken) == (cut > 1)
