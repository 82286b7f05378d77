"""Recognize which coding agent wrote a session file [SPEC 8].

The content decides, never the name. Nearly any file of JSON objects can be read as a session of which nothing is
understood, and several programs write records that resemble Claude Code's. So a record counts only if it has the marks
of one program; what other programs write is named, so that the refusal can say what the file seems to be.
"""

from itertools import islice
from typing import Any

from foldmark.core.wording import one_line
from foldmark.sessions.codex.items import is_codex
from foldmark.sessions.places import Kind, SessionPath, session_path
from foldmark.sessions.session_file import NOT_AN_OBJECT, Broken, Record, SessionFile, SessionFileError

UNDECIDED = 100
"""Records without a message that are read before a file is taken for Claude Code's: Qwen Code's begin alike."""

_KINDS: dict[str | None, Kind] = {"claude": "claude", "codex": "codex"}
"""The programs whose sessions are read; the records of damaged ones may lack everything but the message."""

_IDENTITY = ("sessionId", "uuid", "parentUuid", "leafUuid", "messageId")
"""Members by which Claude Code's records refer to a session, to themselves or to each other."""


def is_record(value: Any) -> bool:
    """Return True if a line's value is a record of Claude Code or Codex."""
    return program_of(value) in _KINDS or _is_claude_detail(value)


def program_of(value: Any) -> str | None:
    """Return who wrote a record with a message or a header: "claude", "codex" or another program's name.

    None for a value that several programs could have written, or none that is known.
    """
    if not isinstance(value, dict):
        return None
    if is_codex(value):
        return "codex"
    is_message = value.get("type") in ("user", "assistant") and isinstance(value.get("message"), dict)
    return _other_program(value) or ("claude" if is_message else None)


def program_in(file: SessionFile, most: int | None = None) -> str | None:
    """Return who wrote a file, as `program_of` names it, from the first record that tells.

    Read at most `most` lines (None: all). None if no line is a record of a known program. Raises SessionFileError.
    """
    details = 0
    for found in islice(file.lines(), most):
        if not isinstance(found, Record):
            continue
        if program := program_of(found.value):
            return program
        details += _is_claude_detail(found.value)
        if details >= UNDECIDED:
            break
    return "claude" if details else None


def kind_in(file: SessionFile, most: int | None = None) -> Kind | None:
    """Return whose session a file is; None if it is no session of Claude Code or Codex. As `program_in`."""
    return _KINDS.get(program_in(file, most))


def recognize(file: SessionFile) -> Kind:
    """Return whose session a file is. Raises SessionFileError if it is not one of Claude Code or Codex."""
    program = program_in(file)
    if kind := _KINDS.get(program):
        return kind
    why = f"it seems to be one of {program}" if program else _reason(file)
    raise SessionFileError(f"{file.label} is not a session of Claude Code or Codex: {why}")


def recognized(session: SessionPath, *, damaged: bool = False) -> SessionPath:
    """Return the session with the kind that its content shows, whatever its file's name.

    With `damaged`, a file without any JSON object keeps the kind that its name shows. Raises SessionFileError.
    """
    if session.path.suffix == ".zst":  # Codex compresses old rollouts; its own reader says what to do
        return session
    with SessionFile(session.path) as file:
        if damaged and not any(isinstance(line, Record) and line.type != NOT_AN_OBJECT for line in file.lines()):
            return session
        kind = recognize(file)
    return session if kind == session.kind else session_path(session.path, kind)


def _reason(file: SessionFile) -> str:
    """Return why a file without a known record is no session."""
    first: Broken | None = None
    types: set[str] = set()
    for line in file.lines():
        if isinstance(line, Record):
            types.add(line.type)
        else:
            first = first or line
    if types:
        return "no line of it is a JSON object" if types == {NOT_AN_OBJECT} else "no record of it is one of theirs"
    return f"no line of it is JSON (line {first.line}: {one_line(first.reason)})" if first else "it is empty"


def _is_claude_detail(value: Any) -> bool:
    """Return True for a record without a message that names its session, itself or another record."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("type"), str)
        and any(isinstance(value.get(name), str) for name in _IDENTITY)
        and _other_program(value) is None
    )


def _other_program(value: dict[str, Any]) -> str | None:
    """Return the program whose marks a record has, neither Claude Code's nor Codex's."""
    kind, message = value.get("type"), value.get("message")
    if isinstance(message, dict) and isinstance(message.get("parts"), list):
        return "Qwen Code"
    if kind == "gemini" or "projectHash" in value:
        return "Gemini CLI"
    if (kind == "session" and isinstance(value.get("cwd"), str)) or (kind == "message" and "parentId" in value):
        return "pi"
    if isinstance(kind, str) and "." in kind and isinstance(value.get("data"), dict):
        return "GitHub Copilot CLI"
    if kind is None and value.get("role") in ("user", "assistant") and isinstance(message, dict):
        return "Cursor"
    if kind == "message" and isinstance(value.get("content"), list) and isinstance(value.get("role"), str):
        return "a Codex older than its present format"
    return None
