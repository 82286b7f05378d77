"""The address of a PostgreSQL database, the explanation of its errors for a person, and its upgrade.

Foldmark's tables are in the schema `foldmark`, next to other schemas.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from foldmark.core.errors import StoreError
from foldmark.stores.addresses import passwords, shown
from foldmark.stores.queries import refuse_other, schema
from foldmark.stores.rows import Row

LOCK_SECONDS = 10
"""Seconds that a transaction waits for another one of the same conversation."""

_OPTIONS = {
    "application_name": "foldmark",
    "client_encoding": "UTF8",
    "connect_timeout": "10",
}
_SETTINGS = {
    "search_path": "foldmark, public",
    # Plans do not depend on bound values: planning takes longer than running.
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "lock_timeout": f"{LOCK_SECONDS}s",
}

_PASSING = (
    errors.LockNotAvailable,
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.DiskFull,
    errors.TooManyConnections,
)
"""Errors after which the same statements may succeed later."""


class Address:
    """The address of a database. `shown` is the address without its password, for people."""

    def __init__(self, address: str) -> None:
        try:
            parts = conninfo_to_dict(address)
        except psycopg.Error:  # its message may quote the password
            raise StoreError(
                "this is not a PostgreSQL address; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
                "with %40 for an @ in the password"
            ) from None
        self.address = address
        self.shown = shown(address)
        settings = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in _SETTINGS.items())
        options = {**_OPTIONS, **parts, "options": f"{settings} {parts.get('options') or ''}".strip()}
        self.conninfo = make_conninfo("", **options)

    def hidden(self, text: str) -> str:
        """Return a message of the driver or the server without the password."""
        for word in passwords(self.address):
            text = text.replace(word, "***")
        return text

    def explain(self, error: psycopg.Error, *, writing: bool = True) -> StoreError:
        """Return a one-line error for a person.

        Only if `writing` does it say that nothing was recorded: a command may read after it has committed.
        """
        cause = self.hidden(" ".join(str(error.diag.message_primary or error).split())) or type(error).__name__
        to_connect = cause.startswith("connection failed: ")
        cause = cause.removeprefix("connection failed: ")

        def claim(text: str) -> str:
            return text if writing else ""

        match error:
            case errors.LockNotAvailable():
                message = (
                    f"another program has been writing to this conversation in {self.shown} for {LOCK_SECONDS} s. "
                    "Wait for it to finish, then repeat; nothing was recorded."
                )
            case errors.DeadlockDetected() | errors.SerializationFailure():
                message = (
                    f"another program wrote to the same conversations in {self.shown} in another order ({cause}). "
                    "Nothing was recorded; repeat it."
                )
            case errors.QueryCanceled():
                message = f"{self.shown} ended a statement ({cause}).{claim(' Nothing of it was recorded; repeat it.')}"
            case errors.DiskFull():
                recorded = claim(": nothing was recorded")
                message = f"the disk of {self.shown} is full ({cause}){recorded}. Free some space, then repeat."
            case errors.ReadOnlySqlTransaction():
                message = (
                    f"{self.shown} is read-only: nothing was recorded. Is it a standby, or is "
                    "default_transaction_read_only set for this user?"
                )
            case errors.InsufficientPrivilege():
                message = (
                    f"{self.shown} does not allow that to this user ({cause}).{claim(' Nothing was recorded.')} "
                    "Use the login that owns the tables, or have an administrator grant it."
                )
            case errors.TooManyConnections():
                message = (
                    f"{self.shown} accepts no more connections ({cause}). Raise max_connections, or close some "
                    "programs."
                )
            case psycopg.OperationalError() if to_connect:
                message = f"the connection to {self.shown} failed: {cause}"
            case psycopg.OperationalError() if lost(error):
                # `PostgresStore` asks for the outcome of a transaction whose connection was lost during COMMIT.
                unrecorded = claim(" Nothing was recorded; repeat it.")
                message = f"the connection to {self.shown} was lost ({cause}).{unrecorded}"
            case _:
                message = f"{self.shown}: {cause}"
        found = StoreError(message)
        found.passes = to_connect or lost(error) or isinstance(error, _PASSING)
        return found


def lost(error: psycopg.Error) -> bool:
    """Return True if the connection is lost and the outcome of the statement is unknown."""
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))


@contextmanager
def explained(address: Address) -> Iterator[None]:
    """Turn a psycopg error raised inside the block into a StoreError."""
    try:
        yield
    except psycopg.Error as error:
        raise address.explain(error) from error


# The tables

_LOCK = 0x466F6C64
"""The advisory lock of whoever creates the tables: "Fold"."""


def prepare(connection: psycopg.Connection[Row], address: Address, *, create: bool) -> None:
    """Create the tables if the database has none. Raises StoreError, psycopg.Error."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(
            f"{address.shown} stores texts in {encoding}, which cannot hold every text. Create a database with "
            "`createdb --encoding UTF8 --template template0 NAME`, and name that one."
        )
    version = _version(connection, address)
    if version == 0 and not create:
        raise StoreError(
            f"there is no Foldmark database at {address.shown}: it is empty. `foldmark chat` starts one; "
            "--db names another."
        )
    if version == 0:
        with connection.transaction():
            connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
            # Another program may have created them while this one waited for the lock.
            if not _version(connection, address):
                number, sql = schema("postgres")
                connection.execute("CREATE SCHEMA IF NOT EXISTS foldmark")
                connection.execute("CREATE TABLE foldmark.migrations (number bigint PRIMARY KEY)")
                connection.execute(sql, prepare=False)
                connection.execute("INSERT INTO foldmark.migrations (number) VALUES ($1)", (number,))
    _settle_in(connection)


def _version(connection: psycopg.Connection[Row], address: Address) -> int:
    """Return the number of the database's schema; 0 if it has no Foldmark tables. Raises StoreError if an older or a
    newer version wrote it."""
    ((is_ours,),) = connection.execute("SELECT to_regclass('foldmark.migrations') IS NOT NULL").fetchall()
    if not is_ours:
        return 0
    ((version,),) = connection.execute("SELECT coalesce(max(number), 0) FROM foldmark.migrations").fetchall()
    refuse_other(address.shown, int(version), schema("postgres").number)
    return int(version)


def _settle_in(connection: psycopg.Connection[Row]) -> None:
    """Continue the order of changes after a move to another server. Its transaction numbers differ, so stamps continue
    from the newest one."""
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
            newest = "SELECT max(stamp) FROM agents"
            connection.execute(f"UPDATE home SET server = $1, base = coalesce(({newest}), base)", (server,))
