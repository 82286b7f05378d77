"""Continue a Claude Code session: build the resume command, or a new session with one user message [SPEC 8].

Claude Code resumes such a file; docs/decisions/0014 says what it makes of it.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from foldmark.core.codec import well_formed
from foldmark.core.errors import FoldmarkError
from foldmark.log.names import is_uuid
from foldmark.sessions.claude.folders import folder_of_project
from foldmark.sessions.claude.rows import encoded
from foldmark.sessions.claude.working_folder import existing, newest_record, working_folder
from foldmark.sessions.formats import ResumeCommand, SessionPath, SessionSurroundings
from foldmark.sessions.session_file import SessionFile, SessionRecord

CARRIED = ("userType", "version", "gitBranch")
"""Members of the records that a new session takes over."""


def is_subagents(session: SessionPath) -> bool:
    """Return True if the folder says so, or if there are messages and each is a subagent's.

    Reads as far as the first message that is not.
    """
    if session.path.parent.name == "subagents":
        return True
    found = False
    with SessionFile(session.path) as file:
        for line in file.lines():
            if isinstance(line, SessionRecord) and line.type in ("user", "assistant"):
                if line.value.get("isSidechain") is not True:
                    return False
                found = True
    return found


def resume_command(session: SessionPath, environment: Mapping[str, str], *prompt: str) -> ResumeCommand:
    """Return the command. Claude Code finds an id only in the folder that it is started in, and a file by its path."""
    cwd, path = None, os.path.abspath(session.path)  # noqa: PTH100 - a link stays what it is
    with suppress(FoldmarkError, OSError):
        cwd = existing(working_folder(Path(path)))
    own = None if cwd is None else folder_of_project(cwd, environment)
    found = own is not None and is_uuid(session.id) and os.path.dirname(path) == os.path.abspath(own)  # noqa: PTH100, PTH120
    return ResumeCommand(("claude", "--resume", session.id if found else path, *prompt), cwd)


def surroundings(session: SessionPath) -> SessionSurroundings:
    """Return where a session works. Raises SessionFileError."""
    last = newest_record(session.path)
    cwd = working_folder(session.path, last)
    return SessionSurroundings(cwd, {key: last[key] for key in CARRIED if isinstance(last.get(key), str)})


def new_lines(
    where: SessionSurroundings, new_id: str, message_id: str, prompt: str, mark: dict[str, object], moment: str
) -> bytes:
    """Return a session with one message, marked by `continue_metadata`; `moment` is in UTC, ISO 8601."""
    record = {
        "parentUuid": None,
        "isSidechain": False,
        **({"cwd": os.fspath(where.cwd)} if where.cwd else {}),
        "sessionId": new_id,
        **where.members,
        "type": "user",
        "message": {"role": "user", "content": prompt},
        "uuid": message_id,
        "timestamp": moment,
        "continue_metadata": mark,
    }
    return encoded(well_formed(record))
