"""Folders of private files: creating them, and making renames in them durable."""

import os
from contextlib import suppress
from pathlib import Path


def make_folder(folder: Path) -> None:
    """Create a folder and any missing parents, accessible only to this user; leave existing ones unchanged.
    Raises OSError."""
    if not folder.is_dir():
        make_folder(folder.parent)
        try:
            folder.mkdir(0o700)
            folder.chmod(0o700)
        except FileExistsError:
            if not folder.is_dir():
                raise


def flush_folder(folder: Path) -> None:
    """Flush a rename in this folder to disk, if the system can flush folders."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
