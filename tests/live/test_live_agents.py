"""The upstreams of the agents that `foldmark live` runs, according to their logins and variables (SPEC 5.7)."""

import json
from pathlib import Path

import pytest
from gemini_screen import KEY, selected

from foldmark.core.errors import CommandError
from foldmark.live.agent_programs import AGENTS, CHATGPT, AnyProgram


def test_the_upstream_of_a_login(tmp_path: Path) -> None:
    codex, home = AGENTS["codex"], {"CODEX_HOME": str(tmp_path)}
    key = {**home, "OPENAI_API_KEY": KEY}
    assert codex.upstream(home) == codex.provider
    assert 'env_key="OPENAI_API_KEY"' in str(codex.options("http://x", key))
    file = tmp_path / "auth.json"
    file.write_text(json.dumps({"OPENAI_API_KEY": None, "tokens": {"access_token": "t"}}))
    assert codex.upstream(key) == CHATGPT
    assert codex.upstream({**key, "OPENAI_BASE_URL": "http://own"}) == "http://own"
    assert 'openai_base_url="http://x"' in codex.options("http://x", key)
    file.write_text(json.dumps({"OPENAI_API_KEY": KEY, "tokens": None}))
    assert codex.upstream(key) == codex.provider
    assert "foldmark" not in str(codex.options("http://x", key))
    file.write_text("[")
    assert codex.upstream(key) == codex.provider


@pytest.mark.parametrize("how", ["oauth-personal", "vertex-ai", "compute-default-credentials", ""])
def test_another_way_to_sign_in_is_refused(how: str, tmp_path: Path) -> None:
    selected(tmp_path, how) if how else (tmp_path / ".gemini").mkdir()
    with pytest.raises(CommandError, match=f"signs in with '{how}'.*Choose an API key" if how else "no way to sign in"):
        AGENTS["gemini"].upstream({"HOME": str(tmp_path)})
    selected(tmp_path, "gemini-api-key")
    assert AGENTS["gemini"].upstream({"HOME": str(tmp_path)}) == "https://generativelanguage.googleapis.com"


@pytest.mark.parametrize("variable", ["GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"])
def test_another_service_is_refused(variable: str, tmp_path: Path) -> None:
    selected(tmp_path, "gemini-api-key")
    with pytest.raises(CommandError, match=f"{variable} is set"):
        AGENTS["gemini"].upstream({"HOME": str(tmp_path), variable: "true"})


def test_claude_code_makes_no_emoji_of_commands() -> None:
    assert json.loads(AGENTS["claude"].options("http://gateway", {})[1])["emojiCompletionEnabled"] is False


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
    claude, program = AGENTS["claude"], AnyProgram("script")
    assert claude.is_own(upstream) is own
    assert program.is_own({**program.upstreams({}), "anthropic": upstream}) is own
    name = "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"
    for variables in (
        claude.variables("http://gateway", own=own),
        program.variables("http://gateway", own=own),
        json.loads(claude.options("http://gateway", {}, own=own)[1])["env"],
    ):
        assert variables.get(name) == ("1" if own else None)
    assert AGENTS["codex"].variables("http://gateway", own=True) == {"OPENAI_BASE_URL": "http://gateway"}
