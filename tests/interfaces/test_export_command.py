"""`foldmark export` as a person types it: the session's location and the output (SPEC 8, 9)."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote

import pytest
from command_line import Cli, files

import foldmark


@pytest.fixture
def talk(log: foldmark.Log) -> foldmark.Agent:
    agent = log.find("talk", create=True)
    agent.append("user", "Hello")
    agent.append("assistant", "Hi \x1b[31m")
    agent.append_tool_result("nobody", "orphan")
    agent.end_turn()
    return agent


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "claude"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder))
    return folder


@pytest.mark.usefixtures("talk")
def test_into_claudes_folder(cli: Cli, claude: Path, tmp_path: Path) -> None:
    done = cli("export", "talk")
    assert (done.code, done.err) == (0, "")
    (path,) = claude.rglob("*.jsonl")
    work = str(tmp_path / "work")
    assert path.parent.name == "".join(char if char.isalnum() else "-" for char in work)
    first, second = (json.loads(line) for line in path.read_bytes().splitlines())
    assert (first["cwd"], first["sessionId"]) == (work, path.stem)
    assert second["message"]["content"] == [{"type": "text", "text": "Hi \x1b[31m"}]
    assert done.lines == [
        f"Session {path.stem}: 2 records (1 user, 1 assistant)",
        f"  {path}",
        "  missing or incomplete: 1 message: the call that it answers is not in the request",
        "Continue it with:",
        f"  cd {quote(work)} && claude --resume {path.stem}",
    ]


def test_as_json_into_a_file_for_another_folder(cli: Cli, talk: foldmark.Agent, claude: Path, tmp_path: Path) -> None:
    other = tmp_path / "other folder"
    other.mkdir()
    done = cli("export", "talk", "my session.jsonl", "--cwd", str(other), "--json")
    path = Path("my session.jsonl").resolve()
    assert json.loads(done.out) == {
        "session_id": json.loads(path.read_bytes().splitlines()[0])["sessionId"],
        "file": "my session.jsonl",
        "cwd": str(other),
        "command": f"cd {quote(str(other))} && claude --resume {quote(str(path))}",
        "records": 2,
        "messages": {"user": 1, "assistant": 1},
        "left_out": [{"event": 3, "why": "the call that it answers is not in the request"}],
        "up_to": talk.context().at,
    }
    assert not claude.exists()


@pytest.mark.usefixtures("talk")
def test_a_files_name_is_the_sessions_id_if_it_is_one(cli: Cli) -> None:
    name = "2d984148-cddb-4605-aac1-13e720fe613c"
    cli("export", "talk", f"{name}.jsonl")
    assert json.loads(Path(f"{name}.jsonl").read_bytes().splitlines()[1])["sessionId"] == name


@pytest.mark.usefixtures("talk")
def test_nothing_is_overwritten(cli: Cli) -> None:
    Path("there.jsonl").write_text("mine")
    Path("folder").mkdir()
    before = files(Path())
    for file in ("there.jsonl", "folder", "no/such/folder.jsonl", ""):
        done = cli("export", "talk", file)
        assert done.code in (1, 2)
        assert len(done.err.splitlines()) == 1
        assert files(Path()) == before
    assert "already exists" in cli("export", "talk", "there.jsonl").err


@pytest.mark.usefixtures("talk")
def test_to_standard_output(program: Cli) -> None:
    done = program("export", "talk", "-")
    assert [json.loads(line)["type"] for line in done.lines] == ["user", "assistant"]
    assert done.err == ""
    wrong = program("export", "talk", "-", "--json")
    assert (wrong.code, wrong.out) == (2, "")


@pytest.mark.usefixtures("talk", "claude")
def test_what_cannot_be_exported(cli: Cli, log: foldmark.Log, tmp_path: Path) -> None:
    before = files(tmp_path)
    log.find("empty", create=True)
    empty = cli("export", "empty")
    assert (empty.code, "it is empty" in empty.err) == (2, True)
    assert cli("export", "nobody").code == 2
    assert cli("export", "talk", "--cwd", "nowhere").code == 2
    assert {name for name in files(tmp_path) if "log.db" not in name} == {n for n in before if "log.db" not in n}


def test_there_and_back(cli: Cli, talk: foldmark.Agent, log: foldmark.Log) -> None:
    assert cli("export", "talk", "back.jsonl").code == 0
    assert cli("import", "back.jsonl").code == 0
    shown = [(event.kind, event.content) for event in log.agent("back").context().messages]
    assert shown == [(event.kind, event.content) for event in talk.context().messages][:2]
