"""`foldmark backup` and `foldmark backup --verify`."""

import json
from pathlib import Path

from command_line import Cli

import foldmark


def test_a_backup_is_written_and_verified(cli: Cli, db: str, log: foldmark.Log, tmp_path: Path) -> None:
    log.agent("default").append("user", "hello")
    file = tmp_path / "backup.db"
    done = cli("backup", str(file))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{file}: 0.")
    assert cli("backup", "--verify", str(file)).out == f"{file}: 1 agent, all is well\n"
    assert json.loads(cli("backup", "--verify", str(file), "--json").out) == {
        "database": str(file),
        "agents": 1,
        "findings": [],
    }
    again = cli("backup", str(file))
    assert (again.code, again.out) == (1, "")
    assert "already exists and was not changed" in again.err
    data = json.loads(cli("backup", str(file), "--force", "--json").out)
    assert data == {"database": db, "file": str(file), "bytes": file.stat().st_size}


def test_a_backup_that_is_not_whole(cli: Cli, log: foldmark.Log, tmp_path: Path) -> None:
    agent = log.agent("default")
    for _ in range(50):
        agent.append("user", "hello " * 500)
    file = tmp_path / "backup.db"
    assert cli("backup", str(file)).code == 0
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"hello", b"hallo", 1))
    found = cli("backup", "--verify", str(file))
    assert found.code == 1
    assert "bytes have changed on the disk" in found.out
    assert "1 fault" in found.lines[-1]
    file.write_bytes(whole[: len(whole) // 2])
    cut = cli("backup", "--verify", str(file))
    assert cut.code == 1
    assert "is damaged" in cut.out + cut.err
    file.write_bytes(b"a text")
    assert "is not a Foldmark database" in cli("backup", "--verify", str(file)).err
    assert "there is no file" in cli("backup", "--verify", str(tmp_path / "missing")).err


def test_a_server_is_backed_up_by_its_own_tool(cli: Cli, tmp_path: Path) -> None:
    for given, named in (
        ("postgresql://me:secret@host:5433/chats", "postgresql://me@host:5433/chats"),
        ("postgres:///chats?host=/run&password=secret", "'postgresql:///chats?host=/run'"),
    ):
        done = cli("--db", given, "backup", "my chats.dump")
        assert done.code == 1
        assert f"`pg_dump --format=custom --file='my chats.dump' {named}`" in done.err
        assert "secret" not in done.err


def test_options_that_do_not_go_together(cli: Cli, log: foldmark.Log) -> None:
    assert cli("backup", "--verify", "--force", "x.db").code == 2
    assert cli("backup").code == 2
