"""Trimming a rollout of Codex's: what it is made of, where the new one belongs [SPEC 8]."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from foldmark.sessions.codex import databases, rollouts
from foldmark.sessions.places import SessionPath
from foldmark.sessions.session_file import Piece
from foldmark.sessions.trim.codex_lines import CodexLines
from foldmark.sessions.trim.codex_plan import calls
from foldmark.sessions.trim.kind import Job, Wish
from foldmark.sessions.trim.stale import Plan, plan


class CodexKind:
    """Rollouts of Codex's; see `kind.Kind`."""

    bytes_per_token = 3.2

    def plan(self, pieces: Sequence[Piece], wish: Wish) -> Plan:
        return plan(calls(pieces), wish.spare, deep=wish.deep) if wish.deep or wish.spare else Plan()

    def lines(self, job: Job) -> CodexLines:
        return CodexLines(job)

    def place(self, session: SessionPath, new_id: str) -> Path:
        return session.path.with_name(f"rollout-{datetime.now():%Y-%m-%dT%H-%M-%S}-{new_id}.jsonl")

    def pieces(self, session: SessionPath) -> list[Piece]:
        return rollouts.pieces(session)

    def dependents(self, session: SessionPath) -> list[Path]:
        return rollouts.forks(session)

    def copied_to(self, session: SessionPath) -> Path | None:
        try:
            found = databases.history(session)
        except databases.UnreadableError as error:
            return error.database  # nobody knows
        return found.database if found else None


KIND = CodexKind()
