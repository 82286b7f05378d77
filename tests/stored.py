"""The contents of a log's store, read from outside the log."""

from collections.abc import Iterator
from typing import Any, cast

import apsw

from foldmark.core.agents import Lease
from foldmark.core.ports import Snapshot
from foldmark.log import Log
from foldmark.stores.sqlite.store import SqliteStore


class _Stored:
    def __init__(self, log: Log) -> None:
        self._store = log.store

    def __getattr__(self, name: str) -> Any:
        def read(*args: Any, **options: Any) -> Any:
            with self._store.read() as moment:
                found = getattr(moment, name)(*args, **options)
                return iter(list(found)) if isinstance(found, Iterator) else found

        return read


def stored(log: Log) -> Snapshot:
    """Return the methods of a moment, each of which reads a new moment: the present state."""
    return cast(Snapshot, _Stored(log))


def leases(log: Log) -> list[Lease]:
    """Return the leases of all agents, also expired ones."""
    with log.store.read() as moment:
        found = (moment.lease(record.id) for record in moment.agents())
        return [lease for lease in found if lease is not None]


def connection(log: Log) -> apsw.Connection:
    """Return the connection of a log with a SQLite store."""
    assert isinstance(log.store, SqliteStore)
    return log.store.connector.db
