"""The composition root: what is wired to what."""

from datetime import UTC, datetime
from os import PathLike, fspath

from foldmark.commands import REGISTRY
from foldmark.conversation import Log
from foldmark.core.codec import timestamp
from foldmark.core.errors import StoreError
from foldmark.stores.sqlite import SqliteStore


def open(path: str | PathLike[str], *, create: bool = True) -> Log:
    """Open the log in the SQLite file at `path`, or in memory for ":memory:" [SPEC 9].

    A missing file is made unless `create` is false. Raises StoreError: not a database, not Foldmark's, written by a
    newer Foldmark, no such folder.
    """
    path = fspath(path)
    if path.startswith(("postgresql://", "postgres://")):
        raise StoreError("PostgreSQL is not there yet; name an SQLite file")
    return Log(SqliteStore(path, create=create), _now, _new_id, REGISTRY)


def _now() -> str:
    return timestamp(datetime.now(UTC))


def _new_id() -> str:
    from uuid import uuid4

    return str(uuid4())
