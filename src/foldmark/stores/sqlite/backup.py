"""Back up one moment of an SQLite database to a new file while others continue to write [SPEC 2]."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import mkstemp

import apsw

from foldmark.core.errors import StoreError
from foldmark.core.ports import Progress
from foldmark.stores.folders import flush_folder
from foldmark.stores.sqlite.file import MEMORY, connect_to_read, explained, no_database, schema_of
from foldmark.stores.sqlite.store import SqliteStore

_PAGES = 1000
"""Pages per step: 4 MB. Progress is reported and interruptions are handled between steps."""


def back_up(path: str, file: Path, progress: Progress, *, replace: bool = False) -> int:
    """Write the database at `path` to `file` and return the size of `file` in bytes.

    The backup shows one moment and takes no lock that blocks a writer. It is written next to `file` and renamed when
    it is complete, so that `file` is never half a database. Only this user may read it. An existing file is kept unless
    `replace`. `progress` receives the pages done and in all. Raises StoreError, with nothing changed.
    """
    _check(path, file, replace=replace)
    try:
        descriptor, name = mkstemp(prefix=f".{file.name}.", suffix=".part", dir=file.parent)
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror}. Name a file in another folder.") from None
    part = Path(name)
    try:
        os.close(descriptor)
        _write(path, file, part, progress)
        _check(path, file, replace=replace)  # again, because the copy took a while
        part.replace(file)
        flush_folder(file.parent)
    finally:
        for left in (part, Path(f"{part}-journal")):
            left.unlink(missing_ok=True)
    return file.stat().st_size


@contextmanager
def opened(file: Path) -> Iterator[SqliteStore]:
    """Open a backup as a store for reading; `file` is never written to. Raises StoreError."""
    if not file.is_file():
        raise StoreError(f"there is no file {file}; name one that `foldmark backup` wrote")
    with closing(SqliteStore(str(file), create=False, read_only=True)) as store:
        yield store


def _write(path: str, file: Path, part: Path, progress: Progress) -> None:
    with explained(path), closing(connect_to_read(path)) as source:
        if not schema_of(source, path):
            raise no_database(path, ": it is empty")
        # Without an open moment, every write would make the backup start again.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        try:
            with closing(apsw.Connection(str(part), flags=apsw.SQLITE_OPEN_READWRITE)) as target:
                target.execute("PRAGMA fullfsync = ON")
                with target.backup("main", source, "main") as backup:
                    while not backup.done:
                        backup.step(_PAGES)
                        progress(backup.page_count - backup.remaining, backup.page_count)
        except (apsw.CorruptError, apsw.NotADBError):
            raise
        except apsw.Error as error:
            raise StoreError(
                f"the backup could not be written to {file} ({error}). Is the disk full or gone?"
            ) from error


def _check(path: str, file: Path, *, replace: bool) -> None:
    """Raise StoreError if the target must not be written or there is nothing to back up."""
    if path == MEMORY:
        raise StoreError("a database in memory has no backup; `foldmark copy` needs a file as well")
    if not Path(path).exists():
        raise no_database(path)
    if not file.parent.is_dir():
        raise StoreError(f"there is no folder {file.parent} to put the backup in. Create it, or name another.")
    if file.is_dir():
        raise StoreError(f"{file} is a folder; name a file in it")
    if file.exists() and file.samefile(path):
        raise StoreError(f"{file} is the database itself; name another file")
    if file.exists() and not replace:
        raise StoreError(f"{file} already exists and was not changed. Name another file, or replace it with --force.")
    for ending in ("-wal", "-journal"):
        if Path(f"{file}{ending}").exists():
            # SQLite would treat its content as part of the new file.
            raise StoreError(
                f"{file}{ending} exists: a program has a database {file} open, or was killed while it had. "
                "Name another file."
            )
