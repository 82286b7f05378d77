"""`foldmark install` with the real Claude Code: what it loads, and what is left after `foldmark uninstall`.

`make clients` installs the client; `FOLDMARK_CLIENTS` names another folder with one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from install_trees import files
from plan import Reply, Say
from screens import BIN, EARLIEST_WITH_MODS, KEY, claude_version
from server import Loopback
from wire_anthropic import AnthropicWire

from foldmark.sessions.install.locations import project_places, user_places
from foldmark.sessions.install.plan import InstallOptions, install, uninstall
from foldmark.sessions.install.plugins import write_again
from patience import LIMIT

pytestmark = pytest.mark.skipif(not (BIN / "claude").exists(), reason="claude is not there: `make clients` installs it")


class Machine:
    """A home folder with a quote and a blank in its name, and a stand-in for `foldmark` that notes its arguments.

    Only a session has a key: with one, `claude plugin` waits 18 seconds for the provider where there is no network.
    """

    def __init__(self, folder: Path, home: Path) -> None:
        self.home, self.said = folder / "sam's höme", folder / "said"
        home.rename(self.home)
        self.program = folder / "pro grams" / "foldmark"
        self.program.parent.mkdir(parents=True)
        self.program.write_text(f"#!/bin/sh\necho \"$@\" >> '{self.said}'\n")
        self.program.chmod(0o755)
        self.environment = {
            "PATH": f"{BIN}:{self.program.parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "NO_PROXY": "127.0.0.1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        self.places = user_places(self.home, self.environment)
        self.wanted = InstallOptions(str(self.program), "1.2.3", mcp=True)

    def claude(self, *words: str, cwd: Path | None = None, **variables: str) -> str:
        ended = subprocess.run(
            [BIN / "claude", *words],
            env={**self.environment, **variables},
            cwd=cwd or self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def plugins(self, cwd: Path | None = None) -> dict[str, dict[str, Any]]:
        """Return Foldmark's plugins as the client lists them, by name."""
        found = json.loads(self.claude("plugin", "list", "--json", cwd=cwd))
        return {each["id"].partition("@")[0]: each for each in found if each["id"].startswith("foldmark")}

    def ask(self, prompt: str, cwd: Path) -> str:
        """Send a prompt in a new session, and return the newest request."""
        with Loopback(AnthropicWire(), lambda body: Reply((Say(("Fine.",)),))) as upstream:
            self.claude("-p", prompt, cwd=cwd, ANTHROPIC_BASE_URL=upstream.url, ANTHROPIC_API_KEY=KEY)
            return json.dumps(upstream.asked[-1].body)

    def ran(self) -> set[str]:
        """Return what the program was asked to do."""
        return set(self.said.read_text().splitlines()) if self.said.exists() else set()


@pytest.fixture
def machine(tmp_path: Path, home: Path) -> Machine:
    return Machine(tmp_path, home)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    return work


def of_a_person(home: Path) -> dict[str, object]:
    """Return the files that a person writes, without those that the client keeps for itself."""
    return {name: files(home)[name] for name in (".claude/settings.json", ".claude/CLAUDE.md")}


@pytest.mark.parametrize("empty", [False, True])
def test_there_and_back(machine: Machine, empty: bool) -> None:
    settings = machine.home / ".claude/settings.json"
    if empty:
        settings.unlink()
        (machine.home / ".claude/CLAUDE.md").unlink()
    before = {} if empty else of_a_person(machine.home)
    install(machine.places, machine.wanted, machine.environment)
    found = machine.plugins()
    assert {name: (each["enabled"], each.get("errors")) for name, each in found.items()} == {
        "foldmark": (True, None),
        "foldmark-edit": (True, None),
    }
    again = install(machine.places, machine.wanted, machine.environment)
    assert (again.changes, again.commands) == ([], [])
    uninstall(machine.places, machine.environment)
    assert machine.plugins() == {}
    if empty:
        assert not settings.exists()
        assert not (machine.home / ".claude/CLAUDE.md").exists()
    else:
        assert of_a_person(machine.home) == before
    assert not [name for name in files(machine.home) if name.startswith((".local", ".claude/skills", ".claude/comm"))]


def test_changes_of_a_person_s_own_stay(machine: Machine) -> None:
    install(machine.places, machine.wanted, machine.environment)
    settings = machine.home / ".claude/settings.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "cleanupPeriodDays": 9}))
    uninstall(machine.places, machine.environment)
    left = json.loads(settings.read_text())
    assert left["cleanupPeriodDays"] == 9
    assert "foldmark" not in settings.read_text()


def test_a_marketplace_that_only_the_settings_name(machine: Machine) -> None:
    """On a new machine with the person's settings, the client does not know it, and removes nothing."""
    before = of_a_person(machine.home)
    install(machine.places, machine.wanted, machine.environment)
    shutil.rmtree(machine.home / ".claude/plugins")
    uninstall(machine.places, machine.environment)
    assert of_a_person(machine.home) == before


def test_what_a_session_loads(machine: Machine, work: Path) -> None:
    """Hooks and the MCP server run, and a plugin's skill answers to its plain name."""
    install(machine.places, machine.wanted, machine.environment)
    sent = machine.ask("/fm drop 18", work)
    assert ":drop 18" in sent
    assert "foldmark:trim" in sent
    assert {"hook", "mcp"} <= machine.ran()


def test_an_upgrade_is_followed(machine: Machine, work: Path) -> None:
    """The client reads the folder itself, so it is enough to write it."""
    install(machine.places, machine.wanted, machine.environment)
    moved = machine.program.parent.with_name("moved here") / "foldmark"
    moved.parent.mkdir()
    machine.program.rename(moved)
    write_again(str(machine.places.plugins / "foldmark"), str(moved), "1.2.4")
    assert f"{moved}' live claude" in machine.ask("/fm drop 18", work)
    assert {"hook", "mcp"} <= machine.ran()
    uninstall(machine.places, machine.environment)
    assert machine.plugins() == {}


def test_a_project_is_for_everybody(machine: Machine, work: Path, tmp_path: Path) -> None:
    """A colleague who has the project elsewhere gets the plugins as soon as the folder is trusted."""
    before = files(work)
    there = project_places(work, machine.environment)
    assert install(there, InstallOptions(str(machine.program), "1.2.3", mcp=True), machine.environment).commands == []
    clone = work.rename(tmp_path / "cloned elsewhere")
    assert "foldmark:trim" not in machine.ask("Hello.", clone)
    assert machine.ran() == set()
    state = machine.home / ".claude.json"
    trusted = {"projects": {str(clone): {"hasTrustDialogAccepted": True}}}
    state.write_text(json.dumps({**json.loads(state.read_text()), **trusted}))
    assert ":drop 18" in machine.ask("/fm drop 18", clone)
    assert {"hook", "mcp"} <= machine.ran()
    uninstall(project_places(clone, machine.environment), machine.environment)
    assert files(clone) == before


def test_the_client_s_own_validation(machine: Machine) -> None:
    """A client that loads mods asks for the field `types`, of which an earlier one warns."""
    strict = ["--strict"] if claude_version() >= EARLIEST_WITH_MODS else []
    install(machine.places, machine.wanted, machine.environment)
    for folder in (machine.places.plugins, *(machine.places.plugins / name for name in ("foldmark", "foldmark-edit"))):
        assert "Validation passed" in machine.claude("plugin", "validate", *strict, str(folder))
