"""Trimming a session of Claude Code's: where the new one belongs [SPEC 8, S4]."""

from pathlib import Path

from foldmark.sessions.places import SessionPath
from foldmark.sessions.trim.claude_lines import ClaudeLines
from foldmark.sessions.trim.kind import Job, Piece


class ClaudeKind:
    """Claude Code's sessions; see `kind.Kind`."""

    in_halves = True
    bytes_per_token = 3.0

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
