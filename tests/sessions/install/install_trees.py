"""Shared by the tests of the installer: the places in a home folder, a folder's content as a value, and an installation
as Foldmark made it before the plugins."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path

from foldmark.sessions.install.locations import Places, user_places
from foldmark.sessions.install.plan import InstallOptions

PROGRAM = "/opt/fold mark/bin/foldmark"
WANTED = InstallOptions(PROGRAM, "1.2.3", mcp=True)
EVENTS = ("PostToolUse", "UserPromptSubmit", "SessionStart", "PreCompact", "Stop", "SessionEnd")


def tree(folder: Path) -> dict[str, tuple[int, object]]:
    """Return everything below a folder by path: mode, and content, the target of a link, or None for a folder."""
    found: dict[str, tuple[int, object]] = {}
    for path in sorted(folder.rglob("*")):
        content = str(path.readlink()) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
        found[str(path.relative_to(folder))] = stat.S_IMODE(path.lstat().st_mode), content
    return found


def files(folder: Path) -> dict[str, tuple[int, object]]:
    """Return the same without the folders."""
    return {name: value for name, value in tree(folder).items() if value[1] is not None}


def environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home)}


def places(home: Path) -> Places:
    return user_places(home, environment(home))


def install_older(home: Path) -> None:
    """Install as Foldmark did before the plugins: hooks and a status line at the end of the settings, a paragraph, an
    MCP server, skills, a command, and a record with the hashes of all of them."""
    claude = home / ".claude"
    hook = {"hooks": [{"type": "command", "command": f"'{PROGRAM}' hook || true", "timeout": 10}]}
    entries: dict[str, dict[str, object]] = {}

    def write(name: str, path: Path, content: bytes) -> None:
        before = path.read_bytes() if path.exists() else None
        entry: dict[str, object] = {"original": _hash(before), "written": [_hash(content)], "replaced": None}
        if before is not None:
            path.with_name(f"{path.name}.foldmark-backup").write_bytes(before)
            entry["backups"] = [_hash(before)]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        entries[name] = entry

    settings = claude / "settings.json"
    value = json.loads(settings.read_bytes()) if settings.exists() else {}
    for event in EVENTS:
        value.setdefault("hooks", {}).setdefault(event, []).append(hook)
    value.setdefault("statusLine", {"type": "command", "command": f"'{PROGRAM}' statusline"})
    write("settings.json", settings, json.dumps(value, indent=1).encode())
    for name in ("skills/trim/SKILL.md", "skills/rollover/SKILL.md", "commands/fm.md"):
        write(name, claude / name, f"{name} of an older version".encode())
    memory = claude / "CLAUDE.md"
    old = memory.read_bytes() if memory.exists() else b""
    write("CLAUDE.md", memory, old + b"\n\n<!-- foldmark:begin -->\nOlder.\n<!-- foldmark:end -->\n")
    state = home / ".claude.json"
    value = json.loads(state.read_bytes()) if state.exists() else {}
    value.setdefault("mcpServers", {})["foldmark"] = {"type": "stdio", "command": PROGRAM, "args": ["mcp"]}
    write(".claude.json", state, json.dumps(value).encode())
    record = {"files": entries, "folders": ["skills", "skills/trim", "skills/rollover", "commands"], "version": 1}
    (claude / "foldmark-install.json").write_text(json.dumps(record))


def _hash(content: bytes | None) -> str:
    return "none" if content is None else hashlib.sha256(content).hexdigest()
