"""Trim a Codex rollout: its parts, the path of the new rollout, and its repeated outputs [SPEC 8].

Codex changes files by patches and commands, so that nothing tells which file an output shows: no output is stale, and
arguments stay.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from foldmark.sessions.codex import rollouts
from foldmark.sessions.formats import SessionPath
from foldmark.sessions.session_file import Piece, SessionFile, SessionRecord
from foldmark.sessions.trim.codex_lines import CodexLines
from foldmark.sessions.trim.codex_tools import OUTPUTS
from foldmark.sessions.trim.kind import Job, TrimOptions
from foldmark.sessions.trim.stale import CallRecord, TrimPlan, digest, plan


class CodexKind:
    """Codex rollouts (see `kind.TrimKind`)."""

    bytes_per_token = 3.2

    def plan(self, pieces: Sequence[Piece], options: TrimOptions) -> TrimPlan:
        if not (options.deep or options.spare):
            return TrimPlan()
        return plan(_calls(pieces), options.spare, deep=options.deep)

    def lines(self, job: Job) -> CodexLines:
        return CodexLines(job)

    def place(self, session: SessionPath, new_id: str) -> Path:
        return session.path.with_name(f"rollout-{datetime.now():%Y-%m-%dT%H-%M-%S}-{new_id}.jsonl")

    def pieces(self, session: SessionPath) -> list[Piece]:
        return rollouts.pieces(session)


KIND = CodexKind()


def _calls(pieces: Sequence[Piece]) -> list[CallRecord]:
    """Return the calls that have an output, in the order of the file. Raises SessionFileError."""
    found: dict[str, CallRecord] = {}
    for piece in pieces:
        for id, output in _outputs(piece):
            found[id] = CallRecord(id, "", digest=digest(output))
    return list(found.values())


def _outputs(piece: Piece) -> Iterator[tuple[str, object]]:
    with SessionFile(piece.path) as file:
        for line in file.lines(piece.number - 1, piece.start):
            if piece.end is not None and file.whole[1] >= piece.end:
                break
            if not isinstance(line, SessionRecord) or line.type != "response_item":
                continue
            payload = line.value.get("payload")
            if isinstance(payload, dict) and payload.get("type") in OUTPUTS and isinstance(payload.get("call_id"), str):
                yield payload["call_id"], payload.get("output")
