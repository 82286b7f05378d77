"""Any program through `foldmark live`, here one that uses two providers' own SDKs (SPEC 5.7)."""

import json
import os
import re
import sys
from pathlib import Path
from subprocess import PIPE

import pytest
from plan import Reply, Say
from server import Loopback
from wire_anthropic import AnthropicWire
from wire_openai import ResponsesWire

import foldmark
from foldmark.core.errors import CommandError
from foldmark.live.addresses import BASE_URLS
from foldmark.live.live_agent import AnyProgram, agent_named
from forked import PROGRAM, Popen, run
from patience import LIMIT
from sampled import DEEP

KEY = "sk-planted-a11e"
TWO_PROVIDERS = """
import anthropic, openai

tool = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}
said = [{"role": "user", "content": "Hello, first"}]
asked = [{"role": "user", "content": "Hello, second"}]
with anthropic.Anthropic() as first, openai.OpenAI() as second:
    with first.messages.stream(model="claude-sonnet-4-6", max_tokens=100, messages=said, tools=[tool]) as stream:
        print(stream.get_final_text())
    for event in second.responses.create(model="gpt-5.1", input=asked, store=False, stream=True):
        if event.type == "response.completed":
            print(event.response.output_text)
"""
STAND_IN = """
import json, os, sys
print(json.dumps(dict(os.environ)), flush=True)
sys.stdin.read()
"""
"""A program that says what environment it was given, and waits. A new process would import the SDKs anew, which takes
longer than the rest of the test, so by default the program above runs in this process, in that environment."""


def test_a_program_with_two_providers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each provider gets its own requests, and each conversation is recorded."""
    program = tmp_path / "program.py"
    program.write_text(TWO_PROVIDERS if DEEP else STAND_IN)
    with (
        Loopback(AnthropicWire(), [Reply((Say(("One.",)),))]) as first,
        Loopback(ResponsesWire(), [Reply((Say(("Two.",)),))]) as second,
        Popen(
            [PROGRAM, "live", "--", sys.executable, str(program)],
            env={
                **os.environ,
                "FOLDMARK_DB": str(tmp_path / "live.db"),
                "XDG_STATE_HOME": str(tmp_path),
                "FOLDMARK_LIVE_SIGN": "%",
                "ANTHROPIC_BASE_URL": first.url,
                "OPENAI_BASE_URL": f"{second.url}/v1",
                "ANTHROPIC_API_KEY": KEY,
                "OPENAI_API_KEY": KEY,
            },
            cwd=tmp_path,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            text=True,
        ) as live,
    ):
        if not DEEP:
            assert live.stdout is not None
            for name, value in json.loads(live.stdout.readline()).items():
                monkeypatch.setenv(name, value)
            exec(TWO_PROVIDERS, {})
        out, err = live.communicate(timeout=LIMIT)
        assert live.returncode == 0, err
        assert (out if DEEP else capsys.readouterr().out).split() == ["One.", "Two."]
        began, ended = err.splitlines()
        assert began.startswith("foldmark: ready; %help inside the agent · loopback 127.0.0.1:")
        recorded = r"'[^']+' \(1 request\)"
        assert re.fullmatch(rf"foldmark: recorded {recorded}, {recorded}\. Resume it under .*", ended)
        assert first.refusals == second.refusals == []
        assert "Hello, first" in json.dumps(first.asked[0].body)
        assert "Hello, second" in json.dumps(second.asked[0].body)
    with foldmark.open(tmp_path / "live.db", settings={}) as log:
        said = sorted([event.content for event in agent.context().messages] for agent in log.agents())
    assert said == [["Hello, first", "One."], ["Hello, second", "Two."]]
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.glob("live.*"))


def test_upstreams_that_a_person_names() -> None:
    program = AnyProgram("x")
    usual = program.upstreams({})
    assert usual == {dialect: url for dialect, (_, url) in BASE_URLS.items()}
    assert program.upstreams({"OPENAI_BASE_URL": "http://o"}) == {**usual, "openai": "http://o"}
    assert program.given(["http://all"]) == dict.fromkeys(usual, "http://all")
    assert program.given(["gemini=http://g"]) == {**usual, "gemini": "http://g"}
    claude = agent_named("claude")
    assert claude.given(["http://a?b=c"]) == "http://a?b=c"
    assert claude.given(["anthropic=http://a?b=c"]) == "http://a?b=c"
    with pytest.raises(CommandError, match="claude uses one upstream"):
        claude.given(["http://a", "gemini=http://g"])
    with pytest.raises(CommandError, match="several upstreams need a name each"):
        program.given(["http://a", "gemini=http://g"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere-to-be-found"], "nowhere-to-be-found is not on your PATH; install it, then repeat"),
        (["clude"], "clude is not on your PATH; did you mean claude?"),
        (["--upstream", "nonsense", sys.executable], "'nonsense' is no base URL of a provider"),
    ],
)
def test_what_cannot_begin(tmp_path: Path, words: list[str], said: str) -> None:
    """The error comes at once: nothing is recorded, and no gateway is started."""
    ended = run(
        [PROGRAM, "live", *words],
        env={**os.environ, "FOLDMARK_DB": str(tmp_path / "live.db"), "XDG_STATE_HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("foldmark: ")
    assert said in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
