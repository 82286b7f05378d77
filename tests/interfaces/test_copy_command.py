"""`foldmark copy`."""

import json
from pathlib import Path

import pytest
from command_line import Cli

import foldmark
from foldmark.copying import steps
from foldmark.core.records import CopiedEvent


def test_a_database_is_copied(cli: Cli, db: str, log: foldmark.Log, tmp_path: Path) -> None:
    agent, target = log.agent("default"), str(tmp_path / "copy.db")
    agent.append("user", "hello")
    agent.do("/fork")
    agent.do("/memo add a memo")
    done = cli("copy", db, target)
    assert (done.code, done.err) == (0, "")
    assert done.lines[0] == f"{target}: 2 new events, 1 memo"
    assert done.lines[1].startswith("  1 conversation, 2 agents, 2 events compared: the same in both (")
    assert cli("--db", target, "doctor", "--repair").out == f"{target}: 2 agents, all is well\n"
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
    assert "--conversation NAME" in refused.err
    assert cli("copy", db, str(target), "--as", "two").code == 2
    with foldmark.open(target) as other:
        assert [agent.name for agent in other.agents()] == ["own"]


def test_a_conversation_is_brought_into_a_database_in_use(cli: Cli, db: str, log: foldmark.Log, tmp_path: Path) -> None:
    agent, target = log.agent("talk"), str(tmp_path / "used.db")
    agent.append("user", "hello")
    with foldmark.open(target) as other:
        for text in ("mine", "also mine"):
            other.agent("own").append("user", text)
    done = cli("copy", db, target, "--conversation", "talk")
    assert (done.code, done.err) == (0, "")
    assert done.lines[:2] == [f"{target}: 1 new event", "  talk: events 1-1 are 3-3 here"]
    agent.append("assistant", "Hello.")
    data = json.loads(cli("copy", db, target, "--conversation", "talk", "--json").out)
    assert data["added"] == [{"name": "talk", "agent": agent.id, "events": 1, "ahead": False, "ids": [[1, 2, 3]]}]
    with foldmark.open(target) as other:
        other.agent("talk").append("user", "and here")
    ahead = cli("copy", db, target, "--conversation", "talk")
    assert ahead.lines == [
        f"{target}: nothing new",
        f"  talk has grown in {target} only; exchange FROM and TO to bring that back",
    ]
    assert cli("copy", target, db, "--conversation", "talk").lines[0] == f"{db}: 1 new event"
    for path, text in ((db, "one"), (target, "two")):
        with foldmark.open(path) as each:
            each.agent("talk").append("user", text)
    refused = cli("copy", db, target, "--conversation", "talk")
    assert (refused.code, refused.out) == (2, "")
    assert "'talk' has grown in" in refused.err
    assert cli("copy", db, target, "--conversation", "talk", "--as", "other talk").code == 0
    with foldmark.open(target) as other:
        texts = [message.content for message in other.agent("other talk").context().messages]
    assert texts == ["hello", "Hello.", "and here", "one"]


def test_an_interrupted_copy_continues(
    cli: Cli, db: str, log: foldmark.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        log.agent("one").append("user", f"{number}")
    target, pages = str(tmp_path / "copy.db"), 0
    monkeypatch.setattr(steps, "EVENTS", 2)
    told = steps.Copy._advance

    def interrupted(self: steps.Copy, event: CopiedEvent) -> None:
        nonlocal pages
        pages += 1
        if pages == 5:
            raise KeyboardInterrupt
        told(self, event)

    monkeypatch.setattr(steps.Copy, "_advance", interrupted)
    stopped = cli("copy", db, target)
    assert stopped.code == 130
    assert "run it again to go on" in stopped.err
    assert cli("copy", db, target).lines[0] == f"{target}: 3 new events"
