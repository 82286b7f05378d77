"""`foldmark sync`: archive every session of the coding agents, and index the archive [SPEC 8].

A sync archives each new or changed session. Then it indexes the part of each archived file that is not indexed yet, so
it also indexes sessions that a hook or an interrupted run has archived. Unchanged files are not opened. A session that
its agent has removed stays in the archive. The archive of the episodic-memory program is indexed in place, without the
sessions that are also in Foldmark's own archive.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from foldmark.core.ports import Progress
from foldmark.core.wording import one_line
from foldmark.formats.claude.claude_format import project_folder
from foldmark.formats.places import NoSessionError, kind_in, session_path
from foldmark.formats.plugins import custom_format, size_and_time
from foldmark.formats.session_file import SessionFile, SessionFileError
from foldmark.formats.session_format import format_named, format_of, formats, is_installed
from foldmark.sessions.archive import index
from foldmark.sessions.archive.index import IndexFile
from foldmark.sessions.archive.indexing import Excluded, FileIndexing, start_again, working_folder
from foldmark.sessions.archive.storing import ArchiveError, archive_folder, holds, place, put
from foldmark.sessions.file_lock import locked
from foldmark.settings.user_folders import home

_HEAD_LINES = 200

SessionSource = tuple[Path, str]
"""A session in its agent's folder: the path, and the name of its format."""


class Synced(Struct):
    """The result of a sync.

    `sessions` counts the session files found, and `excluded` those that are kept out of the archive. Of the others, the
    archived file is `new`, `grown`, `unchanged`, or `apart`, a further file next to the first. `messages` counts the
    messages added to the index, `removed` the files removed from it. `problems` lists unreadable files with the reason.
    """

    archive: str
    sessions: int = 0
    new: int = 0
    grown: int = 0
    apart: int = 0
    unchanged: int = 0
    excluded: int = 0
    bytes: int = 0
    messages: int = 0
    removed: int = 0
    problems: list[tuple[str, str]] = []


def sync(
    environment: Mapping[str, str],
    patterns: Sequence[str] = (),
    only: Sequence[Path] = (),
    progress: Progress | None = None,
) -> Synced:
    """Bring archive and index up to date, with all sessions or with those in the files and folders `only`.

    `patterns` are folders whose sessions are excluded. `progress` receives byte counts. A sync may be interrupted at
    any moment, and the next one continues. Raises NoSessionError for a missing file, ArchiveError or IndexFileError if
    the archive or the index cannot be written at all.
    """
    folder = archive_folder(environment)
    sources = list(named_sources(only) if only else all_sources(environment))
    with _working(folder) as (db, _):
        work = _Sync(db, folder, excluding(patterns, environment), progress)
        return work.run_only(sources) if only else work.run(sources, environment)


def catch_up(
    environment: Mapping[str, str], patterns: Sequence[str] = (), progress: Progress | None = None
) -> Synced | None:
    """Index the sessions that hooks and trims have archived. Return None if there is no archive or another process is
    indexing it.

    `patterns` and `progress` are as for `sync`. Raises IndexFileError if the index cannot be written.
    """
    folder = archive_folder(environment)
    if not archived_kinds(folder):
        return None
    with _working(folder) as (db, first):
        return _Sync(db, folder, excluding(patterns, environment), progress).run((), environment) if first else None


class _StopIndexingError(Exception):
    """The time is up, or the caller has stopped the indexing."""


def index_for(
    seconds: float,
    environment: Mapping[str, str],
    patterns: Sequence[str],
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """Catch up for at most `seconds`, or until `stop()` is True. Return the number of bytes that are not indexed yet.

    `patterns` and `progress` are as for `sync`. Raises FoldmarkError, as `catch_up` does.
    """
    end, left = time.monotonic() + seconds, 0

    def watch(done: int, total: int) -> None:
        nonlocal left
        left = total - done
        if left > 0 and (stop() or time.monotonic() > end):
            raise _StopIndexingError
        if progress:
            progress(done, total)

    try:
        catch_up(environment, patterns, watch)
    except _StopIndexingError:
        return left
    return 0


def archived_kinds(folder: Path) -> list[str]:
    """Return the installed formats that have sessions in an archive."""
    return [each.name for each in sorted(folder.glob("*/")) if is_installed(each.name)]


@contextmanager
def _working(folder: Path) -> Iterator[tuple[IndexFile, bool]]:
    """Open the index of an archive for writing. Yield it, and True if no other process is indexing."""
    with index.connected(folder, write=True) as db:
        lock = os.open(folder / "index.lock", os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            yield db, locked(lock)
        finally:
            os.close(lock)


class _Known(NamedTuple):
    """A file as it was when it was last archived."""

    size: int
    modified: int
    state: str
    cwd: str | None


class _Sync:
    def __init__(self, db: IndexFile, folder: Path, excluded: Excluded, progress: Progress | None) -> None:
        self._db, self._folder, self._excluded, self._progress = db, folder, excluded, progress
        self._report = Synced(str(folder))
        self._done = self._total = 0
        self._known = {path: _Known(*row) for path, *row in db.run("sources")}

    def run(self, sources: Iterable[SessionSource], environment: Mapping[str, str]) -> Synced:
        """Archive these sessions and index the whole archive."""
        for source in sources:
            self._archive(source)
        work = [(path, kind) for kind in archived_kinds(self._folder) for path in below(self._folder / kind)]
        for path in below(episodic_archive(environment)):
            if not self._is_held(path):
                work.append((path, session_path(path).kind))
        self._index(work, everything=True)
        return self._report

    def run_only(self, sources: Iterable[SessionSource]) -> Synced:
        """Archive and index these sessions, even if they seem unchanged."""
        self._known = {}
        work = [(path, source[1]) for source in sources if (path := self._archive(source))]
        self._index(work, everything=False)
        return self._report

    def _archive(self, source: SessionSource) -> Path | None:
        """Archive a session as needed. Return its archived file if that may have changed."""
        path, kind = source
        report, name = self._report, os.fsencode(path)
        report.sessions += 1
        try:
            now = size_and_time(path)
            known = self._known.get(name)
            if known and known[:2] != now:
                known = None
            if known:
                cwd = known.cwd
            else:
                with SessionFile(path) as file:
                    cwd = folder_of(file)
            if self._excluded(cwd, format_named(kind).project(path)):
                report.excluded += 1
                if not known or known.state != "folder":
                    self._note(name, now, "folder", cwd)
                return None
            if known and known.state != "folder":
                report.unchanged += known.state != "excluded"
                report.excluded += known.state == "excluded"
                return None
            found = put(path, self._folder, kind)
        except (ArchiveError, SessionFileError, OSError) as error:
            report.problems.append((str(path), str(error)))
            return None
        setattr(report, found.state, getattr(report, found.state) + 1)
        report.bytes += found.added
        self._note(name, now, found.state, cwd)
        return None if found.state == "excluded" else found.path

    def _is_held(self, path: Path) -> bool:
        """Return True if Foldmark's own archive holds all of a file of the other archive."""
        name = os.fsencode(path)
        try:
            now = size_and_time(path)
            if (known := self._known.get(name)) and known[:3] == (*now, "held"):
                return True
            if not (self._folder / place(path)).exists() or not holds(path, self._folder):
                return False
        except (ArchiveError, OSError) as error:
            self._report.problems.append((str(path), str(error)))
            return True
        self._note(name, now, "held", None)
        return True

    def _note(self, name: bytes, now: tuple[int, int], became: str, cwd: str | None) -> None:
        self._db.run("save_source", path=name, size=now[0], modified=now[1], state=became, cwd=cwd)

    def _index(self, files: Iterable[tuple[Path, str]], *, everything: bool) -> None:
        """Index the new lines of these files. With `everything`, remove all other files from the index."""
        known = {name: row for name, *row in self._db.run("files")}
        work = []
        gone = set(known) if everything else set()
        for path, kind in files:
            name = index.named(path, self._folder)
            gone.discard(name)
            ours = not os.path.isabs(name)  # noqa: PTH117
            with suppress(OSError):
                stat = path.stat()
                if (at := self._position(known.get(name), stat, ours)) is not None:
                    work.append((path, name, kind))
                    self._total += max(0, stat.st_size - at)
        for name in gone:
            with index.transaction(self._db):
                index.remove_messages(self._db, known[name][0])
                self._db.run("remove_file", id=known[name][0])
            self._report.removed += 1
        for path, name, kind in work:
            try:
                self._report.messages += FileIndexing(self._db, path, name, kind, self._excluded).run(self._moved)
            except (SessionFileError, OSError) as error:
                self._report.problems.append((str(path), str(error)))

    def _position(self, known: list[Any] | None, stat: os.stat_result, ours: bool) -> int | None:
        """Return the offset from which to index a file, or None if it is indexed already. Files in Foldmark's archive
        (`ours`) only grow."""
        if known is None:
            return 0
        file, size, modified, offset, state, cwd, project = known
        moved = state != "marked" and self._excluded(cwd, project) != (state == "folder")
        if not moved and size == stat.st_size and (ours or modified == stat.st_mtime_ns):
            return None
        if not moved and ours and state == "indexed" and stat.st_size >= offset:
            return int(offset)
        start_again(self._db, file)
        return 0

    def _moved(self, amount: int) -> None:
        self._done += amount
        if self._progress:
            self._progress(min(self._done, self._total), self._total)


def all_sources(environment: Mapping[str, str]) -> Iterator[SessionSource]:
    """Yield every session of every format."""
    for each in formats():
        for paths in (each.sessions(environment), each.subagents(environment)):
            yield from ((path, each.name) for path in paths)


def named_sources(only: Iterable[Path]) -> Iterator[SessionSource]:
    """Yield the sessions in these files and folders. Raises NoSessionError, also for a file that is not a session.

    The archive only grows, so other files must not get into it by mistake.
    """
    for path in map(Path.absolute, only):
        if kept := custom_format(path):
            yield path, kept.name
        elif path.is_dir():
            yield from ((each, kind) for each in below(path) if (kind := _kind(each)))
        elif path.exists():
            if (kind := _kind(path)) is None:
                raise NoSessionError(
                    f"{one_line(str(path))} is no session: no line at its beginning is a record of Claude Code or Codex"
                )
            yield path, kind
        else:
            raise NoSessionError(f"there is no {one_line(str(path))}; name a session file, or a folder of them")


def _kind(path: Path) -> str | None:
    """Return the format of a session file; if it cannot be read, that of its name: archiving reports the error."""
    try:
        with SessionFile(path) as file:
            return kind_in(file, _HEAD_LINES)
    except SessionFileError:
        return session_path(path).kind


def below(folder: Path) -> list[Path]:
    """Return all session files in a folder and below it, without links."""
    found: list[str] = []
    for parent, _, names in os.walk(folder):
        paths = (os.path.join(parent, name) for name in names if name.endswith(".jsonl"))  # noqa: PTH118 - faster
        found += [path for path in paths if not os.path.islink(path)]  # noqa: PTH114
    return [Path(path) for path in sorted(found, key=lambda each: each.split(os.sep))]  # noqa: PTH206


def excluding(patterns: Sequence[str], environment: Mapping[str, str]) -> Excluded:
    """Return a function that tests whether a pattern matches a working folder, a folder above it, or the folder of its
    sessions."""
    own = home(environment)
    known = [f"{own}{each[1:]}" if each == "~" or each.startswith(("~/", "~\\")) else each for each in patterns]
    known = [each.rstrip("/") or each for each in known]

    def excluded(cwd: str | None, project: str) -> bool:
        if not known:
            return False
        if cwd is None:
            above = []
            folders = [project_folder(each) for each in known if Path(each).is_absolute()]
        else:
            above, folders = [cwd.rstrip("/") or cwd, *map(str, Path(cwd).parents)], []
        return project in folders or any(
            fnmatchcase(project, each) or any(fnmatchcase(one, each) for one in above) for each in known
        )

    return excluded


def passes_over(file: SessionFile, patterns: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return True if a session is excluded because of its folder. Raises SessionFileError."""
    project = format_of(file.path).project(file.path)
    return bool(patterns) and excluding(patterns, environment)(folder_of(file), project)


def folder_of(file: SessionFile) -> str | None:
    """Return the working folder of a session, from its first lines."""
    return next(filter(None, (working_folder(record.value) for record in file.records(_HEAD_LINES))), None)


def episodic_archive(environment: Mapping[str, str]) -> Path:
    """Return the folder in which the episodic-memory program archives sessions."""
    named = environment.get("EPISODIC_MEMORY_CONFIG_DIR") or environment.get("PERSONAL_SUPERPOWERS_DIR")
    config = Path(environment.get("XDG_CONFIG_HOME") or Path(home(environment), ".config"))
    return Path(named or config / "superpowers", "conversation-archive")
