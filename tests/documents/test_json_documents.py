"""A conversation as JSON, and back into a database (SPEC 9)."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

import foldmark
from documents import exported, imported, written
from foldmark.documents.json_import import import_document, read_document
from foldmark.documents.recognition import is_document
from foldmark.log.doctor import examine

HARD = "a\u2028b\u2029c\x00d\x1b[31m\u202e \ufffd 🇩🇪 \\ud800 \r\n```"


@pytest.fixture
def log() -> Iterator[foldmark.Log]:
    with foldmark.open(":memory:", settings={}) as log:
        yield log


def test_the_format_is_as_documented(log: foldmark.Log) -> None:
    agent = log.agent("talk")
    agent.append("user", "Read.", created_at="2026-03-01T12:00:00Z")
    call = agent.append_tool_call("read_file", {"path": "a"}, call_id="c", dialect="openai")
    agent.append_tool_result("c", "text", dialect="openai", is_error=True)
    agent.end_turn()
    agent.do("/mark M -- why not")
    found = exported(agent)
    assert (found["format"], found["version"]) == ("foldmark conversation", 1)
    assert found["conversation"] == {
        "name": "talk",
        "agent": agent.id,
        "created_at": agent.standing().record.created_at,
        "inherits": [],
    }
    assert "start" not in found
    user, _, result, ended, mark = found["events"]
    assert user == {
        "id": 1,
        "kind": "user",
        "actor": "human",
        "created_at": "2026-03-01T12:00:00.000000Z",
        "turn": 1,
        "role": "user",
        "content": "Read.",
        "dialect": "openai",
        "in_context": True,
        "tokens": 2,
    }
    assert (result["answers"], result["role"]) == (call, "tool")
    assert result["data"] == {"call_id": "c", "is_error": True}
    assert ended["kind"] == "turn_ended"
    assert mark["data"]["name"] == "M"
    assert mark["data"]["reason"] == "why not"
    assert mark["data"]["receipt"]["before"]["messages"] == 3


def test_the_context_has_the_messages_as_they_are_sent(log: foldmark.Log) -> None:
    agent = log.agent("talk")
    first = agent.append("user", "Forget me.")
    agent.end_turn()
    agent.append("user", "Read.")
    agent.append_tool_call("read_file", {"path": "a"}, call_id="c", dialect="openai")
    result = agent.append_tool_result("c", "long text " * 100, dialect="openai")
    agent.end_turn()
    agent.do(f"/context drop {first}")
    agent.do(f"/context evict {result}")
    found = exported(agent, only_context=True)
    assert found["format"] == "foldmark context"
    told = [(each["role"], each["content"]) for each in found["messages"]]
    assert told[:2] == [("user", "Read."), ("assistant", '{"path":"a"}')]
    assert found["messages"][1]["tool"] == "read_file"
    assert told[2][0] == "tool"
    assert "Evicted" in told[2][1]
    assert "long text" not in told[2][1]


def test_a_context_cannot_be_imported(log: foldmark.Log, tmp_path: Path) -> None:
    agent = log.agent("talk")
    agent.append("user", "Hello")
    with pytest.raises(foldmark.FoldmarkError, match="only the messages of a context"):
        imported(log, tmp_path / "c.json", exported(agent, only_context=True), "copy")


def test_hard_texts_survive_and_each_event_is_one_line(log: foldmark.Log, tmp_path: Path) -> None:
    agent = log.agent("talk")
    deep: object = HARD
    for _ in range(150):
        deep = [deep]
    agent.append("user", HARD, data={HARD: [2**70, 0.1, -0.0, True, None], "deep": deep, "lone": "\ud800"})
    text = written(agent, "json")
    assert len(text.splitlines()) == 10
    copy = log.agent(imported(log, tmp_path / "d.json", text.encode(), "copy").agent_id)
    (message,), (original,) = copy.context().messages, agent.context().messages
    assert (message.content, message.data) == (original.content, original.data)


def test_a_document_that_another_program_has_laid_out_anew_is_read(log: foldmark.Log, tmp_path: Path) -> None:
    agent = log.agent("talk")
    agent.append("user", "Hello")
    sorted_keys = json.dumps(exported(agent), indent=4, sort_keys=True, ensure_ascii=True).encode()
    report = imported(log, tmp_path / "d.json", b"\xef\xbb\xbf" + sorted_keys, "copy")
    assert report.messages == {"user": 1}
    assert is_document(tmp_path / "d.json")


def test_what_a_file_is_its_content_decides(tmp_path: Path) -> None:
    record = {"type": "user", "uuid": "1", "sessionId": "s", "timestamp": "2026-03-01T12:00:00Z"}
    session = json.dumps({**record, "message": {"role": "user", "content": "Hi"}, "x": {"format": "foldmark context"}})
    for name, content, so in (
        ("session.json", session, False),
        ("session.jsonl", session, False),
        ("notes.json", '{"notes": 1}', True),
        ("notes.txt", '{"notes": 1}', False),
        ("document.txt", '\n{ "format" : "foldmark conversation"', True),
        ("document.txt", '{"conversation": {},\n "format": "foldmark conversation"}', True),
    ):
        (tmp_path / name).write_text(content, encoding="utf-8")
        assert is_document(tmp_path / name) is so, content


def test_only_what_counts_elsewhere_is_carried(log: foldmark.Log, tmp_path: Path) -> None:
    agent = log.agent("talk")
    agent.record("record", data={"live": {"session": "s", "wire": "anthropic"}})
    agent.append("user", "Hello")
    agent.record("usage", data={"fresh": 1, "sent": {"known": 1, "kept": [], "added": []}})
    agent.record("command", "/import", data={"import": {"source": "claude", "session": "s"}})
    agent.record("window_summary", "short", data={"from": 2, "until": 2, "turns": [2, 2], "covers": "0"})
    agent.record("record", data={"source": "claude", "type": "progress", "record": {"a": 1}})
    document = exported(agent)
    assert [each["kind"] for each in document["events"]] == ["user", "usage", "record"]
    assert document["events"][1]["data"] == {"fresh": 1}
    copy = log.agent(imported(log, tmp_path / "d.json", document, "copy").agent_id)
    copy.do("/note It is an ordinary conversation.")


def test_ids_are_given_anew_in_a_database_in_use(log: foldmark.Log, tmp_path: Path) -> None:
    agent = log.agent("talk")
    for number in range(3):
        agent.append("user", f"Question {number}")
        agent.append("assistant", "Answer")
        agent.end_turn()
    dropped = agent.do("/context drop 4")
    report = imported(log, tmp_path / "d.json", exported(agent), "copy")
    copy = log.agent(report.agent_id)
    assert [each.content for each in copy.context().messages] == [each.content for each in agent.context().messages]
    assert min(each.id for each in copy.context().messages) > agent.context().at
    (row,) = copy.do("/operations").data["operations"]
    copy.do(f"/restore {row['id']}")
    agent.do(f"/restore {dropped.event_id}")
    assert [each.content for each in copy.context().messages] == [each.content for each in agent.context().messages]
    assert list(examine(log)) == []


def test_changes_of_settings_go_back_in_a_copy(log: foldmark.Log, tmp_path: Path) -> None:
    agent = log.agent("talk")
    agent.append("user", "Question")
    agent.end_turn()
    lines = ("/context window 1", "/context window 2", "/scratchpad edit one", "/scratchpad edit two")
    first, _, pad, _ = [agent.do(line).event_id for line in lines]
    for target in (first, pad):
        agent.do(f"/restore {target}")
    copy = log.agent(imported(log, tmp_path / "d.json", exported(agent), "copy").agent_id)
    for one in (agent, copy):
        rows = one.do("/operations").data["operations"]
        assert [row["in_force"] for row in rows] == [False, True, False, True, True, True]
        assert [row["taken_back_by"] for row in rows] == [rows[4]["id"], None, rows[5]["id"], None, None, None]
        one.do(f"/restore {rows[1]['id']}")
        one.do(f"/restore {rows[3]['id']}")
        assert (one.standing().config.context_size, one.standing().scratchpad) == (0, "")
        one.do(f"/restore {rows[4]['id']}")
        assert one.standing().config.context_size == 1


def test_a_fork_becomes_a_conversation_of_its_own(log: foldmark.Log, tmp_path: Path) -> None:
    agent = log.agent("talk")
    agent.append("user", "Secret.")
    agent.end_turn()
    agent.do("/mark M")
    pinned = agent.append("user", "Task.")
    agent.append("assistant", "Done.")
    agent.end_turn()
    agent.do(f"/pin {pinned}")
    agent.configure("model", "openai/gpt-5")
    child = log.agent(agent.do("/fork M").data["child"])
    child.append("user", "Own words.")
    child.end_turn()
    document = exported(child)
    assert "Secret." not in json.dumps(document)
    report = imported(log, tmp_path / "d.json", document)
    copy = log.agent(report.agent_id)
    assert copy.parent is None
    assert [each.content for each in copy.context().messages] == ["Task.", "Done.", "Own words."]
    assert (len(copy.context().pins), copy.standing().config.model) == (1, "openai/gpt-5")
    assert report.added == 2


def test_the_report_counts_what_was_imported(log: foldmark.Log, tmp_path: Path) -> None:
    agent = log.agent("talk")
    first = agent.append("user", "Secret.")
    agent.end_turn()
    agent.append("user", "Hello")
    agent.append("assistant", "Hi")
    agent.end_turn()
    agent.do(f"/message remove {first} --yes")
    report = imported(log, tmp_path / "d.json", exported(agent), "copy")
    assert (report.name, report.source, report.events, report.turns) == ("copy", "talk", 6, 2)
    assert (report.messages, report.operations, report.erased) == ({"user": 1, "assistant": 1}, 1, 1)


def test_a_long_conversation_needs_little_memory(tmp_path: Path) -> None:
    with foldmark.open(tmp_path / "log.db", settings={}) as log:
        agent = log.agent("talk")
        with agent.batch():
            for number in range(2000):
                agent.append("user", f"{number} " + "x" * 10_000)
                agent.end_turn()
        for form in ("json", "markdown"):
            for only_context in (False, True):
                tracemalloc.start()
                try:
                    from foldmark.documents.exporting import document

                    size = sum(map(len, document(agent, form, lambda *_: None, only_context=only_context)))
                    peak = tracemalloc.get_traced_memory()[1]
                finally:
                    tracemalloc.stop()
                assert size > 20_000_000
                assert peak < 8_000_000, (form, only_context)


def test_progress_reaches_the_end_of_an_export_and_of_an_import(log: foldmark.Log, tmp_path: Path) -> None:
    from foldmark.documents.exporting import write_document

    agent = log.agent("talk")
    for number in range(250):
        agent.append("user", str(number))
        agent.end_turn()
    told: list[tuple[int, int]] = []
    write_document(agent, "json", tmp_path / "d.json", lambda *at: told.append(at), only_context=False)
    assert told == [(100, 250), (200, 250), (250, 250)]
    told.clear()
    import_document(log, read_document(tmp_path / "d.json"), "copy", lambda *at: told.append(at))
    assert told == [(100, 500), (200, 500), (300, 500), (400, 500), (500, 500)]
