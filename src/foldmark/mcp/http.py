"""The server over streamable HTTP, for clients that have the token; on the loopback address by default."""

import hmac
import logging
import os
import re
import secrets
import socket
import stat
import sys
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl

from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.settings.user_folders import state_folder

VARIABLE = "FOLDMARK_MCP_TOKEN"
_FORM = re.compile("[!-~]{16,512}")


class OneToken:
    """A verifier that accepts one token and refuses all others."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the client's access, or None if the token is wrong."""
        if not hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self._token):
            return None
        return AccessToken(token="", client_id="foldmark", scopes=[])


def token(environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the token and its source. A generated token is kept for the next start, in a file that only this user can
    read.

    Raises CommandError for an invalid token, FoldmarkError for a file that others can read.
    """
    if given := environment.get(VARIABLE):
        return _checked(given, VARIABLE), VARIABLE
    file = Path(state_folder(environment)) / "mcp-token"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return _checked(_kept(file), str(file)), str(file)
    made = secrets.token_urlsafe(32)
    with os.fdopen(descriptor, "w") as new:
        new.write(f"{made}\n")
    return made, str(file)


def _kept(file: Path) -> str:
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, errors="replace") as kept:
        status = os.fstat(descriptor)
        own = os.name == "nt" or (status.st_uid == os.geteuid() and not status.st_mode & 0o077)
        if not stat.S_ISREG(status.st_mode) or not own:
            raise FoldmarkError(f"other users can read the token in {file}; remove the file to get a new token")
        return kept.read(4096).strip()


def _checked(text: str, where: str) -> str:
    if _FORM.fullmatch(text) is None:
        raise CommandError(f"the token in {where} must be 16 to 512 printable ASCII characters without a space")
    return text


PATH = "/mcp"
LOOPBACK = "127.0.0.1"
ENDING = 2
"""Maximum seconds that requests may take after the server was asked to stop."""


def listening(host: str, port: int) -> socket.socket:
    """Return a listening socket. Port 0 means any free port. Raises FoldmarkError."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        opened = socket.socket(family, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen()
    except OSError as error:
        raise FoldmarkError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another with --host or --http"
        ) from None
    return opened


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach the host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def serve(
    server: Server[Any], opened: socket.socket, host: str, names: Sequence[str], token: str, said: str
) -> None:
    """Serve until the process is asked to stop.

    `names` are host names, in addition to loopback and `host`, under which clients may reach the server. Requests under
    other names, such as from a web page in a browser, and requests from pages of other origins are refused. `said` is
    printed on standard error.
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
        # No server issues tokens here. The SDK still requires an issuer, but does not publish it.
        auth=AuthSettings(issuer_url=AnyHttpUrl(url), resource_server_url=None),
    )
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=ENDING)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    print(f"foldmark: MCP at {url}{PATH}, {said}", file=sys.stderr, flush=True)
    await uvicorn.Server(config).serve([opened])


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
