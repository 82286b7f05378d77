"""The archive of coding agents' sessions: it only grows [S4, SPEC 8].

It holds `claude/<project folder>/<session>.jsonl`, for a subagent
`claude/<project folder>/<session>/subagents/<agent>.jsonl`, and `codex/YYYY/MM/DD/rollout-….jsonl`, byte for byte as
written by the agent. The new bytes of a session that has grown are appended. A session that was cut or rewritten gets a
further file, `<session>.2.jsonl`, `.3` and so on. A killed process leaves the beginning of the session, and the next
process continues. Bytes are written at their offsets in the session, so concurrent processes write the same bytes.

A session with a marker (see `marker`) is not archived. Bytes that were archived before the marker was added are removed
if the session's own file still contains them. Otherwise they are moved to `marked/`, which is not indexed. Standard
library only, because a hook archives, too.
"""

import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO, Literal, NamedTuple

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import one_line
from foldmark.formats.plugins import open_transcript
from foldmark.formats.session_format import format_named, format_of
from foldmark.sessions.file_lock import locked
from foldmark.settings.user_folders import data_folder
from foldmark.stores.folders import make_folder

State = Literal["new", "grown", "unchanged", "apart", "excluded"]

HEAD, TAIL, SAMPLE, SAMPLES = 4 << 10, 64 << 10, 4 << 10, 16
"""Bytes of an archived file and its session that are compared: the beginning, the end, and samples between them."""

LOCK_SECONDS = 10.0
"""Maximum time to wait for another process that writes the same file."""

_PIECE = 1 << 20
_MOST = 1 << 30

OPENING = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags to open any file of the archive. A pipe does not block."""

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class ArchiveError(FoldmarkError):
    """A session cannot be archived. Its own file is unchanged."""


class Put(NamedTuple):
    """The archived file of a session, and the number of bytes added.

    `state`: `new`, `grown`, `unchanged` (the archive already had all of it), `apart` (it got a further file, because
    the archived one is not its beginning), or `excluded` (it has a marker, and `path` is its own file).
    """

    path: Path
    added: int
    state: State


def archive_folder(environment: Mapping[str, str]) -> Path:
    """Return `FOLDMARK_ARCHIVE`, otherwise `archive` in this user's data folder."""
    named = environment.get("FOLDMARK_ARCHIVE")
    if named:
        return Path(os.path.abspath(os.path.expanduser(named)))  # noqa: PTH100, PTH111 - no home must not raise
    return Path(data_folder(environment), "archive")


def place(path: Path, kind: str | None = None) -> Path:
    """Return the place in the archive of the session at this absolute path. `kind` defaults to the format that the name
    indicates."""
    found = format_of(path) if kind is None else format_named(kind)
    return Path(found.name, found.archived_as(path))


def put(path: Path, folder: Path, kind: str | None = None) -> Put:
    """Archive a session file of `kind` as it is now. Raises ArchiveError."""
    path = Path(os.path.abspath(path))  # noqa: PTH100 - a link stays what it is
    first = folder / place(path, kind)
    with _explained(path, folder), _opened(path, 0) as source:
        if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
            raise ArchiveError(
                f"{one_line(str(path))} is in the archive already; name a session of Claude Code or Codex"
            )
        size = os.fstat(source.fileno()).st_size
        if _is_marked(source, size, first):
            _withdraw(source, size, first, folder)
            return Put(path, 0, "excluded")
        make_folder(first.parent)
        with _locked(first) as fresh:
            version, held = _version(source, size, first)
            if held is not None and held >= size:
                return Put(version, 0, "new" if fresh else "unchanged")
            added = _copy(source, version, held or 0, size)
            state: State = "apart" if held is None else "new" if fresh else "grown"
            return Put(version, added, state)


def holds(path: Path, folder: Path) -> bool:
    """Return True if the archive is up to date with the session file. Raises ArchiveError."""
    with _explained(path, folder), _opened(path, 0) as source:
        size = os.fstat(source.fileno()).st_size
        _, held = _version(source, size, folder / place(path))
        return held is not None and held >= size


def versions(first: Path) -> Iterator[Path]:
    """Yield the possible names of an archived session, in order, without end."""
    yield first
    for number in count(2):
        yield first.with_name(f"{first.stem}.{number}{first.suffix}")


def _is_marked(source: IO[bytes], size: int, first: Path) -> bool:
    """Return True if a session has a marker. Archived bytes have none, so only the bytes after them are read."""
    from foldmark.sessions.archive.marker import file_is_marked, line_start

    _, held = _version(source, size, first)
    return file_is_marked(source, line_start(source, min(held or 0, size)), size)


def _version(source: IO[bytes], size: int, first: Path) -> tuple[Path, int | None]:
    """Return the archived file of a session and its size, or a free name and None.

    A file that holds the whole session is preferred, then the longest file that is a beginning of it.
    """
    best: tuple[Path, int] | None = None
    for version, archived, held in _archived(first):
        if _agree(archived, source, min(held, size)):
            if held >= size:
                return version, held
            best = max(best or (version, held), (version, held), key=lambda each: each[1])
    return best or (_free_name(first), None)


def _archived(first: Path) -> Iterator[tuple[Path, IO[bytes], int]]:
    """Yield the archived files of a session, open, with their sizes."""
    for version in versions(first):
        try:
            with _opened(version, _NO_LINK) as archived:
                yield version, archived, os.fstat(archived.fileno()).st_size
        except FileNotFoundError:
            return


def _free_name(first: Path) -> Path:
    return next(name for name in versions(first) if not os.path.lexists(name))


def _agree(one: IO[bytes], other: IO[bytes], length: int) -> bool:
    """Return True if the first `length` bytes of two files are equal, judged by samples."""
    step = max(SAMPLE, (length - HEAD - TAIL) // SAMPLES)
    places = [(0, min(HEAD, length)), (max(0, length - TAIL), min(TAIL, length))]
    places += [(at, SAMPLE) for at in range(HEAD, length - TAIL, step)]
    return all(_read(one, at, size) == _read(other, at, size) for at, size in places)


def _read(file: IO[bytes], at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)


def _copy(source: IO[bytes], target: Path, start: int, end: int) -> int:
    """Copy the bytes from `start` to `end` to the same offsets of `target`. Return the number of bytes copied."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | OPENING | _NO_LINK, 0o600)
    with open(descriptor, "wb", buffering=0) as file:  # noqa: PTH123 - a descriptor
        at = _copied_by_system(source.fileno(), descriptor, start, end)
        source.seek(at)
        file.seek(at)
        while at < end and (piece := source.read(min(_PIECE, end - at))):
            left = memoryview(piece)
            while left:
                left = left[file.write(left) :]
            at += len(piece)
        os.fsync(descriptor)
    return at - start


def _copied_by_system(source: int, target: int, start: int, end: int) -> int:
    """Let the system copy the bytes, at a third of the cost. Return the offset that it reached."""
    at = start
    if sys.platform == "linux":
        with suppress(OSError):  # another file system, or no support for this
            while at < end and (copied := os.copy_file_range(source, target, min(_MOST, end - at), at, at)):
                at += copied
    return at


def _withdraw(source: IO[bytes], size: int, first: Path, folder: Path) -> None:
    """Remove a session with a marker from the archive."""
    for version, archived, held in _archived(first):
        if held <= size and all(
            _read(archived, at, _PIECE) == _read(source, at, min(_PIECE, held - at)) for at in range(0, held, _PIECE)
        ):
            version.unlink(missing_ok=True)
        else:
            aside = folder / "marked" / version.relative_to(folder)
            make_folder(aside.parent)
            with suppress(FileNotFoundError):  # another process has done it
                version.rename(_free_name(aside))


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[IO[bytes]]:
    """Open a regular file, or a transcript, for reading; never block on anything else."""
    if kept := open_transcript(path):
        with kept[1] as file:
            yield file
        return
    descriptor = os.open(path, os.O_RDONLY | OPENING | flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ArchiveError(f"{one_line(str(path))} is not a regular file; name a session file (*.jsonl)")
    with open(descriptor, "rb", buffering=_PIECE) as file:  # noqa: PTH123 - a descriptor
        yield file


@contextmanager
def _locked(first: Path) -> Iterator[bool]:
    """Keep other processes from archiving the same session. Yield True if nothing of it is archived yet.

    The lock is on the first file, which is created if needed. A file system without locks needs none: two processes
    write the same bytes.
    """
    with locked_file(first) as descriptor:
        yield os.fstat(descriptor).st_size == 0


@contextmanager
def locked_file(path: Path, flags: int = 0) -> Iterator[int]:
    """Open a file of the archive to read and write, create it if needed, and lock it for the block. Yield its
    descriptor. Raises OSError, and ArchiveError if another process holds the lock for `LOCK_SECONDS`."""
    until = time.monotonic() + LOCK_SECONDS
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | OPENING | _NO_LINK | flags, 0o600)
        try:
            if locked(descriptor) and _is(path, descriptor):
                yield descriptor
                return
        finally:
            os.close(descriptor)
        if time.monotonic() > until:
            raise ArchiveError(
                f"another process has been writing {one_line(path.name)} for {LOCK_SECONDS:.0f} seconds; "
                "repeat when it has ended"
            )
        time.sleep(0.02)


def _is(path: Path, descriptor: int) -> bool:
    """Return True if `path` is still the opened file. Another process may have removed it."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def _explained(path: Path, folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if isinstance(error, FileNotFoundError) and error.filename in (path, str(path)):
            raise ArchiveError(f"there is no file {one_line(str(path))}; name a session file (*.jsonl)") from None
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ArchiveError(
            f"{one_line(str(path))} cannot be archived in {one_line(str(folder))}: {why or error}"
        ) from None
