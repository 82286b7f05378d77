"""Sessions of coding agents in SQLite (see `foldmark.core.lineage`): a part of `SqliteStore`."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from foldmark.core.lineage import CodingSession


class SqliteLineage:
    """The methods of `Lineage`, over the connection of the store that it is a part of."""

    def _run(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def writing(self) -> AbstractContextManager[None]:
        raise NotImplementedError

    def coding_session(self, kind: str, session_id: str) -> CodingSession | None:
        return next((CodingSession(*row) for row in self._run("coding_session", kind, session_id)), None)

    def coding_sessions(self) -> list[CodingSession]:
        return [CodingSession(*row) for row in self._run("coding_sessions")]

    def save_coding_session(self, session: CodingSession) -> int:
        each = session
        with self.writing():
            ((row_id,),) = self._run(
                "save_coding_session",
                *(each.kind, each.session_id, each.file, each.parent, each.session_number, each.worker_id, each.issue),
                *(each.started_at, each.ended_at, each.end_reason, each.context_at_end, each.summary),
            )
        return int(row_id)

    def _damaged_lineage(self) -> Iterator[str]:
        for kind, session_id, number in self._run("wrong_lineage"):
            yield f"{kind} session {session_id[:8]}: its number {number} does not follow its parent's"
