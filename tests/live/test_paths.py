"""Paths with and without the version of the API, as different clients ask for them (SPEC 5.7)."""

import json
from typing import Any

import httpx2 as httpx
import pytest
from claude_client import FREE, KEY, TOOL, ClaudeRunning
from codex_client import CodexRunning
from completions_client import CompletionsRunning
from test_gateway import Upstream, upstream  # noqa: F401 - a fixture

import foldmark
from foldmark.live.agents.codex import CHATGPT
from foldmark.live.gateway import Gateway
from foldmark.live.live_agent import AnyProgram
from foldmark.live.sessions import Sessions
from foldmark.live.upstreams import target_at
from patience import LIMIT

USUAL = AnyProgram("x").upstreams({})


@pytest.mark.parametrize(
    ("base", "asked", "expected"),
    [
        (USUAL["anthropic"], "/messages?beta=true", "/v1/messages?beta=true"),
        (USUAL["anthropic"], "/v1/messages", "/v1/messages"),
        (USUAL["anthropic"], "/messages/count_tokens", "/v1/messages/count_tokens"),
        (USUAL["anthropic"], "/api/hello", "/api/hello"),
        (USUAL["anthropic"], "", "/"),
        (f"{USUAL['anthropic']}/v1", "/messages", "/v1/messages"),
        (USUAL["openai"], "/chat/completions", "/v1/chat/completions"),
        (USUAL["openai"], "/v1/chat/completions", "/v1/chat/completions"),
        (USUAL["openai"], "/v1/responses?a=/v1/v1/", "/v1/responses?a=/v1/v1/"),
        ("https://api.openai.com", "/responses", "/v1/responses"),
        ("https://api.openai.com/", "/v1/models", "/v1/models"),
        (CHATGPT, "/responses", "/backend-api/codex/responses"),
        (USUAL["gemini"], "/models/m:generateContent", "/models/m:generateContent"),
        ("http://127.0.0.1:8000", "/messages", "/messages"),
        ("http://127.0.0.1:8000/v1", "/v1/messages", "/v1/v1/messages"),
        ("http://api.openai.com.office.example", "/responses", "/responses"),
    ],
)
def test_the_path_at_an_upstream(base: str, asked: str, expected: str) -> None:
    assert target_at(httpx.URL(base), asked.encode()) == expected.encode()


@pytest.mark.parametrize("version", ["", "/v1"])
@pytest.mark.parametrize(
    ("wire", "path", "messages"),
    [
        ("anthropic", "/messages", "messages"),
        ("openai", "/responses", "input"),
        ("openai", "/chat/completions", "messages"),
    ],
)
def test_both_forms_are_recorded_under_the_name_of_a_wire(
    upstream: Upstream,  # noqa: F811
    wire: str,
    path: str,
    messages: str,
    version: str,
) -> None:
    asked: dict[str, Any] = {"model": "m", "tools": [{}], messages: [{"role": "user", "content": "Hello"}]}
    upstreams = {**USUAL, wire: f"{upstream.url}/base"}
    with foldmark.open(":memory:", settings={}) as log:
        sessions = Sessions(log, "app", upstreams)
        with Gateway(upstreams, sessions=sessions) as gateway:
            httpx.post(f"{gateway.url}/{wire}{version}{path}", content=json.dumps(asked).encode(), timeout=LIMIT)
        sessions.close()
        (agent,) = log.agents()
        assert [event.content for event in agent.context().messages] == ["Hello"]
    assert upstream.got[-1].path == f"/base{version}{path}"


def test_a_question_goes_to_the_path_that_the_client_uses(running: ClaudeRunning) -> None:
    """opencode has the version in its base URL."""
    running.upstream.wire.refuse = lambda path, headers, body: None  # type: ignore[method-assign]
    headers, said = {"x-api-key": KEY, "x-session-id": "ses_1"}, [{"role": "user", "content": "two"}]
    body = {"model": FREE, "max_tokens": 9, "stream": True, "tools": [TOOL]}
    for each in (said, [*said, {"role": "assistant", "content": "x"}, {"role": "user", "content": ":forget two"}]):
        httpx.post(f"{running.gateway.url}/messages", headers=headers, json={**body, "messages": each}, timeout=LIMIT)
    assert [(each.path, "tools" in each.body) for each in running.upstream.asked] == [
        ("/messages", True),
        ("/messages", False),
    ]


def test_opencode_names_its_session_on_every_wire(
    running: ClaudeRunning, codex: CodexRunning, completions: CompletionsRunning
) -> None:
    for each, path, member, named in (
        (running, "/v1/messages", "messages", "x-session-id"),
        (codex, "/v1/responses", "input", "x-session-affinity"),
        (completions, "/v1/chat/completions", "messages", "x-session-affinity"),
    ):
        body: dict[str, Any] = {"model": "m", "tools": [{}], "stream": True}
        body[member] = [{"role": "user", "content": "Hello"}]
        httpx.post(f"{each.gateway.url}{path}", headers={named: "ses_12345678"}, json=body, timeout=LIMIT)
        each.settle()
        assert [agent.name for agent in each.log.agents()] == ["app · ses_1234"]
        each.upstream.refusals.clear()
