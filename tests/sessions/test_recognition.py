"""Other programs' files are no sessions: trim, rollover, import, doctor and sync say so in one line [SPEC 8]."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import rollout_records as codex
from session_records import jsonl, user

from foldmark.interfaces.cli import run
from foldmark.sessions.recognition import is_record, kind_in
from foldmark.sessions.session_file import SessionFile

OTHERS = Path(__file__).resolve().parents[3] / "shared" / "data" / "openai" / "tau-bench-20.jsonl"
TALK = {"id": "tau-1", "source": "x", "messages": [{"role": "user", "content": "hello"}]}


def kind(path: Path, *records: Any, most: int | None = None) -> str | None:
    path.write_bytes(jsonl(*records))
    with SessionFile(path) as file:
        return kind_in(file, most)


def test_the_first_record_tells(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    assert kind(path, TALK, None, 5, codex.meta(), user("x")) == "codex"
    assert kind(path, TALK, user("x"), codex.meta()) == "claude"
    assert kind(path, TALK, TALK, user("x"), most=2) is None
    assert kind(path, {"message": {"content": "no type"}}) == "claude"
    assert kind(path, {"type": "of a later version"}) == "claude"
    assert kind(path) is None


@pytest.mark.parametrize("value", [None, [], "type", {}, TALK, {"type": None}, {"type": 3}, {"message": "text"}])
def test_what_is_no_record(value: Any) -> None:
    assert not is_record(value)


@pytest.mark.parametrize("name", ["{}.jsonl", f"rollout-2026-01-01T01-01-01-{codex.ID}.jsonl"])
@pytest.mark.parametrize(
    "words",
    [
        ["trim"],
        ["trim", "--dry-run"],
        ["trim", "--in-place", "--force"],
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
