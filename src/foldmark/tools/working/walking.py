"""Walk a folder and its subfolders, without following links, within limits; and match names with a pattern."""

import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import PurePath
from typing import NamedTuple

from foldmark.core.errors import CommandError
from foldmark.tools.working.paths import SYSTEM, Folder, opened_folder

SKIPPED = (".git", ".hg", ".svn", "node_modules", ".venv", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache")
"""Folders that are skipped unless they are named."""

MOST_ENTRIES, MOST_DEPTH = 200_000, 100
MOST_PARTS = 40
MOST_ALTERNATIVES = 100

_BRACES = re.compile(r"\{([^{},]*,[^{}]*)\}")


class Level(NamedTuple):
    """One folder, still open: its path below the top, () for the top itself, and its entries, sorted by name."""

    below: tuple[str, ...]
    folder: Folder
    entries: list[os.DirEntry[str]]


class Walk:
    """Walks `top`, a real path, folder by folder, the nearest first, without following links.

    Ends when all was seen, after `MOST_ENTRIES` entries, `MOST_DEPTH` folders deep, or when `over` returns True;
    `complete` is True if all was seen. Unreadable folders are passed over. `skipped` are the names of `SKIPPED` that
    occurred.
    """

    def __init__(self, top: str, over: Callable[[], bool], deepest: int | None = None) -> None:
        self.complete, self.skipped = True, set[str]()
        self._top, self._over, self._deepest = top, over, deepest

    def __iter__(self) -> Iterator[Level]:
        """Raises OSError if `top` cannot be read."""
        waiting, left = deque[tuple[str, ...]]([()]), MOST_ENTRIES
        while waiting:
            if left <= 0 or self._over():
                self.complete = False
                break
            below = waiting.popleft()
            try:
                with opened_folder(str(PurePath(self._top, *below))) as folder:
                    entries = sorted(islice(folder.entries(), left), key=lambda entry: entry.name)
                    left -= len(entries)
                    self.complete = self.complete and left > 0
                    waiting.extend((*below, entry.name) for entry in entries if self._enters(below, entry))
                    yield Level(below, folder, entries)
            except OSError:
                if not below:
                    raise

    def _enters(self, below: tuple[str, ...], entry: os.DirEntry[str]) -> bool:
        if not entry.is_dir(follow_symlinks=False) or (self._deepest is not None and len(below) + 1 >= self._deepest):
            return False
        if entry.name in SKIPPED:
            self.skipped.add(entry.name)
            return False
        if len(below) + 1 >= MOST_DEPTH:
            self.complete = False
            return False
        return str(PurePath(self._top, *below, entry.name)) not in SYSTEM


class Pattern:
    """Names as in a shell: `*`, `?`, `[a-z]`, `{a,b}`, and `**` for any folders between. Raises CommandError.

    Each part is matched by itself, so that no pattern takes more time than its length times that of the path. A pattern
    of a single part matches files at any depth if it is `anywhere`.
    """

    def __init__(self, text: str, *, anywhere: bool = False) -> None:
        self._alternatives = []
        for each in _alternatives(text):
            parts = tuple(part for part in each.split("/") if part not in ("", "."))
            parts = (*parts, "*") if parts[-1:] == ("**",) else parts
            if text.startswith("/") or not parts or ".." in parts or len(parts) > MOST_PARTS:
                raise CommandError(
                    "a pattern names what is below the path, such as *.py or src/**/*.py, in up to "
                    f"{MOST_PARTS} parts; a folder elsewhere is given as path"
                )
            self._alternatives.append(("**", *parts) if anywhere and len(parts) == 1 else parts)

    @property
    def deepest(self) -> int | None:
        """The maximum number of parts of a matching path; None for any number."""
        return None if any("**" in each for each in self._alternatives) else max(map(len, self._alternatives))

    def fits(self, parts: tuple[str, ...]) -> bool:
        """Return True if a path below the top, given in parts, matches."""
        return any(_fits(parts, each) for each in self._alternatives)


def _fits(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Match the parts; `reached` are the numbers of parts that the pattern so far can have consumed."""
    reached = {0}
    for each in pattern:
        if each == "**":
            reached = set(range(min(reached), len(parts) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(parts) and fnmatchcase(parts[at], each)}
        if not reached:
            return False
    return len(parts) in reached


def _alternatives(text: str) -> list[str]:
    """Return the texts that `{a,b}` stands for, the innermost expanded first. Raises CommandError for too many."""
    done, waiting = list[str](), [text]
    while waiting:
        each = waiting.pop()
        if len(done) + len(waiting) > MOST_ALTERNATIVES:
            raise CommandError(f"a pattern stands for up to {MOST_ALTERNATIVES} alternatives of {{a,b}}; name fewer")
        if found := _BRACES.search(each):
            waiting += [each[: found.start()] + choice + each[found.end() :] for choice in found[1].split(",")]
        else:
            done.append(each)
    return done
