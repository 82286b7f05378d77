"""The command that resumes a session, and the folder in which it does [SPEC 8].

Claude Code finds an id only among the sessions of the folder that it is started in; a file it takes from anywhere, by
its path. Codex finds an id anywhere.
"""

import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from foldmark.core.errors import FoldmarkError
from foldmark.log.names import is_uuid
from foldmark.sessions.claude.working_folder import folder_in, working_folder
from foldmark.sessions.codex import rollouts
from foldmark.sessions.places import SessionPath, project_folder, projects


class ResumeCommand(Struct, frozen=True):
    """The program with its arguments, and the folder to start it in; None if that does not matter, or is not there."""

    words: tuple[str, ...]
    cwd: Path | None

    @property
    def shell(self) -> str:
        """As a line for the shell."""
        command = shlex.join(self.words)
        return command if self.cwd is None else f"cd {shlex.quote(str(self.cwd))} && {command}"


def resume_command(session: SessionPath, environment: Mapping[str, str], *prompt: str) -> ResumeCommand:
    """What resumes a session whose file is there; `prompt` is what it is told then. Never raises."""
    if session.kind == "codex":
        first = _first(session)
        by_itself = ("exec",) if first.get("source") == "exec" else ()
        return ResumeCommand(("codex", *by_itself, "resume", session.id, *prompt), _there(folder_in(first)))
    cwd, path = None, os.path.abspath(session.path)  # noqa: PTH100 - a link stays what it is
    with suppress(FoldmarkError, OSError):
        cwd = _there(working_folder(Path(path)))
    own = None if cwd is None else os.path.join(projects(environment), project_folder(cwd))  # noqa: PTH118
    found = own is not None and is_uuid(session.id) and os.path.dirname(path) == os.path.abspath(own)  # noqa: PTH100, PTH120
    return ResumeCommand(("claude", "--resume", session.id if found else path, *prompt), cwd)


def _there(folder: Path | None) -> Path | None:
    return folder if folder is not None and os.path.isdir(folder) else None  # noqa: PTH112 - never raises


def _first(session: SessionPath) -> dict[str, object]:
    """What the first line of a rollout says."""
    with suppress(FoldmarkError):
        return rollouts.head(session.path).payload
    return {}
