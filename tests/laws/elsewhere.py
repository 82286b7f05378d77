"""Metadata from elsewhere: a second connection records it between what a log has decided and what it then appends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import foldmark
from foldmark.core.events import Draft
from foldmark.core.ports import Store

EVERY = 3
"""Number of transactions of the log for each usage from elsewhere."""


class Elsewhere:
    """Another connection to the database of a log. Just before every third transaction of the log begins, it records a
    usage of one of the agents, whatever these are in the middle of."""

    def __init__(self, log: foldmark.Log, path: str) -> None:
        self._log = foldmark.open(path)
        self._store: Store = self._log.store
        self._begun, self._inside = 0, False
        self._write = log.store.write
        log.store.write = self._announced  # type: ignore[method-assign]

    @contextmanager
    def _announced(self) -> Iterator[Any]:
        if self._inside:
            with self._write() as writing:
                yield writing
            return
        self._begun += 1
        if self._begun % EVERY == 0:
            self._record(self._begun // EVERY)
        self._inside = True
        try:
            with self._write() as writing:
                yield writing
        finally:
            self._inside = False

    def _record(self, number: int) -> None:
        with self._store.read() as moment:
            agents = [record for record in moment.agents() if not record.deleted]
        if agents:
            agent = agents[number % len(agents)]
            usage = Draft(kind="usage", created_at=agent.created_at, data={"elsewhere": number}, actor="system")
            with self._store.write() as writing:
                writing.append(agent.id, None, [usage])

    def close(self) -> None:
        """Close the connection."""
        self._log.close()
