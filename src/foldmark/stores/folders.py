"""Folders in which files are renamed."""

import os
from contextlib import suppress
from pathlib import Path


def flush_folder(folder: Path) -> None:
    """Have the disk keep a rename in this folder, where the system can flush folders."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
