"""Whether a file is a session of a coding agent, and of which [SPEC 8].

Nearly any file of JSON objects can be read as a session of which nothing is understood, so one record at least must
look like one of theirs.
"""

from itertools import islice
from typing import Any

from foldmark.sessions.codex.items import is_codex
from foldmark.sessions.places import Kind
from foldmark.sessions.session_file import Record, SessionFile, SessionFileError

NONE_OF_THEIRS = "no record of it is one of theirs"


def is_record(value: Any) -> bool:
    """Whether a line's value may be a coding agent's record: an object with a type, or at least with a message."""
    return isinstance(value, dict) and (isinstance(value.get("type"), str) or isinstance(value.get("message"), dict))


def kind_in(file: SessionFile, most: int | None = None) -> Kind | None:
    """Whose session a file is, as its first record tells; None if none of its first `most` lines (None: of all) is a
    record. Raises SessionFileError."""
    for found in islice(file.lines(), most):
        if isinstance(found, Record) and is_record(found.value):
            return "codex" if is_codex(found.value) else "claude"
    return None


def not_theirs(label: str, why: str = NONE_OF_THEIRS) -> SessionFileError:
    """What is said of a file that is no session; `label` is its path as it may be shown."""
    return SessionFileError(f"{label} is not a session of Claude Code or Codex: {why}")
