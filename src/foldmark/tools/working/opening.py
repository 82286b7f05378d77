"""Open exactly the place that a real path names: no symbolic link on the way is followed.

A path is resolved and agreed to first (`paths.py`). Replacing one of its folders by a link between that and the opening
gains nothing: each step is opened below the one before, and a link is an error. Only regular files are opened, and
nothing blocks: a pipe, a socket or a device could hang, or have effects.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import BinaryIO, NamedTuple

from foldmark.core.errors import CommandError
from foldmark.tools.working.paths import shown

STEPWISE = {os.open, os.stat, os.readlink} <= os.supports_dir_fd and os.scandir in os.supports_fd
"""True if the system can open below an open folder (Windows cannot)."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link that leads nowhere, or was exchanged meanwhile",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _flags(*names: str) -> int:
    """Return these flags of `open`, as far as the system has them."""
    return sum(getattr(os, f"O_{name}", 0) for name in ("CLOEXEC", "NOFOLLOW", *names))


_FILE = os.O_RDONLY | _flags("NONBLOCK", "NOCTTY", "BINARY")
_FOLDER = os.O_RDONLY | _flags("DIRECTORY", "NONBLOCK")
_STEP = _flags("DIRECTORY", "PATH") if hasattr(os, "O_PATH") else _FOLDER


class Folder(NamedTuple):
    """An open folder: its real path, and its descriptor where the system has one for folders."""

    path: str
    at: int | None

    def entries(self) -> Iterator[os.DirEntry[str]]:
        """Return its entries, in no order, without `.` and `..`. Raises OSError."""
        with os.scandir(self.path if self.at is None else self.at) as entries:
            yield from entries

    def open(self, name: str) -> BinaryIO:
        """Open one of its files for reading. Raises CommandError for all but a regular file, OSError."""
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
    """Open the folder with this real path. Raises OSError, also if one of its steps is a link."""
    if not STEPWISE:
        if os.path.realpath(real) != real:
            raise OSError(errno.ELOOP, "it was exchanged for a link meanwhile")
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
    """Open the regular file with this real path, for reading. Raises CommandError for another kind, OSError."""
    with opened_folder(str(PurePath(real).parent)) as folder:
        file = folder.open(PurePath(real).name or ".")
    with file:
        yield file


def why(error: OSError, real: str) -> str:
    """Describe an error with a real path, for a model."""
    match error.errno:
        case errno.ENOENT:
            return f"there is no {shown(real)}"
        case errno.EACCES | errno.EPERM:
            return f"{shown(real)} may not be read by this user"
        case errno.ELOOP | errno.ENOTDIR:
            return f"{shown(real)} cannot be reached: a part of it is no folder, or was exchanged meanwhile"
        case _:
            return f"{shown(real)} cannot be read: {error.strerror or type(error).__name__}"


def _check_file(found: os.stat_result, path: PurePath) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind != stat.S_IFREG:
        more = "; list_files shows what is in it" if kind == stat.S_IFDIR else "; only regular files are read"
        raise CommandError(f"{shown(str(path))} is {_KINDS.get(kind, 'no regular file')}{more}")
