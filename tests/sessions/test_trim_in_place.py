"""Trimming a session in its place: what it was stays beside it, and nobody's work is written over [SPEC 8]."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from session_records import REAL_FILES, assistant, call, jsonl, result, user
from trim_check import at, compare, parsed

from foldmark.sessions.new_file import WriteError
from foldmark.sessions.places import session_path
from foldmark.sessions.trim import in_place as place
from foldmark.sessions.trim import trimming
from foldmark.sessions.trim.in_place import BusyError, check_resting, trim_in_place
from foldmark.sessions.trim.kind import TrimError, Wish

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WISH = Wish(500, ("Read", "Bash", "Grep", "Glob"))
NAME = "99999999-2222-4333-8444-555555555555"
SESSION = jsonl(
    assistant([call("1")], sessionId=NAME, usage={"input_tokens": 7}),
    user([result("1", "text " * 900)], sessionId=NAME),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return at(tmp_path, NAME, SESSION)


def backups(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.foldmark-backup-*"))


def test_the_session_keeps_its_id_and_its_name(path: Path) -> None:
    path.chmod(0o640)
    done = trim_in_place(session_path(path), WISH, NOW)
    backup = path.with_name(f"{NAME}.jsonl.foldmark-backup-20260102T030405Z")
    assert (done.session.path, done.session.id, done.source) == (path, NAME, backup)
    assert backup.read_bytes() == SESSION
    assert path.stat().st_mode & 0o777 == 0o640
    new = path.read_bytes()
    assert compare(SESSION, new, None) == done.trimmed_count == 1
    assert f"line 2 of {backup}]".encode() in new
    assert (parsed(new.split(b"\n")[0]) or {})["trim_metadata"]["parent_file"] == str(backup)
    assert sorted(path.parent.iterdir()) == [path, backup]


@pytest.mark.skipif(not REAL_FILES, reason="the real sessions are not here")
def test_twice(tmp_path: Path) -> None:
    old = max(REAL_FILES, key=lambda file: file.stat().st_size).read_bytes()
    path = at(tmp_path, NAME, old)
    trim_in_place(session_path(path), WISH, NOW)
    once = path.read_bytes()
    compare(old, once, None)
    assert trim_in_place(session_path(path), WISH, NOW).trimmed_count == 0
    assert path.read_bytes() == once
    assert [backup.read_bytes() for backup in backups(path)] == [old]


def test_where_there_are_no_links_the_backup_is_a_copy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    trim_in_place(session_path(path), WISH, NOW)
    assert [backup.read_bytes() for backup in backups(path)] == [SESSION]
    assert compare(SESSION, path.read_bytes(), None) == 1


def _append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"type":"user"}\n')


def _replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b'{"type":"user"}\n')
    other.replace(path)


def _overwrite(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b"user", b"resu"))


@pytest.mark.parametrize("change", [_append, _replace, _overwrite])
@pytest.mark.parametrize("links", [True, False])
def test_a_session_that_changes_meanwhile_is_left_as_it_is(
    path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], links: bool
) -> None:
    write = trimming.write
    changed = b""

    def slowly(*given: Any) -> Any:
        nonlocal changed
        found = write(*given)
        change(path)
        changed = path.read_bytes()
        return found

    def link(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(place, "write", slowly)
    if not links:
        monkeypatch.setattr(os, "link", link)
    with pytest.raises(BusyError, match="was changed while it was trimmed, and is left as it is"):
        trim_in_place(session_path(path), WISH, NOW)
    assert path.read_bytes() == changed
    assert len(backups(path)) == (change is _replace)


def test_what_is_written_to_the_old_file_after_the_change_of_places_is_in_the_backup(path: Path) -> None:
    with path.open("ab") as late:
        trim_in_place(session_path(path), WISH, NOW)
        late.write(b'{"late":1}\n')
    assert [backup.read_bytes() for backup in backups(path)] == [SESSION + b'{"late":1}\n']


def test_what_is_written_by_another_name_is_not_in_the_backup(path: Path) -> None:
    other = path.with_name("other")
    os.link(path, other)
    trim_in_place(session_path(path), WISH, NOW)
    with other.open("ab") as late:
        late.write(b'{"late":1}\n')
    assert [backup.read_bytes() for backup in backups(path)] == [SESSION]
    assert other.read_bytes() == SESSION + b'{"late":1}\n'
    assert compare(SESSION, path.read_bytes(), None) == 1


def test_a_link_stays_a_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "linked" / path.name
    link.parent.mkdir()
    link.symlink_to(os.path.relpath(path, link.parent))
    done = trim_in_place(session_path(link), WISH, NOW)
    assert link.is_symlink()
    assert list(link.parent.iterdir()) == [link]
    assert compare(SESSION, path.read_bytes(), None) == 1
    assert backups(path) == [done.source]
    assert not done.source.is_symlink()
    assert done.source.read_bytes() == SESSION
    assert f"line 2 of {done.source}]".encode() in path.read_bytes()


def test_a_failure_leaves_no_backup(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"no session\n")
    with pytest.raises(TrimError, match="is no session"):
        trim_in_place(session_path(path), WISH, NOW)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    path.write_bytes(SESSION)
    with pytest.raises(WriteError, match="No space left on device"):
        trim_in_place(session_path(path), WISH, NOW)
    assert list(path.parent.iterdir()) == [path]
    assert path.read_bytes() == SESSION


def test_a_session_at_rest_may_be_changed(path: Path) -> None:
    check_resting(session_path(path), {"CLAUDE_CODE_SESSION_ID": "other"}, time.time() + 11)


@pytest.mark.parametrize("variable", ["CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"])
def test_not_the_session_that_this_runs_in(path: Path, variable: str) -> None:
    with pytest.raises(
        BusyError, match=f"{NAME}.jsonl is the session that this runs in; close it first, .* or use --fo"
    ):
        check_resting(session_path(path), {variable: NAME}, time.time() + 60)


@pytest.mark.parametrize(("ago", "told"), [(0, "0 s"), (4.2, "4 s"), (9.4, "9 s"), (-100, "0 s")])
def test_not_one_that_was_just_changed(path: Path, ago: float, told: str) -> None:
    now = path.stat().st_mtime + ago
    with pytest.raises(BusyError, match=rf"{NAME}\.jsonl was changed {told} ago, so that it may be in use; "):
        check_resting(session_path(path), {}, now)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not say who has a file open")
def test_not_one_that_another_process_has_open(path: Path) -> None:
    program = "import sys; file = open(sys.argv[1], 'ab'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holding:
        assert holding.stdin
        assert holding.stdout
        assert holding.stdout.readline() == b"open\n"
        with pytest.raises(BusyError, match=f"is open in process {holding.pid}; close it first"):
            check_resting(session_path(path), {}, time.time() + 60)
        holding.stdin.close()
    check_resting(session_path(path), {}, time.time() + 60)
