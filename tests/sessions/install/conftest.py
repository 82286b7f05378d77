"""A realistic home folder for the tests of the installer."""

from __future__ import annotations

from pathlib import Path

import pytest

SETTINGS = b"""{
\t"$schema": "https://json.schemastore.org/claude-code-settings.json",\r
\t"hooks": {
\t\t"Stop": [{"hooks": [{"type": "command", "command": "say '\xc3\xbc\\u00e9\xf0\x9f\x8e\x89'"}]}],
\t\t"PostToolUse" : [
\t\t\t{ "matcher": "Edit|Write",  "hooks": [
\t\t\t\t{ "type": "command", "command": "prettier --write" , "timeout": 5e0 } ] }
\t\t]
\t},
\t"zz": 1.0e3, "permissions": {"allow": [ ]},
\t"statusLine": {"type": "command", "command": "~/.claude/line.sh", "padding": 0}}"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with a person's own hooks, status line, instructions and state."""
    home = tmp_path / "home"
    (home / ".claude").mkdir(parents=True)
    (home / ".claude/settings.json").write_bytes(SETTINGS)
    (home / ".claude/settings.json").chmod(0o600)
    (home / ".claude/CLAUDE.md").write_bytes(b"Be brief.\r\n\xff no UTF-8\r\nno end of line")
    (home / ".claude.json").write_bytes(b'{"numStartups":3,"mcpServers":{"x":{"command":"x"}},"oauth":"secret"}')
    (home / ".claude.json").chmod(0o600)
    return home
