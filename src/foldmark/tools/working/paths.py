"""Which place a model's path stands for, and whether a person has to agree that it is read [SPEC 4.1].

What lies inside the working folder is read without asking, but for what may hold secrets. A path counts as what it
leads to, after `..` and symbolic links; `opening.py` then opens that and follows no link any more, so what is read is
what was agreed to.
"""

import os
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from weakref import WeakKeyDictionary

from foldmark.core.errors import CommandError
from foldmark.core.wording import one_line
from foldmark.log import Agent, Log
from foldmark.log.asking import Asking
from foldmark.tools.approval import approve

LONGEST, MOST_PARTS = 4096, 250
"""Characters of a path, and names in it."""

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
    """Have the tools of all conversations of a log work in `folder`, not in that of the process. Raises CommandError
    if there is no such folder."""
    real = os.path.realpath(folder)
    if not Path(real).is_dir():
        raise CommandError(f"there is no folder {one_line(real)}; name one to work in")
    _folders[log] = real


def working(log: Log) -> str:
    """Return the working folder: the one that a program chose, else the process's at this moment. Raises
    CommandError."""
    try:
        return _folders.get(log) or os.path.realpath(Path.cwd())
    except OSError:
        raise CommandError("the working folder is not there any more; a person has to start anew in another") from None


def agreed(agent: Agent, tool: str, doing: str, path: str, asking: Asking) -> str:
    """Return the real path that `path` stands for, once a person has agreed where one has to; `doing` is the verb of
    the question, `read`. Raises CommandError, also for what is no path."""
    folder = working(agent.log)
    real = resolved(path, folder)
    if worry := worries(real, folder):
        approve(agent, tool, f"{doing} {one_line(real)}, {worry}", asking)
    return real


def resolved(path: str, folder: str) -> str:
    """Return the absolute path without `.`, `..` and symbolic links; `~` is the home folder, and what is relative
    begins at `folder`. It need not be there. Raises CommandError."""
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
    """Return True if a file may hold keys or passwords, told by its name and those of its folders."""
    parts = PurePath(real.lower()).parts
    name, last = parts[-1], "/".join(parts[-2:])
    return (
        any(part in _SECRET_FOLDERS for part in parts)
        or any(fnmatchcase(name, pattern) for pattern in _SECRETS)
        or last in _SECRET_PLACES
    )


def shown(path: str, folder: str | None = None) -> str:
    """Return a path as a model reads it and can give it back: relative where it lies in `folder`, on one line."""
    if folder is not None and inside(path, folder):
        path = str(PurePath(path).relative_to(folder))
    text = path if len(path) <= 200 else f"{path[:80]}…{path[-119:]}"
    return one_line(os.fsencode(text).decode("utf-8", "replace"))
