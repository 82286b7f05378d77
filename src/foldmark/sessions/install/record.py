"""What an installation wrote, so that it can be taken back byte for byte: a small file beside what it describes.

It is written before anything else is, so that an installation that was killed half-way can be taken back too. Nothing
in it is ever used as a path or run: it may come with somebody else's project.
"""

import hashlib

import msgspec
from msgspec import Struct

NAME = "foldmark-install.json"
NO_FILE = "none"
"""Instead of a hash: there was no file."""


class InstalledFile(Struct, frozen=True):
    """One file: the SHA-256 of what it was before Foldmark, `NO_FILE`, or None if what Foldmark wrote has been changed
    since; those of what Foldmark made of it; the JSON of a status line that was replaced; those of its backups."""

    original: str | None
    written: tuple[str, ...]
    replaced: str | None = None
    backups: tuple[str, ...] = ()


class InstallRecord(Struct, frozen=True):
    """Part's name -> its entry, and the folders that were made, relative to the folder in which the record lies."""

    files: dict[str, InstalledFile] = {}
    folders: tuple[str, ...] = ()
    version: int = 1


def hashed(content: bytes | None) -> str:
    """How a file's content stands in the record."""
    return NO_FILE if content is None else hashlib.sha256(content).hexdigest()


def decode(content: bytes | None) -> InstallRecord:
    """The record that a file holds; an empty one if it cannot be read."""
    try:
        return msgspec.json.decode(content or b"{}", type=InstallRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return InstallRecord()


def encode(record: InstallRecord) -> bytes:
    """The record as a file's content."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
