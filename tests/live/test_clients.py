"""Real agents through the gateway (SPEC 5.7), as `make clients` installs them; without it, these tests are skipped.

The provider on the other side of the gateway checks each request as the real one does.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from plan import Answer, Reply, Say, Use
from server import Loopback, Received
from wire_anthropic import AnthropicWire
from wire_gemini import GeminiWire
from wire_openai import ResponsesWire

from foldmark.live.gateway import Gateway
from patience import LIMIT

BIN = Path(__file__).parents[2] / ".clients" / "node_modules" / ".bin"
KEY = "sk-planted-5b1f77e0"


class Client(NamedTuple):
    """An agent: `begin` gives the arguments and the variables with which it asks at a base URL, in a home of its own;
    `reads` the call of its own tool that reads a file."""

    program: str
    wire: type[Any]
    begin: Callable[[str, Path], tuple[list[str], dict[str, str]]]
    reads: Callable[[Path], Use]


def claude(url: str, home: Path) -> tuple[list[str], dict[str, str]]:
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    return ["-p", "Read the note."], {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, **quiet}


def codex(url: str, home: Path) -> tuple[list[str], dict[str, str]]:
    provider = {"name": '"foldmark"', "base_url": f'"{url}/v1"', "env_key": '"OPENAI_API_KEY"'}
    provider |= {"wire_api": '"responses"', "supports_websockets": "false"}
    table = ", ".join(f"{name} = {value}" for name, value in provider.items())
    settings = ['model_provider="foldmark"', f"model_providers.foldmark={{ {table} }}", 'model="gpt-5.1"']
    chosen = [part for each in settings for part in ("-c", each)]
    return ["exec", "--skip-git-repo-check", *chosen, "Read the note."], {"OPENAI_API_KEY": KEY}


def gemini(url: str, home: Path) -> tuple[list[str], dict[str, str]]:
    (home / ".gemini").mkdir()
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    environment = {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    return ["-m", "gemini-2.5-pro", "-p", "Read the note."], environment


CLIENTS = [
    Client("claude", AnthropicWire, claude, lambda note: Use("toolu_01", "Read", {"file_path": str(note)})),
    Client("codex", ResponsesWire, codex, lambda note: Use("call_01", "exec_command", {"cmd": f"cat {note}"})),
    Client("gemini", GeminiWire, gemini, lambda note: Use("call_01", "read_file", {"file_path": str(note)})),
]


class Ran(NamedTuple):
    """What a run of an agent printed, and what the provider got."""

    code: int
    printed: str
    requests: list[Received]
    refusals: list[str]


def run(client: Client, folder: Path, answers: Callable[[Path], Callable[[Any], Answer]]) -> Ran:
    program, home, work = BIN / client.program, folder / "home", folder / "work"
    if not program.exists():
        pytest.skip(f"{client.program} is not there: `make clients` installs it")
    home.mkdir()
    work.mkdir()
    note = work / "note.txt"
    note.write_text("The word is heron.\n")
    with Loopback(client.wire(), answers(note)) as upstream, Gateway(upstream.url) as gateway:
        arguments, variables = client.begin(gateway.url, home)
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
        ended = subprocess.run(
            [program, *arguments],
            env={**kept, "HOME": str(home), "NO_PROXY": "127.0.0.1", **variables},
            cwd=work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        return Ran(ended.returncode, ended.stdout + ended.stderr, list(upstream.requests), upstream.refusals)


def reading(client: Client, note: Path) -> Callable[[Any], Answer]:
    """A model that reads the note, and says its word once it has seen it."""

    def played(body: Any) -> Answer:
        if "heron" in json.dumps(body):
            return Reply((Say(("The word ", "was found.")),))
        return Reply((Say(("Let me look. ",)), client.reads(note)), stop="calls")

    return played


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.program)
def test_a_session_with_a_tool(client: Client, tmp_path: Path) -> None:
    ran = run(client, tmp_path, lambda note: lambda body: reading(client, note)(body))
    assert ran.refusals == []
    assert ran.code == 0, ran.printed
    assert "was found." in ran.printed
    assert "heron" in json.dumps(ran.requests[-1].body)
    assert all(KEY in json.dumps(each.headers) for each in ran.requests)
