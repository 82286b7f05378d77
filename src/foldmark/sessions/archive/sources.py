"""Select the session files that a sync archives, and exclude others [SPEC 8]."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from foldmark.core.wording import one_line
from foldmark.sessions.archive.indexing import Excluded, working_folder
from foldmark.sessions.claude import project_folder
from foldmark.sessions.formats import format_of, formats
from foldmark.sessions.places import NoSessionError, kind_in, session_path
from foldmark.sessions.plugins import custom_format
from foldmark.sessions.session_file import SessionFile, SessionFileError
from foldmark.settings.user_folders import home

_HEAD_LINES = 200


SessionSource = tuple[Path, str]
"""A session in its agent's folder: the path, and the name of its format."""


def all_sources(environment: Mapping[str, str]) -> Iterator[SessionSource]:
    """Yield every session of every format."""
    for each in formats():
        for paths in (each.sessions(environment), each.subagents(environment)):
            yield from ((path, each.name) for path in paths)


def named_sources(only: Iterable[Path]) -> Iterator[SessionSource]:
    """Yield the sessions in these files and folders. Raises NoSessionError, also for a file that is not a session.

    The archive only grows, so other files must not get in by mistake.
    """
    for path in map(Path.absolute, only):
        if kept := custom_format(path):
            yield path, kept.name
        elif path.is_dir():
            yield from ((each, kind) for each in below(path) if (kind := _kind(each)))
        elif path.exists():
            if (kind := _kind(path)) is None:
                raise NoSessionError(
                    f"{one_line(str(path))} is no session: no line at its beginning is a record of Claude Code or Codex"
                )
            yield path, kind
        else:
            raise NoSessionError(f"there is no {one_line(str(path))}; name a session file, or a folder of them")


def _kind(path: Path) -> str | None:
    """Return the format of a session file, by its name if it cannot be read: the archive will report that."""
    try:
        with SessionFile(path) as file:
            return kind_in(file, _HEAD_LINES)
    except SessionFileError:
        return session_path(path).kind


def below(folder: Path) -> list[Path]:
    """Return all session files in a folder and below it, without links."""
    found: list[str] = []
    for parent, _, names in os.walk(folder):
        paths = (os.path.join(parent, name) for name in names if name.endswith(".jsonl"))  # noqa: PTH118 - faster
        found += [path for path in paths if not os.path.islink(path)]  # noqa: PTH114
    return [Path(path) for path in sorted(found, key=lambda each: each.split(os.sep))]  # noqa: PTH206


def excluding(patterns: Sequence[str], environment: Mapping[str, str]) -> Excluded:
    """Return a function that tests whether a pattern matches a working folder, one above it, or its sessions'
    folder."""
    own = home(environment)
    known = [f"{own}{each[1:]}" if each == "~" or each.startswith(("~/", "~\\")) else each for each in patterns]
    known = [each.rstrip("/") or each for each in known]

    def excluded(cwd: str | None, project: str) -> bool:
        if not known:
            return False
        if cwd is None:
            above = []
            folders = [project_folder(each) for each in known if Path(each).is_absolute()]
        else:
            above, folders = [cwd.rstrip("/") or cwd, *map(str, Path(cwd).parents)], []
        return project in folders or any(
            fnmatchcase(project, each) or any(fnmatchcase(one, each) for one in above) for each in known
        )

    return excluded


def passes_over(path: Path, patterns: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return True if a session is excluded because of its folder. Raises SessionFileError."""
    return bool(patterns) and excluding(patterns, environment)(folder_of(path), format_of(path).project(path))


def folder_of(path: Path) -> str | None:
    """Return the working folder of a session, from its first lines."""
    with SessionFile(path) as file:
        return next(filter(None, (working_folder(record.value) for record in file.records(_HEAD_LINES))), None)


def episodic_archive(environment: Mapping[str, str]) -> Path:
    """Return the folder in which the episodic-memory program archives sessions."""
    named = environment.get("EPISODIC_MEMORY_CONFIG_DIR") or environment.get("PERSONAL_SUPERPOWERS_DIR")
    config = Path(environment.get("XDG_CONFIG_HOME") or Path(home(environment), ".config"))
    return Path(named or config / "superpowers", "conversation-archive")
