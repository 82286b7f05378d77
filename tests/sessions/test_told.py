"""What Claude Code told its model by itself is imported as it is sent, and exported again.

`told_by_claude.json` has attachments with the texts that Claude Code 2.1.197 sent for them when it resumed a session
with them; null for those whose texts depend on more than the attachment.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_records import TIME, assistant, call, jsonl, result, user

from foldmark.formats.claude.told import told, told_again
from foldmark.log import Agent
from foldmark.sessions.conversion.exporting import export

SENT: list[dict[str, Any]] = json.loads(Path(__file__).with_name("told_by_claude.json").read_bytes())

NOTE = (
    "<system-reminder>\nThe user opened the file /a in the IDE. This may or may not be related to the current task.\n"
    "</system-reminder>"
)
OPENED = {"type": "opened_file_in_ide", "filename": "/a"}


def attached(attachment: Any, uuid: Any, parent: Any, **more: Any) -> dict[str, Any]:
    about = {"uuid": uuid, "parentUuid": parent, "timestamp": TIME}
    return {"type": "attachment", "attachment": attachment, **about, **more}


def command(text: str, uuid: Any, parent: Any) -> dict[str, Any]:
    about = {"uuid": uuid, "parentUuid": parent, "timestamp": TIME}
    return {"type": "system", "subtype": "local_command", "content": text, **about}


def said(agent: Agent) -> list[tuple[str, str]]:
    return [(event.kind, event.content) for event in agent.context().messages]


def exported(agent: Agent, path: Path) -> Path:
    path.write_bytes(b"".join(export(agent, "/app", "1").content()))
    return path


@pytest.mark.parametrize("each", SENT, ids=lambda each: each["attachment"]["type"])
def test_the_texts_are_those_that_the_client_sends(each: dict[str, Any]) -> None:
    assert told({"type": "attachment", "attachment": each["attachment"]}) == each["sent"]


anything = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), st.lists, max_leaves=3)


@given(st.sampled_from(SENT), st.data())
def test_an_attachment_of_another_shape_has_no_texts_or_texts(each: dict[str, Any], data: st.DataObject) -> None:
    about = dict(each["attachment"])
    for name in data.draw(st.lists(st.sampled_from(sorted(about)), unique=True)):
        about[name] = data.draw(anything)
    found = told({"type": "attachment", "attachment": about})
    assert found is None or all(isinstance(text, str) for text in found)


@pytest.mark.parametrize("rendered", [[{"content": "<a>"}], [{"content": [{"type": "text", "text": "<a>"}]}]])
def test_recorded_texts_are_taken(rendered: Any) -> None:
    record = {"type": "attachment", "attachment": {"type": "from the future"}, "rendered": rendered}
    assert told(record) == ["<a>"]
    assert told({**record, "renderedRole": "system"}) == ["<a>"]


@pytest.mark.parametrize("rendered", [None, [], "x", [5], [{}], [{"content": [{"type": "image"}]}], [{"content": ""}]])
def test_recorded_texts_that_are_none(rendered: Any) -> None:
    assert not told({"type": "attachment", "attachment": OPENED, "rendered": rendered})


def test_it_stands_before_its_prompt_and_leaves_with_it(session: Any) -> None:
    imported = session(
        user("one", "u1"),
        assistant("A1", "a1", "u1", "m1"),
        user("two", "u2", "a1"),
        attached(OPENED, "x1", "u2"),
        assistant("A2", "a2", "x1", "m2"),
    )
    assert said(imported.agent)[2:] == [("client", NOTE), ("user", "two"), ("assistant", "A2")]
    (turn,) = {event.turn_id for event in list(imported.agent.context().messages)[2:]}
    imported.agent.do(f"/context drop {turn}")
    assert [text for _, text in said(imported.agent)] == ["one", "A1"]


def test_it_joins_the_result_before_it(session: Any) -> None:
    imported = session(
        user("one", "u1"),
        assistant([call("c1")], "a1", "u1", "m1"),
        user([result("c1", "R ")], "r1", "a1"),
        attached(OPENED, "x1", "r1"),
        assistant([call("c2")], "a2", "x1", "m2"),
        user([result("c2", [{"type": "text", "text": "R"}])], "r2", "a2"),
        attached(OPENED, "x2", "r2"),
        assistant("A", "a3", "x2", "m3"),
    )
    assert [each for each in said(imported.agent) if each[0] in ("tool_result", "client")] == [
        ("tool_result", f"R\n\n{NOTE}"),
        ("tool_result", "R"),
        ("client", NOTE),
    ]
    assert imported.agent.open_turn is None
    assert imported.report.turns == 1


@pytest.mark.parametrize(
    ("model", "role", "read"),
    [
        ("claude-sonnet-4-5-20250929", "system", True),
        ("claude-sonnet-4-20250514", None, True),
        ("claude-opus-4-1-20250805", "system", True),
        ("claude-opus-4-8", "system", False),
        ("claude-opus-5-5", None, False),
        ("claude-opus-5-5", "user", True),
        ("another", "system", True),
    ],
)
def test_instructions_to_models_that_take_system_messages_are_kept_as_data(
    model: str, role: str | None, read: bool, session: Any
) -> None:
    """As Claude Code 2.1.332 sends them, when it resumes such sessions."""
    more = {"rendered": [{"content": NOTE}], **({"renderedRole": role} if role else {})}
    usage = {"input_tokens": 5, "output_tokens": 5}
    imported = session(
        user("one", "u1"),
        attached(OPENED, "x1", "u1", **more),
        assistant("A", "a1", "x1", "m1", model=model, usage=usage),
    )
    assert [kind for kind, _ in said(imported.agent)] == [*["client"] * read, "user", "assistant"]
    assert [record["type"] for record in imported.kept] == [*["attachment"] * (not read)]


def test_local_commands_and_the_first_hook(session: Any) -> None:
    hook = {"type": "hook_success", "hookEvent": "SessionStart", "hookName": "SessionStart", "content": "H"}
    imported = session(
        attached(hook, "x1", None),
        user("one", "u1", "x1"),
        assistant("A1", "a1", "u1", "m1"),
        command("<command-name>/cost</command-name>", "c1", "a1"),
        command("<local-command-stdout>5</local-command-stdout>", "c2", "c1"),
        user("two", "u2", "c2"),
        user("<command-name>/clear</command-name>", "u3", "u2"),
        assistant("A2", "a2", "u3", "m2"),
    )
    assert [kind for kind, _ in said(imported.agent)] == [
        *("client", "user", "assistant"),
        *("client", "client", "user", "client", "assistant"),
    ]
    assert imported.report.turns == 2


def test_what_follows_a_compaction_is_told_before_its_summary(session: Any) -> None:
    imported = session(
        user("one", "u1"),
        assistant("A1", "a1", "u1", "m1"),
        {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None, "logicalParentUuid": "a1"},
        user("SUMMARY", "s", "b", isCompactSummary=True),
        attached(OPENED, "x1", "s"),
        user("two", "u2", "x1"),
        assistant("A2", "a2", "u2", "m2"),
    )
    assert [text for _, text in said(imported.agent)] == [NOTE, "SUMMARY", "two", "A2"]


def test_an_export_tells_it_again(session: Any, load: Any, tmp_path: Path) -> None:
    files = {"type": "file", "filename": "/f", "content": {"type": "text", "file": {"content": "x"}}}
    hidden = {"type": "agent_listing_delta", "addedLines": ["- a: b"], "isInitial": True, "addedTypes": ["a"]}
    imported = session(
        user("one", "u1"),
        attached(files, "x1", "u1"),
        attached(hidden, "x2", "x1"),
        assistant("A1", "a1", "x2", "m1"),
        command("<command-name>/cost</command-name>", "c1", "a1"),
        user("two", "u2", "c1"),
        assistant("A2", "a2", "u2", "m2"),
    )
    path = exported(imported.agent, tmp_path / "exported.jsonl")
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [each["attachment"] for each in records if each["type"] == "attachment"][2] == hidden
    assert said(load(path, "again").agent) == said(imported.agent)


@pytest.mark.parametrize("part", [[0, 9999], [-1, 2], [5]])
def test_what_cannot_be_restored_is_written_as_its_text(part: list[int]) -> None:
    older = {"attachment": {"type": "critical_system_reminder", "content": {"text_part": [0, 5]}}}
    for about in ({"attachment": {"repeats": part}}, {"attachment": 5}, {}, older):
        found = told_again(about, NOTE)
        assert found is not None
        assert found["rendered"] == [{"content": NOTE}]
    assert told_again(None, NOTE) is None


def test_an_import_of_what_is_new_has_the_same_context(load: Any, tmp_path: Path) -> None:
    records = [
        user("one", "u1"),
        attached(OPENED, "x1", "u1"),
        assistant("A1", "a1", "x1", "m1"),
        command("<command-name>/cost</command-name>", "c1", "a1"),
        user("two", "u2", "c1"),
        assistant("A2", "a2", "u2", "m2"),
    ]
    path = tmp_path / "session.jsonl"
    for number in (3, 4, 6):
        path.write_bytes(jsonl(*records[:number]))
        grown = load(path, "grown").agent
    assert said(grown) == said(load(path, "whole").agent)
