"""Resolve a model's path, and decide whether a person has to agree that it is read [SPEC 4.1].

Files inside the working folder are read without asking, except those that may hold secrets. A path counts as its
target, after `..` and symbolic links; `opening.py` then opens that and follows no further link, so that exactly the
agreed file is read.
"""

import os
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from weakref import WeakKeyDictionary

from foldmark.core.errors import CommandError
from foldmark.core.wording import one_line
from foldmark.log import Agent, Log
from foldmark.operations.effects import Asking
from foldmark.tools.approval import approve

LONGEST, MOST_PARTS = 4096, 250
"""Maximum number of characters of a path, and of names in it."""

_SYSTEM = ("/proc", "/sys", "/dev")
_SECRET_FOLDERS = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store")
_SECRETS = (
    *(".env*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ovpn", "id_rsa*"),
    *("id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".boto"),
    *(".s3cfg", ".dockercfg", ".htpasswd", ".git-credentials", ".*_history", "credentials", "credentials*.json"),
    *("credentials.toml", "client_secret*.json", "service-account*.json", "service_account*.json", "secrets.json"),
    *("secrets.toml", "secrets.y*ml", "*.tfstate", "application_default_credentials.json"),
)
_SECRET_PLACES = (".git/config", ".docker/config.json", "gh/hosts.yml")

_folders: WeakKeyDictionary[Log, str] = WeakKeyDictionary()


def work_in(log: Log, folder: str | os.PathLike[str]) -> None:
    """Set the working folder for the tools of all conversations of a log, instead of that of the process. Raises
    CommandError if there is no such folder."""
    real = os.path.realpath(folder)
    if not Path(real).is_dir():
        raise CommandError(f"there is no folder {one_line(real)}; name one to work in")
    _folders[log] = real


def working(log: Log) -> str:
    """Return the working folder: the one that was set, else the process's at this moment. Raises CommandError."""
    try:
        return _folders.get(log) or os.path.realpath(Path.cwd())
    except OSError:
        raise CommandError("the working folder is not there any more; a person has to start anew in another") from None


def agreed(agent: Agent, tool: str, doing: str, path: str, asking: Asking) -> str:
    """Return the real path of `path`, after a person has agreed where that is needed; `doing` is the verb of the
    question, `read`. Raises CommandError, also for an invalid path."""
    folder = working(agent.log)
    real = resolved(path, folder)
    if worry := worries(real, folder):
        approve(agent, tool, f"{doing} {one_line(real)}, {worry}", asking)
    return real


def resolved(path: str, folder: str) -> str:
    """Return the absolute path without `.`, `..` and symbolic links; `~` is the home folder, and relative paths begin
    at `folder`. The file need not exist. Raises CommandError."""
    if not path or len(path) > LONGEST or "\0" in path or path.count("/") > MOST_PARTS:
        raise CommandError(f"a path is 1 to {LONGEST:,} characters, none of them NUL, and up to {MOST_PARTS} names")
    try:
        real = os.path.realpath(PurePath(folder, os.path.expanduser(path)))  # noqa: PTH111 - Path.expanduser raises
    except (OSError, ValueError, RecursionError):
        raise CommandError(f"{shown(path)} cannot be a path here; list_files shows what there is") from None
    return f"/{real.lstrip('/')}" if real.startswith("//") else real


def worries(real: str, folder: str) -> str:
    """Return why a person has to agree that a real path is read; empty if nobody has to."""
    found = []
    if any(PurePath(real).is_relative_to(each) for each in _SYSTEM):
        found.append("which is the system's")
    elif not inside(real, folder):
        found.append(f"outside of the working folder {one_line(folder)}")
    if secret(real):
        found.append("which may hold secrets")
    return ", ".join(found)


def inside(real: str, folder: str) -> bool:
    """Return True if a real path is a real folder, or in it."""
    return PurePath(real).is_relative_to(folder)


def secret(real: str) -> bool:
    """Return True if a file may hold keys or passwords, judged by its name and those of its folders."""
    parts = PurePath(real.lower()).parts
    name, last = parts[-1], "/".join(parts[-2:])
    return (
        any(part in _SECRET_FOLDERS for part in parts)
        or any(fnmatchcase(name, pattern) for pattern in _SECRETS)
        or last in _SECRET_PLACES
    )


def shown(path: str, folder: str | None = None) -> str:
    """Return a path in a form that a model can give back: relative if it lies in `folder`, on one line."""
    if folder is not None and inside(path, folder):
        path = str(PurePath(path).relative_to(folder))
    text = path if len(path) <= 200 else f"{path[:80]}…{path[-119:]}"
    return one_line(os.fsencode(text).decode("utf-8", "replace"))
