"""Resolve a model's path, ask a person if necessary, and open exactly that path [SPEC 4.1].

Files inside the working folder are read without a question, except those that may hold secrets. A path is judged by its
target, after `..` and symbolic links. Replacing one of its folders with a link after the person has agreed gains
nothing: each step is opened below the one before, and a link is an error. Only regular files are opened, because a
pipe, a socket or a device could block or have effects.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePath
from typing import BinaryIO, NamedTuple
from weakref import WeakKeyDictionary

from foldmark.core.errors import CommandError
from foldmark.core.wording import listing, nearest, one_line
from foldmark.log import Agent, Log
from foldmark.operations.effects import Asking
from foldmark.tools.tool import all_uses, approve

LONGEST, MOST_PARTS = 4096, 250
"""Maximum number of characters of a path, and of names in it."""

SYSTEM = ("/proc", "/sys", "/dev")
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


def working_folder(log: Log) -> str:
    """Return the working folder: the one that was set, else the process's at this moment. Raises CommandError."""
    try:
        return _folders.get(log) or os.path.realpath(Path.cwd())
    except OSError:
        raise CommandError("the working folder was removed; ask the person to start again in another one") from None


def agreed_path(agent: Agent, tool: str, doing: str, path: str, asking: Asking) -> str:
    """Return the real path of `path`, after asking a person if necessary. `doing` is the verb of the question, such as
    `read`. Raises CommandError, also for an invalid path."""
    folder = working_folder(agent.log)
    real = resolved_path(path, folder)
    if worry := reason_to_ask(real, folder):
        covers = all_uses(tool, f"{tool} of any file and folder, also outside of the working folder and with secrets")
        approve(agent, tool, f"{doing} {one_line(real)}, {worry}", asking, coverage=covers)
    return real


def resolved_path(path: str, folder: str) -> str:
    """Return the absolute path without `.`, `..` and symbolic links. `~` is the home folder; relative paths begin at
    `folder`. The file need not exist. Raises CommandError."""
    if not path or len(path) > LONGEST or "\0" in path or path.count("/") > MOST_PARTS:
        raise CommandError(f"a path must have 1 to {LONGEST:,} characters, no NUL, and at most {MOST_PARTS} names")
    try:
        real = os.path.realpath(PurePath(folder, os.path.expanduser(path)))  # noqa: PTH111 - Path.expanduser raises
    except (OSError, ValueError, RecursionError):
        raise CommandError(f"{readable(path)} is not a valid path here; list_files shows what there is") from None
    return f"/{real.lstrip('/')}" if real.startswith("//") else real


def reason_to_ask(real: str, folder: str) -> str:
    """Return the reason to ask a person before a real path is read; empty if there is none."""
    found = []
    if any(PurePath(real).is_relative_to(each) for each in SYSTEM):
        found.append("which is the system's")
    elif not is_inside(real, folder):
        found.append(f"outside of the working folder {one_line(folder)}")
    if may_hold_secrets(real):
        found.append("which may hold secrets")
    return ", ".join(found)


def is_inside(real: str, folder: str) -> bool:
    """Return True if a real path is a real folder, or is in it."""
    return PurePath(real).is_relative_to(folder)


def may_hold_secrets(real: str) -> bool:
    """Return True if the names of a file and its folders suggest that it holds keys or passwords."""
    parts = PurePath(real.lower()).parts
    name, last = parts[-1], "/".join(parts[-2:])
    return (
        any(part in _SECRET_FOLDERS for part in parts)
        or any(fnmatchcase(name, pattern) for pattern in _SECRETS)
        or last in _SECRET_PLACES
    )


def readable(path: str, folder: str | None = None) -> str:
    """Return a path as a model can use it: on one line, and relative if it is in `folder`."""
    if folder is not None and is_inside(path, folder):
        path = str(PurePath(path).relative_to(folder))
    text = path if len(path) <= 200 else f"{path[:80]}…{path[-119:]}"
    return one_line(os.fsencode(text).decode("utf-8", "replace"))


STEPWISE = {os.open, os.stat, os.readlink} <= os.supports_dir_fd and os.scandir in os.supports_fd
"""True if the system can open files relative to an open folder (Windows cannot)."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link that leads nowhere, or was replaced meanwhile",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _flags(*names: str) -> int:
    """Return the flags of `open` with these names that the system has."""
    return sum(getattr(os, f"O_{name}", 0) for name in ("CLOEXEC", "NOFOLLOW", *names))


_FILE = os.O_RDONLY | _flags("NONBLOCK", "NOCTTY", "BINARY")
_FOLDER = os.O_RDONLY | _flags("DIRECTORY", "NONBLOCK")
_STEP = _flags("DIRECTORY", "PATH") if hasattr(os, "O_PATH") else _FOLDER


class Folder(NamedTuple):
    """An open folder: its real path, and its descriptor if the system supports them for folders."""

    path: str
    at: int | None

    def entries(self) -> Iterator[os.DirEntry[str]]:
        """Yield its entries, unordered and without `.` and `..`. Raises OSError."""
        with os.scandir(self.path if self.at is None else self.at) as entries:
            yield from entries

    def open(self, name: str) -> BinaryIO:
        """Open one of its files for reading. Raises CommandError if it is not a regular file, OSError."""
        place = name if self.at is not None else str(PurePath(self.path, name))
        _check_file(os.stat(place, dir_fd=self.at, follow_symlinks=False), PurePath(self.path, name))
        descriptor = os.open(place, _FILE, dir_fd=self.at)
        try:
            _check_file(os.fstat(descriptor), PurePath(self.path, name))
        except CommandError:
            os.close(descriptor)
            raise
        return os.fdopen(descriptor, "rb")

    def target(self, name: str) -> str:
        """Return the target of one of its links. Raises OSError."""
        return os.readlink(name if self.at is not None else PurePath(self.path, name), dir_fd=self.at)


@contextmanager
def opened_folder(real: str) -> Iterator[Folder]:
    """Open the folder with this real path. Raises OSError, also if a part of the path is a link."""
    if not STEPWISE:
        if os.path.realpath(real) != real:
            raise OSError(errno.ELOOP, "it was replaced by a link meanwhile")
        yield Folder(real, None)
        return
    root, *names = PurePath(real).parts
    at = os.open(root, _STEP if names else _FOLDER)
    try:
        for number, name in enumerate(names, 1):
            below = os.open(name, _STEP if number < len(names) else _FOLDER, dir_fd=at)
            os.close(at)
            at = below
        yield Folder(real, at)
    finally:
        os.close(at)


@contextmanager
def opened_file(real: str) -> Iterator[BinaryIO]:
    """Open the file with this real path for reading. Raises CommandError if it is not a regular file, OSError."""
    with opened_folder(str(PurePath(real).parent)) as folder:
        file = folder.open(PurePath(real).name or ".")
    with file:
        yield file


def _why(error: OSError, real: str) -> str:
    """Describe an error about a real path for a model."""
    match error.errno:
        case errno.ENOENT:
            return f"there is no {readable(real)}"
        case errno.EACCES | errno.EPERM:
            return f"{readable(real)} may not be read by this user"
        case errno.ELOOP | errno.ENOTDIR:
            return f"{readable(real)} cannot be reached: a part of it is not a folder, or was replaced meanwhile"
        case _:
            return f"{readable(real)} cannot be read: {error.strerror or type(error).__name__}"


def _check_file(found: os.stat_result, path: PurePath) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind != stat.S_IFREG:
        more = "; list_files shows what is in it" if kind == stat.S_IFDIR else "; only regular files are read"
        raise CommandError(f"{readable(str(path))} is {_KINDS.get(kind, 'not a regular file')}{more}")


MOST_NAMES = 1000
"""Maximum number of names in a folder that are compared."""


@contextmanager
def errors_explained(real: str, folder: str) -> Iterator[None]:
    """Turn an OSError about a real path inside the block into a CommandError, worded for a model."""
    try:
        yield
    except FileNotFoundError:
        raise CommandError(_missing(real, folder)) from None
    except OSError as error:
        raise CommandError(_why(error, real)) from None


def _missing(real: str, folder: str) -> str:
    """Return the message for a missing file, with similar names from the nearest existing folder. Outside of the
    working folder it lists no names, because the person has agreed to that one path only."""
    place, text = PurePath(real), f"there is no {readable(real, folder)}"
    for parent in place.parents:
        if not is_inside(str(parent), folder):
            break
        try:
            with opened_folder(str(parent)) as opened:
                names = sorted(readable(entry.name) for entry in islice(opened.entries(), MOST_NAMES))
        except OSError:
            continue
        below = place.relative_to(parent)
        either = f", nor a folder {readable(str(parent / below.parts[0]), folder)}" if len(below.parts) > 1 else ""
        return f"{text}{either}; {_near(below.parts[0], names)}"
    return text


def _near(name: str, names: list[str]) -> str:
    if found := nearest(name, names, 3):
        return f"did you mean {' or '.join(found)}?"
    return f"that folder has: {listing(names, 40)}" if names else "that folder is empty"


_BINARY_KINDS = (
    (b"\x89PNG", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive, or a document in one"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf", "7-Zip archive"),
    (b"\x7fELF", "ELF program"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (b"MZ", "Windows program"),
    (b"\0asm", "WebAssembly"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"\xff\xfe", "UTF-16 text; iconv -f utf-16 reads it"),
    (b"\xfe\xff", "UTF-16 text; iconv -f utf-16 reads it"),
)


def binary_kind(beginning: bytes) -> str | None:
    """Return the kind of a binary file that begins with these bytes; None for text. A NUL or the signature of a PDF
    makes a file binary."""
    if b"\0" not in beginning and not beginning.startswith(b"%PDF-"):
        return None
    return next((kind for magic, kind in _BINARY_KINDS if beginning.startswith(magic)), "binary")
