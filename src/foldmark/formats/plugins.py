"""Session formats from installed packages, looked up only if no built-in format matches [SPEC 8].

A format that does not keep JSON lines converts its sessions to JSON lines. They are read from a temporary file, so all
other code only reads lines.
"""

import os
from functools import cache
from pathlib import Path
from typing import IO, Any

from foldmark.plugins import SESSION_FORMATS, find, names

_OWN = (".jsonl", ".zst")
"""Suffixes of files of the built-in formats."""


@cache
def plugin(name: str) -> Any | None:
    """Return the installed `SessionFormat` of this name; None if there is none. Raises CommandError if it fails."""
    return find(SESSION_FORMATS, name, object)


def plugins() -> tuple[Any, ...]:
    """Return all installed formats. Raises CommandError if one of them fails."""
    return tuple(map(plugin, names(SESSION_FORMATS)))


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
