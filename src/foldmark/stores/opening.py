"""Opening the store at an address: built in, or an entry point of the group `foldmark.stores`.

An entry point's name is the scheme of its addresses; it names a class that is called with (address, *, create).
"""

from foldmark.core.errors import StoreError
from foldmark.core.ports import Store
from foldmark.core.wording import listing
from foldmark.plugins import STORES, find, names
from foldmark.stores.addresses import scheme, shown

BUILT_IN = {
    "": "foldmark.stores.sqlite:SqliteStore",
    "postgresql": "foldmark.stores.postgres.store:PostgresStore",  # 60 ms
    "postgres": "foldmark.stores.postgres.store:PostgresStore",
}


def open_store(address: str, *, create: bool = True) -> Store:
    """Open the store at an address. Raises StoreError."""
    kind = scheme(address)
    try:
        opened = find(STORES, kind, type, BUILT_IN)
    except ImportError as error:
        if (error.name or "psycopg").partition(".")[0] not in ("psycopg", "psycopg_binary", "psycopg_c"):
            raise
        raise StoreError(
            f"a database at {shown(address)} needs PostgreSQL's driver, which is not installed; "
            "`pip install 'foldmark[postgres]'` installs it"
        ) from None
    if opened is None:
        there_is = listing(each for each in (*BUILT_IN, *names(STORES)) if each)
        raise StoreError(f"no store for {kind}:// is installed; there is: {there_is}, or the path of an SQLite file")
    store: Store = opened(address, create=create)
    return store
