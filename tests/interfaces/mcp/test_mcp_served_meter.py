"""`context_meter` shows how full the caller's own session or a conversation is (SPEC 5.5, 8)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from guest import inside, visit

import foldmark
from foldmark.core.request import Usage
from foldmark.formats.claude.claude_format import project_folder
from foldmark.sending.status import record_usage

ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def session(id: str, tokens: int, written: int) -> Path:
    """Write a session of this folder whose newest answer used `tokens` tokens; 0 for no answer."""
    file = Path(os.environ["HOME"], ".claude/projects", project_folder(Path.cwd()), f"{id}.jsonl")
    file.parent.mkdir(parents=True, exist_ok=True)
    message = {"role": "assistant", "model": "m", "content": [], "usage": {"input_tokens": tokens}}
    record = {"type": "assistant", "uuid": "u", "parentUuid": None, "sessionId": id, "message": message}
    file.write_text(json.dumps(record if tokens else {"type": "user"}) + "\n")
    os.utime(file, (written, written))
    return file


def meter(db: str, name: str | None = None, *, here: bool = True, **arguments: str) -> str:
    told: list[str] = []

    async def visiting() -> None:
        async with inside(db, name, here=here) as guest:
            told.append(await guest.call("context_meter", **arguments))

    visit(visiting)
    return told[0]


def test_the_callers_session(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert meter(db).startswith("Error: the session is not known: there is no Claude Code session of ")
    session(ONE, 50_000, 1_000)
    assert meter(db) == f"Claude Code session {ONE}: Context: 50K/200K tokens (25%) ⚪"
    session(TWO, 170_000, 2_000)
    second = f"Claude Code session {TWO}: Context: 170K/200K tokens (85%) 🟡"
    assert meter(db) == second
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", TWO)
    assert meter(db) == second
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", ONE)
    assert meter(db) == (
        f"Claude Code session {ONE}: Context: 50K/200K tokens (25%) ⚪\n{second} (in the same folder, written to since)"
    )
    session(TWO, 0, 2_000)
    assert meter(db, session=TWO[:4]) == (
        f"Claude Code session {TWO}: not known; it has no answer yet, or none since it was trimmed or compacted"
    )


def test_over_http_the_folder_is_not_the_clients(db: str) -> None:
    session(ONE, 50_000, 1_000)
    assert meter(db, here=False) == "Error: name a coding agent's `session`, or a `conversation`"
    assert "25%" in meter(db, here=False, session=ONE)


def test_conversations(db: str, log: foldmark.Log) -> None:
    session(ONE, 50_000, 1_000)
    log.agent("default").append("user", "hello")
    conversation = "Conversation 'default': Context: 2K/200K tokens (1%) ⚪"
    assert meter(db, "default") == f"Claude Code session {ONE}: Context: 50K/200K tokens (25%) ⚪\n{conversation}"
    assert meter(db, "default", here=False) == conversation
    assert meter(db, "default", conversation="default") == conversation
    assert meter(db, conversation="default", session=ONE).splitlines()[1] == conversation
    assert "there is no conversation or agent 'x'" in meter(db, conversation="x")
    assert "there is no file and no session 'x'" in meter(db, session="x")


def test_what_the_cache_had_of_the_newest_turn(db: str, log: foldmark.Log) -> None:
    agent = log.agent("default")
    agent.configure("model", "anthropic/claude-opus-5-5")
    for usage in (Usage(cache_write=5000), Usage(cache_read=1000, cache_write=4200)):
        agent.append("user", "hello")
        agent.configure("context_size", 7)
        sent = agent.record_sent(agent.request())
        agent.append("assistant", "hi")
        record_usage(agent, sent, usage, None)
        agent.end_turn()
        agent.configure("truncate_recent", 400)
    line = "Cache: in the newest turn 1 request read 1,000 tokens and wrote 4,200."
    assert meter(db, "default", here=False).splitlines()[1] == (
        f"{line} Request 2 missed 4,000: changed settings: truncate_recent."
    )
