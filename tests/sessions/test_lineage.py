"""The lineage of sessions, and the reason for the end of each (SPEC 8, S4)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import foldmark
from foldmark.core.records import CodingSession, EndReason
from foldmark.sessions import lineage
from foldmark.sessions.formats import SessionPath
from foldmark.sessions.lineage import Work
from stored import stored

OLD, NEW, NEWEST = (SessionPath(Path(f"/s/{name}.jsonl"), "claude", name) for name in ("old", "new", "newest"))


def test_an_unknown_session_has_only_its_path(log: foldmark.Log) -> None:
    assert lineage.coding_session(log, OLD) == CodingSession("claude", "old", "/s/old.jsonl")
    assert stored(log).coding_sessions() == []


def test_a_rollover(log: foldmark.Log) -> None:
    ended = lineage.record_end(log, OLD, "rollover", 76, "### Current Task")
    begun = lineage.record_start(log, ended, NEW, Work(42, "#7"))
    first, second = stored(log).coding_sessions()
    assert (first, second) == (ended, begun)
    assert (first.session_number, first.parent, first.started_at) == (1, None, None)
    assert (first.end_reason, first.context_at_end, first.summary) == ("rollover", 76, "### Current Task")
    assert (second.session_number, second.parent, second.file) == (2, "old", "/s/new.jsonl")
    assert (second.worker_id, second.issue, second.ended_at) == (42, "#7", None)
    assert first.ended_at is not None
    assert second.started_at is not None
    assert first.ended_at <= second.started_at
    assert list(log.store.damage()) == []


def test_a_lineage_passes_on_worker_and_issue(log: foldmark.Log) -> None:
    second = lineage.record_start(log, lineage.coding_session(log, OLD), NEW, Work("w-1", "#7"))
    third = lineage.record_start(log, second, NEWEST)
    assert (third.session_number, third.worker_id, third.issue) == (3, "w-1", "#7")
    assert lineage.record_start(log, second, NEWEST, Work(0, "")).worker_id == 0


def test_a_later_end_replaces_an_earlier_one(log: foldmark.Log) -> None:
    lineage.record_end(log, OLD, "trim", 61)
    again = lineage.record_end(log, OLD, "rollover", 80, "summary")
    assert (again.end_reason, again.context_at_end, again.summary) == ("rollover", 80, "summary")
    later = lineage.record_end(log, OLD, "trim", None)
    assert (later.end_reason, later.context_at_end, later.summary) == ("trim", None, "summary")
    assert stored(log).coding_sessions() == [later]


@pytest.mark.parametrize("reason", ["trim", "rollover"])
def test_the_end_of_the_process_does_not_replace_a_trim_or_rollover(reason: EndReason, log: foldmark.Log) -> None:
    before = lineage.record_end(log, OLD, reason, 61)
    assert lineage.record_end(log, OLD, "completed", 62) == before
    assert stored(log).coding_sessions() == [before]


def test_a_session_may_complete_twice(log: foldmark.Log) -> None:
    lineage.record_end(log, OLD, "completed", 12)
    assert lineage.record_end(log, OLD, "completed", 30).context_at_end == 30


def test_claude_and_codex_may_use_the_same_id(log: foldmark.Log) -> None:
    codex = SessionPath(Path("/c/rollout-old.jsonl"), "codex", "old")
    lineage.record_end(log, OLD, "trim", 61)
    lineage.record_end(log, codex, "completed", None)
    assert [each.kind for each in stored(log).coding_sessions()] == ["claude", "codex"]
    assert lineage.coding_session(log, OLD).end_reason == "trim"


def test_a_file_name_that_is_not_utf_8_is_recorded(log: foldmark.Log) -> None:
    path = Path(os.fsdecode(b"/s/\xff.jsonl"))
    session = SessionPath(path, "claude", path.stem)
    ended = lineage.record_end(log, session, "trim", 61)
    assert (ended.session_id, ended.file) == ("\ufffd", "/s/\ufffd.jsonl")
    assert lineage.coding_session(log, session) == ended
    assert lineage.record_start(log, ended, SessionPath(path, "codex", path.stem)).session_id == "\ufffd"
