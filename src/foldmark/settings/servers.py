"""The tables `[providers.NAME]` of the user file: servers of a person's own, or another address of a known one."""

import re
from typing import Any
from urllib.parse import urlsplit

from foldmark.core.errors import CommandError
from foldmark.plugins import PROVIDERS, names
from foldmark.providers.registry import ALIASES, BUILT_IN
from foldmark.settings.file import File
from foldmark.settings.given import DIALECTS, Server
from foldmark.settings.suggestions import suggestion

_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,99}")
_SECRET = re.compile(r"(key|token|secret|password|auth|authorization|bearer)$", re.IGNORECASE)
_KEYS = ["dialect", "base_url", "key_env"]


def servers(file: File) -> dict[str, Server]:
    """The providers that a file holds. Raises CommandError; what stands where a key may be is never repeated."""
    found = {}
    for name in file.table("providers"):
        table = file.table("providers", name)
        for key, value in table.items():
            try:
                _check(name, key, value)
            except CommandError as error:
                raise file.wrong(("providers", name, key), str(error)) from None
        try:
            found[name] = _server(name, table.get("dialect"), table.get("base_url"), table.get("key_env"))
        except CommandError as error:
            raise file.wrong(("providers", name), str(error)) from None
    return found


def _server(name: str, dialect: str | None, base_url: str | None, key_env: str | None) -> Server:
    if not _NAME.fullmatch(name) or name in ("offline", *ALIASES):
        raise CommandError(
            f"a provider's name is letters, digits, - and _, and not offline or google, unlike {name[:40]!r}"
        )
    if name in BUILT_IN and dialect is not None:
        raise CommandError(f"{name} is built in and has its dialect; leave dialect out, or choose another name")
    if base_url is None and key_env is None:
        raise CommandError(f"[providers.{name}] has neither base_url nor key_env; give at least one")
    return Server(None if name in BUILT_IN else dialect or "openai", base_url and base_url.rstrip("/"), key_env)


def _check(name: str, key: str, value: Any) -> None:
    if _SECRET.search(key):
        raise CommandError(
            f"keys do not stand in files: put it into a variable of the environment and name that one, as in "
            f'key_env = "{re.sub("[^A-Z0-9]", "_", name.upper())[:40]}_API_KEY"'
        )
    if key not in _KEYS:
        raise CommandError(f"a provider has no '{key[:40]}'; {suggestion(key, _KEYS)}")
    if key == "dialect" and value not in DIALECTS and value not in (own := names(PROVIDERS)):
        raise CommandError(f"dialect is one of {', '.join((*DIALECTS, *own))}")
    if key == "key_env" and not (isinstance(value, str) and _VARIABLE.fullmatch(value)):
        raise CommandError('key_env is the name of a variable in capitals, such as "MY_API_KEY", not the key itself')
    if key == "base_url":
        check_url(key, value)


def check_url(name: str, value: Any) -> None:
    """Raise CommandError unless `value` is an address that can be asked, with no password in it."""
    try:
        parts = urlsplit(value if isinstance(value, str) else "")
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or any(char.isspace() for char in value):
        raise CommandError(f'{name} is an address such as "https://host:8000/v1"')
    if parts.username is not None or parts.password is not None:
        raise CommandError(f"{name} has a name or password in it; they do not stand in files, key_env names a key")
