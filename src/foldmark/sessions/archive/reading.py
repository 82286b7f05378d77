"""`foldmark search --read`: what was said around a line of a session, whole [SPEC 7]."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from foldmark.core.codec import well_formed
from foldmark.core.search import Excerpt, PassageMessage
from foldmark.core.wording import listing, one_line
from foldmark.sessions.archive import index
from foldmark.sessions.archive.records import said
from foldmark.sessions.messages import SearchedMessage
from foldmark.sessions.places import NoSessionError, session_path
from foldmark.sessions.session_file import SessionFile, SessionRecord

_LINE = re.compile(r"(.+):([0-9]{1,12})\Z", re.DOTALL)


class Passage(Struct, frozen=True):
    """Records of a session that say something, in order."""

    file: str
    id: str
    records: tuple["Spoken", ...]


class Spoken(Struct, frozen=True):
    """What one line of a session says; `asked` is the line that was asked for."""

    line: int
    at: str | None
    messages: tuple[SearchedMessage, ...]
    asked: bool = False


def read(archive: Path, named: str, around: int = 3, *, archived_only: bool = False) -> Passage:
    """What a session says in a line and in `around` speaking lines before and behind it; without a line, all of it.

    `named` is what `search` prints: a session's file or id, or the beginning of one, and `:LINE`. With `archived_only`
    a file is read only if the index has it. Raises NoSessionError, SessionFileError, IndexFileError.
    """
    match = _LINE.fullmatch(named)
    session, line = (match[1], int(match[2])) if match else (named, None)
    path, kind, name = _resolved(archive, session, whole=line is None, archived_only=archived_only)
    with SessionFile(path) as file:
        before, offset = _start(archive, name, line, around)
        records: list[Spoken] = []
        for spoken in _spoken(file, kind, before, offset, line):
            records.append(spoken)
            if line is None:
                continue
            if spoken.line <= line:
                del records[: -around - 1]
            if spoken.line >= line and sum(each.line > line for each in records) >= around:
                break
    if line is not None and not any(each.asked for each in records):
        raise NoSessionError(
            f"line {line} of {one_line(str(path))} says nothing that is searched"
            + (f"; next to it are {listing(each.line for each in records)}" if records else "")
        )
    return Passage(str(path), session_path(path, kind).id, tuple(records))


def excerpt(passage: Passage) -> Excerpt:
    """A passage to be read, message by message."""
    return Excerpt(
        passage.file,
        tuple(
            PassageMessage(
                f"line {spoken.line}",
                f"{passage.id}:{spoken.line}",
                message.role,
                message.tool,
                spoken.at,
                message.text,
                spoken.asked,
            )
            for spoken in passage.records
            for message in spoken.messages
        ),
    )


def _spoken(file: SessionFile, kind: str, before: int, offset: int, asked: int | None) -> Iterator[Spoken]:
    for found in file.lines(before, offset):
        if isinstance(found, SessionRecord) and (messages := said(found.value, kind)):
            at = found.value.get("timestamp")
            yield Spoken(found.line, at if isinstance(at, str) else None, tuple(messages), found.line == asked)


def _start(archive: Path, name: bytes | None, line: int | None, around: int) -> tuple[int, int]:
    """How many lines may be passed over, and where the next one begins, as far as the index knows."""
    if name is None or line is None:
        return 0, 0
    lines = (
        "SELECT DISTINCT m.line, m.offset FROM messages m JOIN files f ON f.id = m.file "
        "WHERE f.path = ? AND m.line <= ? ORDER BY m.offset DESC LIMIT ?"
    )
    found = _rows(archive, lines, (name, line, around + 1))
    return (found[-1][0] - 1, found[-1][1]) if found else (0, 0)


def _resolved(archive: Path, session: str, *, whole: bool, archived_only: bool) -> tuple[Path, str, bytes | None]:
    """The file that is meant, whose it is, and its name in the index."""
    path = Path(session)
    if _is_file(path):
        path = path.absolute()
        name = index.named(path, archive)
        kinds = _rows(archive, "SELECT kind FROM files WHERE path = ? AND state = 'indexed'", (name,), lenient=True)
        if kinds or not archived_only:
            return path, kinds[0][0] if kinds else session_path(path).kind, name if kinds else None
    session = well_formed(session)
    alike = (
        "SELECT session, path, kind FROM files WHERE state = 'indexed' AND substr(session, 1, length(?)) = ? "
        "ORDER BY session <> ?, size DESC, id"
    )
    found = _rows(archive, alike, (session, session, session))
    ids = list(dict.fromkeys(id for id, *_ in found))
    if not found or not session:
        file = "" if archived_only else "no file and "
        raise NoSessionError(
            f"there is {file}no archived session '{one_line(session)[:200]}'; `foldmark sessions` lists them"
        )
    if ids[0] != session and len(ids) > 1:
        raise NoSessionError(
            f"'{one_line(session)[:100]}' is the beginning of several sessions' ids: {listing(ids, 5)}; type more of it"
        )
    files = [(index.path_of(name, archive), kind, name) for id, name, kind in found if id == ids[0]]
    # Several files may hold a session; a line is one of the file that has its name, without a line the longest tells.
    own = [file for file in files if session_path(file[0], file[1]).id == ids[0]]
    return files[0] if whole else (own or files)[0]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name longer than any
        return False


def _rows(archive: Path, sql: str, values: tuple[Any, ...], *, lenient: bool = False) -> list[tuple[Any, ...]]:
    if lenient and not (archive / index.NAME).is_file():
        return []
    db = index.open_index(archive, write=False)
    with index.explained(archive / index.NAME):
        try:
            return list(islice(index.rows(db, sql, values), 10_000))
        finally:
            db.close()
