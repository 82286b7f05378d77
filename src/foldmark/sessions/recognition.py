"""Recognize which coding agent wrote a session file [SPEC 8].

The content decides, never the name. Nearly any file of JSON objects can be read as a session of which nothing is
understood, and several programs write records that resemble Claude Code's. So a record counts only if it has the marks
of one program; what other programs write is named, so that the refusal can say what the file seems to be.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from foldmark.core.wording import one_line
from foldmark.sessions.formats import SessionFormat, built_in, format_named, formats, other_program
from foldmark.sessions.places import SessionPath, session_path
from foldmark.sessions.plugins import plugins
from foldmark.sessions.session_file import NOT_AN_OBJECT, Broken, SessionFile, SessionFileError, SessionRecord

UNDECIDED = 100
"""Records without a message that are read before a file is taken for Claude Code's: Qwen Code's begin alike."""


def is_record(value: Any) -> bool:
    """Return True if a line's value is a record of a format of Foldmark's own."""
    return any(each.is_record(value) or each.resembles(value) for each in built_in())


def kind_in(file: SessionFile, most: int | None = None) -> str | None:
    """Return the name of the format that a file's content shows; None if there is none. Raises SessionFileError.

    Read at most `most` lines (None: all).
    """
    return _format_or_program(file, most)[0]


def recognize(file: SessionFile) -> SessionFormat:
    """Return the format that a file's content shows. Raises SessionFileError if there is none."""
    name, program = _format_or_program(file, None)
    if name is not None:
        return format_named(name)
    *titles, last = sorted(each.title for each in formats())
    why = f"it seems to be one of {program}" if program else _reason(file)
    raise SessionFileError(f"{file.label} is not a session of {', '.join(titles)} or {last}: {why}")


def recognized(session: SessionPath, *, damaged: bool = False) -> SessionPath:
    """Return the session with the kind that its content shows, whatever its file's name.

    With `damaged`, a file without any JSON object keeps the kind that its name shows. Raises SessionFileError.
    """
    if session.path.suffix == ".zst":  # Codex compresses old rollouts; its own reader says what to do
        return session
    with SessionFile(session.path) as file:
        if damaged and not any(isinstance(line, SessionRecord) and line.type != NOT_AN_OBJECT for line in file.lines()):
            return session
        kind = recognize(file).name
    return session if kind == session.kind else session_path(session.path, kind)


def _format_or_program(file: SessionFile, most: int | None) -> tuple[str | None, str | None]:
    """Return the name of the format that the first record with the marks of a program has, or that other program."""
    if file.kind is not None:
        return file.kind, None
    resembling, count, program = None, 0, None
    for value in _values(file, most):
        if name := next((each.name for each in built_in() if each.is_record(value)), None):
            return name, None
        if program := other_program(value):
            break
        if alike := next((each.name for each in built_in() if each.resembles(value)), None):
            resembling, count = alike, count + 1
            if count >= UNDECIDED:
                break
    for value in _values(file, most) if plugins() else ():
        if name := next((each.name for each in plugins() if each.is_record(value)), None):
            return name, None
    return (None, program) if program else (resembling, None)


def _values(file: SessionFile, most: int | None) -> Iterator[Any]:
    return (line.value for line in islice(file.lines(), most) if isinstance(line, SessionRecord))


def _reason(file: SessionFile) -> str:
    """Return why a file without a known record is no session."""
    first: Broken | None = None
    types: set[str] = set()
    for line in file.lines():
        if isinstance(line, SessionRecord):
            types.add(line.type)
        else:
            first = first or line
    if types:
        return "no line of it is a JSON object" if types == {NOT_AN_OBJECT} else "no record of it is one of theirs"
    return f"no line of it is JSON (line {first.line}: {one_line(first.reason)})" if first else "it is empty"
