"""Our server among the MCP servers that Claude Code starts."""

import json
from typing import Any

from foldmark.sessions.install.json_text import NotMergeableError, add, blank, check, put, raw, remove
from foldmark.sessions.install.kinds import Edited, is_foldmark
from foldmark.sessions.install.settings_json import NEW

SERVER, SERVERS = "foldmark", "mcpServers"


class McpFile:
    """A project's `.mcp.json`, or the file of this user's that has `mcpServers` beside much else."""

    def __init__(self, program: str) -> None:
        self._program = program

    def put_in(self, text: str | None, ours: bool) -> Edited:
        """One more server, `foldmark`; another's of that name is kept."""
        new = text is None or blank(text)
        text = NEW if text is None or new else text
        file = check(text)
        server = {"type": "stdio", "command": self._program, "args": ["mcp"]}
        servers = file.get(SERVERS, {})
        if not isinstance(servers, dict):
            raise NotMergeableError(f"`{SERVERS}` in it is not an object")
        if SERVER in servers:
            if not _is_ours(servers[SERVER]):
                return Edited(text, ("has another MCP server of the name `foldmark`, which is kept",), kept=True)
            if servers[SERVER]["command"] != self._program:
                text = put(text, [SERVERS, SERVER, "command"], json.dumps(self._program, ensure_ascii=False))
        elif SERVERS in file:
            text = add(text, [SERVERS], server, SERVER)
        else:
            text = add(text, [], {SERVER: server}, SERVERS)
        return Edited(f"{text}\n" if new else text)

    def take_out(self, text: str, replaced: str | None) -> Edited:
        """Without our server, and without `mcpServers` if that is empty then."""
        if blank(text):
            return Edited(text)
        servers = check(text).get(SERVERS)
        if isinstance(servers, dict) and _is_ours(servers.get(SERVER)):
            text = remove(text, [SERVERS, SERVER])
            if not raw(text, [SERVERS])[1:-1].strip(" \t\r\n"):
                text = remove(text, [SERVERS])
        return Edited(text)


def _is_ours(server: Any) -> bool:
    return isinstance(server, dict) and is_foldmark(server.get("command")) and server.get("args") == ["mcp"]
