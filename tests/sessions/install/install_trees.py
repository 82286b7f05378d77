"""Shared by the tests of the installer: the places in a home folder, and a folder's content as a value."""

from __future__ import annotations

import stat
from pathlib import Path

from foldmark.sessions.install.locations import Places, user_places
from foldmark.sessions.install.plan import InstallOptions

PROGRAM = "/opt/fold mark/bin/foldmark"
WANTED = InstallOptions(PROGRAM, "1.2.3", mcp=True)


def tree(folder: Path) -> dict[str, tuple[int, object]]:
    """Return everything below a folder by path: mode, and content, the target of a link, or None for a folder."""
    found: dict[str, tuple[int, object]] = {}
    for path in sorted(folder.rglob("*")):
        content = str(path.readlink()) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
        found[str(path.relative_to(folder))] = stat.S_IMODE(path.lstat().st_mode), content
    return found


def files(folder: Path) -> dict[str, tuple[int, object]]:
    """Return the same without the folders."""
    return {name: value for name, value in tree(folder).items() if value[1] is not None}


def environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home)}


def places(home: Path) -> Places:
    return user_places(home, environment(home))
