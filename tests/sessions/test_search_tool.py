"""The search tool of the next session depends on what is installed for its folder (SPEC 8)."""

from __future__ import annotations

import codecs
import json
import os
from pathlib import Path
from typing import Any

import pytest

from foldmark.sessions.rollover.handoff import SearchHint
from foldmark.sessions.rollover.rolling import ARCHIVED, search_tool

OURS = 'mcp__foldmark__search with query: "what you need to find"'
THEIRS = 'mcp__episodic-memory__search with query: "what you need to find"'
PLUGIN = 'mcp__plugin_episodic-memory_episodic-memory__search with query: "what you need to find"'
SERVER = {"command": "x"}
SHELL = SearchHint(ARCHIVED, 'foldmark search "what you need to find"')


class Place:
    def __init__(self, folder: Path) -> None:
        self.home, self.cwd = folder / "home", folder / "code" / "app"
        (self.home / ".claude").mkdir(parents=True)
        (self.cwd / ".claude").mkdir(parents=True)
        self.environment = {"HOME": str(self.home)}

    def write(self, path: Path, value: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())

    def how(self, kind: Any = "claude", **environment: str) -> str:
        return search_tool(kind, self.cwd, {**self.environment, **environment}).how


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def servers(*names: str) -> dict[str, Any]:
    return {"mcpServers": dict.fromkeys(names, SERVER)}


def test_nothing_is_installed(place: Place) -> None:
    assert place.how() == place.how("codex") == 'foldmark search "what you need to find"'
    assert search_tool("claude", None, {"HOME": "/nowhere"}) == SHELL


def test_a_program_that_is_not_on_the_path(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "programs of mine"
    program = folder / "foldmark"
    folder.mkdir()
    assert place.how(PATH=str(folder)).endswith('/foldmark search "what you need to find"')
    program.touch(0o755)
    assert place.how(PATH=str(folder)) == SHELL.how


def test_a_server_of_the_user(place: Place) -> None:
    place.write(place.home / ".claude.json", servers("other", "foldmark"))
    assert place.how() == OURS
    assert search_tool("claude", None, place.environment).where == "archived by Foldmark"
    assert place.how(CLAUDE_CONFIG_DIR=str(place.home / "elsewhere")) == SHELL.how
    place.write(place.home / "elsewhere" / ".claude.json", servers("episodic-memory"))
    assert place.how(CLAUDE_CONFIG_DIR=str(place.home / "elsewhere")) == THEIRS


def test_a_server_of_the_folder(place: Place) -> None:
    other = str(place.cwd.with_name("other"))
    place.write(place.home / ".claude.json", {"projects": {other: servers("foldmark")}})
    assert place.how() == SHELL.how
    place.write(place.home / ".claude.json", {"projects": {str(place.cwd.parent): servers("foldmark")}})
    assert place.how() == OURS


@pytest.mark.parametrize("above", [0, 1])
def test_a_server_of_the_project(above: int, place: Place) -> None:
    place.write([place.cwd, *place.cwd.parents][above] / ".mcp.json", servers("episodic-memory"))
    assert place.how() == THEIRS
    assert search_tool("claude", place.cwd, place.environment).where == "indexed in episodic-memory"
    place.write(place.cwd / ".claude" / "settings.local.json", {"disabledMcpjsonServers": ["episodic-memory"]})
    assert place.how() == SHELL.how


def test_a_server_that_was_turned_off_for_a_folder(place: Place) -> None:
    projects = {str(place.cwd): {"disabledMcpServers": ["foldmark"]}}
    place.write(place.home / ".claude.json", {**servers("foldmark"), "projects": projects})
    assert place.how() == SHELL.how


@pytest.mark.parametrize("where", ["home/.claude/settings.json", "code/app/.claude/settings.json"])
def test_the_plugin(where: str, place: Place) -> None:
    path = place.home.parent / where
    place.write(path, {"enabledPlugins": {"episodic-memory@somewhere": True}})
    assert place.how() == PLUGIN
    place.write(place.cwd / ".claude" / "settings.local.json", {"enabledPlugins": {"episodic-memory@somewhere": False}})
    assert place.how() == SHELL.how


def test_foldmarks_own_plugin(place: Place) -> None:
    """A plugin has the server only if `foldmark[mcp]` was there when it was written."""
    market = place.home / ".local/share/foldmark/claude/user"
    place.write(market / "foldmark/.mcp.json", servers("foldmark"))
    assert place.how() == SHELL.how
    place.write(place.home / ".claude/settings.json", {"enabledPlugins": {"foldmark@foldmark": True}})
    assert place.how() == OURS.replace("foldmark", "plugin_foldmark_foldmark", 1)
    (market / "foldmark/.mcp.json").unlink()
    assert place.how() == SHELL.how
    place.write(place.cwd / ".claude/skills/foldmark/.mcp.json", servers("foldmark"))
    assert place.how() == OURS.replace("foldmark", "plugin_foldmark_foldmark", 1)


def test_foldmarks_tool_precedes_episodic_memory(place: Place) -> None:
    place.write(place.home / ".claude.json", servers("episodic-memory", "foldmark"))
    assert place.how() == OURS


def test_codex(place: Place) -> None:
    config = place.home / ".codex" / "config.toml"
    place.write(config, b'model = "x"\n[mcp_servers.foldmark]\ncommand = "foldmark"\n')
    assert (place.how("codex"), place.how()) == (OURS, SHELL.how)
    place.write(config, b"[mcp_servers.foldmark]\nenabled = false\n[mcp_servers.episodic-memory]\ncommand = 'x'\n")
    assert place.how("codex") == THEIRS
    assert place.how("codex", CODEX_HOME="/nowhere") == SHELL.how


def test_a_byte_order_mark_is_passed_over(place: Place) -> None:
    place.write(place.home / ".claude.json", codecs.BOM_UTF8 + json.dumps(servers("foldmark")).encode())
    assert place.how() == OURS


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"null", b"[]", b"\xff\xfe", b'{"mcpServers": 1}', b'{"mcpServers": ["foldmark"]}'),
        *(b'{"projects": []}', b'{"enabledPlugins": "episodic-memory"}', b"[" * 100_000, b'mcp_servers = "x"'),
        *(b"[mcp_servers]\nfoldmark = 1", b'{"disabledMcpServers": [1, null, {}]}', b'{"mcpServers": {"foldmark": 1'),
    ],
)
def test_unreadable_files_count_as_missing(content: bytes, place: Place) -> None:
    for path in (
        *(place.home / ".claude.json", place.home / ".claude" / "settings.json", place.cwd / ".mcp.json"),
        *(place.cwd / ".claude" / "settings.json", place.home / ".codex" / "config.toml"),
    ):
        place.write(path, content)
    assert place.how() == place.how("codex") == SHELL.how


def test_folders_and_pipes_are_not_read(place: Place) -> None:
    (place.home / ".claude.json").mkdir()
    os.mkfifo(place.cwd / ".mcp.json")
    assert place.how() == SHELL.how
