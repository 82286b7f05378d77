"""Open the store at an address."""

from foldmark.core.errors import StoreError
from foldmark.core.ports import Store
from foldmark.stores.addresses import is_server, shown


def open_store(address: str, *, create: bool = True) -> Store:
    """Open the store at an address. Raises StoreError."""
    if not is_server(address):
        from foldmark.stores.sqlite import SqliteStore

        return SqliteStore(address, create=create)
    try:
        from foldmark.stores.postgres.store import PostgresStore  # takes 60 ms
    except ImportError as error:
        if (error.name or "psycopg").partition(".")[0] not in ("psycopg", "psycopg_binary", "psycopg_c"):
            raise
        raise StoreError(
            f"a database at {shown(address)} needs PostgreSQL's driver, which is not installed; "
            "`pip install 'foldmark[postgres]'` installs it"
        ) from None
    return PostgresStore(address, create=create)
