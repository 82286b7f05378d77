"""Find the session that a user names, and recognize by its content which coding agent wrote it [SPEC 8].

The content decides, never the name. Almost any file of JSON objects could be read as a session without a known
record, and several programs write records that resemble Claude Code's. So a record counts only if it has the marks of
one program. The marks of other programs are known, too, so that a refusal can name the program.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from foldmark.core.errors import CommandError
from foldmark.core.wording import listing, one_line
from foldmark.formats.plugins import plugins, size_and_time
from foldmark.formats.session_file import NOT_AN_OBJECT, Broken, SessionFile, SessionFileError, SessionRecord
from foldmark.formats.session_format import (
    DEFAULT,
    SessionFormat,
    SessionPath,
    built_in,
    files_in,
    format_named,
    format_of,
    formats,
    other_program,
)

UNDECIDED = 100
"""Number of records without a message after which a file counts as Claude Code's. Qwen Code's files begin alike."""


class NoSessionError(CommandError):
    """No session matches, or several match."""


def session_path(path: Path, kind: str | None = None) -> SessionPath:
    """Return the session at a path. Its format is `kind`, or is derived from the file's name and folder."""
    found = format_named(kind) if kind else format_of(path)
    return SessionPath(path, found.name, found.session_id(path) or path.stem)


def find(named: str | None, cwd: str | os.PathLike[str], environment: Mapping[str, str]) -> SessionPath:
    """Find a session by its file, its id or the beginning of its id.

    None selects the session in which the program runs (`SessionFormat.running`), otherwise the most recently written
    Claude Code session of the working folder `cwd`. Raises NoSessionError.
    """
    if named is None:
        return _current(cwd, environment)
    if names_file(named):
        return session_path(Path(os.path.abspath(named)))  # noqa: PTH100 - a link stays what it is
    return _by_id(named, environment)


def names_file(named: str) -> bool:
    """Return True if the argument names a file rather than a session id."""
    return named.endswith(".jsonl") or os.sep in named or os.path.lexists(named)


def kind_in(file: SessionFile, most: int | None = None) -> str | None:
    """Return the name of the format that a file's content shows, or None. Raises SessionFileError.

    Read at most `most` lines (None: all).
    """
    return _format_or_program(file, most)[0]


def recognize(file: SessionFile) -> SessionFormat:
    """Return the format that a file's content shows. Raises SessionFileError if it shows none."""
    name, program = _format_or_program(file, None)
    if name is not None:
        return format_named(name)
    *titles, last = sorted(each.title for each in formats())
    why = f"it seems to be one of {program}" if program else _reason(file)
    raise SessionFileError(f"{file.label} is not a session of {', '.join(titles)} or {last}: {why}")


def recognized(session: SessionPath, *, damaged: bool = False) -> SessionPath:
    """Return the session with the kind that its content shows, regardless of the file's name.

    With `damaged`, a file without a JSON object keeps the kind that its name suggests. Raises SessionFileError.
    """
    with SessionFile(session.path) as file:
        if damaged and all(record.type == NOT_AN_OBJECT for record in file.records()):
            return session
        return recognized_in(file, session)


def recognized_in(file: SessionFile, session: SessionPath) -> SessionPath:
    """Return the session in an open file with the kind that its content shows. Raises SessionFileError."""
    if session.path.suffix == ".zst":  # a compressed old rollout; the error from Codex's reader gives the next step
        return session
    kind = recognize(file).name
    return session if kind == session.kind else session_path(session.path, kind)


def _current(cwd: str | os.PathLike[str], environment: Mapping[str, str]) -> SessionPath:
    for each in formats():
        if each.running and (inside := environment.get(each.running)):
            return _by_id(inside, environment)
    folder = format_named(DEFAULT).folder_of_project(cwd, environment)
    newest = max(files_in(folder, "*.jsonl"), key=_written, default=None)
    if newest is None:
        raise NoSessionError(
            f"there is no {format_named(DEFAULT).title} session of {one_line(str(cwd))} in {one_line(str(folder))}; "
            "name a session: its file or its id"
        )
    return session_path(newest, DEFAULT)


def _by_id(named: str, environment: Mapping[str, str]) -> SessionPath:
    found = [session_path(path, each.name) for each in formats() for path in each.sessions(environment)]
    fitting = [each for each in found if each.id == named] or [each for each in found if each.id.startswith(named)]
    if not named or not fitting:
        folders = " and ".join(one_line(str(each.folder(environment))) for each in formats())
        raise NoSessionError(
            f"there is no file and no session '{one_line(named)[:100]}' ({len(found)} sessions in {folders}); "
            "name a session: its file or its id"
        )
    if len({each.id for each in fitting}) > 1:
        raise NoSessionError(
            f"several session ids begin with '{one_line(named)[:100]}': "
            f"{listing((each.id for each in fitting), 5)}; type more of it"
        )
    return max(fitting, key=lambda each: _written(each.path))


def _written(path: Path) -> float:
    try:
        return size_and_time(path)[1]
    except OSError:  # it has been removed since
        return 0.0


def _format_or_program(file: SessionFile, most: int | None) -> tuple[str | None, str | None]:
    """Return the format's name by the first record with the marks of a program, or the name of another program."""
    if file.kind is not None:
        return file.kind, None
    resembling: list[str] = []
    program = None
    for value in (record.value for record in file.records(most)):
        if name := _named(built_in(), value):
            return name, None
        resembling += [each.name for each in built_in() if each.resembles(value)][:1]
        if (program := other_program(value)) or len(resembling) >= UNDECIDED:
            break
    for record in file.records(most) if plugins() else ():
        if name := _named(plugins(), record.value):
            return name, None
    return (None, program) if program or not resembling else (resembling[-1], None)


def _named(own: Iterable[SessionFormat], value: Any) -> str | None:
    """Return the name of the first of these formats to which this record certainly belongs."""
    return next((each.name for each in own if each.is_record(value)), None)


def _reason(file: SessionFile) -> str:
    """Return the reason why a file without a known record is not a session."""
    first: Broken | None = None
    types: set[str] = set()
    for line in file.lines():
        if isinstance(line, SessionRecord):
            types.add(line.type)
        else:
            first = first or line
    if types:
        return "no line of it is a JSON object" if types == {NOT_AN_OBJECT} else "none of its records is theirs"
    return f"no line of it is JSON (line {first.line}: {one_line(first.reason)})" if first else "it is empty"
