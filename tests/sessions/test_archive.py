"""Archiving one session file: archived content is never lost [SPEC 8]."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from archive_place import Home
from hypothesis import given
from hypothesis import strategies as st
from session_records import call, jsonl, result, user

import forked
from foldmark.sessions.archive import storing as archiving
from foldmark.sessions.archive.storing import ArchiveError, archive_folder, holds, place, put
from sampled import DEEP

THEIRS = "<INSTRUCTIONS-TO-EPISODIC-MEMORY>DO NOT INDEX THIS CHAT</INSTRUCTIONS-TO-EPISODIC-MEMORY>"
OURS = "Something private.\nDO NOT INDEX THIS SESSION\n"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_the_place_of_a_session_in_the_archive() -> None:
    claude = Path("/h/.claude/projects/-home-me/0a.jsonl")
    assert place(claude) == Path("claude/-home-me/0a.jsonl")
    agent = claude.with_name("0a") / "subagents" / "agent-7.jsonl"
    assert place(agent) == Path("claude/-home-me/0a/subagents/agent-7.jsonl")
    rollout = "rollout-2025-09-25T21-12-14-019982b8-3422-79e0-8b3b-05abaf4f3c3e.jsonl"
    assert place(Path("/h/.codex/sessions/2025/09/25") / rollout) == Path("codex/2025/09/25") / rollout
    assert place(Path("/h/.codex/sessions") / rollout) == Path("codex") / rollout
    assert place(Path("/0a.jsonl")) == Path("claude/-/0a.jsonl")


def test_the_archive_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if sys.platform == "linux":
        assert archive_folder({"XDG_DATA_HOME": str(tmp_path)}) == tmp_path / "foldmark" / "archive"
    assert archive_folder({"FOLDMARK_ARCHIVE": "mine"}) == tmp_path / "mine"


def test_only_new_bytes_are_appended(home: Home) -> None:
    path = home.session("a", user("one"))
    first = put(path, home.archive)
    assert first == (home.archive / "claude/-home-me-app/a.jsonl", path.stat().st_size, "new")
    assert put(path, home.archive) == (first.path, 0, "unchanged")
    with path.open("ab") as file:
        file.write(b'{"torn')
    assert put(path, home.archive) == (first.path, 6, "grown")
    assert first.path.read_bytes() == path.read_bytes()
    assert holds(path, home.archive)


def test_folders_and_files_are_the_persons_own(home: Home) -> None:
    found = put(home.session("a", user("one")), home.archive / "deep")
    assert found.path.stat().st_mode & 0o777 == 0o600
    assert all(each.stat().st_mode & 0o777 == 0o700 for each in list(found.path.parents)[:4])


def test_a_rewritten_or_cut_session_gets_a_second_copy(home: Home) -> None:
    path = home.session("a", user("one"), user("two"))
    first = put(path, home.archive)
    before = first.path.read_bytes()
    path.write_bytes(jsonl(user("one"), user("2")))
    second = put(path, home.archive)
    assert (second.path.name, second.state) == ("a.2.jsonl", "apart")
    with path.open("ab") as file:
        file.write(jsonl(user("three")))
    assert put(path, home.archive).path == second.path
    path.write_bytes(b"")
    assert put(path, home.archive) == (first.path, 0, "unchanged"), "nothing is in it that is not archived"
    path.write_bytes(jsonl(user("else")))
    assert put(path, home.archive).path.name == "a.3.jsonl"
    assert first.path.read_bytes() == before


def test_a_long_cut_session_gets_a_second_copy(home: Home) -> None:
    lines = [user(f"line {number} " + "x" * 900) for number in range(1000)]
    path = home.session("a", *lines)
    first = put(path, home.archive)
    lines[500] = user("cut")
    path.write_bytes(jsonl(*lines, *lines))
    assert put(path, home.archive).path.name == "a.2.jsonl"
    assert first.added == first.path.stat().st_size


def test_a_long_overwritten_session_gets_a_second_copy(home: Home) -> None:
    lines = [user(f"line {number:04} " + "x" * 900) for number in range(1000)]
    path = home.session("a", *lines)
    put(path, home.archive)
    path.write_bytes(jsonl(*lines[:300], *[user("line ....  " + "y" * 899) for _ in range(300)], *lines[600:]))
    assert put(path, home.archive).path.name == "a.2.jsonl"


_TEXTS = st.text("ab\n", min_size=1, max_size=6).map(str.encode)
_STEPS = st.one_of(
    st.tuples(st.just("grow"), _TEXTS),
    st.tuples(st.just("rewrite"), _TEXTS),
    st.tuples(st.just("shrink"), st.integers(0, 12)),
    st.tuples(st.just("put"), st.just(None)),
)


@given(st.lists(_STEPS, max_size=25))
def test_nothing_that_was_archived_is_ever_lost(steps: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, archive = Path(folder) / "p" / "s.jsonl", Path(folder) / "archive"
        path.parent.mkdir()
        held: dict[Path, bytes] = {}
        path.touch()
        for kind, value in [*steps, ("put", None)]:
            content = path.read_bytes()
            match kind:
                case "grow":
                    path.write_bytes(content + value)
                case "rewrite":
                    path.write_bytes(value)
                case "shrink":
                    path.write_bytes(content[:value])
                case _:
                    found = put(path, archive)
                    assert found.path.read_bytes().startswith(content)
                    assert (found.added > 0) == (found.path.stat().st_size > len(held.get(found.path, b"")))
                    for earlier, bytes_then in held.items():
                        assert earlier.read_bytes().startswith(bytes_then)
                    held = {each: each.read_bytes() for each in archive.rglob("*.jsonl")}


def test_several_processes_archive_at_once(home: Home) -> None:
    """Four processes archive a growing session; none of them takes it for another session."""
    path = home.session("a", *[user(f"line {number} " + "x" * 5000) for number in range(400 if DEEP else 100)])
    run = (
        "import sys; from pathlib import Path; from foldmark.sessions.archive.storing import put\n"
        "for _ in range(int(sys.argv[3])): put(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    times = "40" if DEEP else "12"
    running = [forked.Popen([sys.executable, "-c", run, path, home.archive, times]) for _ in range(4)]
    chance = random.Random(1)
    while any(each.poll() is None for each in running):
        with path.open("ab") as file:
            file.write(jsonl(user("y" * chance.randrange(20_000))))
        time.sleep(0.005)
    assert [each.returncode for each in running] == [0] * 4
    put(path, home.archive)
    assert home.archived() == {"claude/-home-me-app/a.jsonl": path.read_bytes()}


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
def test_a_killed_run_is_continued(home: Home) -> None:
    path = home.session("a", *[user("x" * 100_000) for _ in range(300 if DEEP else 120)])
    run = (
        "import sys, os; from pathlib import Path; from foldmark.sessions.archive import storing\n"
        "storing._PIECE = 1 << 12; print(flush=True); storing.put(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    sizes = []
    for wait in (0.0, 0.002, 0.005, 0.01):
        with forked.Popen([sys.executable, "-c", run, path, home.archive], stdout=subprocess.PIPE) as running:
            assert running.stdout is not None
            assert running.stdout.readline() == b"\n"
            time.sleep(wait)
            running.send_signal(signal.SIGKILL)
        for content in home.archived().values():
            assert path.read_bytes().startswith(content)
            sizes.append(len(content))
    assert sizes == sorted(sizes)
    put(path, home.archive)
    assert home.archived() == {"claude/-home-me-app/a.jsonl": path.read_bytes()}


def test_a_session_that_shrinks_while_it_is_copied(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home.session("a", user("x" * 100_000))
    monkeypatch.setattr(archiving, "_is_marked", lambda *_: os.truncate(path, 10))
    found = put(path, home.archive)
    assert (found.added, found.path.read_bytes()) == (10, path.read_bytes())


def test_a_missing_or_irregular_file_is_not_archived(home: Home, tmp_path: Path) -> None:
    path = home.session("a", user("one"))
    missing = path.with_name("b.jsonl")
    with pytest.raises(ArchiveError, match="there is no file"):
        put(missing, home.archive)
    with pytest.raises(ArchiveError, match="regular file"):
        put(path.parent, home.archive)
    os.mkfifo(missing)
    with pytest.raises(ArchiveError, match="not a regular file"):
        put(missing, home.archive)
    link = path.with_name("c.jsonl")
    link.symlink_to("/dev/zero")
    with pytest.raises(ArchiveError, match="not a regular file"):
        put(link, home.archive)
    with pytest.raises(ArchiveError, match="in the archive already"):
        put(put(path, home.archive).path, home.archive)
    with pytest.raises(ArchiveError, match="cannot be archived"):
        put(Path("/tmp/\0.jsonl"), home.archive)


def test_nothing_is_written_through_a_link_in_the_archive(home: Home, tmp_path: Path) -> None:
    path = home.session("a", user("one"))
    other = tmp_path / "other"
    other.write_text("{")
    target = home.archive / place(path)
    target.parent.mkdir(parents=True)
    target.symlink_to(other)
    with pytest.raises(ArchiveError):
        put(path, home.archive)
    assert other.read_text() == "{"


def test_an_unwritable_archive_is_an_error(home: Home, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ArchiveError, match="cannot be archived"):
        put(home.session("a", user("one")), tmp_path / "file" / "archive")


@pytest.mark.parametrize(
    ("record", "excluded"),
    [
        (user(THEIRS), True),
        (user(f"Please: {THEIRS} thanks"), True),
        (user([{"type": "text", "text": OURS}]), True),
        (user("Never write DO NOT INDEX THIS SESSION in a sentence."), False),
        (user([result("c1", THEIRS)]), False),
        (user([result("c1", [{"type": "text", "text": OURS}])], toolUseResult=THEIRS), False),
        ({"type": "system", "content": THEIRS}, True),
        ({"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": THEIRS}]}}, False),
        ({"type": "assistant", "message": {"role": "assistant", "content": [call("c1", "Bash", x=THEIRS)]}}, False),
        ({"type": "attachment", "attachment": {"type": "queued_command", "prompt": THEIRS}}, True),
        ({"type": "attachment", "attachment": {"type": "file", "content": THEIRS}}, False),
        (
            {
                "type": "response_item",
                "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": THEIRS}]},
            },
            True,
        ),
        ({"type": "response_item", "payload": {"type": "function_call_output", "output": THEIRS}}, False),
        ({"type": "event_msg", "payload": {"type": "agent_message", "message": THEIRS}}, False),
        ({"type": "session_meta", "payload": {"id": "a", "base_instructions": {"text": THEIRS}}}, True),
        (user(None), False),
        ([THEIRS], False),
    ],
)
def test_a_marker_counts_where_a_person_speaks(home: Home, record: Any, excluded: bool) -> None:
    path = home.session("a", user("before"), record, user("after"))
    found = put(path, home.archive)
    assert found.state == ("excluded" if excluded else "new")
    assert bool(home.archived()) != excluded
    assert path.exists()


def test_a_marker_that_comes_later_removes_what_the_session_still_holds(home: Home) -> None:
    path = home.session("a", user("one"))
    put(path, home.archive)
    with path.open("ab") as file:
        file.write(jsonl(user(THEIRS))[:-30])
    assert put(path, home.archive).state == "grown", "a torn line says nothing yet"
    path.write_bytes(jsonl(user("one"), user(THEIRS)))
    assert put(path, home.archive) == (path, 0, "excluded")
    assert home.archived() == {}


def test_lines_removed_from_a_session_are_set_aside(home: Home) -> None:
    path = home.session("a", user("one"))
    put(path, home.archive)
    path.write_bytes(jsonl(user("rewritten"), user(OURS)))
    put(path, home.archive)
    assert home.archived() == {"marked/claude/-home-me-app/a.jsonl": jsonl(user("one"))}


def test_waiting_for_another_process_has_a_limit(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home.session("a", user("one"))
    first = put(path, home.archive).path
    with path.open("ab") as file:
        file.write(b"{}\n")
    monkeypatch.setattr(archiving, "LOCK_SECONDS", 0.1)
    fcntl = pytest.importorskip("fcntl")
    with first.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ArchiveError, match="another process"):
            put(path, home.archive)
    assert put(path, home.archive).state == "grown"
