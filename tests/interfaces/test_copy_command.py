"""`foldmark copy`."""

import json
from pathlib import Path

import pytest
from command_line import Cli

import foldmark
from foldmark import copying


def test_a_database_is_copied(cli: Cli, db: str, log: foldmark.Log, tmp_path: Path) -> None:
    agent, target = log.agent("default"), str(tmp_path / "copy.db")
    agent.append("user", "hello")
    agent.do("/fork")
    agent.do("/memo add a memo")
    done = cli("copy", db, target)
    assert (done.code, done.err) == (0, "")
    assert done.lines[0] == f"{target}: 2 new events, 1 memo"
    assert done.lines[1].startswith("  1 conversation, 2 agents, 2 events compared: the same in both (")
    assert cli("--db", target, "doctor").out == f"{target}: 2 agents, all is well\n"
    again = cli("copy", db, target)
    assert again.lines == [f"{target}: nothing new", done.lines[1]]
    agent.redact(1)
    assert "2 events erased, as in the original" in cli("copy", db, target).out
    data = json.loads(cli("copy", db, target, "--json").out)
    assert (data["from"], data["to"], data["events"], data["compared"]) == (db, target, 0, 4)


def test_one_conversation_is_copied(cli: Cli, db: str, log: foldmark.Log, tmp_path: Path) -> None:
    log.agent("one").append("user", "hello")
    log.agent("two").append("user", "hello")
    target = str(tmp_path / "copy.db")
    assert cli("copy", db, target, "--conversation", "two").code == 0
    with foldmark.open(target) as other:
        assert [agent.name for agent in other.agents()] == ["two"]


def test_a_refused_copy_writes_nothing(cli: Cli, db: str, log: foldmark.Log, tmp_path: Path) -> None:
    log.agent("one").append("user", "hello")
    target = tmp_path / "copy.db"
    wrong = cli("copy", db, str(target), "--conversation", "missing")
    assert (wrong.code, wrong.out) == (2, "")
    assert "there is no conversation 'missing' to copy; conversations: one" in wrong.err
    assert "there is no database at" in cli("copy", str(tmp_path / "no.db"), str(target)).err
    assert "in memory" in cli("copy", db, ":memory:").err
    assert "is the source of the copy" in cli("copy", db, db).err
    assert not target.exists()
    with foldmark.open(target) as other:
        other.agent("own").append("user", "mine")
    refused = cli("copy", db, str(target))
    assert refused.code == 2
    assert f"{target} has conversations that {db} does not have: 'own'" in refused.err
    with foldmark.open(target) as other:
        assert [agent.name for agent in other.agents()] == ["own"]


def test_an_interrupted_copy_continues(
    cli: Cli, db: str, log: foldmark.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        log.agent("one").append("user", f"{number}")
    target, pages = str(tmp_path / "copy.db"), 0
    monkeypatch.setattr(copying, "_EVENTS", 2)
    told = copying._Copy._advance

    def interrupted(self: copying._Copy, event: copying.CopiedEvent) -> None:  # type: ignore[name-defined]
        nonlocal pages
        pages += 1
        if pages == 5:
            raise KeyboardInterrupt
        told(self, event)

    monkeypatch.setattr(copying._Copy, "_advance", interrupted)
    stopped = cli("copy", db, target)
    assert stopped.code == 130
    assert "run it again to go on" in stopped.err
    assert cli("copy", db, target).lines[0] == f"{target}: 3 new events"
