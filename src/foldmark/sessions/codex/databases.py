"""Codex's databases beside its rollouts, read and never written [SPEC 8].

As of Codex 0.169, in the folder that holds `sessions`:

- `state_5.sqlite`, table `threads`: a row for each session with the path of its rollout, title, model and tokens. Codex
  opens a session at that path.
- `thread_history_1.sqlite`: the turns and items that Codex shows, copied from the rollout. For each session
  `thread_history_projection_state` says up to which byte and ordinal the rollout was read; Codex goes on from there and
  never looks back. Sessions in the older format (`history_mode` other than `paginated`) have no rows in it.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

from foldmark.sessions.codex.rollouts import store_folder
from foldmark.sessions.formats import SessionPath


class CopiedHistory(Struct, frozen=True):
    """What `database` holds of a session: it was read up to byte `end`, before the line with the ordinal `ordinal`;
    `turns` is turn id -> the byte at which its first line begins, None where that is not said."""

    database: Path
    end: int
    ordinal: int
    turns: dict[str, int | None]


class ListedThread(Struct, frozen=True):
    """The row of a session in `database`: where Codex looks for its rollout."""

    database: Path
    path: Path
    archived: bool


class UnreadableError(Exception):
    """A database is not as Codex 0.169 makes it, or cannot be read without writing."""

    def __init__(self, database: Path, why: object) -> None:
        super().__init__(f"Codex's {database.name} cannot be read, so the session was not compared with it: {why}")


def thread(session: SessionPath) -> ListedThread | None:
    """Return what Codex's list of sessions says of a session; None if it is not in it. Raises UnreadableError."""
    database = _database(session, "state_*.sqlite")
    query = "SELECT CAST(rollout_path AS TEXT), archived FROM threads WHERE id = ?"
    row = next(iter(_rows(database, query, session.id)), None) if database else None
    if database is None or row is None:
        return None
    return ListedThread(database, Path(str(row[0]).replace("\0", "")), bool(row[1]))


def history(session: SessionPath) -> CopiedHistory | None:
    """Return how much of a session Codex has copied for its display; None for nothing. Raises UnreadableError."""
    database = _database(session, "thread_history_*.sqlite")
    if database is None:
        return None
    query = (
        "SELECT CAST(next_rollout_byte_offset AS INTEGER), CAST(next_rollout_ordinal AS INTEGER) "
        "FROM thread_history_projection_state WHERE thread_id = ?"
    )
    with suppress(_NoTableError):  # a new database, before the first session in the present format
        state = next(iter(_rows(database, query, session.id)), None)
        if state is not None:
            query = (
                "SELECT CAST(turn_id AS TEXT), CAST(rollout_byte_offset AS INTEGER) FROM thread_turns "
                "WHERE thread_id = ?"
            )
            return CopiedHistory(database, state[0] or 0, state[1] or 0, dict(_rows(database, query, session.id)))
    return None


class _NoTableError(UnreadableError):
    """A database has no table of the name."""


def _database(session: SessionPath, pattern: str) -> Path | None:
    """The newest database of a kind; its number grows with its schema."""
    store = store_folder(session.path)
    found = sorted(store.parent.glob(pattern), key=lambda path: (len(path.name), path.name)) if store else []
    return found[-1] if found else None


def _rows(database: Path, query: str, id: str) -> list[tuple[Any, ...]]:
    try:
        with _opened(database) as connection:
            return list(connection.execute(query, (id,)))
    except (apsw.Error, OSError, ValueError) as error:  # ValueError: no UTF-8
        kind = _NoTableError if "no such table" in str(error) else UnreadableError
        raise kind(database, error) from None


@contextmanager
def _opened(database: Path) -> Iterator[apsw.Connection]:
    """A connection that makes and changes no file beside the database.

    Opening a database with a write-ahead log for reading would make the log's index where it is missing, and an empty
    log. Without a log there is nothing beside the file. With log and index the index is opened for reading, too. A log
    without its index, which Codex leaves now and then, is read in a copy.
    """
    log, index = (database.with_name(f"{database.name}-{ending}") for ending in ("wal", "shm"))
    if log.exists() and not index.exists():
        with tempfile.TemporaryDirectory() as folder:
            for path in (database, log):
                shutil.copyfile(path, Path(folder, path.name))
            with closing(apsw.Connection(str(Path(folder, database.name)))) as connection:
                yield connection
        return
    uri = f"{database.absolute().as_uri()}?mode=ro&{'readonly_shm' if log.exists() else 'immutable'}=1"
    with closing(apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)) as connection:
        connection.set_busy_timeout(1000)
        yield connection
