"""The server over streamable HTTP: for whoever has the token, from this machine unless an address is named."""

import logging
import socket
import sys
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

import uvicorn
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl

from foldmark.core.errors import FoldmarkError
from foldmark.mcp.token import OneToken

PATH = "/mcp"
LOOPBACK = "127.0.0.1"
ENDING = 2
"""Seconds that requests may take to end when the server does."""


def listening(host: str, port: int) -> socket.socket:
    """A socket that takes connections; port 0 is any that is free. Raises FoldmarkError."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        opened = socket.socket(family, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen()
    except OSError as error:
        raise FoldmarkError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None
    return opened


def is_loopback(host: str) -> bool:
    """Whether only this machine gets there."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def serve(
    server: Server[Any], opened: socket.socket, host: str, names: Sequence[str], token: str, said: str
) -> None:
    """Serve until the process is told to end.

    `names` are those under which clients may reach it beside loopback and `host`: what a page in a browser calls by any
    other name is refused, and so is what comes from a page of elsewhere. `said` is told on standard error.
    """
    port = opened.getsockname()[1]
    hosts = [_bracketed(name) for name in dict.fromkeys((LOOPBACK, "localhost", "::1", host, *names))]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[each for name in hosts for each in (name, f"{name}:*")],
        allowed_origins=[f"http://{name}:{port}" for name in hosts],
    )
    url = f"http://{_bracketed(host)}:{port}"
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=security,
        token_verifier=OneToken(token),
        # Nobody hands out tokens here; the SDK asks for an issuer all the same, and shows it to nobody.
        auth=AuthSettings(issuer_url=AnyHttpUrl(url), resource_server_url=None),
    )
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=ENDING)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    print(f"foldmark: MCP at {url}{PATH}, {said}", file=sys.stderr, flush=True)
    await uvicorn.Server(config).serve([opened])


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
