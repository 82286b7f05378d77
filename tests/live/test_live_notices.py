"""Notices without a command: a session went on without Foldmark, or its client is about to compact it (SPEC 5.7)."""

import json
from pathlib import Path
from typing import Any

import pytest
from claude_client import ClaudeRunning
from plan import Fail, Reply, Say

from foldmark.core.request import Usage
from foldmark.live.agents import claude_settings
from foldmark.live.agents.claude_code import ClaudeCode

NOTICE = "of this session were answered without Foldmark"
AGENT = "claude-cli/2.1.332 (external, cli)"


def without_foldmark(running: Any, *prompts: str) -> None:
    """Let the client go on without the gateway, and start another one."""
    running.end()
    running.client.url = running.upstream.url
    for prompt in prompts:
        running.client.say(prompt)
    running.begin(running.gateway.port, running.gateway.secret)
    running.client.url = running.gateway.url


@pytest.mark.parametrize("name", ["running", "codex", "completions", "gemini"])
def test_a_resume_without_foldmark_is_said_once(request: pytest.FixtureRequest, name: str) -> None:
    running = request.getfixturevalue(name)
    client = running.client
    for text in ("one", "READ two", "three"):
        client.say(text)
    client.say(f":drop {running.turn('READ two')}")
    without_foldmark(running, "elsewhere", ":context", "READ there")
    assert ("user", "READ two") in running.texts()
    said = client.say("four")
    texts = running.texts()
    assert ("user", "READ two") not in texts  # the edits hold again
    assert ":drop" not in json.dumps(texts)
    assert [text for kind, text in texts if kind == "user"][-4:] == ["elsewhere", ":context", "READ there", "four"]
    running.settle()
    weaves = name in ("running", "codex")
    assert (f"3 prompts {NOTICE}" in said) == weaves
    assert (NOTICE in running.sessions.tally.closing(str)) != weaves
    assert (NOTICE in client.say(":context")) != weaves
    assert NOTICE not in client.say("five")
    assert NOTICE not in running.sessions.tally.closing(str)
    assert NOTICE not in json.dumps(running.upstream.asked[-1].body)
    assert {each.actor for each in running.agent.events(0, 1000) if each.kind in ("filter", "drop")} == {"human"}
    without_foldmark(running)
    assert NOTICE not in client.say("six")


def test_a_resume_of_an_unedited_session_is_not_said(running: ClaudeRunning) -> None:
    running.client.say("one")
    without_foldmark(running, "elsewhere")
    assert running.client.say("two") == "I see 5."


def test_an_answer_that_no_gateway_recorded_is_no_resume(running: ClaudeRunning) -> None:
    client = running.client
    client.say("one")
    client.say(f":drop {running.turn('one')}")
    client.messages.append({"role": "user", "content": [{"type": "text", "text": "two"}]})
    running.model.fails.append(Fail("busy"))
    with pytest.raises(AssertionError):
        client.ask(client.messages)
    client.messages.append({"role": "assistant", "content": [{"type": "text", "text": "Half an"}]})
    without_foldmark(running)
    assert NOTICE not in client.say("three")


def test_a_notice_waits_for_an_answer_that_comes(running: ClaudeRunning) -> None:
    client = running.client
    client.say("one")
    client.say(f":drop {running.turn('one')}")
    without_foldmark(running, "two", "three")
    running.model.fails.append(Fail("busy"))
    client.messages.append({"role": "user", "content": [{"type": "text", "text": "four"}]})
    with pytest.raises(AssertionError):
        client.ask(client.messages)
    client.messages.pop()
    assert NOTICE in client.say("four")


def test_a_program_that_reads_answers_gets_no_notice(running: ClaudeRunning) -> None:
    client = running.client
    client.headers["user-agent"] = "claude-cli/2.1.332 (external, sdk-cli)"
    client.say("one")
    client.say(f":drop {running.turn('one')}")
    without_foldmark(running, "two", "three")
    assert NOTICE not in client.say("four")
    running.settle()
    assert NOTICE in running.sessions.tally.closing(str)


def grow(running: ClaudeRunning, tokens: int) -> None:
    running.model.fails.append(Reply((Say(("Yes.",)),), usage=Usage(0, tokens, 0, 0)))
    running.client.say("grow")
    running.settle()


@pytest.fixture
def hourly(running: ClaudeRunning) -> ClaudeRunning:
    """Claude Code 2.1.332, whose cache lives for an hour."""
    running.client.headers["user-agent"] = AGENT
    running.client.ttl = "1h"
    return running


def test_an_idle_compaction_is_said_once_and_before_it_can_happen(hourly: ClaudeRunning) -> None:
    client = hourly.client
    grow(hourly, 170_000)
    assert "idleCompaction" not in client.say("one")
    grow(hourly, 181_000)
    said = client.say("two")
    assert "this session holds ~181K tokens. From 200K on, Claude Code" in said
    assert '"idleCompaction": false in settings.json' in said
    grow(hourly, 220_000)
    without_foldmark(hourly)
    assert "idleCompaction" not in client.say("three")
    assert "idleCompaction" not in json.dumps(hourly.upstream.asked[-1].body)


@pytest.mark.parametrize(
    ("agent", "ttl", "settings"),
    [
        ("claude-cli/2.1.197 (external, cli)", "1h", {}),
        (AGENT, "5m", {}),
        (AGENT, "1h", {"idleCompaction": False}),
        (AGENT, "1h", {"autoCompactEnabled": False}),
        (AGENT, "1h", {"env": {"DISABLE_COMPACT": "1"}}),
        (AGENT, "1h", {"env": {"CLAUDE_CODE_IDLE_COMPACT_MIN_TOKENS": "400000"}}),
    ],
)
def test_no_warning_where_the_client_does_not_compact(
    running: ClaudeRunning,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    agent: str,
    ttl: str,
    settings: dict[str, Any],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps(settings))
    running.client.headers["user-agent"], running.client.ttl = agent, ttl
    grow(running, 250_000)
    assert "idleCompaction" not in running.client.say("one")


def test_the_least_tokens_of_an_idle_compaction(tmp_path: Path) -> None:
    named = {"HOME": str(tmp_path), "CLAUDE_CODE_IDLE_COMPACT_MIN_TOKENS": "5"}
    assert claude_settings.idle_tokens({"HOME": str(tmp_path)}) == 200_000
    assert claude_settings.idle_tokens(named) == 100_000


@pytest.mark.parametrize("form", ["one text", "two words", "file", "managed", "managed part"])
def test_settings_beside_those_of_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    text = '{"idleCompaction": false, "env": {"TEAM": "a"}, "model": "opus"}'
    monkeypatch.setattr(claude_settings, "MANAGED", tmp_path)
    environment = {"HOME": str(tmp_path)}
    if form.startswith("managed"):
        path = tmp_path / ("managed-settings.json" if form == "managed" else "managed-settings.d/10-office.json")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        words = ["-p", "hello"]
    else:
        path = tmp_path / "own.json"
        path.write_text(text)
        words = ["--settings=" + text] if form == "one text" else ["--settings", str(path) if form == "file" else text]
        words = [*words, "-p", "hello", "--", "--settings", "{}"]
    environment |= ClaudeCode().told(words)
    assert claude_settings.idle_tokens(environment) is None
    assert ClaudeCode().environment(environment)["TEAM"] == "a"
    made = ClaudeCode().command("http://here", words, environment)
    own = made[: made.index("--")] if "--" in made else made
    assert own.count("--settings") == 1
    given = json.loads(own[own.index("--settings") + 1])
    assert given["env"]["ANTHROPIC_BASE_URL"] == "http://here"
    assert given.get("model") == (None if form.startswith("managed") else "opus")
    assert own[-2:] == ["-p", "hello"]


def test_settings_that_cannot_be_read_are_left_to_the_client(tmp_path: Path) -> None:
    words = ["--settings", str(tmp_path / "missing.json"), "-p", "hello"]
    assert ClaudeCode().told(words) == {}
    assert ClaudeCode().command("http://here", words, {"HOME": str(tmp_path)})[-4:] == words
