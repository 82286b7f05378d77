"""The upstreams of the agents that `foldmark live` runs, according to their logins and variables (SPEC 5.7)."""

import json
from pathlib import Path

import pytest
from gemini_screen import KEY, selected

from foldmark.core.errors import CommandError
from foldmark.live.agents.codex import CHATGPT
from foldmark.live.clients.reading import RequestReader
from foldmark.live.live_agent import BUILT_IN, AnyProgram, LiveAgent, agent_named, agent_names
from foldmark.live.wires import wire_named, wires_of
from foldmark.wires.parts import TextMessage


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


def test_each_agent_is_found_by_its_name() -> None:
    assert list(BUILT_IN) == agent_names()
    for name in BUILT_IN:
        agent = agent_named(name)
        assert (agent.name, wires_of(agent)[0].name) == (name, agent.wire)
    assert isinstance(agent_named("opencode"), AnyProgram)


class Scribe(LiveAgent):
    """An agent on Codex's wire."""

    name, title, wire = "scribe", "Scribe", "openai_responses"
    variable, base_url = "SCRIBE_URL", "https://scribe.example/v1"

    def is_injected(self, text: str) -> bool:
        return text.startswith("[scribe]")


def test_two_agents_share_a_wire_and_not_their_habits() -> None:
    said = ("<b>bold</b>, what is that?", "[scribe] It is noon.", "[Request interrupted by user]")
    content = [{"type": "input_text", "text": text} for text in said]
    item = {"type": "message", "role": "user", "content": content}
    body = json.dumps({"model": "m", "stream": True, "input": [item]}).encode()
    headers = {"session-id": "s", "thread-id": "t", "originator": "codex_cli_rs"}
    found = {}
    for agent in (Scribe(), agent_named("codex"), AnyProgram(wire="openai_responses")):
        wire = wire_named("openai_responses").spoken_by(agent)
        request = RequestReader().read(wire, "/v1/responses", headers, body)
        (message,) = request.messages
        parts = [part for part in wire.parts(message) if isinstance(part, TextMessage)]
        head = request.head
        found[agent.title] = (
            (head.session, head.agent, wire.agent.is_attended(headers)),
            [wire.opens(part) for part in parts],
            [prompt.text for prompt in wire.prompts(message)],
        )
    theirs = (("s", "t", True), [False, True, True], [*said])
    assert found["Codex"] == theirs
    assert found["any program"] == (("s", "t", True), theirs[1], theirs[2])
    assert found["Scribe"] == (("", "", False), [True, True], [said[0], said[2]])


def test_a_session_that_only_the_body_names() -> None:
    """Also if a text in the body has half of a character, which no reader of JSON takes."""
    about = json.dumps({"user_id": json.dumps({"session_id": "s"})})
    body = b'{"messages":[{"role":"user","content":"\\ud83d"}],"metadata":' + about.encode() + b"}"
    wire = wire_named("anthropic").spoken_by(agent_named("claude"))
    assert RequestReader().read(wire, "/v1/messages", {}, body).head.session == "s"
