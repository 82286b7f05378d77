"""Trimming a session in its place: it keeps its id and its name, and what it was stays beside it [SPEC 8]."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from msgspec.structs import replace

from foldmark.core.wording import listing, one_line
from foldmark.sessions.new_file import new_file, replaced_file
from foldmark.sessions.places import SessionPath
from foldmark.sessions.session_file import Piece, SessionFile
from foldmark.sessions.trim.kind import Job, TrimError, Wish
from foldmark.sessions.trim.trimming import NothingCutError, Trimmed, check_not_subagent, kind_of, write

RESTS = 10
"""Seconds for which a session must not have changed."""

_ENDING = "; close it first, trim it into a new file (without --in-place), or use --force"


class BusyError(TrimError):
    """A session is in use, or was changed while it was trimmed."""


def check_resting(session: SessionPath, environment: Mapping[str, str], now: float) -> None:
    """Raise BusyError for a session that may still be written: the one we run in, one that changed in the last
    seconds before `now` (seconds since 1970), and one that another process has open, as far as the system says."""
    named = one_line(str(session.path))
    if session.id in (environment.get("CLAUDE_CODE_SESSION_ID"), environment.get("CODEX_THREAD_ID")):
        raise BusyError(f"{named} is the session that this runs in{_ENDING}")
    with suppress(OSError):
        if (ago := now - session.path.stat().st_mtime) < RESTS:
            raise BusyError(f"{named} was changed {max(ago, 0):.0f} s ago, so that it may be in use{_ENDING}")
        if holders := sorted(_holders(session.path)):
            raise BusyError(f"{named} is open in process {listing(holders)}{_ENDING}")


def trim_in_place(session: SessionPath, wish: Wish, moment: datetime) -> Trimmed:
    """Trim a session in its place; pointers name the backup beside it. Where a link leads to the file, the link stays.
    Where nothing is cut, nothing is written.

    Raises BusyError if it changes meanwhile, and leaves it as it is then; TrimError, SessionFileError, WriteError.
    """
    check_not_subagent(session)
    kind, path = kind_of(session), Path(os.path.realpath(session.path))
    if needed := sorted({*kind.dependents(session), *kind.dependents(replace(session, path=path))}):
        others = listing(one_line(each.name) for each in needed)
        raise TrimError(f"{one_line(str(path))} is part of other sessions ({others}); trim it without --in-place")
    if database := kind.copied_to(session):
        raise TrimError(
            f"{one_line(str(path))} is copied up to a byte of it into {database.name}, from which the program shows "
            "it: it would not show what is said after a change; trim it into a new file, without --in-place"
        )
    with SessionFile(path):
        before = _state(path)
    backup = _backup(path, moment)
    try:
        with replaced_file(path) as out:
            done = write([Piece(path)], out, kind, Job(wish, backup, None), session, moment)
            out.flush()
            _check_same(path, before)
            if not done.trimmed_count:
                raise NothingCutError  # noqa: TRY301 - it takes the new file and the backup away
    except BaseException as error:
        with suppress(OSError):
            if _state(path)[:2] == before[:2]:  # it is still the file that it was
                backup.unlink()
        if isinstance(error, NothingCutError):
            return replace(done, source=session.path)
        raise
    return done


def _backup(path: Path, moment: datetime) -> Path:
    """The same file under a second name; a copy of it where it has other names already, or cannot have another.

    A program that still has the old file open adds to its end, which then is the end of the backup: behind a copy it
    would be gone. Under another name it stays as well, and whoever writes to that must not change the backup.
    """
    found = path.stat()
    backup = next(name for name in _backup_names(path, moment) if not os.path.lexists(name))
    if found.st_nlink == 1:
        with suppress(OSError):
            os.link(path, backup)
            return backup
    with path.open("rb") as source, new_file(backup, found.st_mode & 0o777) as copy:
        shutil.copyfileobj(source, copy, 1 << 20)
        copy.flush()
        os.fsync(copy.fileno())
    return backup


def _backup_names(path: Path, moment: datetime) -> Iterator[Path]:
    first = path.with_name(f"{path.name}.foldmark-backup-{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}")
    yield first
    for number in count(2):
        yield first.with_name(f"{first.name}-{number}")


def _state(path: Path) -> tuple[int, int, int, int]:
    """What tells whether a file was changed."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _check_same(path: Path, before: tuple[int, int, int, int]) -> None:
    if _state(path) != before:
        raise BusyError(f"{one_line(str(path))} was changed while it was trimmed, and is left as it is")


def _holders(path: Path) -> Iterator[int]:
    """The other processes that have a file open, as far as this system says."""
    own, found = os.getpid(), path.stat()
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) == own:
            continue
        with suppress(OSError), os.scandir(process / "fd") as descriptors:  # ended meanwhile, or somebody else's
            for descriptor in descriptors:
                with suppress(OSError):
                    other = os.stat(descriptor.path)  # noqa: PTH116 - a plain name
                    if (other.st_dev, other.st_ino) == (found.st_dev, found.st_ino):
                        yield int(process.name)
                        break
