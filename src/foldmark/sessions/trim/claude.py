"""Trimming a session of Claude Code's: where the new one belongs [SPEC 8, S4]."""

from collections.abc import Sequence
from pathlib import Path

from foldmark.sessions.places import SessionPath
from foldmark.sessions.session_file import Piece
from foldmark.sessions.trim.claude_lines import ClaudeLines
from foldmark.sessions.trim.claude_plan import calls
from foldmark.sessions.trim.kind import Job, Wish
from foldmark.sessions.trim.stale import Plan, plan


class ClaudeKind:
    """Claude Code's sessions; see `kind.Kind`."""

    bytes_per_token = 3.0

    def plan(self, pieces: Sequence[Piece], wish: Wish) -> Plan:
        return plan(calls(pieces[0].path), wish.spare, deep=wish.deep) if wish.deep or wish.spare else Plan()

    def lines(self, job: Job) -> ClaudeLines:
        return ClaudeLines(job)

    def place(self, session: SessionPath, new_id: str) -> Path:
        return session.path.with_name(f"{new_id}.jsonl")

    def pieces(self, session: SessionPath) -> list[Piece]:
        return [Piece(session.path)]

    def dependents(self, session: SessionPath) -> list[Path]:
        return []

    def copied_to(self, session: SessionPath) -> Path | None:
        return None


KIND = ClaudeKind()
