"""The files in an agent's folder."""

from collections.abc import Iterator
from pathlib import Path


def files(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield the files in a folder that match a pattern; none if the folder is missing or unreadable."""
    try:
        yield from sorted(path for path in folder.glob(pattern) if path.is_file())
    except OSError:
        return
