"""Which files Claude Code reads, for a person (user) or for everybody in a project [SPEC 8].

A project's `settings.json` is read from the folder in which `claude` is started and from nowhere above it; skills and
CLAUDE.md also from the folders above. `CLAUDE_CONFIG_DIR` stands for `~/.claude`, and then `.claude.json` is in it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from foldmark.core.errors import CommandError
from foldmark.core.wording import one_line
from foldmark.sessions.claude.folders import claude_folder
from foldmark.settings import user_folders

Scope = Literal["user", "project"]


class Places(Struct, frozen=True):
    """`folder`: Claude Code's folder, user's or project's; `root`: the project's folder (None: user).

    `prompts`: where a CLAUDE.md may be, the usual place first.
    """

    scope: Scope
    folder: Path
    root: Path | None
    mcp: Path
    prompts: tuple[Path, ...]

    @property
    def settings(self) -> Path:
        """Claude Code's settings."""
        return self.folder / "settings.json"

    def skill(self, name: str) -> Path:
        """A skill's text."""
        return self.folder / "skills" / name / "SKILL.md"

    def command(self, name: str) -> Path:
        """A person's own command of that name, in the way that was usual before there were skills."""
        return self.folder / "commands" / f"{name}.md"


def user_places(cwd: str | os.PathLike[str], environment: Mapping[str, str]) -> Places:
    """The files of this user."""
    folder = Path(cwd, claude_folder(environment))
    old = folder / ".config.json"
    named = environment.get("CLAUDE_CONFIG_DIR")
    state = old if exists(old) else (folder if named else folder.parent) / ".claude.json"
    return Places("user", folder, None, state, (folder / "CLAUDE.md",))


def project_places(cwd: str | os.PathLike[str], environment: Mapping[str, str]) -> Places:
    """The files of the project that the working folder is in: the next folder from there upwards with `.claude` or
    `.git` in it, below the home folder; otherwise the working folder. Raises CommandError in the home folder."""
    start, users = Path(os.path.realpath(cwd)), os.path.realpath(user_places(cwd, environment).folder)
    home = os.path.realpath(user_folders.home(environment))
    if os.path.realpath(start / ".claude") == users:
        raise CommandError(
            f"{one_line(str(start))} is not a project: its .claude is your own; use --user, or a project's folder"
        )
    root = start
    for folder in (start, *start.parents):
        if str(folder) == home or os.path.realpath(folder / ".claude") == users:
            break
        if exists(folder / ".claude") or exists(folder / ".git"):
            root = folder
            break
    inside = root / ".claude"
    return Places("project", inside, root, root / ".mcp.json", (root / "CLAUDE.md", inside / "CLAUDE.md"))


def exists(path: Path) -> bool:
    """Whether there is something at a path, as far as this user may know."""
    try:
        path.stat()
    except OSError:
        return False
    return True
