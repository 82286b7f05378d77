"""Trimming a rollout of Codex's: what it is made of, where the new one belongs, how it is resumed [SPEC 8]."""

from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from foldmark.sessions.codex import rollouts
from foldmark.sessions.places import SessionPath
from foldmark.sessions.trim.codex_lines import CodexLines
from foldmark.sessions.trim.kind import Job, Piece, TrimError


class CodexKind:
    """Rollouts of Codex's; see `kind.Kind`."""

    in_halves = False
    bytes_per_token = 3.2

    def lines(self, job: Job) -> CodexLines:
        return CodexLines(job)

    def place(self, session: SessionPath, new_id: str) -> Path:
        return session.path.with_name(f"rollout-{datetime.now():%Y-%m-%dT%H-%M-%S}-{new_id}.jsonl")

    def command(self, session: SessionPath, new_id: str) -> list[str]:
        return ["codex", *(["exec"] if _said(session, "source") == "exec" else []), "resume", new_id]

    def cwd(self, session: SessionPath) -> Path | None:
        cwd = _said(session, "cwd")
        return Path(cwd) if isinstance(cwd, str) and cwd else None

    def pieces(self, session: SessionPath) -> list[Piece]:
        return rollouts.pieces(session)

    def dependents(self, session: SessionPath) -> list[Path]:
        return rollouts.forks(session)


KIND = CodexKind()


def _said(session: SessionPath, key: str) -> Any:
    """What the first line of a rollout says; None if nothing."""
    with suppress(TrimError):
        return rollouts.head(session.path).payload.get(key)
    return None
