"""Sessions of coding agents (see `foldmark.core.records`)."""

from collections.abc import Iterator

from msgspec import structs

from foldmark.core.records import CodingSession
from foldmark.stores.reader import Run, SqlReader, SqlWriter
from foldmark.stores.rows import Row


class SqlLineageView(SqlReader):
    """Reads the sessions of coding agents."""

    def coding_session(self, kind: str, session_id: str) -> CodingSession | None:
        found = self._run("coding_session", kind=kind, session_id=session_id)
        return next(map(self._session_of, found), None)

    def coding_sessions(self) -> list[CodingSession]:
        return [self._session_of(row) for row in self._run("coding_sessions")]

    def _session_of(self, row: Row) -> CodingSession:
        return CodingSession(*row)


class SqlLineage(SqlLineageView, SqlWriter):
    """Writes the sessions of coding agents."""

    def save_coding_session(self, session: CodingSession) -> int:
        each = {**structs.asdict(session), "worker_id": self._worker(session.worker_id)}
        ((row_id,),) = self._run("save_coding_session", **each)
        return int(row_id)

    def _worker(self, worker: int | str | None) -> int | str | None:
        """Return a worker in the form of the database."""
        return worker


def damage(run: Run) -> Iterator[str]:
    """Yield the faults of these sessions."""
    for kind, session_id, number in run("wrong_lineage"):
        yield f"{kind} session {session_id[:8]}: its number {number} does not follow its parent's"
