"""A session's file, and the command that resumes it [SPEC 8]."""

import shlex
from pathlib import Path
from typing import Any

from msgspec import Struct


class SessionPath(Struct, frozen=True):
    """A session: where it is, the name of its format, and its id.

    `path` is a file as a rule. It may be a folder, or a database's path with the session's id behind it.
    """

    path: Path
    kind: str
    id: str


class ResumeCommand(Struct, frozen=True):
    """A command to run: the program with its arguments, and its working folder (None: any, or the folder is gone)."""

    words: tuple[str, ...]
    cwd: Path | None

    @property
    def shell(self) -> str:
        """The command as a line for the shell."""
        command = shlex.join(self.words)
        return command if self.cwd is None else f"cd {shlex.quote(str(self.cwd))} && {command}"


class SessionSurroundings(Struct, frozen=True):
    """Where a session works: `cwd` is the folder that its program is started in, None if the session does not say.

    `members` are the members of its records that a session takes over which continues it.
    """

    cwd: Path | None
    members: dict[str, Any]
