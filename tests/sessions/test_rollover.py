"""`foldmark rollover`: the new session, the lineage and the archive; nothing is lost (SPEC 8, S4)."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
import rollout_records as codex
from hook_place import PROGRAM, answer
from session_records import REAL_FILES, SHORT_FILES, jsonl, user
from test_handoff import GOOD

import forked
from foldmark.cli.program import run
from foldmark.formats.claude.claude_format import project_folder
from foldmark.sessions.lineage import NAME, CodingSession, records
from sampled import DEEP, sampled

ID = "0a1b2c3d-0000-4000-8000-000000000001"
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Place:
    """A home with a working folder and a Claude Code session, and the installed command line."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.work = folder, folder / "home", folder / "my work"
        self.work.mkdir()
        self.projects = self.home / ".claude" / "projects"
        self.db = folder / "log.db"
        self.session = self.projects / project_folder(self.work) / f"{ID}.jsonl"
        self.session.parent.mkdir(parents=True)
        self.summary = folder / "summary.md"
        self.summary.write_text(GOOD)
        self.environment = {
            "PATH": f"{folder / 'bin'}:{Path(PROGRAM).parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "FOLDMARK_ARCHIVE": str(folder / "archive"),
            "FOLDMARK_DB": str(self.db),
        }

    def write(self, *records: Any) -> Path:
        self.session.write_bytes(jsonl(*records))
        return self.session

    def ran(self, *words: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[bytes]:
        """Run the command in this process, which takes a third of the time of another one. With `--launch` it would
        replace this process."""
        if "--launch" in words:
            return self.started(*words, stdin=stdin, **environment)
        streams = {name: TextIOWrapper(BytesIO(), errors="backslashreplace") for name in ("stdout", "stderr")}
        with pytest.MonkeyPatch.context() as patch:
            for name in list(os.environ):
                patch.delenv(name)
            for name, value in {**self.environment, **environment}.items():
                patch.setenv(name, value)
            patch.chdir(self.work if self.work.exists() else self.folder)
            patch.setattr(sys, "stdin", TextIOWrapper(BytesIO(stdin.encode())))
            for name, stream in streams.items():
                patch.setattr(sys, name, stream)
            code = run(["rollover", *words])
        for stream in streams.values():
            stream.flush()
        out, err = (stream.buffer.getvalue() for stream in streams.values())
        return subprocess.CompletedProcess(words, code, out, err)

    def started(self, *words: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[bytes]:
        return forked.run(
            [PROGRAM, "rollover", *words],
            input=stdin.encode(),
            capture_output=True,
            env={**self.environment, **environment},
            cwd=self.work if self.work.exists() else self.folder,
        )

    def rolled(self, *words: str, **more: str) -> dict[str, Any]:
        done = self.ran("--summary-file", str(self.summary), "--json", *words, **more)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def gone_on(self, told: dict[str, Any]) -> str:
        """Append a prompt to the session of a rollover and return the session's id."""
        with Path(told["file"]).open("ab") as file:
            file.write(jsonl(user("Continue from the handoff summary.", "c")))
        return str(told["new_session_id"])

    def known(self) -> list[CodingSession]:
        return list(records(self.folder / "archive").values())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    fields = {
        "cwd": str(place.work),
        "version": "2.1.197",
        "gitBranch": "main",
        "userType": "external",
        "sessionId": ID,
    }
    place.write(user("hello", "u", **fields), answer(152_000, **fields))
    return place


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- the new session ------------------------------------------------------------------------------------------


def test_a_rollover(place: Place) -> None:
    before = place.session.read_bytes()
    told = place.rolled("--issue", "#7", "--worker", "42")
    new = Path(told["file"])
    assert place.session.read_bytes() == before
    assert sorted(place.session.parent.iterdir()) == sorted([place.session, new])
    assert new.name == f"{told['new_session_id']}.jsonl"
    assert UUID.fullmatch(told["new_session_id"])
    assert stat.S_IMODE(new.stat().st_mode) == 0o600
    assert new.read_bytes().count(b"\n") == 1
    record = json.loads(new.read_bytes())
    mark = record.pop("continue_metadata")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", mark.pop("continued_at"))
    assert mark == {"parent_session_file": str(place.session), "worker_id": 42, "reason": "rollover"}
    assert UUID.fullmatch(record.pop("uuid"))
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record.pop("timestamp"))
    assert record == {
        "parentUuid": None,
        "isSidechain": False,
        "cwd": str(place.work),
        "sessionId": told["new_session_id"],
        "version": "2.1.197",
        "gitBranch": "main",
        "userType": "external",
        "type": "user",
        "message": {"role": "user", "content": told["prompt"]},
    }
    assert told["prompt"].startswith(
        "## Session Continuation\n\nThis is session #2 for #7.\n"
        f"Previous session rolled over at 76% context to preserve quality.\n\n### Handoff Summary\n\n{GOOD}\n\n"
    )
    assert f"\nParent session: {place.session}\nWorker ID: 42\n" in told["prompt"]
    assert '```\nfoldmark search "what you need to find"\n```' in told["prompt"]
    assert told["command"] == (
        f"cd '{place.work}' && claude --resume {told['new_session_id']} 'Continue from the handoff summary.'"
    )
    assert (told["session_number"], told["context_at_end"], told["warnings"]) == (2, 76, [])
    assert told["parent_file"] == str(place.session)
    old, begun = place.known()
    assert (old.session_id, old.end_reason, old.context_at_end, old.summary) == (ID, "rollover", 76, GOOD)
    assert (begun.session_id, begun.parent, begun.session_number) == (told["new_session_id"], ID, 2)
    assert (begun.worker_id, begun.issue, begun.file) == (42, "#7", str(new))
    archived = [path for path in (place.folder / "archive").rglob("*.jsonl") if path.stem == ID]
    assert [path.read_bytes() for path in archived] == [before]


def test_consecutive_rollovers_form_a_lineage(place: Place) -> None:
    first = place.rolled("--issue", "#7", "--worker", "w 1")
    second = place.rolled(place.gone_on(first))
    assert (second["session_number"], second["context_at_end"]) == (3, None)
    assert "This is session #3 for #7.\nPrevious session rolled over to preserve quality.\n" in second["prompt"]
    assert "\nWorker ID: w 1\n" in second["prompt"]
    record = json.loads(Path(second["file"]).read_bytes())
    assert record["continue_metadata"]["worker_id"] == "w 1"
    assert (record["cwd"], record["version"]) == (str(place.work), "2.1.197")
    assert [each.session_number for each in place.known()] == [1, 2, 3]


def test_issue_and_worker_of_the_environment(place: Place) -> None:
    theirs = {"ISSUE_REF": "theirs", "WORKER_ID": "1"}
    assert "for theirs.\n" in place.rolled(ID, **theirs)["prompt"]
    told = place.rolled(ID, FOLDMARK_ISSUE=" ours ", FOLDMARK_WORKER="7", **theirs)
    assert "for ours.\n" in told["prompt"]
    assert "\nWorker ID: 7\n" in told["prompt"]
    assert "for given.\n" in place.rolled(ID, "--issue", "given", FOLDMARK_ISSUE="ours")["prompt"]
    assert "for theirs.\n" in place.rolled(ID, "--issue", " ")["prompt"], "an empty one counts as none"


def test_without_a_worker(place: Place) -> None:
    told = place.rolled()
    assert "Worker ID" not in told["prompt"]
    assert json.loads(Path(told["file"]).read_bytes())["continue_metadata"]["worker_id"] is None


@pytest.mark.parametrize("worker", ["9" * 30, "٣", "0x1", "-1"])
def test_a_worker_that_is_not_a_small_number_is_a_string(worker: str, place: Place) -> None:
    assert (
        json.loads(Path(place.rolled("--worker", worker)["file"]).read_bytes())["continue_metadata"]["worker_id"]
        == worker
    )
    assert place.known()[-1].worker_id == worker


def test_the_session_of_the_environment_is_rolled_over(place: Place) -> None:
    other = place.session.with_name("bbbbbbbb-0000-4000-8000-000000000001.jsonl")
    other.write_bytes(jsonl(user("x", cwd=str(place.work))))
    os.utime(place.session, (1, 1))
    assert place.rolled(CLAUDE_CODE_SESSION_ID=ID)["parent_file"] == str(place.session)
    os.utime(other, (time.time() + 60,) * 2)
    assert place.rolled()["parent_file"] == str(other)


def test_a_rollover_prints_the_new_session_and_how_to_start_it(place: Place) -> None:
    done = place.started("--summary-file", "-", stdin="Go on.\x1b[31m")
    assert done.returncode == 0
    out = done.stdout.decode()
    new = next(path for path in place.session.parent.iterdir() if path != place.session)
    assert f"Session {ID} ended at 76% context.\n" in out
    assert str(new) in out
    assert f"\n  cd '{place.work}' && claude --resume {new.stem} 'Continue from the handoff summary.'\n" in out
    lacks, left_out = done.stderr.decode().splitlines()
    assert lacks.startswith("foldmark: the summary lacks ### Current Task, ### Key Decisions, ")
    assert left_out == "foldmark: 1 control character in the summary was left out"


@pytest.mark.skipif(not REAL_FILES, reason="the real sessions are not here")
@pytest.mark.parametrize("path", sampled(SHORT_FILES, 3), ids=lambda path: path.stem)
def test_real_sessions(path: Path, place: Place) -> None:
    content = path.read_bytes()
    lines = [json.loads(line) for line in content.splitlines() if line.strip()]
    records = [line for line in lines if isinstance(line, dict)]
    cwd = next(record["cwd"] for record in records if record.get("cwd"))
    session = place.projects / project_folder(cwd) / f"{ID}.jsonl"
    session.parent.mkdir(exist_ok=True)
    session.write_bytes(content)
    told = place.rolled(str(session))
    record = json.loads(Path(told["file"]).read_bytes())
    last = [each for each in records if each.get("type") in ("user", "assistant") and each.get("cwd")][-1]
    assert record["cwd"] == cwd, "agentcmd-four ends in another folder than it began in"
    assert [record.get(key) for key in ("version", "gitBranch", "userType")] == [
        last.get(key) for key in ("version", "gitBranch", "userType")
    ]
    assert session.read_bytes() == content


# -- Codex ----------------------------------------------------------------------------------------------------


def test_codex(place: Place) -> None:
    folder = place.home / ".codex" / "sessions" / "2026" / "11" / "02"
    folder.mkdir(parents=True)
    session = folder / codex.name()
    base: dict[str, Any] = {
        "history_base": {"thread_id": "x"},
        "forked_from_id": "x",
        "base_instructions": {"text": "You are Codex."},
    }
    session.write_bytes(jsonl(codex.meta(cwd=str(place.work), **base), codex.said("hello")))
    before = session.read_bytes()
    told = place.rolled(codex.ID, "--worker", "42")
    new = Path(told["file"])
    assert re.fullmatch(rf"rollout-20\d\d-\d\d-\d\dT\d\d-\d\d-\d\d-{told['new_session_id']}\.jsonl", new.name)
    assert new.parent == folder
    meta, message = map(json.loads, new.read_bytes().splitlines())
    assert meta["continue_metadata"]["parent_session_file"] == str(session)
    payload = meta["payload"]
    assert payload["id"] == payload["session_id"] == told["new_session_id"]
    assert payload["base_instructions"] == {"text": "You are Codex."}
    assert not {"history_base", "forked_from_id"} & set(payload)
    assert message["payload"]["content"] == [{"type": "input_text", "text": told["prompt"]}]
    assert (meta["type"], message["type"], meta["ordinal"], message["ordinal"]) == (
        "session_meta",
        "response_item",
        0,
        1,
    )
    assert told["command"] == (
        f"cd '{place.work}' && codex resume {told['new_session_id']} 'Continue from the handoff summary.'"
    )
    assert session.read_bytes() == before
    assert [(each.kind, each.session_number) for each in place.known()] == [("codex", 1), ("codex", 2)]


# -- starting it ----------------------------------------------------------------------------------------------


def program(place: Place, name: str) -> Path:
    path = place.folder / "bin" / name
    path.parent.mkdir()
    path.write_text('#!/bin/sh\npwd\nprintf "%s|" "$0" "$@"\nexit 7\n')
    path.chmod(0o755)
    return path


def test_launch(place: Place) -> None:
    path = program(place, "claude")
    done = place.ran(str(place.session), "--summary-file", str(place.summary), "--launch")
    assert done.returncode == 7
    new = next(each for each in place.session.parent.iterdir() if each != place.session)
    assert done.stdout.decode().endswith(
        f"\n{place.work}\n{path}|--resume|{new.stem}|Continue from the handoff summary.|"
    )


def test_a_failed_launch_warns(place: Place) -> None:
    program(place, "claude").write_bytes(b"\x7fELF nothing")
    done = place.ran("--summary-file", str(place.summary), "--launch")
    assert done.returncode == 0
    assert b", #2 of its line, begins with the summary: " in done.stdout
    assert done.stderr.startswith(f"foldmark: claude cannot be started in {place.work}: ".encode())


def test_launch_without_the_program(place: Place) -> None:
    done = place.ran("--summary-file", str(place.summary), "--launch", PATH="/nowhere")
    assert done.returncode == 0
    assert b"&& claude --resume " in done.stdout
    assert done.stderr == b"foldmark: claude is not installed here; start it yourself where it is\n"


def test_a_session_elsewhere_is_resumed_by_its_file(place: Place) -> None:
    moved = place.folder / "moved.jsonl"
    moved.write_bytes(place.session.read_bytes())
    told = place.rolled(str(moved))
    assert told["command"].startswith(
        f"cd '{place.work}' && claude --resume {place.folder}/{told['new_session_id']}.jsonl "
    )


@pytest.mark.parametrize("went", ["sub", "/elsewhere"])
def test_an_agent_that_changed_its_folder_is_resumed_in_the_first(went: str, place: Place) -> None:
    """Claude Code finds a session only from the folder in which the session began."""
    there = place.work / went
    place.session.write_bytes(place.session.read_bytes() + jsonl(user("x", cwd=str(there), version="3")))
    told = place.rolled()
    record = json.loads(Path(told["file"]).read_bytes())
    assert (record["cwd"], record["version"]) == (str(place.work), "3")
    assert told["command"].startswith(f"cd '{place.work}' && claude --resume {told['new_session_id']} ")


def test_a_folder_that_is_gone(place: Place) -> None:
    place.work.rmdir()
    told = place.rolled(ID)
    assert told["command"].startswith(f"claude --resume {told['file']} ")


# -- failures -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "Give either --summary-file FILE or --auto-summary"),
        (["--summary-file", "{summary}", "--auto-summary"], 2, "Give either"),
        (["--summary-file", "{summary}", "--model", "x/y"], 2, "--model requires --auto-summary"),
        (["--summary-file", "{summary}", "--launch", "--json"], 2, "leave out one"),
        (["--summary-file", "{empty}"], 2, "the summary is empty; nothing was written"),
        (["--summary-file", "/nowhere/x"], 1, "the summary in /nowhere/x cannot be read: No such file or directory"),
        (["--summary-file", "/"], 1, "the summary in / cannot be read: Is a directory"),
        (["--summary-file", "{large}"], 2, "a handoff summary has some 500 words"),
        (["cccc", "--summary-file", "{summary}"], 2, "no session 'cccc'"),
        (["{empty}.jsonl", "--summary-file", "{summary}"], 1, "there is no file"),
        (["{summary}", "--summary-file", "{summary}"], 1, "is not a session of Claude Code or Codex"),
        (["{folder}/subagents/agent-1.jsonl", "--summary-file", "{summary}"], 2, "is a subagent's session"),
        (["--auto-summary"], 2, "--auto-summary needs a language model"),
        (["--auto-summary", "--model", "nobody/x"], 2, "a model must be 'offline' or PROVIDER/MODEL"),
    ],
)
def test_wrong_requests_write_nothing(words: list[str], code: int, said: str, place: Place) -> None:
    names = {"summary": place.summary, "empty": place.folder / "empty", "large": place.folder / "large"}
    names["empty"].write_bytes(b" \n\x00")
    if "{large}" in words:
        names["large"].write_bytes(b"x" * (5 << 20))
    if "{folder}/subagents/agent-1.jsonl" in words:
        (place.folder / "subagents").mkdir()
        (place.folder / "subagents" / "agent-1.jsonl").write_bytes(jsonl(user("Look.", "u1")))
    before = files(place.folder)
    done = place.ran(*(word.format(**names, folder=place.folder) for word in words))
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("foldmark: ")
    assert said in line
    assert (done.returncode, done.stdout) == (code, b"")
    assert files(place.folder) == before


def test_a_session_without_messages_writes_nothing(place: Place) -> None:
    """This holds for a session with only program records and for the unused session of an earlier rollover, also with
    Codex."""
    fresh = place.rolled(ID, "--issue", "#7")
    place.session.write_bytes(jsonl({"type": "summary", "summary": "x", "leafUuid": "u1"}))
    folder = place.home / ".codex" / "sessions" / "2026" / "11" / "02"
    folder.mkdir(parents=True)
    rollout = folder / codex.name()
    rollout.write_bytes(jsonl(codex.meta(cwd=str(place.work)), codex.said("hello")))
    fresh_rollout = place.rolled(codex.ID)
    rollout.write_bytes(
        jsonl(codex.meta(cwd=str(place.work)), codex.said("<environment_context>\n</environment_context>"))
    )
    before, known = files(place.folder), place.known()
    for session in (fresh["file"], ID, fresh_rollout["file"], codex.ID):
        done = place.ran(session, "--summary-file", str(place.summary), "--launch")
        assert (done.returncode, done.stderr) == (0, b"")
        assert b": there is nothing to hand over; nothing was written.\n" in done.stdout
        assert place.rolled(session)["new_session_id"] is None
    assert (files(place.folder), place.known()) == (before, known)
    with Path(fresh_rollout["file"]).open("ab") as file:
        file.write(jsonl(codex.said("Continue from the handoff summary.")))
    assert place.rolled(fresh_rollout["file"])["session_number"] == 3


def test_a_subagents_session_by_its_content(place: Place) -> None:
    """Older versions of Claude Code kept such a file beside the main session."""
    path = place.session.with_name("agent-1234.jsonl")
    path.write_bytes(jsonl(user("look", "u", isSidechain=True), answer(1_000, isSidechain=True)))
    before = files(place.folder)
    for words in (["--summary-file", str(place.summary)], ["--auto-summary"]):
        done = place.ran(str(path), *words)
        assert done.returncode == 2
        assert b"agent-1234.jsonl is a subagent's session, which cannot be resumed; name the session" in done.stderr
    assert files(place.folder) == before


def test_an_archive_that_fails_warns(place: Place) -> None:
    (place.folder / "archive").write_text("in the way")
    told = place.rolled()
    archived, recorded = told["warnings"]
    assert archived.startswith("the session was not archived: ")
    assert recorded.startswith("the lineage of the new session was not recorded: ")
    assert "The full previous session is in the file that is named below." in told["prompt"]
    assert "foldmark search" not in told["prompt"]


def test_a_folder_whose_sessions_are_not_archived(place: Place) -> None:
    config = place.folder / "config" / "foldmark" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[context]\nsync_exclude = ["{place.work}"]\n')
    assert place.rolled()["warnings"] == ["the session was not archived: it is kept out of the archive"]
    assert [path.name for path in (place.folder / "archive").rglob("*.jsonl")] == [NAME]


def test_a_session_that_is_not_to_be_indexed(place: Place) -> None:
    place.write(user("DO NOT INDEX THIS SESSION", cwd=str(place.work)))
    told = place.rolled()
    assert told["warnings"] == ["the session was not archived: it is kept out of the archive"]
    assert "foldmark search" not in told["prompt"]
    assert "\nDO NOT INDEX THIS SESSION\n\n### Lineage\n" in told["prompt"]
    again = place.rolled(place.gone_on(told))
    assert again["warnings"] == ["the session was not archived: it is kept out of the archive"]
    assert [path.name for path in (place.folder / "archive").rglob("*.jsonl")] == [NAME]


def test_a_summary_with_an_archive_marker_warns(place: Place) -> None:
    done = place.ran("--summary-file", "-", stdin=f"{GOOD}\nDO NOT INDEX THIS SESSION\n")
    assert done.stderr.decode() == (
        "foldmark: the summary holds a marker not to be indexed, so the new session will not be archived\n"
    )


def test_records_that_cannot_be_read_are_an_error_before_anything_is_written(place: Place) -> None:
    (place.folder / "archive" / NAME).mkdir(parents=True)
    before = files(place.session.parent)
    done = place.ran("--summary-file", str(place.summary))
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"sessions.jsonl cannot be read: Is a directory" in done.stderr
    assert files(place.session.parent) == before


def test_records_that_cannot_be_written_are_a_warning(place: Place) -> None:
    (place.folder / "archive").mkdir()
    (place.folder / "archive" / NAME).symlink_to(place.folder / "elsewhere")
    (warning,) = place.rolled()["warnings"]
    assert warning.startswith("the lineage of the new session was not recorded: ")
    assert not (place.folder / "elsewhere").exists()


def test_no_database_is_opened(place: Place) -> None:
    place.db.write_bytes(b"x" * 5000)
    assert place.rolled()["warnings"] == []
    assert [each.session_number for each in place.known()] == [1, 2]


def test_a_folder_that_may_not_be_written(place: Place) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    place.session.parent.chmod(0o500)
    done = place.ran("--summary-file", str(place.summary))
    place.session.parent.chmod(0o700)
    assert done.returncode == 1
    assert b" cannot be written: " in done.stderr
    assert not place.known()


TORN = [
    b'{"type":"user","uuid":"x',
    b"null\n",
    b"[]\n",
    b"\xff\xfe\n",
    b"\0\0\0\n",
    b'{"type":"assistant","message":null}\n',
]


@pytest.mark.parametrize("last", TORN)
def test_torn_and_odd_lines(last: bytes, place: Place) -> None:
    place.session.write_bytes(place.session.read_bytes() + last)
    record = json.loads(Path(place.rolled()["file"]).read_bytes())
    assert (record["cwd"], record["version"]) == (str(place.work), "2.1.197")


def test_invalid_fields_of_a_record_are_left_out(place: Place) -> None:
    odd = {"cwd": "relative", "version": 3, "gitBranch": None, "userType": {}}
    place.write({"type": "user", "message": {"content": "x"}, **odd})
    told = place.rolled(ID)
    record = json.loads(Path(told["file"]).read_bytes())
    assert not {"cwd", "version", "gitBranch", "userType"} & set(record)
    assert told["command"].startswith(f"claude --resume {told['file']} ")


def test_a_file_name_that_is_not_utf_8_is_rolled_over(place: Place) -> None:
    path = place.session.with_name(os.fsdecode(b"\xff.jsonl"))
    path.write_bytes(place.session.read_bytes())
    told = place.rolled(str(path))
    assert "\\udcff.jsonl\n" in told["prompt"]
    assert place.known()[0].session_id == "\ufffd"


# -- killed at any moment -------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from foldmark.cli.program import run
import foldmark.sessions.rollover.rolling, foldmark.cli.process, foldmark.stores.sqlite
def audit(event, args):
    global left
    if event in ("open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.truncate"):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
for line in sys.stdin:
    left = int(line)
    if not (child := os.fork()):
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        sys.addaudithook(audit)
        sys.exit(run(sys.argv[1:]))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""For each line, this program forks a process that rolls over and is killed at the step with that number."""


def test_a_rollover_killed_at_any_moment_is_complete_or_absent(place: Place) -> None:
    """After a kill at every ninth step that touches a file (in a deep run at each step), the old session is unchanged,
    the new one is complete or absent, and every session of the lineage has a file."""
    before = place.session.read_bytes()
    words = [sys.executable, "-c", KILLED, "rollover", ID, "--summary-file", str(place.summary)]
    pipe = subprocess.PIPE
    program = forked.Popen(words, env=place.environment, cwd=place.work, stdin=pipe, stdout=pipe, text=True)
    assert program.stdin is not None
    assert program.stdout is not None
    for step in range(1, 1000, 1 if DEEP else 9):
        program.stdin.write(f"{step}\n")
        program.stdin.flush()
        code = int(program.stdout.readline())
        assert code in (0, -signal.SIGKILL)
        assert place.session.read_bytes() == before
        new = [path for path in place.session.parent.glob("*.jsonl") if path != place.session]
        for path in new:
            assert json.loads(path.read_bytes())["continue_metadata"]["parent_session_file"] == str(place.session)
        known = place.known()
        assert {each.file for each in known if each.session_id != ID} <= set(map(str, new))
        assert len(known) != 1, "the end of one and the beginning of the other are recorded together"
        if code == 0:
            break
    program.communicate()
    assert code == 0
    assert step > 5
