"""`foldmark trim`: its output, the files that it writes, and the requests that it refuses [SPEC 8]."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
from command_line import PROGRAM, Cli

import forked
from foldmark.formats.claude.claude_format import project_folder
from foldmark.sessions.archive.storing import archive_folder
from foldmark.sessions.lineage import NAME, records
from foldmark.sessions.trim import trimming
from sampled import DEEP

OLD = "99999999-2222-4333-8444-555555555555"
LONG = "one line of the output\n" * 400


def lines(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records)


def exchange(number: int, name: str, content: Any, cwd: str) -> list[dict[str, Any]]:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 30_000, "output_tokens": 100}
    call = {"type": "tool_use", "id": f"c{number}", "name": name, "input": {}}
    asked = {"role": "assistant", "model": "claude-x", "content": [call], "usage": usage}
    result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": content}
    first, last = f"a{number}", f"u{number}"
    common = {"sessionId": OLD, "cwd": cwd}
    return [
        {"type": "assistant", **common, "uuid": first, "parentUuid": f"u{number - 1}", "message": asked},
        {"type": "user", **common, "uuid": last, "parentUuid": first, "message": {"content": [result]}},
    ]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """An old session of the working folder."""
    cwd = str(Path.cwd())
    path = tmp_path / "home" / ".claude" / "projects" / project_folder(cwd) / f"{OLD}.jsonl"
    path.parent.mkdir(parents=True)
    records = [
        *exchange(1, "Bash", LONG, cwd),
        *exchange(2, "Read", LONG * 2, cwd),
        *exchange(3, "Edit", LONG[::-1], cwd),
    ]
    path.write_bytes(lines(*records, *exchange(4, "Bash", "short", cwd)))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def others(session: Path) -> list[Path]:
    return sorted(path for path in session.parent.iterdir() if path != session)


def test_what_is_printed(cli: Cli, db: str, session: Path, tmp_path: Path) -> None:
    before = session.read_bytes()
    shown = cli("trim")
    assert (shown.code, shown.err) == (0, "")
    (new,) = others(session)
    assert re.sub(r"\d+,\d{3}(?= tokens| more|\n)", "N", re.sub(r"0\.\d\d MB", "M", shown.out)) == (
        "tool  results  cut  characters  ~tokens\n"
        "Read        1    1      17,900    N\n"
        "Bash        2    1       8,700    N\n"
        "all         3    2      26,600    N\n"
        "Context: ~N tokens less, 15% → ~10% of N\n"
        "File: M → M\n"
        "--profile deep would also cut up to 1 result of other tools, ~N tokens, and what later calls made stale.\n"
        f"New session: {new}\n"
        f"The original session is unchanged: {session}\n"
        "The trim takes effect when the new session is resumed:\n"
        "\n"
        f"  cd {quote(str(Path.cwd()))} && claude --resume {new.stem}\n"
    )
    assert session.read_bytes() == before
    assert new.read_bytes().count(b"TRIMMED by Foldmark") == 2
    (archived,) = (tmp_path / "data").rglob(f"{OLD}.jsonl")
    assert archived.read_bytes() == before


def test_the_json_has_all_of_it(cli: Cli, db: str, session: Path) -> None:
    data = json.loads(cli("trim", OLD[:6], "--json").out)
    (new,) = others(session)
    assert data["archived"].endswith(f"{OLD}.jsonl")
    read, bash = (each.pop("tokens") for each in data["by_tool"])
    saved = data["tokens_saved"]
    assert saved == pytest.approx(read + bash, abs=1)
    assert 8900 < saved < 9300
    assert data == {
        "trimmed_count": 2,
        "tokens_saved": saved,
        "new_session_id": new.stem,
        "file": str(new),
        "parent_file": str(session),
        "by_tool": [
            {"tool": "Read", "results": 1, "cut": 1, "arguments": 0, "characters": 17900},
            {"tool": "Bash", "results": 2, "cut": 1, "arguments": 0, "characters": 8700},
        ],
        "by_step": {"results of the default tools": saved},
        "other_tools": data["other_tools"],
        "reminders": 0,
        "bytes_before": session.stat().st_size,
        "bytes_after": new.stat().st_size,
        "context": {
            "tokens": 30110,
            "window": 200_000,
            "percent_before": 15,
            "percent_after": 10,
            "tokens_saved": saved,
        },
        "lines": 8,
        "long_lines": 0,
        "archived": data["archived"],
        "dry_run": False,
        "command": f"cd {quote(str(Path.cwd()))} && claude --resume {new.stem}",
        "suggests_rollover": False,
    }


def test_a_dry_run_writes_nothing(cli: Cli, db: str, session: Path, tmp_path: Path) -> None:
    def everything() -> list[tuple[str, float]]:
        return sorted((str(path), path.stat().st_mtime) for path in tmp_path.rglob("*"))

    before = everything()
    shown = cli("trim", str(session), "--dry-run")
    data = json.loads(cli("trim", str(session), "--dry-run", "--json").out)
    assert everything() == before
    assert shown.code == 0
    assert shown.out.startswith("tool  results  cut")
    assert re.search(r"\nContext: ~9,\d\d\d tokens less, 15% → ~10% of 200,000\nFile: ", shown.out)
    assert data["trimmed_count"] == 2
    assert (data["new_session_id"], data["file"], data["command"], data["archived"]) == (None, None, None, None)


def test_the_profile_deep(cli: Cli, db: str, session: Path) -> None:
    usual = json.loads(cli("trim", OLD, "--dry-run", "--json").out)
    more = usual["other_tools"]["tokens"]
    assert usual["other_tools"]["results"] == 1
    told = f"would also cut up to 1 result of other tools, ~{more:,} tokens, and what later calls made stale.\n"
    assert f"\n--profile deep {told}" in cli("trim", OLD, "--dry-run").out
    data = json.loads(cli("trim", OLD, "--profile", "deep", "--json").out)
    assert {each["tool"]: each["cut"] for each in data["by_tool"]} == {"Read": 1, "Edit": 1, "Bash": 1}
    assert data["by_step"].keys() == {"results of the default tools", "results of other tools"}
    assert data["by_step"]["results of other tools"] == pytest.approx(more, abs=1)
    assert data["tokens_saved"] == pytest.approx(usual["tokens_saved"] + more, abs=1)
    assert data["other_tools"] == {"results": 0, "tokens": 0}
    again = cli("trim", data["file"], "--profile", "deep")
    assert "There is nothing to cut; nothing was written.\n" in again.out
    for profile in ("deep", "default"):
        assert "would also cut" not in cli("trim", data["file"], "--profile", profile).out
    assert len(others(session)) == 1
    spared = cli("trim", OLD, "--profile", "deep", "--spare", "5", "--dry-run")
    assert "There is nothing to cut; nothing was written.\n" in spared.out, "of four results five are spared"


def test_the_lineage(cli: Cli, db: str, session: Path) -> None:
    id = json.loads(cli("trim", "--json").out)["new_session_id"]
    old, new = records(archive_folder(os.environ)).values()
    assert (old.session_id, old.end_reason, old.context_at_end) == (OLD, "trim", 15)
    assert (new.session_id, new.parent, new.session_number) == (id, OLD, 2)


def test_settings_and_options(cli: Cli, db: str, session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(*options: str) -> dict[str, int]:
        data = json.loads(cli("trim", OLD, "--dry-run", "--json", *options).out)
        return {each["tool"]: each["characters"] for each in data["by_tool"] if each["cut"]}

    assert cut("--tools", "EDIT, glob") == {"Edit": 8700}
    assert cut("--tools", "*", "--threshold", "9000") == {"Read": 9400}
    Path(".foldmark.toml").write_text('[context]\ntrim_target_tools = ["Edit"]\ntrim_threshold_chars = 200\n')
    assert cut() == {"Edit": 9000}
    monkeypatch.setenv("FOLDMARK_TRIM_THRESHOLD_CHARS", "300")
    assert cut() == {"Edit": 8900}
    assert cut("--threshold", "0") == {"Edit": 9200}


def fill(session: Path) -> None:
    """Change the session as if its context were nearly full."""
    session.write_bytes(session.read_bytes().replace(b"30000", b"180000"))


def test_nothing_to_cut(cli: Cli, db: str, session: Path) -> None:
    shown = cli("trim", OLD, "--tools", "Glob,x\ny")
    assert shown.code == 0
    assert others(session) == []
    assert "There is nothing to cut; nothing was written.\n" in shown.out
    assert "claude --resume" not in shown.out
    assert "This saved" not in shown.out, "there is room enough"
    assert records(archive_folder(os.environ)) == {}, "nothing was recorded"
    assert shown.err == (
        "foldmark: there is no result of Glob, x\\ny in this session; its tools are Bash, Edit, Read\n"
    )
    assert json.loads(cli("trim", OLD, "--tools", "Glob", "--dry-run", "--json").out)["suggests_rollover"] is False
    fill(session)
    assert cli("trim", OLD, "--tools", "Glob").out.endswith("This saved nothing: /rollover helps more.\n")
    assert "This would save nothing: /rollover" in cli("trim", OLD, "--tools", "Glob", "--dry-run").out


def test_little_to_cut(cli: Cli, db: str, session: Path) -> None:
    assert "/rollover" not in cli("trim", OLD, "--threshold", "17000").out
    fill(session)
    shown = cli("trim", OLD, "--threshold", "17000")
    assert re.search(r"\n\nThis saved only ~\d\d\d tokens: /rollover helps more\.\n\Z", shown.out)
    assert shown.err == ""


def test_a_folder_that_is_not_there_any_more(cli: Cli, db: str, session: Path) -> None:
    session.write_bytes(lines(*exchange(1, "Bash", LONG, "/folder/that/is/not/here")))
    os.utime(session, (1_700_000_000, 1_700_000_000))
    data = json.loads(cli("trim", OLD, "--json").out)
    assert data["command"] == f"claude --resume {quote(data['file'])}"


def test_a_session_elsewhere_is_resumed_by_its_file(cli: Cli, db: str, session: Path) -> None:
    there = Path("my own") / session.name
    there.parent.mkdir()
    session.rename(there)
    data = json.loads(cli("trim", str(there), "--json").out)
    assert data["command"] == f"cd {quote(str(Path.cwd()))} && claude --resume {quote(data['file'])}"


def test_a_session_that_may_only_be_read(cli: Cli, db: str, session: Path) -> None:
    session.chmod(0o444)
    assert cli("trim", OLD).code == 0
    (new,) = others(session)
    assert (new.stat().st_mode & 0o777, session.stat().st_mode & 0o777) == (0o644, 0o444)


@pytest.mark.parametrize("line", [b"null\n", b"\xef\xbb\xbf null \r\n"])
def test_a_line_null(cli: Cli, db: str, session: Path, line: bytes) -> None:
    session.write_bytes(line + session.read_bytes() + b'5\n"null"\n[null]\n')
    shown = cli("trim", OLD, "--json")
    file = json.loads(shown.out)["file"]
    assert shown.err == (
        "foldmark: 1 line of the session is `null`, with which Claude Code cannot resume it: "
        f"foldmark doctor --session {quote(str(file))} --repair\n"
    )
    session.write_bytes(session.read_bytes() + line)
    told = cli("trim", OLD, "--dry-run").err
    assert "2 lines of the session are `null`" in told
    assert told.endswith(f"doctor --session {quote(str(session))} --repair\n")


def test_a_line_of_megabytes_is_cut(cli: Cli, db: str, session: Path) -> None:
    long = "x" * ((15 if DEEP else 2) << 20)
    session.write_bytes(session.read_bytes() + lines(*exchange(9, "Bash", long, str(Path.cwd()))))
    shown = cli("trim", OLD, "--json")
    data = json.loads(shown.out)
    assert (shown.err, data["long_lines"], data["trimmed_count"]) == ("", 0, 3)
    assert data["bytes_after"] < 30_000


def test_lines_too_long_to_be_cut(cli: Cli, db: str, session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "LONGEST", 2 << 20)
    long = lines(*exchange(9, "Bash", "x" * (3 << 20), "/"))
    session.write_bytes(session.read_bytes() + long)
    shown = cli("trim", OLD, "--json")
    assert shown.err == "foldmark: 1 line longer than 2 MB was left as it is\n"
    assert json.loads(shown.out)["long_lines"] == 1
    session.write_bytes(session.read_bytes() + long)
    assert cli("trim", OLD, "--dry-run").err == "foldmark: 2 lines longer than 2 MB were left as they are\n"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_session_in_another_encoding(cli: Cli, db: str, session: Path, encoding: str) -> None:
    """Claude Code reads only UTF-8, so the trimmed session is in UTF-8."""
    plain = session.read_text()
    session.write_bytes(plain.encode(encoding))
    os.utime(session, (1_700_000_000, 1_700_000_000))
    data = json.loads(cli("trim", OLD, "--json").out)
    assert (data["trimmed_count"], data["lines"]) == (2, 8)
    new = Path(data["file"]).read_text(encoding="utf-8").splitlines()
    pointer = f"The whole result: line 2 of {session}]"
    assert pointer in new[1]
    assert session.read_text(encoding=encoding) == plain
    assert [set(json.loads(line)) - {"trim_metadata"} for line in new] == [
        set(json.loads(line)) for line in plain.splitlines()
    ]
    deep = json.loads(cli("trim", data["file"], "--dry-run", "--profile", "deep", "--spare", "1", "--json").out)
    assert deep["by_step"].keys() == {"results of other tools"}


def test_a_path_with_a_line_feed(cli: Cli, db: str, session: Path) -> None:
    there = Path("a\nb") / session.name
    there.parent.mkdir()
    session.rename(there)
    out = cli("trim", str(there)).out
    assert "\nNew session: " in out
    assert out.count("a\\nb/") == 2


def test_folders_that_are_kept_out_of_the_archive(
    cli: Cli, db: str, session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDMARK_SYNC_EXCLUDE", str(Path.cwd()))
    shown = cli("trim", OLD, "--json")
    assert (shown.err, json.loads(shown.out)["archived"]) == ("", None)
    assert not list((tmp_path / "data").rglob(f"{OLD}*"))


def test_whose_work_it_is(cli: Cli, db: str, session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDMARK_WORKER", "7")
    monkeypatch.setenv("ISSUE_REF", "issue #6")
    assert cli("trim", OLD).code == 0
    known = records(archive_folder(os.environ)).values()
    assert [(each.worker_id, each.issue) for each in known] == [(7, "issue #6")] * 2


def test_a_failed_archive_warns(cli: Cli, db: str, session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file").write_text("no folder")
    monkeypatch.setenv("FOLDMARK_ARCHIVE", str(Path("file").absolute()))
    shown = cli("trim", "--json")
    assert shown.code == 0
    archived, recorded = shown.err.splitlines()
    assert archived.startswith("foldmark: the session was not archived, but stays where it is: ")
    assert recorded.startswith("foldmark: the lineage of the new session was not recorded: ")
    assert json.loads(shown.out)["archived"] is None
    assert len(others(session)) == 1


def test_a_failed_record_warns(cli: Cli, session: Path) -> None:
    (archive_folder(os.environ) / NAME).mkdir(parents=True)
    shown = cli("trim")
    assert shown.code == 0
    assert shown.err.startswith("foldmark: the lineage of the new session was not recorded: ")
    assert shown.err.count("\n") == 1
    assert len(others(session)) == 1


def test_a_trim_opens_no_database(cli: Cli, session: Path) -> None:
    Path("log.db").write_text("no database" * 1000)
    shown = cli("--db", "log.db", "trim")
    assert (shown.code, shown.err) == (0, "")
    assert len(others(session)) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--launch", "--json"), 2, "--json prints the command to start, and --launch starts it: leave out one"),
        (("--launch", "--dry-run"), 2, "--launch starts the new session, and --dry-run writes none"),
        (("--threshold", "x"), 2, "--threshold must be a number from 0"),
        (("--threshold", "-1"), 2, "--threshold must be a number from 0"),
        (("--profile", "deeper"), 2, "there is no profile 'deeper'; profiles: default, deep"),
        (
            ("--profile", "deep", "--tools", "Read"),
            2,
            "--profile deep cuts the results of all tools: leave out",
        ),
        (("--spare", "-1"), 2, "--spare must be a number from 0 to 1,000,000,000, not '-1'; for example 5"),
        (("--spare", "1" * 30), 2, "--spare must be a number from 0"),
        (("--tools", ","), 2, "--tools must be a list of tools' names"),
        (("nobody",), 2, "there is no file and no session 'nobody'"),
        (("missing.jsonl",), 1, "there is no file"),
        ((".",), 1, "is a folder; name a session file in it"),
        (("text.jsonl",), 1, "is not a session of Claude Code or Codex: no line of it is JSON"),
    ],
)
def test_what_is_refused(
    cli: Cli, db: str, session: Path, arguments: tuple[str, ...], code: int, told: str, tmp_path: Path
) -> None:
    Path("text.jsonl").write_text("text\n")
    shown = cli("trim", *arguments)
    assert (shown.code, shown.out) == (code, "")
    assert told in shown.err
    assert shown.err.count("\n") == 1
    assert others(session) == []
    assert not (tmp_path / "data").exists()


def test_a_files_text_does_not_steer_the_terminal(cli: Cli, db: str, session: Path) -> None:
    name = "\x1b[31mRead\n\u202e"
    session.write_bytes(lines(*exchange(1, name, LONG, "/work/\x1b[2J")))
    shown = cli("trim", OLD, "--tools", "*")
    assert not set(shown.out) & {"\x1b", "\u202e"}
    assert "\\x1b[31mRead\\n\\u202e" in shown.out


@pytest.fixture
def program(db: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def program(*arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": str(path)}
        return forked.run([PROGRAM, *arguments], env=environment, capture_output=True, text=True)

    return program


def test_launch(program: Callable[..., subprocess.CompletedProcess[str]], session: Path, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    left = program("trim", OLD, "--launch", path=programs)
    assert left.returncode == 0
    (new,) = others(session)
    assert "claude is not installed here" in left.stderr
    assert left.stderr.endswith(f"claude --resume {new.stem}\n")
    (programs / "claude").write_text('#!/bin/sh\necho "in $(/bin/pwd -P): $*"\nexit 7\n')
    (programs / "claude").chmod(0o755)
    done = program("trim", OLD, "--launch", path=programs)
    assert done.returncode == 7
    (newest,) = set(others(session)) - {new}
    assert done.stdout.endswith(f"in {Path.cwd().resolve()}: --resume {newest.stem}\n")
    assert done.stdout.startswith("tool  results")


@pytest.mark.parametrize("way", [[], ["--dry-run"]], ids=" ".join)
def test_a_subagents_session_by_its_content(cli: Cli, session: Path, way: list[str]) -> None:
    path = session.with_name("agent-1234.jsonl")
    path.write_bytes(session.read_bytes().replace(b'{"type"', b'{"isSidechain":true,"type"'))
    before = path.read_bytes()
    shown = cli("trim", str(path), *way)
    assert (shown.code, shown.out) == (1, "")
    assert "agent-1234.jsonl is a subagent's session, which cannot be resumed; name the session" in shown.err
    assert (path.read_bytes(), others(session)) == (before, [path])
