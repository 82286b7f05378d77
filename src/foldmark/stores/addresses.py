"""Addresses of databases. The scheme of PostgreSQL names a server; any other address is the path of an SQLite file."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, unquote

_SCHEMES = ("postgresql://", "postgres://")


def is_server(address: str) -> bool:
    """Return True if an address names a database on a server, not a file."""
    return address.startswith(_SCHEMES)


def may_exist(address: str) -> bool:
    """Return True if the file exists. For a server this is always True: only opening the database can tell."""
    return is_server(address) or Path(address).exists()


def shown(address: str) -> str:
    """Return an address for people, without a password."""
    if not is_server(address):
        return address
    user, host, path = _parts(address)
    return f"postgresql://{user}@{host}{path}" if user else f"postgresql://{host}{path}"


def passwords(address: str) -> Iterator[str]:
    """Yield the forms of the password in an address: as written there, and decoded."""
    if is_server(address):
        _, _, rest = address.partition("://")
        given, _, _ = rest.rpartition("@")
        _, _, query = rest.partition("?")
        written = [given.partition(":")[2], *(each.partition("=")[2] for each in query.split("&") if "assw" in each)]
        meant = [unquote(each) for each in written] + parse_qs(query).get("password", [])
        yield from dict.fromkeys(each for each in (*written, *meant) if each)


def _parts(address: str) -> tuple[str, str, str]:
    """Return the user, the host with its port, and the path of an address on a server."""
    _, _, rest = address.partition("://")
    # A password may hold anything, even if it should not: the user part ends at the last @.
    given, _, place = rest.rpartition("@")
    where, _, _ = place.partition("?")
    host, slash, name = where.partition("/")
    return given.partition(":")[0], host, slash + name
