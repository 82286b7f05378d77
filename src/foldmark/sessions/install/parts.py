"""What there is to install, part by part."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from foldmark.core.errors import FoldmarkError
from foldmark.sessions.install.changes import look
from foldmark.sessions.install.json_text import check
from foldmark.sessions.install.kinds import PLAIN, InstallPart, runs, shell
from foldmark.sessions.install.mcp_json import McpFile
from foldmark.sessions.install.prompt_file import BEGIN, PromptFile
from foldmark.sessions.install.settings_json import SettingsFile
from foldmark.sessions.install.skill_file import SkillFile
from foldmark.sessions.install.where import Places, exists, user_places

SKILLS = ("trim", "rollover")
FOLDERS = (".", "skills", *(f"skills/{name}" for name in SKILLS))
"""Folders that an installation may have to make, below Claude Code's folder, outer ones first."""


class Wanted(Struct, frozen=True):
    """`program`: the path of the `foldmark` script, for a person; a project gets its bare name, which each of its
    people may have elsewhere. `mcp`, `prompt`: whether these parts are wanted."""

    program: str
    mcp: bool = False
    prompt: bool = True
    replace_status_line: bool = False


ANY = Wanted(PLAIN)
"""For a removal: what is ours is known wherever the program is, or was."""


def all_parts(places: Places, wanted: Wanted, environment: Mapping[str, str]) -> list[InstallPart]:
    """Every part that there may be, wanted or not: what is taken out again."""
    program = PLAIN if places.root else wanted.program
    settings = SettingsFile(program, _own_status_line(places, environment), wanted.replace_status_line)
    parts = [InstallPart("settings.json", places.settings, settings)]
    for name in SKILLS:
        command = places.command(name)
        skill = SkillFile(name, shell(program), str(command) if exists(command) else None)
        parts.append(InstallPart(f"skills/{name}/SKILL.md", places.skill(name), skill))
    names = ("CLAUDE.md", ".claude/CLAUDE.md")
    parts += [
        InstallPart(name, path, PromptFile(shell(program))) for name, path in zip(names, places.prompts, strict=False)
    ]
    private = 0o644 if places.root else 0o600  # Claude Code keeps what it knows of the person in the same file
    return [*parts, InstallPart(places.mcp.name, places.mcp, McpFile(program), private)]


def wanted_parts(places: Places, wanted: Wanted, environment: Mapping[str, str]) -> list[InstallPart]:
    """The parts to install."""
    prompt = _prompt(places)
    return [
        part
        for part in all_parts(places, wanted, environment)
        if not (isinstance(part.kind, McpFile) and not wanted.mcp)
        and not (isinstance(part.kind, PromptFile) and not (wanted.prompt and part.path == prompt))
    ]


def _prompt(places: Places) -> Path:
    """The CLAUDE.md that has our block already, or else is there, or else the usual one."""
    there = [path for path in places.prompts if exists(path)]
    ours = [path for path in there if BEGIN.encode() in (look(path, 0).content or b"")]
    return (*ours, *there, *places.prompts)[0]


def _own_status_line(places: Places, environment: Mapping[str, str]) -> str | None:
    """The user's settings file, if it has a status line that is not ours and that a project's would hide."""
    if places.root is None:
        return None
    settings = user_places(places.root, environment).settings
    try:
        line = check((look(settings, 0).content or b"{}").decode()).get("statusLine")
    except (FoldmarkError, UnicodeDecodeError):
        return None
    return str(settings) if isinstance(line, dict) and not runs(line.get("command"), "statusline") else None
