"""Addresses of databases, and opening the store at an address.

A scheme, such as postgresql://, names a kind of store: a built-in one or an entry point in the group `foldmark.stores`,
which is named after the scheme and refers to a class that is called with (address, *, create). An address without a
scheme is the path of an SQLite file.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote

from foldmark.core.errors import StoreError
from foldmark.core.patterns import pattern
from foldmark.core.wording import listing
from foldmark.plugins import STORES, find, names

if TYPE_CHECKING:
    from foldmark.core.ports import Store

BUILT_IN = {
    "": "foldmark.stores.sqlite.store:SqliteStore",
    "postgresql": "foldmark.stores.postgres.store:PostgresStore",  # 60 ms
    "postgres": "foldmark.stores.postgres.store:PostgresStore",
}

_SCHEME = pattern(r"([a-z][a-z0-9+.-]+)://")


def scheme(address: str) -> str:
    """Return the scheme of an address; empty for a file path."""
    found = _SCHEME.match(address)
    return found[1] if found else ""


def may_exist(address: str) -> bool:
    """Return True if the file exists, or if the address has a scheme: only opening a database server can tell."""
    return bool(scheme(address)) or Path(address).exists()


def shown(address: str) -> str:
    """Return an address without its password, to show to people."""
    if not (kind := scheme(address)):
        return address
    user, host, path = _parts(address)
    kind = "postgresql" if kind == "postgres" else kind
    return f"{kind}://{user}@{host}{path}" if user else f"{kind}://{host}{path}"


def passwords(address: str) -> Iterator[str]:
    """Yield the password in an address, as written and decoded."""
    if scheme(address):
        _, _, rest = address.partition("://")
        user, _, _ = rest.rpartition("@")
        _, _, query = rest.partition("?")
        written = [user.partition(":")[2], *(each.partition("=")[2] for each in query.split("&") if "assw" in each)]
        decoded = [unquote(each) for each in written] + parse_qs(query).get("password", [])
        yield from dict.fromkeys(each for each in (*written, *decoded) if each)


def open_store(address: str, *, create: bool = True) -> "Store":
    """Open the store at an address. Raises StoreError."""
    kind = scheme(address)
    try:
        opened = find(STORES, kind, type, BUILT_IN)
    except ImportError as error:
        if (error.name or "psycopg").partition(".")[0] not in ("psycopg", "psycopg_binary", "psycopg_c"):
            raise
        from foldmark.installation import installs

        raise StoreError(
            f"a database at {shown(address)} needs PostgreSQL's driver, which is not installed; {installs('postgres')}"
        ) from None
    if opened is None:
        available = listing(each for each in (*BUILT_IN, *names(STORES)) if each)
        raise StoreError(f"no store for {kind}:// is installed; available: {available}, or the path of an SQLite file")
    store: Store = opened(address, create=create)
    return store


def _parts(address: str) -> tuple[str, str, str]:
    """Return the user, the host with its port, and the path of an address on a server."""
    _, _, rest = address.partition("://")
    # A password may contain an unescaped @, so the user part ends at the last one.
    user, _, place = rest.rpartition("@")
    where, _, _ = place.partition("?")
    host, slash, name = where.partition("/")
    return user.partition(":")[0], host, slash + name
