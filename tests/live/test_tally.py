"""The line at the end of a run, and the lines in the gateway's log that say that nothing is recorded (SPEC 5.7)."""

import logging
from threading import Event

import httpx2 as httpx
import pytest
from claude_client import SESSION, ClaudeRunning, Client
from click.testing import CliRunner

from foldmark.cli.program import cli
from foldmark.live import gateway
from foldmark.live.gateway import Gateway
from foldmark.live.live_agent import AnyProgram, agent_named
from foldmark.live.tally import Passed, Tally
from patience import LIMIT

NOTHING = "nothing was recorded: "
PATHS = [Passed(path=f"/v1/{name}") for name in ("models", "embeddings", "models", "a", "b")]


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        ([], f"{NOTHING}no request came to Foldmark"),
        (
            PATHS,
            f"{NOTHING}requests came only to /v1/models, /v1/embeddings, /v1/a and 1 more, which Foldmark does not",
        ),
        ([Passed()], f"{NOTHING}1 request belonged to no conversation, or could not be read"),
        (
            [Passed(), PATHS[0], Passed()],
            f"{NOTHING}2 requests belonged to no conversation, or could not be read; the others went to /v1/models",
        ),
        ([Passed("s", "app · s", asked=False)], "recorded 'app · s' (0 requests). s"),
        (
            [Passed("s", "app · s"), Passed("t", "app · t"), *PATHS, Passed("s", "app · s"), Passed("s")],
            "recorded 'app · s' (3 requests), 'app · t' (1 request). s",
        ),
    ],
)
def test_the_line_at_the_end(passed: list[Passed], expected: str) -> None:
    tally = Tally()
    for each in passed:
        tally.add(each)
    assert tally.closing(str).startswith(expected)


def test_the_line_names_the_way_to_resume() -> None:
    without = "alone sends dropped turns, commands and replies to the model"
    assert agent_named("claude").resumed("a-b") == (
        f"`foldmark live claude --resume a-b` goes on; `claude --resume` {without}"
    )
    assert agent_named("codex").resumed("a-b") == f"`foldmark live codex resume a-b` goes on; `codex resume` {without}"
    assert (
        agent_named("gemini").resumed("a-b") == f"`foldmark live gemini --resume` goes on; `gemini --resume` {without}"
    )
    said = AnyProgram("/bin/x").resumed("a")
    assert said.startswith("Resume it under `foldmark live`, too: without it, x sends dropped")


def test_what_a_gateway_counts(running: ClaudeRunning, caplog: pytest.LogCaptureFixture) -> None:
    tally, client = running.sessions.tally, running.client
    assert tally.is_empty
    for _ in range(2):
        httpx.get(f"{running.gateway.url}/v1/models?key=sk-planted", timeout=LIMIT)
    (line,) = [each.getMessage() for each in caplog.records]
    assert line.startswith("requests to /v1/models are passed on and not recorded")
    assert "sk-planted" not in line
    assert "nothing was recorded: requests came only to /v1/models," in tally.closing(str)
    client.tools = []
    client.ask([{"role": "user", "content": [{"type": "text", "text": "A title, please."}]}])
    assert "nothing was recorded: 1 request belonged to no conversation" in tally.closing(str)
    client.tools = Client("").tools
    for text in ("one", ":context", "READ two"):
        client.say(text)
    running.settle()
    assert tally.closing(str) == f"recorded '{running.agent.name}' (3 requests). {SESSION}"
    running.upstream.refusals.clear()


def test_silence_is_logged(
    running: ClaudeRunning, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Here after no time at all."""
    logged = Event()
    monkeypatch.setattr(gateway, "SILENCE_SECONDS", 0.0)
    handler = logging.Handler()
    handler.emit = lambda record: logged.set()  # type: ignore[method-assign]
    monkeypatch.setattr(gateway.LOG, "handlers", [*gateway.LOG.handlers, handler])
    with Gateway(running.upstream.url, sessions=running.sessions):
        assert logged.wait(LIMIT)
    assert "no request has come for 0 seconds: does the agent use this address?" in caplog.text


def test_pi_takes_no_address_from_the_environment() -> None:
    said = str(CliRunner().invoke(cli, ["live", "pi"]).exception)
    assert "pi takes no base URL from the environment. Run `foldmark live --serve pi`" in said
    assert '~/.pi/agent/models.json, as in {"providers": {"anthropic": {"baseUrl": "ADDRESS"}}}' in said
