"""The lineage of sessions, the reason for the end of each, and the file that keeps both (SPEC 8, S4)."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest
from msgspec import structs

import forked
from foldmark.formats.session_format import SessionPath
from foldmark.sessions import lineage
from foldmark.sessions.archive import storing
from foldmark.sessions.lineage import CodingSession, LineageError, Work

OLD, NEW, NEWEST = (SessionPath(Path(f"/s/{name}.jsonl"), "claude", name) for name in ("old", "new", "newest"))
NOW, LATER = "2026-03-01T12:00:00.000000Z", "2026-03-01T13:00:00.000000Z"
UNKNOWN = Work()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A folder that does not exist yet."""
    return tmp_path / "data" / "archive"


def known(archive: Path) -> list[CodingSession]:
    return list(lineage.records(archive).values())


def record(archive: Path, session: SessionPath = OLD) -> CodingSession:
    return lineage.record_of(lineage.records(archive), session)


# -- lineages -------------------------------------------------------------------------------------------------


def test_an_unknown_session_has_only_its_path(archive: Path) -> None:
    assert record(archive) == CodingSession("claude", "old", "/s/old.jsonl")
    assert not archive.exists()


def test_a_rollover(archive: Path) -> None:
    begun = lineage.record_handover(archive, OLD, NEW, "rollover", 76, Work(42, "#7"), NOW, "### Current Task")
    first, second = known(archive)
    assert second == begun
    assert (first.session_number, first.parent, first.started_at, first.ended_at) == (1, None, None, NOW)
    assert (first.end_reason, first.context_at_end, first.summary) == ("rollover", 76, "### Current Task")
    assert (second.session_number, second.parent, second.file) == (2, "old", "/s/new.jsonl")
    assert (second.worker_id, second.issue, second.started_at, second.ended_at) == (42, "#7", NOW, None)


def test_a_lineage_passes_on_worker_and_issue(archive: Path) -> None:
    lineage.record_handover(archive, OLD, NEW, "trim", None, Work("w-1", "#7"), NOW)
    assert (record(archive).worker_id, record(archive).issue) == ("w-1", "#7"), "they were missing"
    third = lineage.record_handover(archive, NEW, NEWEST, "trim", None, UNKNOWN, NOW)
    assert (third.session_number, third.worker_id, third.issue) == (3, "w-1", "#7")
    assert lineage.record_handover(archive, NEW, NEWEST, "trim", None, Work(0, ""), NOW).worker_id == 0
    assert (record(archive, NEW).worker_id, record(archive, NEW).issue) == ("w-1", "#7")


def test_a_later_end_replaces_an_earlier_one(archive: Path) -> None:
    lineage.record_handover(archive, OLD, NEW, "trim", 61, UNKNOWN, NOW)
    lineage.record_handover(archive, OLD, NEW, "rollover", 80, UNKNOWN, LATER, "summary")
    again = record(archive)
    assert (again.end_reason, again.context_at_end, again.summary) == ("rollover", 80, "summary")
    lineage.record_handover(archive, OLD, NEW, "trim", None, UNKNOWN, LATER)
    later = record(archive)
    assert (later.end_reason, later.context_at_end, later.summary) == ("trim", None, "summary")
    assert [each.session_id for each in known(archive)] == ["old", "new"]


@pytest.mark.parametrize("reason", ["trim", "rollover"])
def test_the_end_of_the_process_does_not_replace_a_trim_or_rollover(
    reason: Literal["trim", "rollover"], archive: Path
) -> None:
    lineage.record_handover(archive, OLD, NEW, reason, 61, UNKNOWN, NOW)
    before = record(archive)
    assert lineage.record_end(archive, OLD, 62, LATER) == before
    assert record(archive) == before


def test_a_session_may_complete_twice(archive: Path) -> None:
    lineage.record_end(archive, OLD, 12, NOW)
    ended = lineage.record_end(archive, OLD, 30, LATER)
    assert (ended.context_at_end, ended.ended_at) == (30, LATER)
    assert known(archive) == [ended]


def test_claude_and_codex_may_use_the_same_id(archive: Path) -> None:
    codex = SessionPath(Path("/c/rollout-old.jsonl"), "codex", "old")
    lineage.record_end(archive, OLD, 61, NOW)
    lineage.record_end(archive, codex, None, NOW)
    assert [each.kind for each in known(archive)] == ["claude", "codex"]
    assert record(archive).context_at_end == 61


def test_a_file_name_that_is_not_utf_8_is_recorded(archive: Path) -> None:
    path = Path(os.fsdecode(b"/s/\xff.jsonl"))
    session = SessionPath(path, "claude", path.stem)
    ended = lineage.record_end(archive, session, 61, NOW)
    assert (ended.session_id, ended.file) == ("\ufffd", "/s/\ufffd.jsonl")
    assert record(archive, session) == ended
    other = SessionPath(path, "codex", path.stem)
    begun = lineage.record_handover(archive, session, other, "trim", 61, UNKNOWN, NOW)
    assert begun.session_id == "\ufffd"


def test_a_name_from_the_environment_that_is_not_utf_8_is_recorded(archive: Path) -> None:
    work = lineage.find_work({"FOLDMARK_WORKER": os.fsdecode(b"w\xff"), "ISSUE_REF": "\ud800"})
    begun = lineage.record_handover(archive, OLD, NEW, "trim", 61, work, NOW)
    assert record(archive, NEW) == begun


# -- the file -------------------------------------------------------------------------------------------------


def test_a_line_has_the_columns_of_s4(archive: Path) -> None:
    lineage.record_handover(archive, OLD, NEW, "rollover", 76, Work(42, "#7"), NOW, "é\n😀\u2028\r")
    path = archive / lineage.NAME
    first, second = map(json.loads, path.read_bytes().splitlines())
    s4 = {"worker_id", "session_number", "session_id", "started_at", "ended_at", "end_reason"}
    assert s4 | {"context_at_end", "summary"} < set(first) == set(second)
    assert set(first) == set(structs.asdict(record(archive)))
    assert (first["summary"], second["parent"]) == ("é\n😀\u2028\r", "old")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(archive.stat().st_mode) == 0o700


@pytest.mark.parametrize("worker", [0, 42, -1, 2**62, "42", "w 1", "", None])
def test_a_worker_is_a_number_or_a_text(archive: Path, worker: int | str | None) -> None:
    lineage.record_handover(archive, OLD, NEW, "trim", None, Work(worker), NOW)
    found = record(archive, NEW).worker_id
    assert found == worker
    assert type(found) is type(worker)


def test_the_file_only_grows(archive: Path) -> None:
    lineage.record_end(archive, OLD, 12, NOW)
    before = (archive / lineage.NAME).read_bytes()
    lineage.record_handover(archive, OLD, NEW, "trim", 20, UNKNOWN, LATER)
    after = (archive / lineage.NAME).read_bytes()
    assert after.startswith(before)
    lineage.record_end(archive, OLD, 21, LATER)
    assert (archive / lineage.NAME).read_bytes() == after, "nothing changed"


HOSTILE = (
    *(b"", b"{}", b"[]", b"null", b'"x"', b"\0\0\0", b"\xff\xfe", b"[" * 100_000, b'{"kind":"claude"}'),
    *(b'{"kind":"claude","session_id":7,"file":"/s"}', b'{"kind":"claude","session_id":"\\ud800","file":"/s"}'),
    b'{"kind":"claude","session_id":"old","file":"/s","session_number":"two"}',
    b'{"kind":"claude","session_id":"old","file":"/s","session_number":' + b"9" * 5000 + b"}",
    b'{"kind":"claude","session_id":"old","file":"/s","end_reason":"bored"}',
    b'{"kind":"claude","session_id":"old","file":null}',
)


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_a_line_that_is_no_record_is_skipped(archive: Path, line: bytes) -> None:
    lineage.record_end(archive, OLD, 61, NOW)
    before = known(archive)
    with (archive / lineage.NAME).open("ab") as file:
        file.write(line + b"\n")
    assert known(archive) == before
    lineage.record_handover(archive, NEW, NEWEST, "trim", None, UNKNOWN, NOW)
    assert [each.session_id for each in known(archive)] == ["old", "new", "newest"]


def test_unknown_fields_are_ignored(archive: Path) -> None:
    archive.mkdir(parents=True)
    (archive / lineage.NAME).write_bytes(b'{"kind":"claude","session_id":"old","file":"/s/old.jsonl","later":[1]}\n')
    assert known(archive) == [CodingSession("claude", "old", "/s/old.jsonl")]


def test_a_torn_last_line_is_skipped_and_ended(archive: Path) -> None:
    """Whatever a killed process left of its lines, the records before them count, and later ones follow."""
    lineage.record_end(archive, OLD, 12, NOW)
    path, before = archive / lineage.NAME, known(archive)
    whole = path.read_bytes()
    lineage.record_end(archive, NEW, 30, NOW)
    line = path.read_bytes()[len(whole) :]
    for length in range(len(line)):
        path.write_bytes(whole + line[:length])
        assert known(archive) == before if length < len(line) - 1 else known(archive)[:1] == before
        lineage.record_end(archive, NEWEST, 40, NOW)
        assert record(archive, NEWEST).context_at_end == 40
        assert record(archive) == before[0]


def test_a_disk_that_is_full_leaves_the_file_as_it_was(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lineage.record_end(archive, OLD, 12, NOW)
    before, write = (archive / lineage.NAME).read_bytes(), os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) < 100:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[:-50])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(LineageError, match=r"sessions\.jsonl cannot be written: No space left on device"):
        lineage.record_handover(archive, OLD, NEW, "trim", 20, UNKNOWN, LATER)
    monkeypatch.undo()
    assert (archive / lineage.NAME).read_bytes() == before


@pytest.mark.parametrize("shape", ["folder", "link", "file as archive"])
def test_a_file_that_cannot_be_written_is_reported(archive: Path, shape: str) -> None:
    archive.parent.mkdir(parents=True)
    if shape == "file as archive":
        archive.write_text("no folder")
    else:
        archive.mkdir()
        path = archive / lineage.NAME
        path.mkdir() if shape == "folder" else path.symlink_to(archive.parent / "elsewhere")
    with pytest.raises(LineageError, match="cannot be written: "):
        lineage.record_end(archive, OLD, 12, NOW)
    if shape == "folder":
        with pytest.raises(LineageError, match=r"sessions\.jsonl cannot be read: Is a directory"):
            lineage.records(archive)
    else:
        assert lineage.records(archive) == {}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_a_pipe_does_not_block(archive: Path) -> None:
    archive.mkdir(parents=True)
    os.mkfifo(archive / lineage.NAME)
    assert lineage.records(archive) == {}


def test_waiting_for_another_process_has_a_limit(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "LOCK_SECONDS", 0.1)
    before = lineage.record_end(archive, OLD, 12, NOW)
    with (
        storing.locked_file(archive / lineage.NAME),
        pytest.raises(storing.ArchiveError, match=r"another process has been writing sessions\.jsonl"),
    ):
        lineage.record_end(archive, OLD, 13, NOW)
    assert known(archive) == [before]


def test_threads_record_side_by_side(archive: Path) -> None:
    def end(number: int) -> None:
        session = SessionPath(Path(f"/s/{number % 10}.jsonl"), "claude", str(number % 10))
        lineage.record_end(archive, session, number, NOW)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(end, range(40)))
    assert len(known(archive)) == 10
    assert (archive / lineage.NAME).read_bytes().count(b"\n") == 40


RECORDING = """
import sys
from pathlib import Path
from foldmark.sessions import lineage
from foldmark.formats.session_format import SessionPath
archive, name = Path(sys.argv[1]), sys.argv[2]
sys.stdin.read()
for number in range(30):
    old, new = (SessionPath(Path(f"/s/{name}{each}.jsonl"), "claude", f"{name}{each}") for each in (number, number + 1))
    lineage.record_handover(archive, old, new, "trim", None, lineage.Work(), "2026-03-01T12:00:00.000000Z", "x" * 9000)
"""


def test_two_processes_record_at_once(archive: Path) -> None:
    """No line of one is inside a line of the other, and each sees what it recorded before."""
    words = [sys.executable, "-c", RECORDING, str(archive)]
    running = [forked.Popen([*words, name], stdin=subprocess.PIPE) for name in "ab"]
    for each in running:
        assert each.stdin is not None
        each.stdin.close()
    assert [each.wait() for each in running] == [0, 0]
    assert (archive / lineage.NAME).read_bytes().count(b"\n") == 120
    found = {each.session_id: each.session_number for each in known(archive)}
    assert found == {f"{name}{number}": number + 1 for name in "ab" for number in range(31)}
