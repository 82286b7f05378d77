"""Continue a Claude Code session: build the resume command, or a new session with one user message [SPEC 8].

docs/development/decisions/0014 describes how Claude Code resumes such a file. It looks for a session by the folder in
which the session was started, and an agent may have changed its folder since. So the working folder is the one after
which the sessions' folder is named. If no record names it, the folder of the last record is used.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from foldmark.core.agents import is_uuid
from foldmark.core.errors import FoldmarkError
from foldmark.formats.claude.claude_format import ClaudeFormat, project_folder
from foldmark.formats.claude.members import SAID, is_aside, new_record
from foldmark.formats.session_file import SessionFile
from foldmark.formats.session_format import ResumeCommand, SessionPath, SessionSurroundings, existing, folder_in
from foldmark.wires.lenient_json import encode_line

CARRIED = ("userType", "version", "gitBranch")
"""Members of a record that a new session copies."""

_LINES, _MOST = 2000, 16 << 20
"""Maximum lines to search for working folders at the beginning, and bytes to read at the beginning and at the end."""


def is_subagents(file: SessionFile) -> bool:
    """Return True if the file is in a folder of subagents, or has messages and all of them are a subagent's.

    The file is read up to the first message that is not a subagent's.
    """
    if file.path.parent.name == "subagents":
        return True
    found = False
    for record in file.records():
        if record.type in SAID:
            if not is_aside(record.value):
                return False
            found = True
    return found


def resume_command(session: SessionPath, environment: Mapping[str, str], *prompt: str) -> ResumeCommand:
    """Return the command that resumes a session. Claude Code finds an id only from its working folder, and a file from
    any folder."""
    cwd, path = None, os.path.abspath(session.path)  # noqa: PTH100 - a link stays what it is
    with suppress(FoldmarkError, OSError):
        cwd = existing(_working_folder(Path(path), _newest_record(Path(path))))
    own = None if cwd is None else ClaudeFormat().folder_of_project(cwd, environment)
    found = own is not None and is_uuid(session.id) and os.path.dirname(path) == os.path.abspath(own)  # noqa: PTH100, PTH120
    return ResumeCommand(("claude", "--resume", session.id if found else path, *prompt), cwd)


def surroundings(session: SessionPath) -> SessionSurroundings:
    """Return the surroundings of a session. Raises SessionFileError."""
    last = _newest_record(session.path)
    cwd = _working_folder(session.path, last)
    return SessionSurroundings(cwd, {key: last[key] for key in CARRIED if isinstance(last.get(key), str)})


def new_lines(
    where: SessionSurroundings, new_id: str, message_id: str, prompt: str, mark: dict[str, object], moment: str
) -> bytes:
    """Return a session with one message, marked by `continue_metadata`. `moment` is in UTC, ISO 8601."""
    place = {"cwd": os.fspath(where.cwd)} if where.cwd else {}
    return encode_line(
        {
            **new_record(None, message_id, new_id, moment, {**place, **where.members}),
            "type": "user",
            "message": {"role": "user", "content": prompt},
            "continue_metadata": mark,
        }
    )


def _working_folder(path: Path, newest: dict[str, Any]) -> Path | None:
    """Return the working folder of a session, or None if unknown. Raises SessionFileError."""
    home, last = path.parent.name, folder_in(newest)
    if last is not None and (project_folder(last) == home or not _may_be_project(home)):
        return last
    others: dict[Path, None] = {}
    for each in _first_folders(path):
        if each not in others and project_folder(each) == home:
            return each
        others[each] = None
    return last or next(iter(others), None)


def _may_be_project(name: str) -> bool:
    """Return True if Claude Code may have named a folder so after a working folder."""
    return os.sep != "/" or name.startswith("-")


def _first_folders(path: Path) -> Iterator[Path]:
    with SessionFile(path) as file:
        for record in file.records(_LINES):
            if record.offset > _MOST:
                return
            if cwd := folder_in(record.value):
                yield cwd


def _newest_record(path: Path) -> dict[str, Any]:
    """Return the last message that names a folder, or {} if there is none near the end. Raises SessionFileError."""
    with SessionFile(path) as file:
        for record in file.backwards(_MOST):
            if folder_in(record) and record.get("type") in SAID:
                return dict(record)
    return {}
