"""Trimming a session of Claude Code's: where the new one belongs, how it is resumed [SPEC 8, S4]."""

from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from foldmark.sessions.places import SessionPath, project_folder
from foldmark.sessions.trim.claude_lines import ClaudeLines
from foldmark.sessions.trim.kind import Job, Piece

_BEGINNING = 1 << 20
"""Bytes in which a record is looked for that says where the session works."""


class ClaudeKind:
    """Claude Code's sessions; see `kind.Kind`."""

    in_halves = True
    bytes_per_token = 3.0

    def lines(self, job: Job) -> ClaudeLines:
        return ClaudeLines(job)

    def place(self, session: SessionPath, new_id: str) -> Path:
        return session.path.with_name(f"{new_id}.jsonl")

    def command(self, session: SessionPath, id: str) -> list[str]:
        return ["claude", "--resume", id]

    def pieces(self, session: SessionPath) -> list[Piece]:
        return [Piece(session.path)]

    def dependents(self, session: SessionPath) -> list[Path]:
        return []

    def cwd(self, session: SessionPath) -> Path | None:
        """The folder in which `claude` was started, whose name the file's folder has; what it works in may differ."""
        with suppress(OSError), session.path.open("rb") as file:
            folders = [found for line in file.read(_BEGINNING).split(b"\n") if (found := _cwd(line))]
            fitting = (each for each in folders if project_folder(each) == session.path.parent.name)
            return next(map(Path, (*fitting, *folders)), None)
        return None


KIND = ClaudeKind()


class _Where(Struct):
    cwd: str = ""


def _cwd(line: bytes) -> str:
    try:
        return msgspec.json.decode(line, type=_Where).cwd
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
