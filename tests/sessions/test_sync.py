"""`foldmark sync`: archive and index follow the sessions, regardless of when and how often it runs."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import apsw
import pytest
from archive_place import Home, codex_item
from session_records import REAL_FILES, SHORT_FILES, assistant, call, jsonl, plain_blocks, result, user

import forked
from foldmark.core.errors import FoldmarkError
from foldmark.formats.places import NoSessionError
from foldmark.formats.session_file import SessionFile
from foldmark.sessions.archive import indexing
from foldmark.sessions.archive.index import IndexFileError, open_index
from foldmark.sessions.archive.syncing import Synced, episodic_archive, excluding, sync
from foldmark.text.tokens import stems
from sampled import DEEP

MARKER = "<INSTRUCTIONS-TO-EPISODIC-MEMORY>DO NOT INDEX THIS CHAT</INSTRUCTIONS-TO-EPISODIC-MEMORY>"
needs_samples = pytest.mark.skipif(not REAL_FILES, reason="the real sessions are not here")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def fresh(home: Home, *patterns: str) -> dict[str, Any]:
    """Rebuild the index from the same archive and return its content."""
    for each in home.archive.glob("index.db*"):
        each.unlink()
    home.sync(*patterns)
    return home.index()


def roles(home: Home) -> list[tuple[str, str | None]]:
    return [(role, tool) for *_, role, tool, _, _ in home.index()["messages"]]


@needs_samples
def test_the_real_samples(home: Home) -> None:
    home.samples()
    report = home.sync()
    assert (report.sessions, report.new, report.problems) == (len(SHORT_FILES) + 2, len(SHORT_FILES) + 2, [])
    archived, messages = home.archived(), home.index()["messages"]
    for path in SHORT_FILES:
        assert archived[f"claude/-home-me-real/{path.name}"] == path.read_bytes()
    for path in SHORT_FILES:
        if path.stem in ("claude-code-log-edge-cases", "traceforge-demo"):
            continue
        indexed = [row for row in messages if row[0].endswith(os.fsencode(path.name))]
        plain = plain_blocks(path.read_bytes())
        calls = sum(row[4] == "tool_call" for row in indexed)
        assert calls == plain["tool_call"], "every call is indexed"
    again = home.sync()
    assert again == Synced(str(home.archive), sessions=report.sessions, unchanged=report.sessions)


def test_texts_calls_and_thinking_of_claude_code_are_searched(home: Home) -> None:
    home.session(
        "a",
        {"type": "summary", "summary": "not searched"},
        user("question", "u1", cwd="/home/me/app"),
        assistant([{"type": "thinking", "thinking": "hm", "signature": "s"}, call("c1", "Bash", command="ls")], "a1"),
        user([result("c1", [{"type": "text", "text": "files"}])], "u2", toolUseResult={"stdout": "files"}),
        user([{"type": "image", "source": {"data": "AAAA"}}], "u3"),
        assistant([{"type": "text", "text": "answer"}], "a2", isSidechain=True),
        {"type": "attachment", "uuid": "t", "attachment": {"type": "queued_command", "prompt": "meanwhile"}},
        {"type": "progress", "uuid": "p", "data": {"text": "not searched"}},
    )
    home.sync()
    expected = ["user", "thinking", ("tool_call", "Bash"), ("tool_result", "Bash"), "assistant", "user"]
    assert roles(home) == [each if isinstance(each, tuple) else (each, None) for each in expected]
    terms = {term for *_, term in home.index()["words"]}
    assert set(stems("question hm bash ls files answer meanwhile")) <= terms
    assert not set(stems("not searched aaaa stdout")) & terms
    assert home.index()["files"][0][7] == "/home/me/app"


def test_texts_calls_and_outputs_of_codex_are_searched(home: Home) -> None:
    path = (
        home.folder
        / ".codex/sessions/2026/01/02/rollout-2026-01-02T03-04-05-019982b8-3422-79e0-8b3b-05abaf4f3c3e.jsonl"
    )
    path.parent.mkdir(parents=True)
    listed = [
        {"type": "input_text", "text": "listed"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA"},
    ]
    records = [
        {"type": "session_meta", "payload": {"id": "x", "cwd": "/home/me/app"}},
        codex_item({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]}),
        codex_item({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "question"}]}),
        {"type": "event_msg", "payload": {"type": "user_message", "message": "question"}},
        codex_item({"type": "reasoning", "summary": [{"type": "summary_text", "text": "thought"}], "content": None}),
        codex_item({"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "1"}),
        codex_item({"type": "function_call_output", "call_id": "1", "output": '{"output":"double","metadata":{}}'}),
        codex_item({"type": "function_call_output", "call_id": "1", "output": "Exit code: 0\nplain"}),
        codex_item({"type": "custom_tool_call", "name": "apply_patch", "input": "patch", "call_id": "2"}),
        codex_item({"type": "custom_tool_call_output", "call_id": "2", "output": listed}),
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "bare"}]},
        {"type": "compacted", "payload": {"message": "summed"}},
        codex_item({"type": "function_call_output", "call_id": None, "output": None}),
    ]  # fmt: skip
    path.write_bytes(jsonl(*records))
    home.sync()
    assert roles(home) == [
        ("user", None),
        ("thinking", None),
        ("tool_call", "shell"),
        ("tool_result", "shell"),
        ("tool_result", None),
        ("tool_call", "apply_patch"),
        ("tool_result", "apply_patch"),
        ("assistant", None),
        ("assistant", None),
    ]
    terms = {term for *_, term in home.index()["words"]}
    assert set(stems("thought ls double plain patch listed bare summed")) <= terms
    assert not set(stems("rules metadata input")) & terms


def test_a_grown_session_is_read_from_where_it_grew(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home.session("a", user("one", "u1"), assistant([call("c1", "Bash")], "a1"))
    home.sync()
    with path.open("ab") as file:
        file.write(jsonl(user([result("c1", "two")], "u2")))
    starts = []
    lines = SessionFile.lines

    def seen(self: SessionFile, number: int = 0, offset: int = 0) -> Any:
        starts.append(number)
        return lines(self, number, offset)

    monkeypatch.setattr(SessionFile, "lines", seen)
    report = home.sync()
    assert (report.grown, report.messages) == (1, 1)
    assert 2 in starts
    monkeypatch.undo()
    assert roles(home)[-1] == ("tool_result", "Bash"), "the call stood in what was read before"
    assert home.index() == fresh(home)


@pytest.mark.parametrize("cut", [1, 2, 30])
def test_a_torn_last_line_is_taken_when_it_is_whole(home: Home, cut: int) -> None:
    whole = jsonl(user("one", "u1"), assistant([call("c1", "Bash")], "a1"), user([result("c1", "two")], "u2"))
    path = home.session("a", whole[:-cut])
    home.sync()
    assert len(roles(home)) == (3 if cut == 1 else 2), "a line may lack its end and be whole"
    path.write_bytes(whole + jsonl(user("three", "u3")))
    home.sync()
    assert [each[1] for each in home.index()["messages"]] == [1, 2, 3, 4]
    assert roles(home)[2] == ("tool_result", "Bash")
    assert home.index() == fresh(home)


def test_steps_of_a_long_session(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.session("a", *[user(f"word{number} " + "x " * 100, f"u{number}") for number in range(200)], b"\n\n{broken\n")
    monkeypatch.setattr(indexing, "STEP", 3000)
    monkeypatch.setattr(indexing, "_TEXTS", 500)
    home.sync()
    stepped = home.index()
    monkeypatch.undo()
    assert len(stepped["messages"]) == 200
    assert stepped == fresh(home)


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
def test_killed_at_any_moment_the_next_run_ends_the_same(home: Home) -> None:
    if DEEP and REAL_FILES:
        home.samples()
    for number in range(6 if DEEP else 2):
        lines = range(300 if DEEP else 120)
        home.session(f"long-{number}", *[user(f"word{each} " * 50, f"{number}-{each}") for each in lines])
    run = (
        "import sys, os; from foldmark.sessions.archive import indexing, syncing\n"
        "indexing.STEP = 1 << 14; print(flush=True)\n"
        "reports = iter(range(int(sys.argv[3]), -1, -1))\n"
        "def progress(done, total):\n"
        "    if next(reports) == 0: os.kill(os.getpid(), 9)\n"
        "syncing.sync({'HOME': sys.argv[1], 'FOLDMARK_ARCHIVE': sys.argv[2]}, progress=progress)"
    )
    chance = random.Random(7)
    killed = 0
    for number in range(15 if DEEP else 5):
        # The first three end at a step, however fast the machine is; the others end at any moment.
        command: list[str | Path] = [
            sys.executable,
            "-c",
            run,
            home.folder,
            home.archive,
            str(number if number < 3 else 1 << 30),
        ]
        with forked.Popen(command, stdout=subprocess.PIPE) as running:
            assert running.stdout is not None
            running.stdout.readline()
            if number >= 3:
                time.sleep(chance.uniform(0, 0.15))
                running.send_signal(signal.SIGKILL)
        killed += running.returncode == -signal.SIGKILL
    assert killed >= 3
    home.sync()
    found = home.index()
    assert found == fresh(home)
    shutil.rmtree(home.archive)
    home.sync()
    assert found == home.index()


def test_two_at_once(home: Home) -> None:
    short, long = (100, 3000) if DEEP else (20, 600)
    for number in range(10):
        home.session(f"s{number}", *[user(f"word{each} " * 20, f"{number}-{each}") for each in range(short)])
    home.session("long", *[user(f"word{each} " * 20, f"long-{each}") for each in range(long)])
    run = (
        "import sys; from foldmark.sessions.archive import indexing, syncing\n"
        "indexing.STEP = 1 << 13\n"
        "report = syncing.sync({'HOME': sys.argv[1], 'FOLDMARK_ARCHIVE': sys.argv[2]})\n"
        "assert not report.problems, report"
    )
    running = [forked.Popen([sys.executable, "-c", run, home.folder, home.archive]) for _ in range(3)]
    assert [each.wait() for each in running] == [0, 0, 0]
    assert len(home.index()["messages"]) == 10 * short + long
    assert home.index() == fresh(home)


def test_many_make_the_index_at_once(tmp_path: Path) -> None:
    run = (
        "import sys, time; from pathlib import Path; from foldmark.sessions.archive.index import open_index\n"
        "print(flush=True)\n"
        "while not Path(sys.argv[1], 'go').exists(): time.sleep(0)\n"
        "open_index(Path(sys.argv[1]) / 'archive', write=True).close()"
    )
    for _ in range(5 if DEEP else 2):
        command: list[str | Path] = [sys.executable, "-c", run, tmp_path]
        running = [forked.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
        for each in running:
            assert each.stdout is not None
            assert each.stdout.readline() == b"\n"
        (tmp_path / "go").touch()
        assert [(each.communicate()[0], each.returncode) for each in running] == [(b"", 0)] * 4
        (tmp_path / "go").unlink()
        shutil.rmtree(tmp_path / "archive")


def test_another_sync_between_two_steps(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.session("a", *[user(f"word{each} " * 20, f"u{each}") for each in range(100)])
    monkeypatch.setattr(indexing, "STEP", 3000)
    waiting = [home.sync]

    def progress(done: int, total: int) -> None:
        if waiting:
            waiting.pop()()

    sync(home.environment, progress=progress)
    assert not waiting
    assert len(home.index()["messages"]) == 100
    assert home.index() == fresh(home)


def test_progress_comes_to_its_end(home: Home) -> None:
    home.session("a", user("one", "u1"), user("two", "u2"))
    home.session("b", user("one", "u3"))
    told: list[tuple[int, int]] = []
    sync(home.environment, progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    size = sum(map(len, home.archived().values()))
    assert told[-1] == (size, size)


def test_what_its_program_removes_stays(home: Home) -> None:
    path = home.session("a", user("kept", "u1"))
    home.sync()
    path.unlink()
    assert (home.sync().removed, len(roles(home))) == (0, 1)
    next(home.archive.rglob("a.jsonl")).unlink()
    assert (home.sync().removed, roles(home)) == (1, [])
    assert home.index()["words of nothing"] == [(0,)]


def test_a_rewritten_session_is_indexed_along_with_the_first(home: Home) -> None:
    path = home.session("a", user("first", "u1"))
    home.sync()
    path.write_bytes(jsonl(user("second", "u2")))
    assert home.sync().apart == 1
    assert [row[2] for row in home.index()["files"]] == ["a", "a"]
    assert {term for *_, term in home.index()["words"]} == {"first", "second"}


def test_subagents(home: Home) -> None:
    path = home.session("a", user("one", "u1"))
    agent = path.with_suffix("") / "subagents" / "agent-7.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(jsonl(user("in the agent", "s1", isSidechain=True, sessionId="a", agentId="7")))
    assert home.sync().new == 2
    assert [(row[2], row[3], row[9], row[10]) for row in home.index()["files"]] == [
        ("a", "-home-me-app", None, None),
        ("agent-7", "-home-me-app", "a", "subagent"),
    ]


@pytest.mark.parametrize(
    ("pattern", "hit"),
    [
        ("/home/me/private", True),
        ("/home/me/private/", True),
        ("/home/me/priv*", True),
        ("~/private", True),
        ("-home-me-private*", True),
        ("/home/me/priv", False),
        ("private", False),
        ("/home/me/private/app/deeper", False),
        ("", False),
    ],
)
def test_patterns(pattern: str, hit: bool) -> None:
    excluded = excluding([pattern], {"HOME": "/home/me"})
    assert excluded("/home/me/private/app", "-home-me-private-app") is hit


def test_excluded_folders(home: Home) -> None:
    open_one = home.session("open", user("open", "u1", cwd="/home/me/app"))
    home.session("closed", user("closed", "u2", cwd="/home/me/private/app"), project="-home-me-private-app")
    home.session("unsaid", user("closed", "u3"), project="-home-me-private")
    assert home.sync("/home/me/private").excluded == 2
    assert [Path(each).name for each in home.archived()] == [open_one.name]
    assert home.sync("/home/me/private").excluded == 2
    assert (home.sync().new, len(roles(home))) == (2, 3), "the setting was changed back"
    home.sync("/home/me/private")
    assert len(roles(home)) == 1, "what was archived before is out of the index"
    assert len(home.archived()) == 3
    assert home.index()["messages"] == fresh(home, "/home/me/private")["messages"]


def test_a_marked_session_leaves_archive_and_index(home: Home) -> None:
    path = home.session("a", user("secret", "u1"))
    home.session("b", user("open", "u2"))
    home.sync()
    with path.open("ab") as file:
        file.write(jsonl(user(MARKER, "u3")))
    report = home.sync()
    assert (report.excluded, report.removed) == (1, 1)
    assert {term for *_, term in home.index()["words"]} == {"open"}
    assert list(home.archived()) == ["claude/-home-me-app/b.jsonl"]
    again = home.sync()
    assert (again.excluded, again.unchanged) == (1, 1)


def test_the_archive_of_episodic_memory(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = home.folder / ".config/superpowers/conversation-archive/-home-me-app"
    theirs.mkdir(parents=True)
    (theirs / "old.jsonl").write_bytes(jsonl(user("old words", "u1")))
    (theirs / "both.jsonl").write_bytes(jsonl(user("both words", "u2")))
    (theirs / "marked.jsonl").write_bytes(jsonl(user("closed", "u3"), user(MARKER, "u4")))
    home.session("both", user("both words", "u2"), user("more", "u5"))
    home.sync()
    paths = {row[0]: row[4] for row in home.index()["files"]}
    assert paths == {
        b"claude/-home-me-app/both.jsonl": "indexed",
        os.fsencode(theirs / "old.jsonl"): "indexed",
        os.fsencode(theirs / "marked.jsonl"): "marked",
    }
    assert "closed" not in {term for *_, term in home.index()["words"]}
    assert home.sync().messages == 0
    (theirs / "old.jsonl").write_bytes(jsonl(user("new words", "u1")))
    assert home.sync().messages == 1
    home.session("old", user("new words", "u1"))
    home.sync()
    assert os.fsencode(theirs / "old.jsonl") not in {row[0] for row in home.index()["files"]}
    assert len(home.archived()) == 2, "nothing of it is copied"


def test_the_archive_of_episodic_memory_is_found_by_the_environment() -> None:
    named = {
        "HOME": "/h",
        "XDG_CONFIG_HOME": "/c",
        "PERSONAL_SUPERPOWERS_DIR": "/p",
        "EPISODIC_MEMORY_CONFIG_DIR": "/e",
    }
    for folder in ("/e", "/p", "/c/superpowers", "/h/.config/superpowers"):
        assert episodic_archive(named) == Path(folder) / "conversation-archive"
        named.popitem()


def test_only_some(home: Home) -> None:
    one = home.session("one", user("one", "u1"))
    home.session("two", user("two", "u2"))
    other = home.session("three", user("three", "u3"), project="-home-me-other")
    assert home.sync(only=[one, other.parent]).new == 2
    assert len(roles(home)) == 2
    assert home.sync(only=[one]).unchanged == 1
    assert home.sync().new == 1
    with pytest.raises(NoSessionError, match="there is no"):
        home.sync(only=[home.folder / "none.jsonl"])


@pytest.mark.parametrize("content", [b"root:x:0:0\n", b"", b"[1]\n", b'{"messages": [{"role": "user"}]}\n'])
def test_files_that_are_no_sessions_are_not_archived(home: Home, content: bytes) -> None:
    one = home.session("one", b'{"torn\n', user("one", "u1"))
    other = one.with_name("data.jsonl")
    other.write_bytes(content)
    with pytest.raises(NoSessionError, match="is no session"):
        home.sync(only=[one, other])
    assert home.sync(only=[one.parent]).sessions == 1
    assert list(home.archived()) == ["claude/-home-me-app/one.jsonl"]


def test_a_file_that_cannot_be_read_costs_no_other(home: Home) -> None:
    home.session("a", user("one", "u1"))
    (home.projects / "-home-me-app" / "b.jsonl").symlink_to("/dev/null")
    bad = home.session("c", user("three", "u3"))
    os.link(bad, bad.with_name("d.jsonl"))
    target = home.archive / "claude/-home-me-app/c.jsonl"
    target.mkdir(parents=True)
    report = home.sync()
    assert [Path(path).name for path, _ in report.problems] == ["c.jsonl"]
    assert len(roles(home)) == 2


def test_hostile_lines(home: Home) -> None:
    deep = b'{"type":"user","message":{"role":"user","content":[' + b"[" * 5000 + b"]" * 5000 + b"]}}\n"
    home.session(
        "a",
        b"\xff\x00\n",
        b"null\n[1]\n\n",
        deep,
        {"type": "user", "message": None, "cwd": 5, "timestamp": 7, "trim_metadata": "x"},
        {"type": "attachment", "attachment": {"type": "queued_command", "prompt": {"a": 1}}},
        {"type": "user", "uuid": ["x"], "message": {"content": [5, {"type": "text", "text": None}]}},
        user("nul \0 and \u2028 and \ud800", "u1"),
        assistant([call("c1", "T", x={"y": [1, 2.5, None, True, {"z": "deep"}]})], "a1"),
        user([result("c9", "of nothing")], "u2", timestamp="9999-12-31T23:59:59-14:00"),
        b'{"type":"user","message":{"content":"torn',
    )
    assert home.sync().problems == []
    assert [role for role, _ in roles(home)] == ["user", "tool_call", "tool_result"]
    assert home.index() == fresh(home)


def test_an_index_of_another_version_is_made_anew(home: Home) -> None:
    home.session("a", user("one", "u1"))
    home.sync()
    db = apsw.Connection(str(home.archive / "index.db"))
    db.execute("PRAGMA user_version = 99")
    db.execute("ALTER TABLE files RENAME COLUMN session TO other")
    db.close()
    with pytest.raises(IndexFileError, match="foldmark sync"):
        open_index(home.archive, write=False)
    assert home.sync().messages == 1


def test_a_damaged_index_is_set_aside(home: Home) -> None:
    home.session("a", user("one", "u1"))
    home.archive.mkdir()
    (home.archive / "index.db").write_bytes(b"no database" * 1000)
    assert home.sync().messages == 1
    assert (home.archive / "index.db.damaged").stat().st_size == 11_000


def test_somebody_elses_database_is_left_alone(home: Home) -> None:
    home.archive.mkdir(parents=True)
    db = apsw.Connection(str(home.archive / "index.db"))
    db.execute("CREATE TABLE theirs (x)")
    db.close()
    with pytest.raises(FoldmarkError, match="no index of Foldmark's"):
        home.sync()


def test_no_sessions_at_all(home: Home) -> None:
    home.folder.mkdir()
    assert home.sync() == Synced(str(home.archive))


def test_the_index_holds_no_texts(home: Home) -> None:
    home.session("a", user("A title is kept. " * 10 + "Unmistakable sentence of a person.", "u1"))
    home.sync()
    content = b"".join(each.read_bytes() for each in home.archive.glob("index.db*"))
    assert b"sentence of a person" not in content
    assert json.loads(home.archived()["claude/-home-me-app/a.jsonl"])["uuid"] == "u1"
