"""The files in an agent's folder."""

from collections.abc import Iterator
from pathlib import Path


def files(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield the files in a folder that fit a pattern; none if it is not there or may not be read."""
    try:
        yield from sorted(path for path in folder.glob(pattern) if path.is_file())
    except OSError:
        return
