"""Open an SQLite file, check its format, owner and version, and explain SQLite's errors."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep, time_ns
from typing import Any

import apsw

from foldmark.core.errors import StoreError
from foldmark.stores.queries import refuse_other, schema
from foldmark.stores.waiting import LONGEST

PRIVATE = 0o600
"""The mode of a database: conversations contain private text."""

APPLICATION_ID = 0x466F6C64
"""Marks the file as Foldmark's in SQLite's header: "Fold"."""

BUSY_MILLISECONDS = round(LONGEST * 1000)

_WRITE_LOCK = 120
"""The byte of the WAL's index that a writer locks (https://www.sqlite.org/walformat.html)."""

MEMORY = ":memory:"


def place_of(path: str) -> str:
    """Return the place of the database for SQLite: `path`, or a name private to this process for one in memory."""
    return f"file:/foldmark-{os.urandom(16).hex()}?vfs=memdb" if path == MEMORY else path


def open_file(path: str, create: bool, place: str, *, read_only: bool = False) -> apsw.Connection:
    """Open the database at `path`. Raises StoreError.

    With `read_only`, or if the file is not writable, it is opened for reading. A current database is not written to.
    `place` is `place_of(path)`.
    """
    if not path or "\0" in path:
        raise StoreError("a database needs a file name; `:memory:` keeps one in memory")
    try:
        db = _connect(path, create, place, read_only=read_only)
        try:
            _prepare(db, path, create)
        except BaseException:
            db.close()
            raise
    except apsw.Error as error:
        raise explain(error, path) from error
    except UnicodeEncodeError:
        raise StoreError(f"{path} cannot be opened: its name is not UTF-8. Name another.") from None
    return db


def explain(error: apsw.Error, path: str) -> StoreError:
    """Return a one-line error for a person."""
    match error:
        case apsw.NotADBError():
            message = (
                f"{path} is not a Foldmark database. Name another with --db or FOLDMARK_DB; this file was not changed."
            )
        case apsw.ReadOnlyError():
            message = f"{path} is read-only: nothing was recorded. Allow writing to it, or work on a copy."
        case apsw.FullError():
            message = f"the disk is full: nothing was recorded in {path}. Free some space, then repeat."
        case apsw.IOError():
            message = f"{path} could not be written or read ({error}). Is the disk full or gone? Nothing was recorded."
        case apsw.BusyError() | apsw.LockedError():
            message = f"{path} is locked by another program{_writer(path)}. Wait for it to finish, then repeat; "
            message += "nothing was recorded."
        case apsw.CantOpenError() if _needs_its_folder(path):
            message = f"{path} has a {path}-wal that a killed program left, and its folder is read-only, where SQLite "
            message += "cannot read such a file. Copy both files to a folder that you may write, and name the copy."
        case apsw.CantOpenError():
            message = f"{path} cannot be opened. Is it a file, in a folder that exists and that you may read?"
        case apsw.CorruptError():
            message = f"{path} is damaged ({error}). {rescue(path)}"
        case apsw.ConnectionClosedError() | apsw.CursorClosedError():
            message = f"{path} was closed by this program; open it again"
        case _:
            message = f"{path}: {error}"
    found = StoreError(message)
    found.passes = isinstance(error, apsw.BusyError | apsw.LockedError | apsw.FullError)
    return found


def _needs_its_folder(path: str) -> bool:
    """Return True if a database has a journal, which SQLite reads with an index that it writes into the same folder,
    and that folder is not writable."""
    file = Path(os.path.realpath(path))
    return Path(f"{file}-wal").exists() and not os.access(file.parent, os.W_OK)


_SETTLED_NS = 2_000_000_000
"""Nanoseconds after which a change of a folder moves its time: file systems keep times in steps, of two seconds at
most."""


class OpenFiles:
    """The files of an open database. What is written to them once one was removed, moved or replaced is in no file that
    anybody opens."""

    def __init__(self, db: apsw.Connection) -> None:
        """`db` has just been opened; a database in memory has no files."""
        self._file = db.db_filename("main")
        self._folder = os.path.dirname(self._file)  # noqa: PTH120 - as below
        self._database = _identity(self._file)
        self._journal: tuple[int, int] | None = None
        self._settled: int | None = None
        """The time of the folder when the journal was in its place, if every later change moves this time."""

    def check(self, path: str) -> None:
        """Raise StoreError if a file is no longer in its place. The journal exists in every transaction that writes.

        The journal itself is only looked at if its folder has changed: on newer Linux, the flush of a file takes half
        as long again once somebody has asked for its times.
        """
        if not self._file:
            return
        in_place = _identity(self._file) == self._database
        changed = _changed(self._folder)
        if in_place and changed != self._settled:
            journal = _identity(f"{self._file}-wal")
            self._journal = self._journal or journal
            in_place = journal is not None and journal == self._journal
            self._settled = changed if time_ns() - changed > _SETTLED_NS else None
        if not in_place:
            raise StoreError(
                f"{path} or {path}-wal was removed, moved or replaced while it was open: nothing was recorded. Put "
                "both back, or open the database again."
            )


def _changed(folder: str) -> int:
    """Return the time of a folder's last change; 0 if it cannot be read."""
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - a path would take longer than the call, for each commit
    except OSError:
        return 0


def _identity(file: str) -> tuple[int, int] | None:
    try:
        status = os.stat(file)  # noqa: PTH116 - as above
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _writer(path: str) -> str:
    """Return the name and the number of the process that is writing to a database, in parentheses. Only Linux tells."""
    with suppress(OSError, ValueError):
        index = str(Path(f"{os.path.realpath(path)}-shm").stat().st_ino)
        for line in Path("/proc/locks").read_text().splitlines():
            # 1: POSIX  ADVISORY  WRITE 1234 fe:00:2146350 120 120
            *_, how, process, place, first, last = line.split()
            locks = how == "WRITE" and place.rpartition(":")[2] == index
            if locks and int(first) <= _WRITE_LOCK <= int(last.replace("EOF", str(_WRITE_LOCK))):
                return f" ({Path(f'/proc/{process}/comm').read_text().strip()}, process {process})"
    return ""


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn an SQLite error raised inside the block into a StoreError."""
    try:
        yield
    except apsw.Error as error:
        raise explain(error, path) from error


def rescue(path: str) -> str:
    """Return instructions for saving everything that is still readable in a damaged file."""
    from shlex import quote

    # `.dump` continues after unreadable parts; `.recover` in SQLite 3.40 fails on a schema like this one.
    marks = f"PRAGMA user_version = {schema('sqlite').number}; PRAGMA application_id = {APPLICATION_ID};"
    return (
        "Keep a copy of it. To save everything that can be read, run "
        f"`(sqlite3 {quote(path)} .dump | sed 's/^ROLLBACK.*/COMMIT;/'; echo '{marks}') | sqlite3 rescued.db`; "
        "`foldmark --db rescued.db doctor` then says what is missing."
    )


def parts_in(*row: Any) -> str:
    """Return `foldmark.text.tokens.parts_of` of a text, for calls from SQL."""
    from foldmark.text.tokens import parts_of  # only needed for appends

    return parts_of(str(row[0]))


def open_beside(file: str, place: str, *, read_only: bool) -> apsw.Connection:
    """Open another, read-only connection to a database that is open. Raises apsw.Error.

    `file` is its file, empty for one in memory, which is at `place`; it was opened with `read_only`.
    """
    if not file:
        return apsw.Connection(place, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    if read_only:
        return connect_read_only(file)
    beside = apsw.Connection(file, flags=apsw.SQLITE_OPEN_READONLY)
    beside.set_busy_timeout(BUSY_MILLISECONDS)
    return beside


def _connect(path: str, create: bool, place: str, *, read_only: bool) -> apsw.Connection:
    if path == MEMORY:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        return apsw.Connection(place, flags=flags)
    file = Path(path)
    if not file.exists():
        if not create:
            raise no_database(path)
        if not file.parent.is_dir():
            raise StoreError(f"there is no folder {file.parent} to put the database in. Create it, or name another.")
        path.encode()  # SQLite accepts names in UTF-8 only
        _create(file)
    if read_only or is_only_read(path):
        return connect_read_only(path)
    return apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)


def _create(file: Path) -> None:
    """Create an empty file, which is a new database, accessible only to this user regardless of the umask. SQLite gives
    the accompanying files the same mode."""
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE))
        file.chmod(PRIVATE)
    except FileExistsError:  # another process is creating it at this moment
        pass
    except OSError as error:
        raise apsw.CantOpenError(str(error)) from None


def narrow(path: str) -> bool:
    """Remove the permissions of others on an existing database and its accompanying files. Return True if there were
    any; permissions that this user may not change stay."""
    narrowed = False
    for file in (Path(path), *(Path(f"{os.path.realpath(path)}{ending}") for ending in ("-wal", "-shm"))):
        with suppress(OSError):
            mode = file.stat().st_mode & 0o777
            if mode & 0o077:
                file.chmod(mode & 0o700)
                narrowed = True
    return narrowed


def is_only_read(path: str) -> bool:
    """Return True if the database must be opened read-only, because the file or its folder is not writable. Raises
    OSError."""
    file = Path(os.path.realpath(path))
    # Root may write any file, but a deliberately protected file stays protected.
    protected = not file.stat().st_mode & 0o222
    return protected or not (os.access(file.parent, os.W_OK) or Path(f"{file}-wal").exists())


def connect_to_read(path: str) -> apsw.Connection:
    """Open a database for reading while others may write to it. Raises apsw.Error."""
    if is_only_read(path):
        return connect_read_only(path)
    db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    db.set_busy_timeout(BUSY_MILLISECONDS)
    return db


def connect_read_only(path: str) -> apsw.Connection:
    """Open a database that nobody writes to (see `is_only_read`). Raises apsw.Error."""
    return apsw.Connection(address_to_read(path), flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def address_to_read(path: str) -> str:
    """Return the URI that opens a database that nobody writes to."""
    from urllib.parse import quote

    return f"file:{quote(path)}{'' if Path(f'{path}-wal').exists() else '?immutable=1'}"


def _prepare(db: apsw.Connection, path: str, create: bool) -> None:
    db.set_busy_timeout(BUSY_MILLISECONDS)
    # Plans do not depend on bound values. Otherwise SQLite would prepare a query that could use partial indices again
    # for each run, which takes several times as long as the run itself.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    db.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1)
    # Overwrite erased content, and content that moves between pages before it is erased.
    db.execute("PRAGMA secure_delete = ON")
    version = schema_of(db, path)
    if version == 0 and not create and path != MEMORY:
        raise no_database(path, ": it is empty")
    if version == 0:
        switch_to_wal(db)
        _create_tables(db, path)
    db.create_scalar_function("parts_of", parts_in, 1, deterministic=True)
    db.execute("PRAGMA synchronous = FULL")
    # On macOS a disk keeps data in its cache unless F_FULLFSYNC is used; other systems do not have it.
    db.execute("PRAGMA fullfsync = ON")
    db.execute("PRAGMA checkpoint_fullfsync = ON")
    db.execute("PRAGMA journal_size_limit = 67108864")
    # The changes of a large transaction are written once instead of every time that the cache is full.
    db.execute("PRAGMA cache_size = -16384")


def switch_to_wal(db: apsw.Connection) -> None:
    """Switch to WAL. SQLite does not wait for others that switch the same new file at the same moment, so this function
    waits, as long as for a lock."""
    until = monotonic() + BUSY_MILLISECONDS / 1000
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except apsw.BusyError:
            if monotonic() >= until:
                raise
            sleep(0.02)
        else:
            return


def _create_tables(db: apsw.Connection, path: str) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have created them while this one waited for the lock.
        if not schema_of(db, path):
            number, sql = schema("sqlite")
            db.execute(sql)
            db.execute(f"PRAGMA user_version = {number}")
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def no_database(path: str, why: str = "") -> StoreError:
    """Return the error for a database that does not exist; `why` follows its path."""
    return StoreError(f"there is no database at {path}{why}. `foldmark chat` starts one; --db names another.")


def schema_of(db: apsw.Connection, path: str) -> int:
    """Return the number of the database's schema; 0 for an empty file. Raises StoreError if the database is not
    Foldmark's, or if an older or a newer version wrote it."""
    # The mark is read last: another process may be creating the database, and a reader that sees its tables must also
    # see the mark.
    tables, version, application = (
        int(db.pragma(name)) for name in ("schema_version", "user_version", "application_id")
    )
    if application != APPLICATION_ID and (application or tables or version):
        raise StoreError(
            f"{path} is an SQLite database, but not Foldmark's. Name another with --db or FOLDMARK_DB; "
            "this file was not changed."
        )
    refuse_other(path, version, schema("sqlite").number)
    return version
