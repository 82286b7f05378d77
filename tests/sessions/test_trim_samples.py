"""Trimming real Claude Code sessions: results are cut, and nothing else changes [SPEC 8]."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from session_records import REAL_FILES, SHORT_FILES
from trim_check import compare, parsed, preview, trimmed_copy

import foldmark
from foldmark.formats.claude.resumption import MISSING
from foldmark.formats.places import session_path
from foldmark.sessions.conversion.importing import import_session
from foldmark.sessions.trim.job import TrimOptions
from foldmark.sessions.trim.trimming import TrimResult

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ID = "11111111-2222-4333-8444-555555555555"
DEFAULT = TrimOptions(500, ("Read", "Bash", "Grep", "Glob"))
WISHES = {
    "default": DEFAULT,
    "everything": TrimOptions(100, ("*",)),
    "nothing": TrimOptions(500, ()),
    "none left": TrimOptions(0, ("read", "BASH", "gr?p")),
}

pytestmark = pytest.mark.skipif(not REAL_FILES, reason="the real sessions are not here")


def trimmed(source: Path, folder: Path, wish: TrimOptions = DEFAULT, id: str = ID) -> TrimResult:
    path = folder / source.name
    if path != source:
        path.write_bytes(source.read_bytes())
    return trimmed_copy(session_path(path), wish, id, NOW)


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES)
@pytest.mark.parametrize("source", SHORT_FILES, ids=lambda path: path.stem)
def test_nothing_else_changes(source: Path, wish: TrimOptions, tmp_path: Path) -> None:
    old = source.read_bytes()
    done = trimmed(source, tmp_path, wish)
    tools = tuple(done.tally)
    cut = compare(old, done.session.path.read_bytes(), ID, tools, wish.threshold)
    assert cut == done.trimmed_count
    assert (tmp_path / source.name).read_bytes() == old
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([source.name, f"{ID}.jsonl"])


@pytest.mark.parametrize("source", SHORT_FILES, ids=lambda path: path.stem)
def test_untouched_lines_have_the_same_bytes(source: Path, tmp_path: Path) -> None:
    old_lines = source.read_bytes().split(b"\n")
    new_lines = trimmed(source, tmp_path, TrimOptions(500, ())).session.path.read_bytes().split(b"\n")
    untouched = 0
    for old, new in list(zip(old_lines, new_lines, strict=True))[1:]:
        record = parsed(old)
        id = json.dumps(record["sessionId"]).encode() if record and "sessionId" in record else b""
        if record is None or record.get("type") != "assistant":
            assert new == (old.replace(b'"sessionId":' + id, b'"sessionId":"%b"' % ID.encode()) if id else old) or (
                b'"sessionId": ' in old and new == old.replace(id, b'"%b"' % ID.encode())
            )
            untouched += 1
    assert untouched


@pytest.mark.parametrize("source", SHORT_FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("again", [500, 10], ids=["the same", "stricter"])
def test_a_cut_result_is_not_cut_again(source: Path, again: int, tmp_path: Path) -> None:
    first = trimmed(source, tmp_path, TrimOptions(500, ("*",)))
    other = "99999999-2222-4333-8444-555555555555"
    second = trimmed_copy(first.session, TrimOptions(again, ("*",)), other, NOW)
    old, new = first.session.path.read_bytes().split(b"\n"), second.session.path.read_bytes().split(b"\n")
    if again == 500:
        assert second.trimmed_count == 0
        assert [line.replace(ID.encode(), other.encode()) for line in old[1:]] == new[1:]
    for one, two in zip(old, new, strict=True):
        if b"[TRIMMED by Foldmark" in one and second.trimmed_count == 0:
            assert one.replace(ID.encode(), other.encode()).count(b"TRIMMED") == two.count(b"TRIMMED")
    assert [line.count(f"of {tmp_path / source.name}]".encode()) for line in old] == [
        line.count(f"of {tmp_path / source.name}]".encode()) for line in new
    ]


@pytest.mark.parametrize("source", REAL_FILES, ids=lambda path: path.stem)
def test_every_pointer_leads_to_the_whole_result(source: Path, tmp_path: Path) -> None:
    done = trimmed(source, tmp_path, TrimOptions(500, ("*",)))
    old = source.read_bytes().split(b"\n")
    for number, line in enumerate(done.session.path.read_bytes().split(b"\n"), 1):
        found = line.count(b"TRIMMED by Foldmark")
        assert line.count(f"The whole result: line {number} of {tmp_path / source.name}]".encode()) == found
        if found:
            assert len(old[number - 1]) > len(line)


def test_the_metadata_of_a_trim_tell_its_counts(tmp_path: Path) -> None:
    source = next(path for path in REAL_FILES if path.stem == "agentcmd-four")
    before = hashlib.sha256(source.read_bytes()).hexdigest()
    done = trimmed(source, tmp_path)
    metadata = json.loads(done.session.path.read_bytes().split(b"\n")[0])["trim_metadata"]
    assert metadata == {
        "parent_file": str(tmp_path / source.name),
        "trimmed_at": "2026-01-02T03:04:05Z",
        "threshold": 500,
        "trimmed_count": done.trimmed_count,
        "tokens_saved": done.tokens_saved,
    }
    assert {tool: each.results for tool, each in done.tally.items()} == {"Read": 9, "Bash": 2, "Glob": 3, "Grep": 2}
    assert done.tally["Glob"].cut == done.tally["Grep"].cut == 0
    assert 9 <= done.trimmed_count <= 11  # for two short results, it depends on the length of the path
    assert hashlib.sha256((tmp_path / source.name).read_bytes()).hexdigest() == before
    shown = preview(session_path(tmp_path / source.name), DEFAULT, NOW)
    assert (shown.tally, shown.tokens_saved, shown.lines) == (done.tally, done.tokens_saved, done.lines)
    assert len(list(tmp_path.iterdir())) == 2


def test_the_saved_tokens_are_a_third_of_the_bytes_that_the_model_no_longer_reads(tmp_path: Path) -> None:
    source = next(path for path in REAL_FILES if path.stem == "episodic-memory-large")
    done = trimmed(source, tmp_path)
    with foldmark.open(":memory:") as log:
        messages = log.agent(import_session(log, source).agent_id).context().messages
        late = {event.call_id for event in messages if event.kind == "tool_result" and event.content == MISSING}
    assert len(late) == 2
    old, new = (
        sum(
            len(json.dumps(block.get("content"), ensure_ascii=False).encode())
            for line in path.read_bytes().split(b"\n")
            if (record := parsed(line)) and isinstance((record.get("message") or {}).get("content"), list)
            for block in record["message"]["content"]
            if isinstance(block, dict) and block.get("type") == "tool_result" and block["tool_use_id"] not in late
        )
        for path in (source, done.session.path)
    )
    assert done.tokens_saved == pytest.approx((old - new) / 3, rel=0.01)
