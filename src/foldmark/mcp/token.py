"""The bearer token without which nobody is served over HTTP: given in the environment, or made and kept in a file."""

import hmac
import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from mcp.server.auth.provider import AccessToken

from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.settings.user_folders import state_folder

VARIABLE = "FOLDMARK_MCP_TOKEN"
_FORM = re.compile("[!-~]{16,512}")


class OneToken:
    """Lets one token in."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        """Whoever has the token; nobody else."""
        if not hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self._token):
            return None
        return AccessToken(token="", client_id="foldmark", scopes=[])


def token(environment: Mapping[str, str]) -> tuple[str, str]:
    """The token, and where it is from. One that is made is kept for the next time, readable for this user alone.

    Raises CommandError for one that is not fit to be one, FoldmarkError for a file of somebody else's.
    """
    if given := environment.get(VARIABLE):
        return _checked(given, VARIABLE), VARIABLE
    file = Path(state_folder(environment)) / "mcp-token"
    file.parent.mkdir(parents=True, exist_ok=True)
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
            raise FoldmarkError(f"others can read the token in {file}; remove it, and a new one is made")
        return kept.read(4096).strip()


def _checked(text: str, where: str) -> str:
    if _FORM.fullmatch(text) is None:
        raise CommandError(f"the token in {where} is not 16 to 512 printable ASCII characters without a space")
    return text
