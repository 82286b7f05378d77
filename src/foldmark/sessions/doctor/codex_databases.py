"""Compare Codex's databases with a rollout. They are read and never written [SPEC 8].

As of Codex 0.169, in the folder that holds `sessions`:

- `state_5.sqlite`, table `threads`: a row for each session with the path of its rollout, title, model and tokens. Codex
  opens a session at that path.
- `thread_history_1.sqlite`: the turns and items that Codex shows, copied from the rollout. For each session,
  `thread_history_projection_state` has the byte and the ordinal up to which the rollout was read. Codex continues there
  and never reads earlier bytes again. Sessions in the older format (`history_mode` other than `paginated`) have no
  rows.

The findings were observed with sessions that were changed, moved or archived, then resumed and listed.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import apsw

from foldmark.core.wording import count, one_line
from foldmark.sessions.codex.rollouts import LONGEST_HEAD, store_folder
from foldmark.sessions.doctor import Finding
from foldmark.sessions.formats import SessionPath
from foldmark.sessions.lenient_json import NotJsonError, decode, member

_THREAD = "SELECT CAST(rollout_path AS TEXT), archived FROM threads WHERE id = ?"
_COPIED = (
    "SELECT CAST(next_rollout_byte_offset AS INTEGER), CAST(next_rollout_ordinal AS INTEGER) "
    "FROM thread_history_projection_state WHERE thread_id = ?"
)
_TURNS = "SELECT CAST(turn_id AS TEXT), CAST(rollout_byte_offset AS INTEGER) FROM thread_turns WHERE thread_id = ?"


class _UnreadableError(Exception):
    """A database differs from those of Codex 0.169, or cannot be read without writing."""

    def __init__(self, database: Path, why: object) -> None:
        super().__init__(f"Codex's {database.name} cannot be read, so the session was not compared with it: {why}")


def compare_databases(session: SessionPath) -> Iterator[Finding]:
    """Yield the differences between Codex's databases and the rollout; none if they do not contain it."""
    listed = _or_note(_listed, session)
    yield from listed
    if not any(each.matters for each in listed):  # otherwise Codex shows another file
        yield from _or_note(_shown, session)


def _or_note(compare: Callable[[SessionPath], Iterable[Finding]], session: SessionPath) -> list[Finding]:
    try:
        return list(compare(session))
    except _UnreadableError as error:
        return [Finding("note", None, str(error))]


def _listed(session: SessionPath) -> Iterator[Finding]:
    """Report differences in Codex's list of sessions: Codex reads only the file that the list names."""
    database = _database(session, "state_*.sqlite")
    rows = _rows(database, _THREAD, session.id) if database else []
    if database is None or not rows:
        return
    name, path = database.name, Path(str(rows[0][0]).replace("\0", ""))
    shown = one_line(str(path))
    if os.path.realpath(path) != os.path.realpath(session.path):
        if path.exists():
            why = f"Codex's {name} names another file for this session, {shown}: Codex goes on with that one"
            yield Finding("loses", None, why)
        else:
            why = f"Codex's {name} says that the session is in {shown}, where it is not: Codex cannot resume it"
            yield Finding("stops", None, f"{why}; put the file back there")
    elif rows[0][1]:
        why = f"the session is archived in Codex's {name}"
        yield Finding("note", None, f"{why}; `codex unarchive {session.id}` before resuming it")


def _shown(session: SessionPath) -> Iterator[Finding]:
    """Report turns that Codex shows wrongly: it has copied the rollout up to some byte, and misses changes before
    it."""
    database = _database(session, "thread_history_*.sqlite")
    try:
        copied = _rows(database, _COPIED, session.id) if database else []
        turns = dict(_rows(database, _TURNS, session.id)) if database and copied else {}
    except _UnreadableError as error:
        if "no such table" in str(error):  # a new database, before the first session in the present format
            return
        raise
    if database is None or not copied:
        return
    end, next_ordinal = (number or 0 for number in copied[0])
    name, size = database.name, session.path.stat().st_size
    remedy = f"close Codex and move {name} away: Codex rebuilds it from the rollouts"
    if end > size:
        why = f"Codex's {name} was read from this file up to byte {end:,}, and the file has {size:,}"
        ending = "the next messages reach the model, but Codex does not show them"
        yield Finding("loses", None, f"{why}: {ending}; {remedy}")
        return
    with session.path.open("rb") as file:
        wrong = sum(
            at is not None and (at >= size or turn.encode() not in _line_at(file, at)) for turn, at in turns.items()
        )
        file.seek(max(0, end - 1))
        at_end = not end or file.read(1) == b"\n"
        ordinal = _ordinal(_line_at(file, end)) if at_end and end < size else next_ordinal
    if wrong or not at_end or ordinal not in (None, next_ordinal):
        why = f"the file was changed after Codex's {name} was made from it"
        if wrong:
            why += f" ({count(wrong, 'turn')} of {len(turns)} stand elsewhere now, or nowhere)"
        yield Finding("loses", None, f"{why}: Codex shows other turns than those that the model gets; {remedy}")
    elif end < size:
        why = f"Codex's {name} lacks the last {size - end:,} bytes of the file"
        yield Finding("note", None, f"{why}: Codex reads them when it opens the session")


def _line_at(file: IO[bytes], at: int) -> bytes:
    """Return the line that begins at byte `at`; b"" if no line begins there."""
    file.seek(max(0, at - 1))
    if at and file.read(1) != b"\n":
        return b""
    return file.readline(LONGEST_HEAD)


def _ordinal(line: bytes) -> int | None:
    try:
        ordinal = member(decode(line), "ordinal")
    except NotJsonError:
        return None
    return ordinal if type(ordinal) is int else None


def _database(session: SessionPath, pattern: str) -> Path | None:
    """Return the newest database of a kind. The number in its name grows with its schema."""
    store = store_folder(session.path)
    found = store.parent.glob(pattern) if store else ()
    return max(found, key=lambda path: (len(path.name), path.name), default=None)


def _rows(database: Path, query: str, id: str) -> list[tuple[Any, ...]]:
    try:
        with _opened(database) as connection:
            return list(connection.execute(query, (id,)))
    except (apsw.Error, OSError, ValueError) as error:  # ValueError: no UTF-8
        raise _UnreadableError(database, error) from None


@contextmanager
def _opened(database: Path) -> Iterator[apsw.Connection]:
    """Open a database without creating or changing any file beside it.

    SQLite would create a missing index of a write-ahead log even for reading. So a database without a log is opened as
    immutable, and one with log and index is opened with the index read-only. A log without its index, which Codex
    leaves now and then, is read in a copy.
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
