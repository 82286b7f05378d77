"""Where Claude Code's files are, for one user or for everybody in a project, and the `foldmark` script [SPEC 8].

A project's `settings.json` is read from the folder in which `claude` is started and from nowhere above it; skills and
CLAUDE.md also from the folders above. `CLAUDE_CONFIG_DIR` replaces `~/.claude`, and then `.claude.json` is in it.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.wording import one_line
from foldmark.sessions.claude import claude_folder
from foldmark.sessions.install.edits import is_foldmark
from foldmark.settings import user_folders

_TEMPORARY = {"archive-v0", ".cache"}
"""Folders in which `uvx` and `pipx run` keep programs for a while."""


class NoProgramError(FoldmarkError):
    """Foldmark runs, but not as an installed program."""


class Places(Struct, frozen=True):
    """The files of a user or a project: `folder` is Claude Code's own, `root` the project's (None: user).

    `prompts` are the paths at which a CLAUDE.md may be, the usual one first.
    """

    scope: Literal["user", "project"]
    folder: Path
    root: Path | None
    mcp: Path
    prompts: tuple[Path, ...]

    @property
    def settings(self) -> Path:
        """Claude Code's settings."""
        return self.folder / "settings.json"

    def skill(self, name: str) -> Path:
        """Return the path of a skill's text."""
        return self.folder / "skills" / name / "SKILL.md"

    def command(self, name: str) -> Path:
        """Return the path of a person's own command, as they were kept before there were skills."""
        return self.folder / "commands" / f"{name}.md"


def user_places(cwd: str | os.PathLike[str], environment: Mapping[str, str]) -> Places:
    """Return the files of this user."""
    folder = Path(cwd, claude_folder(environment))
    old = folder / ".config.json"
    named = environment.get("CLAUDE_CONFIG_DIR")
    state = old if exists(old) else (folder if named else folder.parent) / ".claude.json"
    return Places("user", folder, None, state, (folder / "CLAUDE.md",))


def project_places(cwd: str | os.PathLike[str], environment: Mapping[str, str]) -> Places:
    """Return the files of the project that holds the working folder.

    That is the next folder upwards with `.claude` or `.git` in it, below the home folder; otherwise the working folder.
    Raises CommandError in the home folder.
    """
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
    """Return True if there is something at a path that this user may see."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def installed_program() -> str:
    """Return the absolute path of the script that runs now, else the one beside this Python, else the one on the PATH.

    Links stay, since they outlive their targets. Raises NoProgramError.
    """
    for path in (Path(sys.argv[0]), *(Path(sys.executable).with_name(name) for name in ("foldmark", "foldmark.exe"))):
        if is_foldmark(path.name) and path.is_file():
            return str(path.absolute())
    if found := shutil.which("foldmark"):
        return str(Path(found).absolute())
    raise NoProgramError(
        "no `foldmark` script is installed that Claude Code could run; `pip install foldmark`, then repeat"
    )


def typed_program(environment: Mapping[str, str]) -> str:
    """Return what a shell with this environment runs Foldmark by: its name, or its path if it is not on the PATH."""
    path = environment.get("PATH")
    if path is None or shutil.which("foldmark", path=path):
        return "foldmark"
    try:
        return shlex.quote(installed_program())
    except NoProgramError:
        return "foldmark"


def is_temporary(program: str) -> bool:
    """Return True if a program lies where it may be gone tomorrow."""
    return not _TEMPORARY.isdisjoint(Path(program).parts)
