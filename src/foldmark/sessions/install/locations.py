"""Locate Claude Code's files, for one user or for a project, and the `foldmark` script [SPEC 8].

Claude Code reads a project's settings and plugins only in the folder where it is started, but CLAUDE.md also in the
folders above it. `CLAUDE_CONFIG_DIR` replaces `~/.claude`; `.claude.json` is then in that folder.
"""

import hashlib
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path, PurePath

from msgspec import Struct

from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.wording import one_line
from foldmark.formats.claude.claude_format import claude_folder
from foldmark.settings import user_folders

PLAIN = "foldmark"
"""The bare name of the program, which is found on the PATH: for files that go into version control."""

MARKET = "foldmark"
"""The name of the marketplace, and of the plugin that needs the other one."""

_TEMPORARY = {"archive-v0", ".cache"}
"""Folders in which `uvx` and `pipx run` keep programs temporarily."""


class NoProgramError(FoldmarkError):
    """Foldmark runs, but not as an installed program."""


class Places(Struct, frozen=True):
    """The files of a user or a project: `folder` is Claude Code's own, `root` the project's (None: user).

    `prompts` are the possible paths of a CLAUDE.md, the usual one first. `plugins` is the folder of Foldmark's plugins,
    and `record` the file in Foldmark's data folder that lists what an installation changed. `mcp` is the file with the
    MCP servers.
    """

    folder: Path
    root: Path | None
    mcp: Path
    prompts: tuple[Path, ...]
    plugins: Path
    record: Path

    @property
    def settings(self) -> Path:
        """Claude Code's settings."""
        return self.folder / "settings.json"


def user_places(cwd: str | os.PathLike[str], environment: Mapping[str, str]) -> Places:
    """Return the files of this user."""
    folder = Path(cwd, claude_folder(environment))
    old = folder / ".config.json"
    named = environment.get("CLAUDE_CONFIG_DIR")
    state = old if exists(old) else (folder if named else folder.parent) / ".claude.json"
    usual = os.path.realpath(Path(user_folders.home(environment), ".claude"))
    plugins = _own(environment) / ("user" if os.path.realpath(folder) == usual else _digest(folder))
    return Places(folder, None, state, (folder / "CLAUDE.md",), plugins, plugins.with_suffix(".json"))


def project_places(cwd: str | os.PathLike[str], environment: Mapping[str, str]) -> Places:
    """Return the files of the project that holds the working folder.

    The project is the nearest folder upwards, below the home folder, that contains `.claude` or `.git`; otherwise it is
    the working folder. Raises CommandError in the home folder.
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
    prompts = (root / "CLAUDE.md", inside / "CLAUDE.md")
    record = _own(environment) / f"{_digest(root)}.json"
    return Places(inside, root, root / ".mcp.json", prompts, inside / "skills", record)


def exists(path: Path) -> bool:
    """Return True if a path exists and this user may see it."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def installed_program() -> str:
    """Return the absolute path of the running script, or of the one next to this Python, or of the one on the PATH.

    Links are not resolved, because they outlive their targets. Raises NoProgramError.
    """
    for path in (Path(sys.argv[0]), *(Path(sys.executable).with_name(name) for name in ("foldmark", "foldmark.exe"))):
        if is_foldmark(path.name) and path.is_file():
            return str(path.absolute())
    if found := shutil.which("foldmark"):
        return str(Path(found).absolute())
    from foldmark.installation import package_command, source

    raise NoProgramError(
        "no `foldmark` script is installed that Claude Code could run; repeat this after: "
        f"{shlex.join(package_command(source()))}"
    )


def typed_program(environment: Mapping[str, str]) -> str:
    """Return the word that runs Foldmark in a shell with this environment: its name, or its path if it is not on
    PATH."""
    path = environment.get("PATH")
    if path is None or shutil.which("foldmark", path=path):
        return "foldmark"
    try:
        return shlex.quote(installed_program())
    except NoProgramError:
        return "foldmark"


def is_foldmark(program: object) -> bool:
    """Return True for the path of a `foldmark` script."""
    if not isinstance(program, str):
        return False
    name = program.strip("'\"").replace("\\", "/").rpartition("/")[2]
    return name.lower() in ("foldmark", "foldmark.exe")


def shell(program: str) -> str:
    """Quote a program path for the shell, with slashes: a shell reads a backslash as an escape."""
    return shlex.quote(PurePath(program).as_posix() if "\\" in program else program)


def _own(environment: Mapping[str, str]) -> Path:
    return Path(user_folders.data_folder(environment), "claude")


def _digest(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:16]


def is_temporary(program: str) -> bool:
    """Return True if a program is in a folder for temporary programs."""
    return not _TEMPORARY.isdisjoint(Path(program).parts)
