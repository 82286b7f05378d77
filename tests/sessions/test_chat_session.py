"""`foldmark chat --session`, `/import` and `/export`: from a coding agent's session to a conversation and back
(SPEC 8, 9)."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import rollout_records as codex
from session_records import REAL_FILES, SHORT_FILES, assistant, jsonl, user

import foldmark
from foldmark.cli.program import run
from foldmark.core import selections
from foldmark.core.errors import FoldmarkError
from foldmark.sending.interruption import CURRENT, Interruption
from foldmark.sessions.conversion.chatting import bring_in, session_model
from sampled import sampled
from stored import stored

ID = "4f7a4c7c-3a55-4a5c-9d5e-0a4c9a3f2b11"
NAME = "claude-4f7a4c7c"
MODEL = "claude-sonnet-4-5"
USAGE = {"input_tokens": 10, "output_tokens": 5}

Talk = Callable[..., str]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The session's working folder, with a database that does not exist yet."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("FOLDMARK_DB", str(tmp_path / "log.db"))
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def session(work: Path, tmp_path: Path) -> Path:
    """A Claude Code session with two turns, where Claude Code keeps it."""
    path = tmp_path / "claude" / "projects" / "work" / f"{ID}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(jsonl(*turn("a", None, work), *turn("b", "a2", work)))
    return path


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Talk:
    """A function that chats with these lines and returns the output; `code` is the expected exit code."""

    def talk(*arguments: str, lines: str = "", code: int = 0) -> str:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
        capsys.readouterr()
        assert run(["chat", *arguments]) == code
        shown = capsys.readouterr()
        return shown.out + shown.err

    return talk


def turn(name: str, parent: str | None, work: Path) -> list[dict[str, object]]:
    """Return a question and its answer."""
    return [
        user(f"ask {name}", name, parent, cwd=str(work)),
        assistant(f"tell {name}", f"{name}2", name, f"msg_{name}", cwd=str(work), model=MODEL, usage=USAGE),
    ]


def shown(agent: foldmark.Agent) -> list[str]:
    return [event.content for event in agent.context().messages]


@pytest.mark.usefixtures("session")
def test_a_session_opens_by_its_id_and_is_found_again(talk: Talk, work: Path) -> None:
    said = talk("--session", ID[:6], lines="/undo\n")
    assert f"Conversation '{NAME}': 2 turns (2 user, 2 assistant)" in said
    assert said.count("Claude Code sees what you change here after /export") == 1
    assert "(Claude Code sees this after /export)" in said
    assert said.rstrip().endswith(f"foldmark export {NAME} --cwd {work}")
    assert "it already has all of this session" in talk("--session", ID)
    with foldmark.open(os.environ["FOLDMARK_DB"]) as log:
        assert [agent.name for agent in log.agents()] == [NAME]
        assert shown(log.agent(NAME)) == ["ask a", "tell a"], "what a person has dropped stays out"


def test_new_messages_are_imported_while_the_chat_is_open(talk: Talk, session: Path, work: Path) -> None:
    talk("--session", str(session), lines="/undo\n")
    with session.open("ab") as file:
        file.write(jsonl(*turn("c", "b2", work)))
    said = talk(NAME, lines="/import\n/import\n")
    assert "The session has grown since: /import brings that in." in said
    assert "imported 2 new messages (1 turn)" in said
    assert "it already has all of this session" in said
    with foldmark.open(os.environ["FOLDMARK_DB"]) as log:
        assert shown(log.agent(NAME)) == ["ask a", "tell a", "ask c", "tell c"]


@pytest.mark.usefixtures("session")
def test_an_export_goes_to_the_sessions_folder(talk: Talk, work: Path, tmp_path: Path) -> None:
    said = talk("--session", ID, lines="/undo\n/export\n")
    assert f"cd {work} && claude --resume " in said
    assert "does not see yet" not in said, "nothing is left to export"
    (new,) = [path for path in (tmp_path / "claude").rglob("*.jsonl") if path.stem != ID]
    records = [json.loads(line) for line in new.read_bytes().splitlines()]
    assert [(record["type"], record["cwd"]) for record in records] == [("user", str(work)), ("assistant", str(work))]
    assert "there is no folder" in talk(NAME, lines="/export nowhere\n", code=2)


def test_the_sessions_model_answers_unless_another_was_chosen(
    talk: Talk, session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = talk("--session", str(session), lines="Hello\n", code=1)
    assert f"model: anthropic/{MODEL}." in said
    cannot = f"Commands work here, but anthropic/{MODEL} cannot answer. /model PROVIDER/MODEL chooses another one."
    assert f"{cannot} There is no key for anthropic. Set ANTHROPIC_API_KEY." in said
    said = talk("--session", ID, "--model", "offline", lines="Hello\n")
    assert f"The session was answered by anthropic/{MODEL}; /model anthropic/{MODEL} asks it." in said
    assert "cannot answer" not in said
    assert "model: offline." in talk("--session", ID), "the choice stays"
    monkeypatch.setenv("FOLDMARK_MODEL", "openai/gpt-5")
    assert "model: openai/gpt-5." in talk("--session", ID, "other")


def test_a_rollout_of_codex(talk: Talk, work: Path) -> None:
    path = work / codex.name()
    context = codex.record("turn_context", {"model": "gpt-5-codex", "cwd": str(work)})
    records = [codex.meta(), context, codex.said("Look"), codex.said("Looked", "assistant"), codex.tokens(10)]
    path.write_bytes(jsonl(*records))
    said = talk("--session", str(path))
    assert "model: openai_responses/gpt-5-codex." in said
    assert "/export writes it as a session of Claude Code; Codex's own are not written." in said


def test_a_damaged_session_shows_its_broken_lines(talk: Talk, session: Path, work: Path) -> None:
    session.write_bytes(jsonl(*turn("a", None, work), b'{"type": \n', b"\xff\xfe\n", *turn("b", "a2", work)))
    said = talk("--session", str(session))
    assert "2 broken lines skipped:" in said
    assert "    line 3: " in said


@pytest.mark.parametrize("content", [b"", b"hello\n", b'{"projectHash": "x", "messages": []}\n'])
def test_no_session_makes_no_database(talk: Talk, work: Path, content: bytes) -> None:
    path = work / "session.jsonl"
    path.write_bytes(content)
    assert "is not a session of" in talk("--session", str(path), code=1)
    assert "there is no file and no session" in talk("--session", "0000", code=2)
    assert not Path(os.environ["FOLDMARK_DB"]).exists()


def test_another_session_opens_from_the_chat(talk: Talk, session: Path) -> None:
    said = talk("notes", lines=f"/note Keep this.\n/import {session}\n/undo\n")
    assert f"Conversation '{NAME}', 4 messages sent; model: anthropic/{MODEL}." in said
    with foldmark.open(os.environ["FOLDMARK_DB"]) as log:
        assert shown(log.agent("notes")) == ["Keep this."]
        assert shown(log.agent(NAME)) == ["ask a", "tell a"]
    assert "was not imported from a session" in talk("notes", lines="/import\n", code=2)
    session.unlink()
    assert "is not at " in talk(NAME, lines="/import\n", code=2)


def test_an_interrupted_import_leaves_nothing(session: Path) -> None:
    with foldmark.open(os.environ["FOLDMARK_DB"]) as log:
        agent, stopped = log.agent("notes"), Interruption()
        stopped.happen()
        token = CURRENT.set(stopped)
        try:
            with pytest.raises(FoldmarkError, match="interrupted"):
                bring_in(agent, str(session), None, os.environ)
        finally:
            CURRENT.reset(token)
        assert not log.exists(NAME)
        assert bring_in(agent, str(session), None, os.environ).data["messages"] == {"user": 2, "assistant": 2}


def test_an_older_import_does_not_name_its_file(session: Path) -> None:
    with foldmark.open(os.environ["FOLDMARK_DB"]) as log:
        agent = log.agent(str(bring_in(log.agent("notes"), str(session), None, os.environ).data["agent"]))
        event = selections.newest(stored(log), "command", agent.standing().lineage)
        assert event is not None
        data = dict((event.data or {})["import"])
        assert data.pop("file") == str(session)
        agent.record("command", event.content, data={"import": data})
        assert session_model(agent) == f"anthropic/{MODEL}"
        with pytest.raises(FoldmarkError, match="/import FILE names it"):
            bring_in(agent, None, None, os.environ)


@pytest.mark.skipif(not REAL_FILES, reason="the real sessions are not here")
@pytest.mark.parametrize("path", sampled([*SHORT_FILES, *codex.REAL_FILES], 5), ids=lambda path: str(path.stem))
def test_real_sessions(talk: Talk, work: Path, path: Path) -> None:
    own = work / path.name
    shutil.copyfile(path, own)
    whole = own.read_bytes().splitlines(keepends=True)
    own.write_bytes(b"".join(whole[:-1]))
    talk("--session", str(own), lines="/mark HERE\n")
    own.write_bytes(b"".join(whole))
    talk("--session", str(own), lines="/operations\n/export\n")
    assert "it already has all of this session" in talk("--session", str(own))
    with foldmark.open(os.environ["FOLDMARK_DB"]) as log:
        assert len(log.agents()) == 1
