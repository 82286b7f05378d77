"""Write a file completely or not at all, because session files are other people's work [SPEC 8].

The content is written to a temporary file in the same folder, which stays locked while its process lives. A file left
by a killed process has no lock, and the next process that writes in that folder removes it.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import one_line
from foldmark.sessions.file_lock import locked
from foldmark.stores.folders import flush_folder

PREFIX, SUFFIX = ".foldmark-", ".tmp"
"""Prefix and suffix of an unfinished file. No program reads such a file as a session."""

_PIECE = 1 << 20


class WriteError(FoldmarkError):
    """A file cannot be written, or exists already."""


def mode_beside(path: Path) -> int:
    """Return the permissions for a file derived from `path`: the same, but writable by its owner."""
    return path.stat().st_mode & 0o777 | 0o600


@contextmanager
def new_file(path: Path, mode: int = 0o600) -> Iterator[IO[bytes]]:
    """Open a new file. It appears at `path` when the block ends, and never if the block raises or the process dies.

    Raises WriteError if the path exists, and for system errors.
    """
    with _beside(path, mode) as (file, name):
        yield file
        file.close()
        try:
            _link(name, path)
        except FileExistsError:
            raise already_there(path) from None


def already_there(path: Path) -> WriteError:
    """Return the error for a file that exists."""
    return WriteError(
        f"{one_line(str(path))} already exists and was not changed; name another file, or remove this one first"
    )


def _link(name: str, path: Path) -> None:
    """Give the file its path. Raises FileExistsError if the path exists."""
    try:
        os.link(name, path)  # unlike a rename, this replaces nothing
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        path.touch(0o600, exist_ok=False)
        Path(name).replace(path)


@contextmanager
def replaced_file(path: Path, mode: int = 0o600) -> Iterator[IO[bytes]]:
    """Open a file for the new content of `path`. When the block ends, it is flushed to disk and replaces the old file.

    `mode` is used if there is no file yet. Raises WriteError for system errors.
    """
    with suppress(OSError):
        mode = path.stat().st_mode & 0o777
    with _beside(path, mode) as (file, name):
        yield file
        file.flush()
        os.fsync(file.fileno())
        file.close()
        Path(name).replace(path)
        flush_folder(path.parent)


@contextmanager
def _beside(path: Path, mode: int) -> Iterator[tuple[IO[bytes], str]]:
    name = lock = None
    try:
        _remove_left(path.parent)
        descriptor, name = _temporary(path.parent)
        with os.fdopen(descriptor, "wb", buffering=_PIECE) as file:
            if sys.platform != "win32":
                lock = os.dup(descriptor)  # keeps the lock, because `file` is closed before it gets its name
                os.fchmod(descriptor, mode)
            yield file, name
    except OSError as error:
        raise WriteError(f"{one_line(str(path))} cannot be written: {error.strerror or error}") from None
    finally:
        if name is not None:
            with suppress(OSError):
                os.unlink(name)  # noqa: PTH108 - a plain name
        if lock is not None:
            os.close(lock)


def _temporary(folder: Path) -> tuple[int, str]:
    """Create a temporary file, lock it, and return its descriptor and its name. Raises OSError."""
    while True:
        name = os.fspath(folder / f"{PREFIX}{os.urandom(8).hex()}{SUFFIX}")  # `tempfile` takes 3 ms
        try:
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        except FileExistsError:
            continue
        # Until it is locked, another process may mistake it for an abandoned file and remove it.
        if sys.platform == "win32" or (locked(descriptor) and os.fstat(descriptor).st_nlink):
            return descriptor, name
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(name)  # noqa: PTH108 - a plain name


def _remove_left(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder. A locked one is still being written.

    Nothing is removed on a file system without locks or on Windows.
    """
    if sys.platform == "win32":
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [each.path for each in entries if each.name.startswith(PREFIX) and each.name.endswith(SUFFIX)]:
            with suppress(OSError):  # another user's, or already removed
                descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    if locked(descriptor, without_locks=False):
                        os.unlink(name)  # noqa: PTH108 - a plain name
                finally:
                    os.close(descriptor)
