"""Any program through `foldmark live`, here one that uses two providers' own SDKs (SPEC 5.7)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from plan import Reply, Say
from server import Loopback
from wire_anthropic import AnthropicWire
from wire_openai import ResponsesWire

import foldmark
from foldmark.core.errors import CommandError
from foldmark.live.agent_programs import AGENTS, AnyProgram
from patience import LIMIT

KEY = "sk-planted-a11e"
PROGRAM = """
import anthropic, openai

tool = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}
said = [{"role": "user", "content": "Hello, first"}]
with anthropic.Anthropic().messages.stream(
    model="claude-sonnet-4-6", max_tokens=100, messages=said, tools=[tool]
) as stream:
    print(stream.get_final_text())
asked = [{"role": "user", "content": "Hello, second"}]
for event in openai.OpenAI().responses.create(model="gpt-5.1", input=asked, store=False, stream=True):
    if event.type == "response.completed":
        print(event.response.output_text)
"""


def test_a_program_with_two_providers(tmp_path: Path) -> None:
    """Each provider gets its own requests, and each conversation is recorded."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with (
        Loopback(AnthropicWire(), [Reply((Say(("One.",)),))]) as first,
        Loopback(ResponsesWire(), [Reply((Say(("Two.",)),))]) as second,
    ):
        ended = subprocess.run(
            [sys.executable, "-m", "foldmark", "live", "--", sys.executable, str(program)],
            env={
                **os.environ,
                "FOLDMARK_DB": str(tmp_path / "live.db"),
                "XDG_STATE_HOME": str(tmp_path),
                "FOLDMARK_LIVE_SIGN": "%",
                "ANTHROPIC_BASE_URL": first.url,
                "OPENAI_BASE_URL": f"{second.url}/v1",
                "ANTHROPIC_API_KEY": KEY,
                "OPENAI_API_KEY": KEY,
                "NO_PROXY": "127.0.0.1",
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.split() == ["One.", "Two."]
        assert "foldmark: recording; %help inside the agent" in ended.stderr
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
    assert usual == {each.wire: each.provider for each in AGENTS.values()}
    assert program.upstreams({"OPENAI_BASE_URL": "http://o"}) == {**usual, "openai": "http://o"}
    assert program.given(["http://all"]) == dict.fromkeys(usual, "http://all")
    assert program.given(["gemini=http://g"]) == {**usual, "gemini": "http://g"}
    assert AGENTS["claude"].given(["http://a?b=c"]) == "http://a?b=c"
    with pytest.raises(CommandError, match="several upstreams need a name each"):
        program.given(["http://a", "gemini=http://g"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere-to-be-found"], "nowhere-to-be-found is not installed here, or not in the PATH"),
        (["--upstream", "nonsense", sys.executable], "'nonsense' is no base URL of a provider"),
    ],
)
def test_what_cannot_begin(tmp_path: Path, words: list[str], said: str) -> None:
    """The error comes at once: nothing is recorded, and no gateway is started."""
    ended = subprocess.run(
        [sys.executable, "-m", "foldmark", "live", *words],
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
