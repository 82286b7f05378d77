"""The index of the archive: `index.db` in the archive's folder, a separate SQLite file [SPEC 8].

It holds the words of the messages, their vectors if there are any, and the place of each message in its file, but not
the texts. It is computed from the session files, so it may be deleted, and an index of another version is rebuilt. It
is not in the database, because several machines may share a database, but session files belong to one machine.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

from foldmark.core.codec import timestamp
from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import one_line
from foldmark.stores.queries import VECTORS, listed, named_queries
from foldmark.stores.rows import Row
from foldmark.stores.sqlite.file import address_to_read, is_only_read, switch_to_wal

NAME = "index.db"
VERSION = 3
APPLICATION_ID = 0x466F6C41
"""Marks the file as an index of Foldmark's archive: "FolA"."""

_BUSY_MILLISECONDS = 60_000
_SQL = Path(__file__).parent / "sql"


class IndexFileError(FoldmarkError):
    """The index is missing, cannot be used, or is another program's file."""


class IndexFile(apsw.Connection):
    """An open index. Its statements are in `sql/queries.sql`."""

    def run(self, name: str, /, **bindings: Any) -> list[Row]:
        """Return the rows of a statement."""
        return self.execute(statement(name), bindings).fetchall()

    # The names that `stores.vectors.SqlVectors` calls.
    write = run
    listed = staticmethod(listed)


def statement(name: str) -> str:
    """Return a statement by its name."""
    return named_queries(VECTORS, _SQL / "queries.sql")[name]


@contextmanager
def connected(folder: Path, *, write: bool) -> Iterator[IndexFile]:
    """Open the index of an archive for the block. Raises IndexFileError, also inside the block."""
    with closing(open_index(folder, write=write)) as db, _explained(folder / NAME):
        yield db


def open_index(folder: Path, *, write: bool) -> IndexFile:
    """Return a connection to the index of an archive. With `write`, create it if needed. Raises IndexFileError."""
    path = folder / NAME
    if not write and not path.is_file():
        raise IndexFileError(f"nothing is archived in {one_line(str(folder))} yet; run `foldmark sync`")
    with _explained(path):
        if write:
            from foldmark.stores.folders import make_folder

            make_folder(folder)
            _touch(path)
        try:
            return _opened(path, write)
        except (apsw.NotADBError, apsw.CorruptError):
            if not write:
                raise
            _set_aside(path)
            _touch(path)
            return _opened(path, write)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Convert errors of SQLite and of the system into IndexFileError."""
    try:
        yield
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise IndexFileError(
            f"the index {one_line(str(path))} is damaged ({error}); delete it, then `foldmark sync` rebuilds it"
        ) from None
    except apsw.Error as error:
        raise IndexFileError(f"the index {one_line(str(path))} cannot be used now: {error}; repeat it later") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise IndexFileError(f"the index {one_line(str(path))} cannot be used: {why or error}") from None


@contextmanager
def transaction(db: IndexFile) -> Iterator[IndexFile]:
    """Commit everything that a block writes, or nothing. Other writers wait."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def remove_messages(db: IndexFile, file: int, offset: int = 0) -> None:
    """Remove the messages of a file from `offset` on."""
    db.run("remove_words", file=file, offset=offset)
    db.run("remove_messages", file=file, offset=offset)


def named(path: Path, folder: Path) -> bytes:
    """Return the name of a file in the index."""
    return os.fsencode(path).removeprefix(os.path.join(os.fsencode(folder), b""))  # noqa: PTH118 - a tenth of the time


def path_of(name: bytes, folder: Path) -> Path:
    """Return the path of a file by its name in the index."""
    return folder / os.fsdecode(name)


def time_of(moment: int | None) -> str | None:
    """Return a time of the index in ISO 8601, UTC."""
    if moment is None:
        return None
    return timestamp(datetime.fromtimestamp(moment / 1000, UTC), "milliseconds")


def _opened(path: Path, write: bool) -> IndexFile:
    if not write and is_only_read(str(path)):
        db = IndexFile(address_to_read(str(path)), flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    else:
        db = IndexFile(str(path), flags=apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY)
    try:
        db.set_busy_timeout(_BUSY_MILLISECONDS)
        db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        current = _is_current(db, path, write)
        if not write:
            return db
        switch_to_wal(db)
        db.execute("PRAGMA synchronous = NORMAL")
        if not current:
            _make(db)
    except BaseException:
        db.close()
        raise
    return db


def _is_current(db: IndexFile, path: Path, write: bool) -> bool:
    """Return True if the index is of this version.

    Raises IndexFileError for another program's file and, unless it is opened to `write`, for another version.
    """
    db.execute("BEGIN")  # one snapshot: another process may be creating the tables
    try:
        version, application = int(db.pragma("user_version")), int(db.pragma("application_id"))
        filled = db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is not None
    finally:
        db.execute("ROLLBACK")
    if application != APPLICATION_ID and (application or filled):
        raise IndexFileError(
            f"{one_line(str(path))} is no index of Foldmark's; name another folder with FOLDMARK_ARCHIVE"
        )
    if version != VERSION and not write:
        raise IndexFileError(f"the index {one_line(str(path))} is of another version; run `foldmark sync`")
    return version == VERSION


def _make(db: IndexFile) -> None:
    """Create the tables, and drop those of another version."""
    with transaction(db):
        if int(db.pragma("user_version")) == VERSION:  # another process has done it
            return
        for name in ("words", "vectors", "signatures", "embedders", "messages", "sources", "files"):
            db.execute(f"DROP TABLE IF EXISTS {name}")
        db.execute((_SQL / "schema.sql").read_text(encoding="utf-8"))
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {VERSION}")


def _touch(path: Path) -> None:
    """Create the file if it is missing, accessible only to this user. An empty file is a new database."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _set_aside(path: Path) -> None:
    """Rename a file that is not a database."""
    path.replace(path.with_name(f"{NAME}.damaged"))
    for ending in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(NAME + ending).unlink()
