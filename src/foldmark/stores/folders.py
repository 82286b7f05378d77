"""Durability of renames in a folder."""

import os
from contextlib import suppress
from pathlib import Path


def flush_folder(folder: Path) -> None:
    """Flush a rename in this folder to the disk, where the system can flush folders."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
