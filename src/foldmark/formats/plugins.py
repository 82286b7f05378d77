"""Session formats from installed packages, looked up only if no built-in format matches [SPEC 8].

A format that does not keep JSON lines converts its sessions to JSON lines. They are read from a temporary file, so all
other code only reads lines.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from foldmark.core.errors import FoldmarkError
from foldmark.plugins import entry_points

GROUP = "foldmark.session_formats"
"""The group of entry points, each of which names a class derived from `formats.SessionFormat`."""

_OWN = (".jsonl", ".zst")
"""Suffixes of files of the built-in formats."""


@lru_cache(maxsize=1)
def plugins() -> tuple[Any, ...]:
    """Return a `formats.SessionFormat` for each entry point. Raises FoldmarkError if one cannot be loaded."""
    return tuple(_loaded(point) for point in sorted(entry_points(GROUP), key=lambda each: each.name))


def custom_format(path: Path) -> Any | None:
    """Return the installed format that keeps the session at `path` in a form other than JSON lines, or None."""
    if path.suffix in _OWN:
        return None
    return next((each for each in plugins() if each.session_id(path) is not None), None)


def open_transcript(path: Path) -> tuple[str, IO[bytes]] | None:
    """Return the name of the session's format, and the session as JSON lines in a temporary file.

    Return None for a file of JSON lines. Raises OSError or ValueError if the format cannot read the session.
    """
    if (kept := custom_format(path)) is None:
        return None
    import tempfile

    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        for line in kept.transcript(path):
            file.write(line.rstrip(b"\r\n") + b"\n")
        file.flush()
    except BaseException as error:
        file.close()
        if isinstance(error, OSError | ValueError) or not isinstance(error, Exception):
            raise
        raise ValueError(f"the format of {kept.title} fails: {error!r}") from error
    return kept.name, file


def size_and_time(path: Path) -> tuple[int, int]:
    """Return a session's size in bytes and its modification time in nanoseconds.

    For a folder, all files in it count; for a session in a database, the database file. Raises OSError.
    """
    if path.suffix not in _OWN:
        while not path.exists() and path.parent != path:
            path = path.parent
        if path.is_dir():
            found = [Path(parent, name).stat() for parent, _, names in os.walk(path) for name in names]
            return sum(each.st_size for each in found), max((each.st_mtime_ns for each in found), default=0)
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def _loaded(point: Any) -> Any:
    name = f"the session format {point.name}, which {point.value} provides,"
    try:
        found = point.load()()
    except Exception as error:
        raise FoldmarkError(f"{name} fails: {error!r}") from error
    if found.name != point.name:
        raise FoldmarkError(f"{name} has another name, {found.name!r}")
    return found
