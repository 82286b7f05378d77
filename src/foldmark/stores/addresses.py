"""Addresses of databases, and opening the store at an address.

A scheme, such as postgresql://, names a kind of store: an entry point in the group `foldmark.stores`, which is named
after the scheme and refers to a class that is called with (address, *, create). PostgreSQL is found in the same way as
a store of another package. An address without a scheme is the path of an SQLite file.
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

_FILES = {"": "foldmark.stores.sqlite.store:SqliteStore"}

POSTGRESQL = ("postgresql", "postgres")
"""The schemes of PostgreSQL's own addresses."""

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
    kind = POSTGRESQL[0] if kind in POSTGRESQL else kind
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
    opened = find(STORES, kind, type, _FILES)
    if opened is None:
        available = listing(names(STORES)) or "none"
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
