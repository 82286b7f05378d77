"""Trim, rollover, import, doctor and sync refuse files of other programs in one line [SPEC 8]."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import rollout_records as codex
from session_records import jsonl, user

from foldmark.cli.program import run
from foldmark.formats.places import kind_in
from foldmark.formats.session_file import SessionFile

OTHERS = Path(__file__).resolve().parents[3] / "shared" / "data" / "openai" / "tau-bench-20.jsonl"
TALK = {"id": "tau-1", "source": "x", "messages": [{"role": "user", "content": "hello"}]}


def kind(path: Path, *records: Any, most: int | None = None) -> str | None:
    path.write_bytes(jsonl(*records))
    with SessionFile(path) as file:
        return kind_in(file, most)


def test_the_first_recognizable_record_decides_the_format(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    assert kind(path, TALK, None, 5, codex.meta(), user("x")) == "codex"
    assert kind(path, TALK, user("x"), codex.meta()) == "claude"
    assert kind(path, TALK, TALK, user("x"), most=2) is None
    assert kind(path, {"type": "of a later version", "sessionId": "s"}) == "claude"
    assert kind(path, {"type": "of another program"}) is None
    assert kind(path, {"message": {"content": "no type"}}) is None
    assert kind(path) is None


def test_a_record_that_two_programs_write_does_not_decide(tmp_path: Path) -> None:
    shared = {"type": "system", "uuid": "a", "parentUuid": None, "sessionId": "s"}
    qwen = {**shared, "type": "user", "message": {"role": "user", "parts": [{"text": "hello"}]}}
    assert kind(tmp_path / "x.jsonl", shared, qwen) is None
    assert kind(tmp_path / "x.jsonl", shared, user("x")) == "claude"
    assert kind(tmp_path / "x.jsonl", shared) == "claude"


@pytest.mark.parametrize("value", [None, [], "type", {}, TALK, {"type": None}, {"type": 3}, {"message": "text"}])
def test_other_json_values_are_not_records(value: Any, tmp_path: Path) -> None:
    assert kind(tmp_path / "x.jsonl", value) is None


FOREIGN: dict[str, list[dict[str, Any]]] = {
    "pi": [
        {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/app"},
        {"type": "message", "id": "a", "parentId": None, "message": {"role": "user", "content": "hello"}},
    ],
    "Qwen Code": [
        {"type": "system", "subtype": "ui_telemetry", "uuid": "a", "parentUuid": None, "sessionId": "s"},
        {"type": "user", "uuid": "b", "parentUuid": "a", "message": {"role": "user", "parts": [{"text": "hello"}]}},
    ],
    "Gemini CLI": [
        {"sessionId": "s", "projectHash": "h", "startTime": "2026-01-01T00:00:00.000Z", "kind": "main"},
        {"id": "a", "timestamp": "2026-01-01T00:00:00.000Z", "type": "user", "content": [{"text": "hello"}]},
    ],
    "GitHub Copilot CLI": [
        {"type": "session.start", "data": {"sessionId": "s", "version": 1}, "id": "a", "parentId": None},
        {"type": "user.message", "data": {"content": "hello"}, "id": "b", "parentId": "a"},
    ],
    "Cursor": [{"role": "user", "message": {"content": [{"type": "text", "text": "hello"}]}}],
    "a Codex older than its present format": [
        {"id": "s", "timestamp": "2025-05-01T00:00:00.000Z", "instructions": None},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
    ],
}
COMMANDS = [
    ["trim"],
    ["trim", "--dry-run"],
    ["rollover", "--summary-file", "summary.md"],
    ["import"],
    ["doctor", "--session"],
]


@pytest.mark.parametrize("name", [f"{codex.ID}.jsonl", f"rollout-2026-01-01T01-01-01-{codex.ID}.jsonl"])
@pytest.mark.parametrize("program", FOREIGN)
def test_another_coding_agents_session_is_named(
    program: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("summary.md").write_text("### Current Task\nnone\n")
    path = tmp_path / name
    path.write_bytes(jsonl(*FOREIGN[program]))
    for words in COMMANDS:
        assert run(["--db", str(tmp_path / "log.db"), *words, str(path)]) == 1
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.endswith(f"is not a session of Claude Code or Codex: it seems to be one of {program}\n")
    assert list(tmp_path.glob("*.jsonl*")) == [path]


def test_a_rollout_under_another_name_is_a_rollout_to_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FOLDMARK_ARCHIVE", str(tmp_path / "archive"))
    monkeypatch.chdir(tmp_path)
    Path("summary.md").write_text("### Current Task\nnone\n")
    path = tmp_path / f"{codex.ID}.jsonl"
    path.write_bytes(jsonl(codex.meta(), codex.said("hello"), codex.call("c1"), codex.output("c1", "x" * 2000)))
    for words in (["trim", "--tools", "*"], ["rollover", "--summary-file", "summary.md"]):
        assert run(["--db", str(tmp_path / "log.db"), *words, str(path), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert Path(told["file"]).name.startswith("rollout-")
        assert "codex" in told.get("command", told.get("resume_command", ""))
    assert run(["--db", str(tmp_path / "log.db"), "import", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["conversation"] == f"codex-{codex.ID[:8]}"
    assert run(["doctor", "--session", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "codex"
    assert list((tmp_path / "archive" / "codex").rglob("*.jsonl"))
    assert not (tmp_path / "archive" / "claude").exists()


@pytest.mark.parametrize("name", ["{}.jsonl", f"rollout-2026-01-01T01-01-01-{codex.ID}.jsonl"])
@pytest.mark.parametrize(
    "words",
    [
        ["trim"],
        ["trim", "--dry-run"],
        ["rollover", "--summary-file", "summary.md"],
        ["import"],
        ["doctor", "--session"],
        ["doctor", "--repair", "--session"],
    ],
)
def test_another_programs_file(
    words: list[str], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("summary.md").write_text("### Current Task\nnone\n")
    path = tmp_path / name
    content = OTHERS.read_bytes() if OTHERS.exists() else json.dumps(TALK).encode() + b"\n"
    path.write_bytes(content)
    assert run(["--db", str(tmp_path / "log.db"), *words, str(path)]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "is not a session of Claude Code or Codex" in shown.err or "does not begin with a session_meta" in shown.err
    assert path.read_bytes() == content
    assert list(tmp_path.glob("*.jsonl*")) == [path]
