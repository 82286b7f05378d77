"""The HTTP connections under the providers' SDKs."""

import ssl
from functools import cache
from typing import Any


def http() -> Any:
    """A client for an SDK to use, and to close with its own; the SDK gives each request its timeout.

    It follows no redirection: a conversation goes to the address that was named and to no other.
    """
    import httpx2

    return httpx2.AsyncClient(verify=trusted(), follow_redirects=False)


@cache
def trusted() -> ssl.SSLContext:
    """The certificates to trust, which take a while to read."""
    import httpx2

    return httpx2.create_ssl_context()
