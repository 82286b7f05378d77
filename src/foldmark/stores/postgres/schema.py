"""Upgrade a database: Foldmark's tables lie in the schema `foldmark`, beside other schemas."""

import psycopg

from foldmark.core.errors import StoreError
from foldmark.stores.postgres.address import Address
from foldmark.stores.queries import migrations
from foldmark.stores.rows import Row

_LOCK = 0x466F6C64
"""The advisory lock of migrations: "Fold"."""


def prepare(connection: psycopg.Connection[Row], address: Address, *, create: bool) -> None:
    """Create or upgrade the tables; a current database is not written to. Raises StoreError, psycopg.Error."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(
            f"{address.shown} keeps texts in {encoding}, which cannot hold every text. Make a database with "
            "`createdb --encoding UTF8 --template template0 NAME`, and name that."
        )
    steps = migrations("postgres")
    version = _version(connection, address, len(steps))
    if version == 0 and not create:
        raise StoreError(
            f"there is no Foldmark database at {address.shown}: it is empty. `foldmark chat` starts one; "
            "--db names another."
        )
    if version < len(steps):
        with connection.transaction():
            connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
            connection.execute("CREATE SCHEMA IF NOT EXISTS foldmark")
            connection.execute("CREATE TABLE IF NOT EXISTS foldmark.migrations (number bigint PRIMARY KEY)")
            # Another program may have done it while this one waited for the lock.
            current = _version(connection, address, len(steps))
            for number, sql in steps[current:]:
                connection.execute(sql, prepare=False)
                connection.execute("INSERT INTO foldmark.migrations (number) VALUES ($1)", (number,))
    _settle_in(connection)


def _version(connection: psycopg.Connection[Row], address: Address, newest: int) -> int:
    """Return the number of migrations that the database has had; 0 for one without Foldmark's tables."""
    ((there,),) = connection.execute("SELECT to_regclass('foldmark.migrations') IS NOT NULL").fetchall()
    if not there:
        return 0
    ((version,),) = connection.execute("SELECT coalesce(max(number), 0) FROM foldmark.migrations").fetchall()
    if version > newest:
        raise StoreError(
            f"{address.shown} was written by a newer Foldmark (schema {version}, this one knows up to {newest}). "
            "Update with `pip install --upgrade foldmark`; this database was not changed."
        )
    return int(version)


def _settle_in(connection: psycopg.Connection[Row]) -> None:
    """Continue the order of changes where the database was moved to another server, whose transaction numbers differ:
    they are counted from the newest one."""
    query = "SELECT system_identifier::text, (SELECT max(server) FROM home) FROM pg_control_system()"
    ((server, known),) = connection.execute(query).fetchall()
    if server == known:
        return
    with connection.transaction():
        connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
        ((known,),) = connection.execute("SELECT max(server) FROM home").fetchall()
        if known is None:
            connection.execute("INSERT INTO home (server, base) VALUES ($1, 0)", (server,))
        elif known != server:
            newest = "SELECT max(stamp) FROM (SELECT stamp FROM agents UNION ALL SELECT stamp FROM mail) s"
            connection.execute(f"UPDATE home SET server = $1, base = coalesce(({newest}), base)", (server,))
