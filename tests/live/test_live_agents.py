"""The upstreams of the agents that `foldmark live` runs, according to their logins and variables (SPEC 5.7)."""

import json
from pathlib import Path

import pytest
from gemini_screen import KEY, selected

from foldmark.core.errors import CommandError
from foldmark.live.agents.codex import CHATGPT
from foldmark.live.live_agent import AnyProgram, agent_named


def test_the_upstream_of_a_login(tmp_path: Path) -> None:
    codex, home = agent_named("codex"), {"CODEX_HOME": str(tmp_path)}
    key = {**home, "OPENAI_API_KEY": KEY}
    assert codex.upstreams(home) == codex.base_url
    assert 'env_key="OPENAI_API_KEY"' in str(codex.options("http://x", key))
    file = tmp_path / "auth.json"
    file.write_text(json.dumps({"OPENAI_API_KEY": None, "tokens": {"access_token": "t"}}))
    assert codex.upstreams(key) == CHATGPT
    assert codex.upstreams({**key, "OPENAI_BASE_URL": "http://own"}) == "http://own"
    assert 'openai_base_url="http://x"' in codex.options("http://x", key)
    file.write_text(json.dumps({"OPENAI_API_KEY": KEY, "tokens": None}))
    assert codex.upstreams(key) == codex.base_url
    assert "foldmark" not in str(codex.options("http://x", key))
    file.write_text("[")
    assert codex.upstreams(key) == codex.base_url


@pytest.mark.parametrize("how", ["oauth-personal", "vertex-ai", "compute-default-credentials", ""])
def test_another_way_to_sign_in_is_refused(how: str, tmp_path: Path) -> None:
    selected(tmp_path, how) if how else (tmp_path / ".gemini").mkdir()
    with pytest.raises(CommandError, match=f"signs in with '{how}'.*Choose an API key" if how else "no way to sign in"):
        agent_named("gemini").upstreams({"HOME": str(tmp_path)})
    selected(tmp_path, "gemini-api-key")
    assert agent_named("gemini").upstreams({"HOME": str(tmp_path)}) == "https://generativelanguage.googleapis.com"


@pytest.mark.parametrize("variable", ["GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"])
def test_another_service_is_refused(variable: str, tmp_path: Path) -> None:
    selected(tmp_path, "gemini-api-key")
    with pytest.raises(CommandError, match=f"{variable} is set"):
        agent_named("gemini").upstreams({"HOME": str(tmp_path), variable: "true"})


def test_claude_code_makes_no_emoji_of_commands() -> None:
    assert json.loads(agent_named("claude").options("http://gateway", {})[1])["emojiCompletionEnabled"] is False


@pytest.mark.parametrize(
    ("upstream", "own"),
    [
        ("https://api.anthropic.com", True),
        ("https://api.anthropic.com/", True),
        ("http://api.anthropic.com", False),
        ("https://api.anthropic.com.office.example", False),
        ("http://127.0.0.1:8080", False),
    ],
)
def test_claude_code_behaves_as_without_a_gateway_to_its_own_provider(upstream: str, own: bool) -> None:
    claude, program = agent_named("claude"), AnyProgram("script")
    several = {**program.upstreams({}), "anthropic": upstream, "openai": "http://own"}
    name = "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"
    for variables in (
        claude.variables("http://gateway", upstream),
        program.variables("http://gateway", several),
        json.loads(claude.options("http://gateway", {}, upstream)[1])["env"],
    ):
        assert variables.get(name) == ("1" if own else None)
    codex = agent_named("codex")
    assert codex.variables("http://gateway", codex.base_url) == {"OPENAI_BASE_URL": "http://gateway"}
