"""Exporting a context as a Claude Code session, and importing it again (SPEC 8)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from exported import as_read, as_sent, as_shown, blocks_of, check_chain, export_of, records_of
from hypothesis import given
from hypothesis import strategies as st
from random_logs import IMAGES, REASONING, THINKING, image, logs
from request_validators import anthropic
from session_records import REAL_FILES, SHORT_FILES, assistant, call, result, user

import foldmark
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.sessions.conversion.exporting import Exporting, choose, records

real_files = pytest.mark.skipif(not REAL_FILES, reason="the real sessions are not here")

Load = Callable[..., Any]


def body(messages: list[dict[str, Any]]) -> dict[str, Any]:
    return {"model": "claude-x", "max_tokens": 100, "tools": [], "messages": messages}


def again(agent: foldmark.Agent, load: Load, folder: Path, name: str) -> Any:
    """Import an agent's export as a separate conversation."""
    path = folder / f"{name}.jsonl"
    path.write_bytes(b"".join(export_of(agent).content()))
    return load(path, name)


@pytest.fixture
def agent(log: foldmark.Log) -> foldmark.Agent:
    return log.find("talk", create=True)


def said(agent: foldmark.Agent) -> list[Any]:
    """Return the texts of an export, and the ids of its calls and results."""
    return [
        block[1].get("text", block[1]["type"]) if isinstance(block[1], dict) else block[1]
        for block in as_read(records_of(export_of(agent)))
    ]


# -- real sessions --------------------------------------------------------------------------------------------


@real_files
@pytest.mark.parametrize("path", SHORT_FILES, ids=lambda path: path.stem)
def test_import_export_import_is_a_fixed_point(path: Path, load: Any, tmp_path: Path) -> None:
    first = load(path, "first")
    exported = records_of(export_of(first.agent))
    check_chain(exported)
    assert anthropic(body(as_sent(exported))) == []
    second = again(first.agent, load, tmp_path, "second")
    shown = list(second.agent.context().messages)
    assert as_shown(shown) == as_read(exported)
    third = again(second.agent, load, tmp_path, "third")
    for one, other in zip(shown, third.agent.context().messages, strict=True):
        for field in ("kind", "content", "data", "dialect", "created_at"):
            assert getattr(one, field) == getattr(other, field)
    assert second.turns == third.turns


@real_files
@pytest.mark.parametrize("path", SHORT_FILES, ids=lambda path: path.stem)
def test_an_import_is_exported_whole(path: Path, load: Any) -> None:
    """Only results without a call and white space are left out of a real session."""
    imported = load(path)
    found = export_of(imported.agent)
    shown = list(imported.agent.context().messages)
    assert sum(found.messages.values()) + len(found.left_out) == len(shown)
    calls = [event.call_id for event in shown if event.kind == "tool_call"]
    read = as_read(records_of(found))
    assert [each[1] for each in read if each[0] == "call"] == calls
    texts = [event.content for event in shown if event.kind in ("user", "client", "assistant") and event.content]
    assert [each[1]["text"] for each in read if isinstance(each[1], dict) and "text" in each[1]] == texts


@real_files
def test_operations_show_in_an_export(load: Any, tmp_path: Path) -> None:
    path = max(REAL_FILES, key=lambda path: path.stat().st_size)
    agent = load(path).agent
    messages = list(agent.context().messages)
    agent.do("/mark HERE")
    agent.append("user", "gone again")
    agent.do("/rewind HERE")
    agent.do(f"/context drop {messages[0].turn_id}")
    agent.apply_filter("forget", [event.id for event in messages[100:140]])
    left = list(agent.context().messages)
    assert 0 < len(left) < len(messages) - 40
    came = as_shown(list(again(agent, load, tmp_path, "after").agent.context().messages))
    assert sorted(map(repr, came)) == sorted(map(repr, as_shown(left)))
    assert [each for each in came if each[0] != "result"] == [each for each in as_shown(left) if each[0] != "result"]


# -- messages -------------------------------------------------------------------------------------------------


def test_a_conversation_comes_back_the_same(agent: foldmark.Agent, load: Any, tmp_path: Path) -> None:
    agent.append("user", "Hello", data={"blocks": [image()]})
    agent.append("assistant", "Let me look.")
    agent.append_tool_call("Read", {"path": "a", "deep": [1, {"b": None}]}, call_id="c1")
    agent.append_tool_call("Bash", {}, call_id="c2")
    agent.append_tool_result("c1", "one", data={"blocks": [image()]})
    agent.append_tool_result("c2", "two", is_error=True)
    agent.append("assistant", "Done.")
    agent.end_turn()
    agent.append("user", "Thanks")
    came = again(agent, load, tmp_path, "came")
    before, after = list(agent.context().messages), list(came.agent.context().messages)
    assert [(e.kind, e.content, e.call_id) for e in after] == [(e.kind, e.content, e.call_id) for e in before]
    assert as_shown(after) == as_shown(before)
    assert len(came.turns) == 2


def test_exported_twice_only_session_and_time_differ(agent: foldmark.Agent) -> None:
    agent.append("user", "a")
    agent.append("assistant", "b")
    one, other = (records_of(export_of(agent)) for _ in range(2))
    assert one[0]["sessionId"] != other[0]["sessionId"]
    for record in (*one, *other):
        record.pop("sessionId")
        record.get("export_metadata", {}).pop("exported_at", None)
    assert one == other
    assert one[0]["export_metadata"] == {
        "conversation": "talk",
        "agent": agent.id,
        "up_to": agent.context().at,
        "foldmark": "1.2.3",
    }
    assert "export_metadata" not in one[1]


def test_every_call_has_its_result_and_the_other_way_round(agent: foldmark.Agent) -> None:
    agent.append("user", "a")
    agent.append_tool_call("Read", {}, call_id="c1")
    agent.append_tool_call("Read", {}, call_id="c2")
    agent.append("user", "hurry")
    agent.append_tool_result("c1", "late")
    agent.append_tool_result("nobody", "orphan")
    agent.end_turn()
    agent.append_tool_call("Read", [1], call_id="c1")
    found = export_of(agent)
    read = records_of(found)
    blocks = [
        block
        for record in read
        if isinstance(record["message"]["content"], list)
        for block in record["message"]["content"]
    ]
    first, second, third = (block["id"] for block in blocks if block["type"] == "tool_use")
    assert [first, second] == ["c1", "c2"]
    assert third not in ("c1", "c2")
    assert [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"] == [first, second, third]
    assert [record.get("foldmark_made_up", False) for record in read] == [False] * 4 + [True, False, False, True]
    assert blocks[-2]["input"] == {"value": [1]}
    assert [why for _, why in found.left_out] == ["the call that it answers is not in the request"]


def test_results_precede_the_calls_of_the_next_answer(session: Any) -> None:
    """Claude Code looks for results directly after the answer that made the calls."""
    imported = session(
        user("a"),
        assistant([call("c1")], response="m1"),
        assistant([call("c2")], response="m2"),
        user([result("c1")]),
        user([result("c2")]),
    )
    read = as_read(records_of(export_of(imported.agent)))
    assert [each[:2] for each in read[1:]] == [("call", "c1"), ("result", "c1"), ("call", "c2"), ("result", "c2")]


def test_records_of_one_answer_share_its_id_and_no_others_do(session: Any) -> None:
    imported = session(
        user("a"),
        assistant([{"type": "text", "text": "b"}, call("c1")], response="m1"),
        user([result("c1")]),
        assistant([call("c2")], response="m1"),
        user([result("c2")]),
        assistant("late", response="m1"),
        user("c"),
        assistant("d", response="m1"),
        assistant("e"),
        assistant("f", response="m1"),
    )
    read = records_of(export_of(imported.agent))
    ids = [record["message"]["id"] for record in read if record["type"] == "assistant"]
    assert ids[:3] == ["m1", "m1", "m1"]
    assert len(set(ids[3:])) == 4
    assert "m1" not in ids[3:]
    assert anthropic(body(as_sent(read))) == []


def test_thinking_is_kept_where_it_may_be_sent(agent: foldmark.Agent) -> None:
    agent.append("user", "a")
    kept = [THINKING, {**THINKING, "signature": ""}, {"type": "thinking", "thinking": "x"}]
    agent.append("assistant", "b and c", dialect="anthropic", data={"blocks": [*kept, {**THINKING, "after": 2}]})
    agent.append("assistant", "", dialect="openai", data={"blocks": [REASONING]})
    agent.append("assistant", "", dialect="anthropic", data={"blocks": [THINKING]})
    found = export_of(agent)
    assert said(agent) == ["a", "thinking", "b ", "thinking", "and c"]
    assert [why for _, why in found.left_out] == [
        "2 of its blocks cannot be sent",
        "1 of its blocks cannot be sent",
        "thinking that nothing follows",
    ]


def test_an_answer_of_thinking_alone_is_not_exported(agent: foldmark.Agent) -> None:
    """Claude Code does not send it, even if another answer follows."""
    agent.append("user", "a")
    agent.append("assistant", "", dialect="anthropic", data={"blocks": [THINKING], "response": "m1"})
    agent.append("assistant", "b", dialect="anthropic", data={"blocks": [THINKING], "response": "m2"})
    assert said(agent) == ["a", "thinking", "b"]
    assert [why for _, why in export_of(agent).left_out] == ["thinking that nothing follows"]


@pytest.mark.parametrize(
    ("document", "kept"),
    [
        ({"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}, True),
        ({"type": "text", "media_type": "text/plain", "data": "x"}, True),
        ({"type": "base64", "media_type": "application/pdf", "data": "no base64"}, False),
        ({"type": "base64", "media_type": "application/pdf", "data": "PGh0bWw+"}, False),
        ({"type": "text", "media_type": "text/html", "data": "x"}, False),
        ({"type": "text", "data": "x"}, False),
        ("x", False),
    ],
)
def test_documents(document: Any, kept: Any, agent: foldmark.Agent, load: Any, tmp_path: Path) -> None:
    block = {"type": "document", "source": document, "title": "T"}
    agent.append("user", "a", data={"blocks": [block, *IMAGES[:1]]})
    (record,) = records_of(export_of(agent))
    assert [each["type"] for each in record["message"]["content"]] == ["document"] * kept + ["image", "text"]
    (event,) = again(agent, load, tmp_path, "came").messages
    pages = {"pages": 1} if document != "x" and document["type"] == "base64" else {}
    assert event.data == {"blocks": [{**block, **pages}] * kept + IMAGES[:1]}


def test_a_tool_made_known_by_a_result_is_kept(agent: foldmark.Agent) -> None:
    reference = {"type": "tool_reference", "tool_name": "X"}
    agent.append("user", "a")
    agent.append_tool_call("ToolSearch", {}, call_id="c1")
    agent.append_tool_result("c1", "", data={"blocks": [reference, 7]})
    assert as_read(records_of(export_of(agent)))[-1] == ("result", "c1", [reference], False)


def test_kinds_that_a_session_does_not_have(agent: foldmark.Agent) -> None:
    agent.append("system", "Be brief.")
    agent.append("user", "a")
    agent.append("assistant", "cut", interrupted=True)
    agent.append("tool", "a tool speaks")
    agent.append("assistant", " ")
    assert said(agent) == [
        "[System message:]\nBe brief.",
        "a",
        "cut\n\n[Interrupted.]",
        "[Message of a tool:]\na tool speaks",
    ]
    assert records_of(export_of(agent))[0]["isMeta"] is True


def test_a_session_begins_with_a_user(agent: foldmark.Agent, load: Any, tmp_path: Path) -> None:
    agent.append("assistant", "I begin.")
    agent.append("user", "Do.")
    first, *_ = read = records_of(export_of(agent))
    assert (first["type"], first["isMeta"], first["foldmark_made_up"]) == ("user", True, True)
    assert "export_metadata" in first
    check_chain(read)
    assert again(agent, load, tmp_path, "came").said == [("assistant", "I begin."), ("user", "Do.")]


def test_summaries(agent: foldmark.Agent) -> None:
    for number in range(2):
        agent.append("user", f"q{number}")
        agent.append("assistant", f"a{number}")
        agent.end_turn()
    agent.do("/summarize")
    agent.append("user", "b")
    agent.do("/mark M")
    agent.append("assistant", "c")
    agent.end_turn()
    agent.do("/summarize M")
    first, _, last = read = records_of(export_of(agent))
    assert first["isCompactSummary"] is True
    assert last["type"] == "assistant"
    assert "isCompactSummary" not in last
    check_chain(read)


def test_a_compaction_is_read_as_the_history_in_force(session: Any, load: Any, tmp_path: Path) -> None:
    imported = session(
        user("a", "u1"), assistant("b", "a1", "u1"), user("S", "s1", "a1", isCompactSummary=True), user("c", "u2", "s1")
    )
    assert imported.shown == ["S", "c"]
    assert again(imported.agent, load, tmp_path, "came").said == [("user", "S"), ("user", "c")]


def test_models(agent: foldmark.Agent, session: Any) -> None:
    """The model is the answer's, else the conversation's if it is Anthropic's, else `<synthetic>`."""
    usage = {"input_tokens": 1}
    imported = session(user("a"), assistant("b", response="m1", model="claude-y", usage=usage), assistant("c"))
    models = [record["message"].get("model") for record in records_of(export_of(imported.agent))]
    assert models == [None, "claude-y", "<synthetic>"]
    imported.agent.configure("model", "anthropic/claude-z")
    models = [record["message"].get("model") for record in records_of(export_of(imported.agent))]
    assert models == [None, "claude-y", "claude-z"]
    assert "usage" not in records_of(export_of(imported.agent))[1]["message"]


def test_times_do_not_go_back(agent: foldmark.Agent) -> None:
    for second in (5, 3, 9):
        agent.append("user", f"at {second}", created_at=f"2025-10-01T10:00:0{second}Z")
    times = [record["timestamp"] for record in records_of(export_of(agent))]
    assert times == [f"2025-10-01T10:00:0{second}.000Z" for second in (5, 5, 9)]


def test_a_fork_exports_what_it_shows(agent: foldmark.Agent) -> None:
    agent.append("user", "a")
    child = agent.log.agent(agent.do("/fork").data["child"])
    child.append("assistant", "b")
    assert said(child) == ["a", "b"]
    assert records_of(export_of(child))[0]["export_metadata"]["conversation"] is None


def test_an_empty_context_is_an_error(agent: foldmark.Agent) -> None:
    with pytest.raises(CommandError, match=r"talk.*it is empty.*/restore"):
        export_of(agent)
    agent.append_tool_result("nobody", "orphan")
    agent.append("user", " ")
    with pytest.raises(CommandError, match="none of its 2 messages can be sent"):
        export_of(agent)


# -- any messages ---------------------------------------------------------------------------------------------


def exported(events: list[Event]) -> list[dict[str, Any]]:
    events = [msgspec.structs.replace(event, created_at="2025-10-01T10:00:00.000000Z") for event in events]
    to = Exporting(agent_id="a", session_id="s", cwd="/")
    return [json.loads(msgspec.json.encode(each)) for each in records(choose(events, "a")[0], to)]


responses = st.lists(st.sampled_from([None, None, "m1", "m1", "m2", 7]), min_size=25, max_size=25)


@given(logs(), responses)
def test_any_messages_make_a_session_whose_request_is_accepted(events: Any, names: Any) -> None:
    answered = [
        msgspec.structs.replace(event, data={**(event.data or {}), "response": name})
        if name is not None and event.kind in ("assistant", "tool_call")
        else event
        for event, name in zip(events, names, strict=False)
    ]
    for each in (events, answered):
        read = exported(each)
        check_chain(read)
        assert anthropic(body(as_sent(read))) == []
        assert sum(len(message["content"]) for message in as_sent(read)) == 1 + len(as_read(read)) + sum(
            "foldmark_made_up" in record for record in read
        )


@given(logs(12))
def test_any_session_comes_back_the_same(events: Any) -> None:
    from tempfile import TemporaryDirectory

    from foldmark.sessions.conversion.importing import import_session

    read = exported(events)
    if not read:
        return
    with TemporaryDirectory() as folder, foldmark.open(":memory:") as log:
        path = Path(folder) / "s.jsonl"
        for name in ("one", "two"):
            path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in read))
            agent = log.agent(import_session(log, path, name).agent_id)
            assert as_shown(list(agent.context().messages)) == as_read(read)
            back = records_of(export_of(agent))
            assert as_read(back) == as_read(read)
            read = back


def test_an_export_holds_the_placeholder_of_an_evicted_result_and_a_summary_where_it_stands() -> None:
    with foldmark.open(":memory:") as log:
        agent = log.agent("root")
        first = agent.append("user", "one")
        agent.append("assistant", "answer")
        agent.end_turn()
        agent.append("user", "two")
        agent.append_tool_call("Read", {"file_path": "a"}, call_id="c1", dialect="anthropic")
        result = agent.append_tool_result("c1", "content " * 50, dialect="anthropic")
        agent.end_turn()
        agent.do(f"/context evict {result}")
        agent.do(f"/summarize {first}..{first}")
        records = records_of(export_of(agent))
        kinds = [(record["type"], block["type"]) for record in records for block in blocks_of(record)]
        assert kinds == [("user", "text"), ("user", "text"), ("assistant", "tool_use"), ("user", "tool_result")]
        assert records[0]["isCompactSummary"] is True
        assert f"WHERE id={result}" in json.dumps(records[-1])
        assert "content content" not in json.dumps(records)
