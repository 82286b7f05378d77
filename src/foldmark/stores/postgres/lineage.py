"""Sessions of coding agents in PostgreSQL: a worker, a number or a text, is stored as JSON."""

from typing import Any

import msgspec

from foldmark.core.records import CodingSession
from foldmark.stores.beside import lineage
from foldmark.stores.rows import Row


class PostgresLineageView(lineage.SqlLineageView):
    """Reads the sessions of coding agents."""

    def _session_of(self, row: Row) -> CodingSession:
        worker = None if row[5] is None else msgspec.json.decode(row[5])
        return super()._session_of((*row[:5], worker, *row[6:]))


class PostgresLineage(PostgresLineageView, lineage.SqlLineage):
    """Writes the sessions of coding agents."""

    def _worker(self, worker: Any) -> Any:
        return None if worker is None else msgspec.json.encode(worker).decode()
