"""Completion of `@path` in a prompt: the entries of the folder that is typed, then files below it by a part of their
name. Hidden and git-ignored ones are offered only where nothing else fits what was typed."""

import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import PurePath
from time import monotonic

from foldmark.core.errors import CommandError
from foldmark.log import Log
from foldmark.tools.working.files import Level, Walk
from foldmark.tools.working.paths import is_inside, resolved_path, working_folder

SECONDS = 0.3
"""Maximum seconds of the walk through the folders below, which shares the processor with the person's typing."""

GIT_SECONDS = 1.0
"""Maximum seconds until git says what it ignores."""

SHORTEST = 2
"""Minimum number of typed characters for a search in the folders below."""


def paths(log: Log, typed: str, most: int) -> list[str]:
    """Return up to `most` paths that begin with the typed one, as they can be typed on; a folder ends in `/`. Empty if
    there is no such folder."""
    before, slash, name = typed.rpartition("/")
    try:
        folder = working_folder(log)
        top = resolved_path(f"{before}{slash}" or ".", folder)
    except CommandError:
        return []
    deep = len(name) >= SHORTEST and is_inside(top, folder)
    found = [f"{before}{slash}{each}" for each in islice(_entries(top, name, deep=deep), 2 * most)]
    ignored = _ignored(found, folder)
    return ([each for each in found if each not in ignored] or found)[:most]


def _entries(top: str, name: str, *, deep: bool) -> Iterator[str]:
    """Yield the entries of a folder that begin with `name` and, if `deep`, those below it whose names contain it."""
    end = monotonic() + SECONDS
    try:
        for level in Walk(top, lambda: monotonic() > end, None if deep else 1):
            yield from _fitting(level, name.casefold(), hidden=name.startswith("."))
    except OSError:  # there is no such folder, or it may not be read
        return


def _fitting(level: Level, name: str, *, hidden: bool) -> Iterator[str]:
    if not hidden and any(part.startswith(".") for part in level.below):
        return
    for entry in level.entries:
        shown = entry.name.casefold()
        if (name in shown if level.below else shown.startswith(name)) and (hidden or not shown.startswith(".")):
            yield str(PurePath(*level.below, entry.name)) + ("/" if entry.is_dir() else "")


def _ignored(paths: list[str], folder: str) -> set[str]:
    """Return the paths that git ignores; none without git or outside of a repository."""
    if not paths:
        return set()
    # A repository may name a program that git runs to learn what has changed. Typing must run nothing.
    command = ["git", "-c", "core.fsmonitor=false", "-C", folder, "check-ignore", "-z", "--stdin"]
    asked = "\0".join(paths).encode(errors="surrogateescape")
    try:
        done = subprocess.run(command, input=asked, capture_output=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return set()
    return {each.decode(errors="surrogateescape") for each in done.stdout.split(b"\0") if each}
