"""`read_file` and `list_files`, and the walk through folders [SPEC 4.1].

Both work in the working folder, and elsewhere if a person agrees. Lines are numbered as by `cat -n`, which models know
from coding agents [S4].
"""

import os
import re
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import PurePath
from threading import Event
from time import monotonic
from typing import Annotated, BinaryIO, NamedTuple

from msgspec import Meta, Struct

from foldmark.core.errors import CommandError
from foldmark.core.wording import count, one_line, remarks
from foldmark.log import Agent
from foldmark.operations.effects import Asking
from foldmark.sending.interruption import watched
from foldmark.tools.tool import Tool, about
from foldmark.tools.working.paths import (
    SYSTEM,
    Folder,
    agreed_path,
    binary_kind,
    errors_explained,
    opened_file,
    opened_folder,
    readable,
    working_folder,
)

SKIPPED = (".git", ".hg", ".svn", "node_modules", ".venv", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache")
"""Folders that are skipped unless they are named."""

MOST_ENTRIES, MOST_DEPTH = 200_000, 100
MOST_PARTS = 40
MOST_ALTERNATIVES = 100

_BRACES = re.compile(r"\{([^{},]*,[^{}]*)\}")


class Level(NamedTuple):
    """An open folder: its path below the top (empty for the top itself), and its entries, sorted by name."""

    below: tuple[str, ...]
    folder: Folder
    entries: list[os.DirEntry[str]]


class Walk:
    """Walks through `top`, a real path, folder by folder, the nearest first, without following links.

    It ends when everything was seen, after `MOST_ENTRIES` entries, at a depth of `MOST_DEPTH`, or when `over` returns
    True. `complete` is True if everything was seen, except unreadable folders. `skipped` holds the names of `SKIPPED`
    that occurred.
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

    Each part is matched separately, so the time is at most proportional to the lengths of pattern and path. With
    `anywhere`, a pattern of a single part matches files at any depth.
    """

    def __init__(self, text: str, *, anywhere: bool = False) -> None:
        self._alternatives = []
        for each in _alternatives(text):
            parts = tuple(part for part in each.split("/") if part not in ("", "."))
            parts = (*parts, "*") if parts[-1:] == ("**",) else parts
            if text.startswith("/") or not parts or ".." in parts or len(parts) > MOST_PARTS:
                raise CommandError(
                    "a pattern matches files below the path, such as *.py or src/**/*.py, in up to "
                    f"{MOST_PARTS} parts; give a folder elsewhere as path"
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
    """Match the parts. `reached` holds the numbers of parts that the pattern so far may have consumed."""
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


MOST_BYTES = 256 * 1024
"""Maximum bytes of one answer."""
MOST_LINE = 16 * 1024
"""Maximum bytes shown of one line."""
SECONDS = 10
"""Maximum seconds of a listing."""
_CHUNK = 1 << 20

_MOST_LINES = 10**12


class ReadFileArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, about("From the working folder, or absolute")]
    offset: Annotated[int, Meta(ge=1, le=_MOST_LINES, description="The first line to read, from 1")] = 1
    limit: Annotated[int, Meta(ge=1, le=_MOST_LINES, description="How many lines, 2000 if left out")] = 2000


def _read(agent: Agent, arguments: ReadFileArguments, asking: Asking) -> str:
    real = agreed_path(agent, "read_file", "read", arguments.path, asking)
    with errors_explained(real, working_folder(agent.log)), watched() as cut, opened_file(real) as file:
        beginning = file.read(8192) or b""
        size = max(os.fstat(file.fileno()).st_size, len(beginning))
        if kind := binary_kind(beginning):
            raise CommandError(
                f"{readable(real)} is not text ({kind}, {count(size, 'byte')}); bash can run a program that reads it"
            )
        if not beginning:
            return "[The file is empty.]"
        file.seek(0)
        return _lines(file, arguments, size, cut)


def _lines(file: BinaryIO, arguments: ReadFileArguments, size: int, cut: Event) -> str:
    """Return the requested lines, numbered, with a note on how to read the rest."""
    before = _skip(file, arguments.offset - 1, cut)
    found, left, number = list[str](), MOST_BYTES, arguments.offset
    while left > 0 and number < arguments.offset + arguments.limit and (line := file.readline(min(MOST_LINE, left))):
        left -= len(line)
        more = 0 if line.endswith(b"\n") else _rest(file, cut)
        text = getincrementaldecoder("utf-8")("replace").decode(line, final=not more).removesuffix("\n")
        if more:
            text += f" [... {count(more, 'byte')} more; bash: sed -n {number}p FILE | cut -b {len(line) + 1}-]"
        found.append(f"{number:6}\t{text}".replace("\0", "\ufffd"))
        number += 1
    if not found:
        raise CommandError(f"the file has {count(before, 'line')}; offset {arguments.offset:,} is after the last one")
    here = file.tell()
    if file.read(1):
        rest = f"{count(size - here, 'byte')} more" if size > here else "more"
        found.append(f"[... {rest}; offset={number} goes on]")
    return "\n".join(found)


def _skip(file: BinaryIO, lines: int, cut: Event) -> int:
    """Skip `lines` lines, and return the number skipped."""
    seen, ended = 0, True
    while seen < lines:
        _check_going_on(cut)
        chunk = file.read(_CHUNK)
        if not chunk:
            return seen if ended else seen + 1
        ended, found = chunk.endswith(b"\n"), chunk.count(b"\n")
        if seen + found >= lines:
            at = -1
            for _ in range(lines - seen):
                at = chunk.index(b"\n", at + 1)
            file.seek(at + 1 - len(chunk), os.SEEK_CUR)
            return lines
        seen += found
    return seen


def _rest(file: BinaryIO, cut: Event) -> int:
    """Skip the rest of this line, and return its bytes without the line end."""
    seen = 0
    while chunk := file.read(_CHUNK):
        _check_going_on(cut)
        at = chunk.find(b"\n")
        if at >= 0:
            file.seek(at + 1 - len(chunk), os.SEEK_CUR)
            return seen + at
        seen += len(chunk)
    return seen


def _check_going_on(cut: Event) -> None:
    if cut.is_set():
        raise CommandError("the turn was interrupted")


class ListFilesArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, about("The folder, the working folder if left out")] = "."
    pattern: Annotated[
        str, Meta(min_length=1, max_length=1000, description="Which of them: * if left out, **/* for all at any depth")
    ] = "*"
    limit: Annotated[int, Meta(ge=1, le=5000, description="How many are shown, 500 if left out")] = 500


def _list(agent: Agent, arguments: ListFilesArguments, asking: Asking) -> str:
    pattern = Pattern(arguments.pattern)
    real, folder = agreed_path(agent, "list_files", "list", arguments.path, asking), working_folder(agent.log)
    until, found = monotonic() + SECONDS, list[str]()
    with errors_explained(real, folder), watched() as cut:
        walk = Walk(real, lambda: cut.is_set() or monotonic() > until, pattern.deepest)
        try:
            for level in walk:
                found += _fitting(level, pattern, folder)
        except NotADirectoryError:
            raise CommandError(f"{readable(real, folder)} is not a folder; read_file reads files") from None
    _check_going_on(cut)
    return "\n".join([*found[: arguments.limit], *_notes(len(found), arguments, walk)])


def _fitting(level: Level, pattern: Pattern, folder: str) -> list[str]:
    """Return the matching entries of a folder, as paths relative to the working folder; a folder ends in `/`."""
    found = []
    for entry in level.entries:
        if not pattern.fits((*level.below, entry.name)):
            continue
        path = readable(str(PurePath(level.folder.path, entry.name)), folder)
        if entry.is_symlink():
            path += f" -> {_target(level, entry.name)}"
        elif entry.is_dir(follow_symlinks=False):
            path += "/"
        found.append(path)
    return found


def _target(level: Level, name: str) -> str:
    try:
        return readable(level.folder.target(name))
    except OSError:
        return "?"


def _notes(found: int, arguments: ListFilesArguments, walk: Walk) -> list[str]:
    """Return remarks about everything that was not listed."""
    notes = []
    if not found:
        notes.append(f"nothing matches {one_line(arguments.pattern[:100])}")
    if found > arguments.limit:
        notes.append(f"{found - arguments.limit:,} more; use a narrower path or pattern, or a higher limit")
    if not walk.complete:
        notes.append("there is too much to list everything; use a narrower path or pattern")
    if walk.skipped and "**" in arguments.pattern:
        notes.append(f"skipped: {', '.join(sorted(walk.skipped))}")
    return remarks(notes)


READ_FILE = Tool.of(
    "read_file",
    "Read a text file. Its lines come numbered. Outside of the working folder, and where there may be secrets, the "
    "person is asked first.",
    ReadFileArguments,
    _read,
    together=True,
)

LIST_FILES = Tool.of(
    "list_files",
    "List the files and folders in a folder; folders end in /. With a pattern such as **/*.py also those below it, but "
    "not in .git, node_modules and the like. Outside of the working folder the person is asked first.",
    ListFilesArguments,
    _list,
    together=True,
)
