"""Foldmark's MCP server in the real agents: the tools as they reach the agent's model, and calls of them (SPEC 9).

`make clients` installs the agents; without one, its test is skipped. FOLDMARK_CLIENTS names another folder with them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from codex_wire import CodexWire
from plan import Answer, Reply, Say, Use
from screens import BIN, ClaudeScreen
from server import Loopback
from test_clients import CLIENTS, Client, executed
from wire_anthropic import AnthropicWire

import foldmark
from foldmark.app import Setup
from foldmark.mcp.conversations import Conversations
from foldmark.mcp.tools import specs
from patience import LIMIT

PREFIX = {"claude": "mcp__foldmark__", "codex": "mcp__foldmark.", "gemini": "mcp_foldmark_"}
SLASH = "slash"
CALLS: list[dict[str, Any]] = [
    {"command": "mark", "args": "HERE", "conversation": "notes"},
    {"command": "clear", "conversation": "notes"},
    {"command": "clear", "args": "-- no longer needed", "conversation": "notes"},
    {"command": "rewind", "conversation": "notes"},
    {"command": "config set", "args": "tool_approval=always", "conversation": "notes"},
    {"command": "mark", "args": "THERE", "conversation": ""},
]
"""Calls of `slash`, the last one about the chat itself."""


def strings(value: Any) -> Iterator[str]:
    """Yield every text inside a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


class Guest:
    """The model of an agent. It loads the tools of the server if its agent keeps them back, and then makes the calls,
    one in each answer. `told` are the descriptions that reached it, of those that are `wanted`."""

    def __init__(self, program: str, calls: list[dict[str, Any]], wanted: list[str]) -> None:
        self.program, self.wanted, self.told = program, wanted, set[str]()
        self._calls, self._answers = list(calls), count(1)
        self._loads = ["ToolSearch", "WaitForMcpServers"]

    def __call__(self, body: Any) -> Answer:
        tools = body.get("tools") or []
        self.told |= {text for text in strings(tools) if text in self.wanted}
        names = {tool.get("name") for tool in tools}
        id = f"toolu_{next(self._answers)}"  # a model's memory of its calls, which may leave its context
        if loads := [name for name in self._loads if name in names]:
            self._loads = []
            every = ",".join(f"mcp__foldmark__{spec.name}" for spec in specs(Conversations(Setup(""), None)))
            arguments = {"query": f"select:{every}", "max_results": 20} if loads == ["ToolSearch"] else {}
            return Reply((Use(id, loads[0], arguments),), "calls")
        if not tools or not self._calls:
            return Reply((Say(("Done.",)),))
        signature = ("c2lnbmVk",) if self.program == "gemini" else ()
        return Reply((Use(id, PREFIX[self.program] + SLASH, self._calls.pop(0), *signature),), "calls")


def visit(client: Client, folder: Path, database: Path, calls: list[dict[str, Any]]) -> str:
    """Run an agent whose model makes the calls, in a new home folder, and return the texts of its last request."""
    program, home, work = BIN / client.program, folder / "home", folder / "work"
    if not program.exists():
        pytest.skip(f"{client.program} is not there: `make clients` installs it")
    home.mkdir(parents=True)
    work.mkdir()
    server: dict[str, Any] = {"command": sys.executable, "args": ["-m", "foldmark", "--db", str(database), "mcp"]}
    wanted = [spec.description for spec in specs(Conversations(Setup(str(database)), None))]
    model = Guest(client.program, calls, wanted)
    wire = CodexWire() if client.program == "codex" else client.wire()  # its tools of servers are in namespaces
    with Loopback(wire, model) as upstream:
        arguments, variables = client.begin(upstream.url, home)
        if client.program == "claude":
            (folder / "servers.json").write_text(json.dumps({"mcpServers": {"foldmark": server}}))
            arguments += ["--mcp-config", str(folder / "servers.json"), "--strict-mcp-config"]
            arguments += ["--allowedTools", "mcp__foldmark"]
        elif client.program == "codex":
            (home / ".codex").mkdir()
            lines = [f"command = {json.dumps(server['command'])}", f"args = {json.dumps(server['args'])}"]
            lines += ["required = true", 'default_tools_approval_mode = "approve"']
            (home / ".codex" / "config.toml").write_text("\n".join(["[mcp_servers.foldmark]", *lines]))
        else:
            settings = home / ".gemini" / "settings.json"
            given = json.loads(settings.read_text())
            settings.write_text(json.dumps({**given, "mcpServers": {"foldmark": {**server, "trust": True}}}))
        ended = executed([program, *arguments], home, work, variables)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert upstream.refusals == []
        newest = next(each.body for each in reversed(upstream.asked) if each.body.get("tools"))
    assert model.told == {*wanted}
    return "\n".join(strings(newest))


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.program)
def test_a_guest_changes_what_it_names_and_no_more(client: Client, tmp_path: Path) -> None:
    database = tmp_path / "guest.db"
    with foldmark.open(database, settings={}) as log:
        agent = log.agent("notes")
        agent.append("user", "bananas are yellow")
        agent.end_turn()
    seen = visit(client, tmp_path / "first", database, CALLS)
    assert "Checkpoint 'HERE' created." in seen
    # Without a person, Claude Code and Codex say no in their place, and Gemini CLI cannot ask.
    assert len(re.findall("the person (did not agree|has not allowed this)", seen)) == 2
    assert "Foldmark does not record this chat" in seen
    (allows,) = {*re.findall(r"`(foldmark do notes '/config set [^`]*)`", seen)}
    with foldmark.open(database, settings={}) as log:
        agent = log.agent("notes")
        assert agent.context().marks.keys() == {"HERE"}
        assert [each.content for each in agent.context().messages] == ["bananas are yellow"]
        assert agent.standing().config.tool_approval == "ask"

    # A permission holds for one person on one machine, which the home folder stands for.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    person = {"PATH": path, "HOME": str(tmp_path / "second" / "home"), "FOLDMARK_DB": str(database)}
    subprocess.run(allows, shell=True, env=person, check=True, timeout=LIMIT, capture_output=True)
    assert "Context cleared." in visit(client, tmp_path / "second", database, CALLS[1:2])
    with foldmark.open(database, settings={}) as log:
        assert list(log.agent("notes").context().messages) == []


def press(screen: ClaudeScreen, key: str, wanted: Callable[[str], bool]) -> None:
    """Press a key until the screen is as wanted: the client drops keys for a moment after it has drawn a form."""
    until = time.monotonic() + LIMIT
    while not wanted(screen.text):
        assert time.monotonic() < until, screen.text
        screen.press(key)
        again = time.monotonic() + 2
        while not wanted(screen.text) and time.monotonic() < again:
            time.sleep(0.1)


@pytest.mark.skipif(shutil.which("tmux") is None or not (BIN / "claude").exists(), reason="it needs tmux and claude")
@pytest.mark.parametrize("live", [False, True])
def test_a_person_is_asked_in_the_terminal(tmp_path: Path, live: bool) -> None:
    """A guest empties the conversation that it names; a model under `foldmark live`, its own session."""
    with foldmark.open(tmp_path / "live.db", settings={}) as log:
        agent = log.agent("notes")
        agent.append("user", "bananas are yellow")
        agent.end_turn()
    server = {"command": sys.executable, "args": ["-m", "foldmark", "--db", str(tmp_path / "live.db"), "mcp"]}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"foldmark": server}}))
    words = ["--mcp-config", str(tmp_path / "servers.json"), "--strict-mcp-config"]
    words += ["--allowedTools", "mcp__foldmark,ToolSearch,WaitForMcpServers"]
    model = Guest("claude", [{"command": "clear", "conversation": "" if live else "notes"}], [])
    with Loopback(AnthropicWire(), model) as upstream:
        screen = ClaudeScreen(tmp_path, upstream.url, *words, live=live)
        try:
            screen.wait_for_prompt()
            screen.type("Clear it.", "may the model run /clear?")
            press(screen, "Space", lambda text: "☒" in text)
            press(screen, "Down", lambda text: "❯ Accept" in text)
            press(screen, "Enter", lambda text: "❯ Accept" not in text)
            screen.wait("Done.")
        finally:
            screen.close()
        assert "Context cleared." in json.dumps(upstream.asked[-1].body)
        assert upstream.refusals == []
    with foldmark.open(tmp_path / "live.db", settings={}) as log:
        assert bool(list(log.agent("notes").context().messages)) is live
