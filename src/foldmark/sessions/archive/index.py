"""The index of the archive: `index.db` in the archive's folder, an SQLite file of its own [SPEC 8].

It holds the words of the messages, their vectors if there are any, and the place of each message in its file, but not
the texts. It is computed from the session files, so it may be deleted, and an index of another version is rebuilt. It
is not in the database, because many machines may share that and session files belong to this machine.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import apsw

from foldmark.core.codec import timestamp
from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import one_line
from foldmark.stores.sqlite.file import connect_read_only, is_only_read, switch_to_wal

NAME = "index.db"
VERSION = 2
APPLICATION_ID = 0x466F6C41
"""Marks the file as an index of Foldmark's archive: "FolA"."""

_BUSY_MILLISECONDS = 60_000
_SCHEMA = """
-- Session files that are indexed, or not to be, up to `line` and `offset`. `path` is as the system has it, below the
-- archive if it is in there. `state` is indexed, folder (excluded by its folder) or marked (by a marker in it);
-- `first` and `last` are the times of its messages in milliseconds; `calls` are those without a result so far, as JSON
-- id -> tool.
CREATE TABLE files (
    id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, kind TEXT NOT NULL, session TEXT NOT NULL, project TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'indexed', size INTEGER NOT NULL DEFAULT 0, modified INTEGER NOT NULL DEFAULT 0,
    line INTEGER NOT NULL DEFAULT 0, offset INTEGER NOT NULL DEFAULT 0,
    cwd TEXT, title TEXT, parent TEXT, why TEXT, first INTEGER, last INTEGER, calls TEXT NOT NULL DEFAULT '{}'
);
-- Session files as they were when they were last archived; `state` as in `Put`, or folder (excluded by it), or held:
-- the archive has all of it.
CREATE TABLE sources (
    path BLOB PRIMARY KEY, size INTEGER NOT NULL, modified INTEGER NOT NULL, state TEXT NOT NULL, cwd TEXT
) WITHOUT ROWID;
-- An id is never given a second time: vectors are made by it while other messages come and go.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER NOT NULL, line INTEGER NOT NULL, offset INTEGER NOT NULL,
    part INTEGER NOT NULL, role TEXT NOT NULL, tool TEXT, moment INTEGER, key INTEGER NOT NULL
);
CREATE INDEX messages_of_file ON messages (file, offset);
CREATE INDEX messages_of_key ON messages (key) WHERE role IN ('user', 'assistant');
-- Models of embeddings and the message up to which there are vectors; of a message's passages one behind the other, and
-- apart from them the signs of their components. The first copy of a message has them, while it is in the index.
CREATE TABLE embedders (
    key INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, until INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE vectors (
    message INTEGER NOT NULL, embedder INTEGER NOT NULL, vectors BLOB NOT NULL, PRIMARY KEY (message, embedder)
) WITHOUT ROWID;
CREATE TABLE signatures (
    message INTEGER NOT NULL, embedder INTEGER NOT NULL, signatures BLOB NOT NULL, PRIMARY KEY (message, embedder)
) WITHOUT ROWID;
CREATE TRIGGER vectors_of_gone AFTER DELETE ON messages WHEN old.role IN ('user', 'assistant') BEGIN
    UPDATE OR REPLACE vectors SET message = next.id FROM (
        SELECT min(id) AS id FROM messages WHERE key = old.key AND role IN ('user', 'assistant')
    ) next WHERE message = old.id AND next.id IS NOT NULL;
    DELETE FROM vectors WHERE message = old.id;
    UPDATE OR REPLACE signatures SET message = next.id FROM (
        SELECT min(id) AS id FROM messages WHERE key = old.key AND role IN ('user', 'assistant')
    ) next WHERE message = old.id AND next.id IS NOT NULL;
    DELETE FROM signatures WHERE message = old.id;
END;
CREATE VIRTUAL TABLE words USING fts5 (
    text, parts, content = '', contentless_delete = 1,
    tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
);
"""


class IndexFileError(FoldmarkError):
    """The index is missing, cannot be used, or is another program's file."""


@contextmanager
def connected(folder: Path, *, write: bool) -> Iterator[apsw.Connection]:
    """Open the index of an archive for the block. Raises IndexFileError, also inside the block."""
    with closing(open_index(folder, write=write)) as db, _explained(folder / NAME):
        yield db


def open_index(folder: Path, *, write: bool) -> apsw.Connection:
    """Return a connection to the index of an archive. To `write`, create it if needed. Raises IndexFileError."""
    path = folder / NAME
    if not write and not path.is_file():
        raise IndexFileError(f"nothing is archived in {one_line(str(folder))} yet; run `foldmark sync`")
    with _explained(path):
        if write:
            from foldmark.sessions.archive.storing import make_folder

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
        raise IndexFileError(f"the index {one_line(str(path))} cannot be used now: {error}") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise IndexFileError(f"the index {one_line(str(path))} cannot be used: {why or error}") from None


@contextmanager
def transaction(db: apsw.Connection) -> Iterator[None]:
    """Commit all of a block, or nothing. Other writers wait."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def remove_messages(db: apsw.Connection, file: int, offset: int = 0) -> None:
    """Remove the messages of a file from `offset` on."""
    gone = "SELECT id FROM messages WHERE file = ? AND offset >= ?"
    db.execute(f"DELETE FROM words WHERE rowid IN ({gone})", (file, offset))
    db.execute("DELETE FROM messages WHERE file = ? AND offset >= ?", (file, offset))


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


def _opened(path: Path, write: bool) -> apsw.Connection:
    if not write and is_only_read(str(path)):
        db = connect_read_only(str(path))
    else:
        flags = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
        db = apsw.Connection(str(path), flags=flags)
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


def _is_current(db: apsw.Connection, path: Path, write: bool) -> bool:
    """Return True if the index is of this version.

    Raises IndexFileError for another program's file and, unless it is opened to `write`, for another version.
    """
    db.execute("BEGIN")  # one moment: another process may be making the tables
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


def _make(db: apsw.Connection) -> None:
    """Create the tables, and drop those of another version."""
    with transaction(db):
        if int(db.pragma("user_version")) == VERSION:  # another process has done it
            return
        for name in ("words", "vectors", "signatures", "embedders", "messages", "sources", "files"):
            db.execute(f"DROP TABLE IF EXISTS {name}")
        db.execute(_SCHEMA)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {VERSION}")


def _touch(path: Path) -> None:
    """Create the file if it is missing, for this user alone. An empty file is a new database."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _set_aside(path: Path) -> None:
    """Rename a file that is not a database."""
    path.replace(path.with_name(f"{NAME}.damaged"))
    for ending in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(NAME + ending).unlink()
