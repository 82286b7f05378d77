"""Find an installed tool by which a model can search old sessions [SPEC 8].

Claude Code's MCP servers are in the user's `.claude.json` (for all folders, and for one), in the `.mcp.json` of a
folder and those above it, and in plugins, which settings files enable. Codex's are in its `config.toml`. Nothing here
raises: an unreadable file counts as missing.
"""

import os
import tomllib
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from foldmark.sessions.claude import claude_folder
from foldmark.sessions.codex import codex_folder
from foldmark.sessions.formats import format_named
from foldmark.sessions.install.locations import typed_program, user_places
from foldmark.sessions.lenient_json import member
from foldmark.sessions.rollover.handoff import QUERY, SearchHint

FOLDMARK, EPISODIC = "foldmark", "episodic-memory"
ARCHIVED = "archived by Foldmark"
"""The place of the sessions that Foldmark searches, for a `SearchHint`."""

_PLUGIN = f"plugin_{EPISODIC}_{EPISODIC}"
_LONGEST = 32 << 20
_DISABLED = ("disabledMcpServers", "disabledMcpjsonServers")

Table = dict[str, Any]


def search_tool(kind: str, cwd: Path | None, environment: Mapping[str, str]) -> SearchHint:
    """Return the way in which an agent of this kind in the folder `cwd` (None: unknown) searches sessions."""
    servers = format_named(kind).search_servers(cwd, environment)
    if FOLDMARK in servers:
        return SearchHint(ARCHIVED, _tool(FOLDMARK))
    for name in (EPISODIC, _PLUGIN):
        if name in servers:
            return SearchHint(f"indexed in {EPISODIC}", _tool(name))
    return SearchHint(ARCHIVED, f'{typed_program(environment)} search "{QUERY}"')


def _tool(server: str) -> str:
    return f'mcp__{server}__search with query: "{QUERY}"'


def claude_servers(cwd: Path | None, environment: Mapping[str, str]) -> set[str]:
    """Return the names of Claude Code's MCP servers in a working folder."""
    own, user = _json(user_places(cwd or "/", environment).mcp), _json(claude_folder(environment) / "settings.json")
    servers, plugins = set(_table(own, "mcpServers")), _table(user, "enabledPlugins")
    settings = [user]
    for folder in [cwd, *cwd.parents] if cwd is not None else []:
        here = _table(_table(own, "projects"), str(folder))
        servers |= {*_table(here, "mcpServers"), *_table(_json(folder / ".mcp.json"), "mcpServers")}
        settings.append(here)
    for name in ("settings.json", "settings.local.json"):
        settings.append(_json(Path(cwd, ".claude", name)) if cwd else {})
        plugins = {**plugins, **_table(settings[-1], "enabledPlugins")}
    if any(name.partition("@")[0] == EPISODIC and on is True for name, on in plugins.items()):
        servers.add(_PLUGIN)
    return servers - {each for table in settings for key in _DISABLED for each in _texts(table, key)}


def codex_servers(cwd: Path | None, environment: Mapping[str, str]) -> set[str]:
    """Return the names of Codex's MCP servers, which are the same in all folders."""
    config = _read(
        codex_folder(environment) / "config.toml", lambda data: tomllib.loads(data.decode("utf-8", "replace"))
    )
    servers = _table(config, "mcp_servers")
    return {name for name, server in servers.items() if isinstance(server, dict) and server.get("enabled") is not False}


def _table(table: Any, key: str) -> Table:
    value = member(table, key)
    return value if isinstance(value, dict) else {}


def _texts(table: Table, key: str) -> list[str]:
    value = table.get(key)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _json(path: Path) -> Table:
    return _read(path, lambda data: msgspec.json.decode(data.removeprefix(BOM_UTF8)))


def _read(path: Path, parse: Callable[[bytes], Any]) -> Table:
    if not os.path.isfile(path):  # noqa: PTH113 - never raises, and a pipe would never end
        return {}
    try:
        with path.open("rb") as file:
            value = parse(file.read(_LONGEST))
    except (OSError, ValueError, RecursionError):  # msgspec's own errors are ValueErrors
        return {}
    return value if isinstance(value, dict) else {}
