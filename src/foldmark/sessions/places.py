"""Find the session that a user names [SPEC 8]."""

import os
from collections.abc import Mapping
from pathlib import Path

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import listing, one_line
from foldmark.sessions.folder_files import files
from foldmark.sessions.formats import DEFAULT, SessionFormat, format_named, format_of, formats
from foldmark.sessions.plugins import state
from foldmark.sessions.session_path import SessionPath

__all__ = ["NoSessionError", "SessionPath", "find", "names_file", "session_path"]


class NoSessionError(FoldmarkError):
    """No session matches, or several do."""

    exit_code = 2


def session_path(path: Path, kind: str | None = None) -> SessionPath:
    """Return the session at a path. Its format is `kind`, or follows from the file's name and folder."""
    found = format_named(kind) if kind else format_of(path)
    return _path(found, path)


def find(named: str | None, cwd: str | os.PathLike[str], environment: Mapping[str, str]) -> SessionPath:
    """Find a session by its file, its id or the beginning of its id.

    None selects the session that the program runs in (`SessionFormat.running`), otherwise the most recently written
    Claude Code session of the working folder `cwd`. Raises NoSessionError.
    """
    if named is None:
        return _current(cwd, environment)
    if names_file(named):
        return session_path(Path(os.path.abspath(named)))  # noqa: PTH100 - a link stays what it is
    return _by_id(named, environment)


def names_file(named: str) -> bool:
    """Return True if the argument names a file and not a session id."""
    return named.endswith(".jsonl") or os.sep in named or os.path.lexists(named)


def _current(cwd: str | os.PathLike[str], environment: Mapping[str, str]) -> SessionPath:
    for each in formats():
        if each.running and (inside := environment.get(each.running)):
            return _by_id(inside, environment)
    folder = format_named(DEFAULT).folder_of_project(cwd, environment)
    newest = max(files(folder, "*.jsonl"), key=_written, default=None)
    if newest is None:
        raise NoSessionError(
            f"there is no {format_named(DEFAULT).title} session of {one_line(str(cwd))} in {one_line(str(folder))}; "
            "name a session: its file or its id"
        )
    return session_path(newest, DEFAULT)


def _by_id(named: str, environment: Mapping[str, str]) -> SessionPath:
    found = [_path(each, path) for each in formats() for path in each.sessions(environment)]
    fitting = [each for each in found if each.id == named] or [each for each in found if each.id.startswith(named)]
    if not named or not fitting:
        folders = " and ".join(one_line(str(each.folder(environment))) for each in formats())
        raise NoSessionError(
            f"there is no file and no session '{one_line(named)[:100]}' ({len(found)} sessions in {folders}); "
            "name a session: its file or its id"
        )
    if len({each.id for each in fitting}) > 1:
        raise NoSessionError(
            f"'{one_line(named)[:100]}' is the beginning of several sessions' ids: "
            f"{listing((each.id for each in fitting), 5)}; type more of it"
        )
    return max(fitting, key=lambda each: _written(each.path))


def _path(found: SessionFormat, path: Path) -> SessionPath:
    return SessionPath(path, found.name, found.session_id(path) or path.stem)


def _written(path: Path) -> float:
    try:
        return state(path)[1]
    except OSError:  # it was removed meanwhile
        return 0.0
