"""Sessions of coding agents in SQLite (see `foldmark.core.lineage`)."""

from collections.abc import Iterator

from foldmark.core.lineage import CodingSession
from foldmark.stores.sqlite.reader import Reader, Run, Writer


class LineageView(Reader):
    """Reads the sessions of coding agents."""

    def coding_session(self, kind: str, session_id: str) -> CodingSession | None:
        return next((CodingSession(*row) for row in self._run("coding_session", kind, session_id)), None)

    def coding_sessions(self) -> list[CodingSession]:
        return [CodingSession(*row) for row in self._run("coding_sessions")]


class Lineage(LineageView, Writer):
    """Writes the sessions of coding agents."""

    def save_coding_session(self, session: CodingSession) -> int:
        each = session
        ((row_id,),) = self._run(
            "save_coding_session",
            *(each.kind, each.session_id, each.file, each.parent, each.session_number, each.worker_id, each.issue),
            *(each.started_at, each.ended_at, each.end_reason, each.context_at_end, each.summary),
        )
        return int(row_id)


def damage(run: Run) -> Iterator[str]:
    """What is wrong with these sessions."""
    for kind, session_id, number in run("wrong_lineage"):
        yield f"{kind} session {session_id[:8]}: its number {number} does not follow its parent's"
