"""Read the searchable messages of session records, and those around a line for `foldmark search --read` [SPEC 7, 8].

They include sidechains, abandoned branches and messages before a compaction. They do not include the second copy of a
result in a record (`toolUseResult`, Codex's `event_msg`) or the program's own instructions (Codex's developer
messages).
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any

from msgspec import Struct, json

from foldmark.core.codec import well_formed
from foldmark.core.errors import FoldmarkError
from foldmark.core.search import Excerpt, PassageMessage
from foldmark.core.wording import listing, one_line
from foldmark.formats.messages import SearchedMessage
from foldmark.formats.places import NoSessionError, session_path
from foldmark.formats.session_file import SessionFile, SessionRecord
from foldmark.formats.session_format import format_named
from foldmark.sessions.archive import index
from foldmark.sessions.archive.index import IndexFile
from foldmark.stores.rows import Row

LONGEST = 100_000
"""Maximum characters of one message that are searched."""

_LINE = re.compile(r"(.+):([0-9]{1,12})\Z", re.DOTALL)


class Passage(Struct, frozen=True):
    """Records of a session that have messages, in order."""

    file: str
    id: str
    records: tuple["Spoken", ...]


class Spoken(Struct, frozen=True):
    """The messages of one line of a session. `asked`: it is the requested line."""

    line: int
    at: str | None
    messages: tuple[SearchedMessage, ...]
    asked: bool = False


def messages_in(record: Any, kind: str) -> list[SearchedMessage]:
    """Return the messages of a record, in order; none if the record is not understood."""
    if not isinstance(record, dict):
        return []
    return [each for each in format_named(kind).searched(record) if each.text or each.tool]


def searched(record: Any, kind: str, part: int) -> str:
    """Return message number `part` of a record as it is indexed, after its tool's name; "" if there is none."""
    messages = messages_in(record, kind)
    return indexed_text(messages[part]) if part < len(messages) else ""


def texts_at(db: IndexFile, archive: Path, file: int, places: Iterable[tuple[int, int, int, int]]) -> dict[int, str]:
    """Return the texts of messages in a file of the index, by id, as they are indexed. Each place is a message's id,
    line, offset and part. A text that the file no longer has is left out."""
    texts: dict[int, str] = {}
    for name, kind in db.run("place", file=file):
        with suppress(FoldmarkError), SessionFile(index.path_of(name, archive)) as session:
            for id, line, offset, part in sorted(places, key=itemgetter(2)):
                with suppress(FoldmarkError):
                    texts[id] = searched(session.reread(line, offset).value, kind, part)
    return texts


def indexed_text(message: SearchedMessage) -> str:
    """Return the text of a message as it is indexed."""
    return (f"{message.tool}\n{message.text}" if message.tool else message.text)[:LONGEST]


def key(record: Any, part: int, message: SearchedMessage) -> int:
    """Return 64 bits that identify a message in all copies: in a fork, a trimmed session or another archive."""
    from hashlib import blake2b  # a search needs no key

    uuid = record.get("uuid")
    if isinstance(uuid, str):
        named: list[Any] = [uuid, part]
    elif message.call:
        named = [message.role, message.call]
    else:
        named = [message.role, record.get("timestamp"), message.text[:LONGEST]]
    return int.from_bytes(blake2b(json.encode(named), digest_size=8).digest(), "big", signed=True)


def read(archive: Path, named: str, around: int = 3, *, archived_only: bool = False) -> Passage:
    """Return the messages of a line and of `around` lines with messages on each side; without a line, all of a session.

    `named` has the form that `search` prints: a session's file, its id or the beginning of its id, and `:LINE`. With
    `archived_only`, a file is read only if it is in the index. Raises NoSessionError, SessionFileError, IndexFileError.
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
            f"line {line} of {one_line(str(path))} has no searchable text"
            + (f"; the nearest lines with text are {listing(each.line for each in records)}" if records else "")
        )
    return Passage(str(path), session_path(path, kind).id, tuple(records))


def excerpt(passage: Passage) -> Excerpt:
    """Return a passage message by message, as conversations are shown."""
    lines = (
        PassageMessage(
            f"line {record.line}",
            f"{passage.id}:{record.line}",
            message.role,
            message.tool,
            record.at,
            message.text,
            record.asked,
        )
        for record in passage.records
        for message in record.messages
    )
    return Excerpt(passage.file, tuple(lines))


def _spoken(file: SessionFile, kind: str, before: int, offset: int, asked: int | None) -> Iterator[Spoken]:
    for found in file.lines(before, offset):
        if isinstance(found, SessionRecord) and (messages := messages_in(found.value, kind)):
            at = found.value.get("timestamp")
            yield Spoken(found.line, at if isinstance(at, str) else None, tuple(messages), found.line == asked)


def _start(archive: Path, name: bytes | None, line: int | None, around: int) -> tuple[int, int]:
    """Return the number of lines to skip and the offset of the next line, according to the index."""
    if name is None or line is None:
        return 0, 0
    found = _rows(archive, "lines_before", path=name, line=line, most=around + 1)
    return (found[-1][0] - 1, found[-1][1]) if found else (0, 0)


def _resolved(archive: Path, session: str, *, whole: bool, archived_only: bool) -> tuple[Path, str, bytes | None]:
    """Return the named file, its format, and its name in the index."""
    if os.path.isfile(session):  # noqa: PTH113 - never raises, even for a name that is too long
        path, kinds = Path(session).absolute(), []
        name = index.named(path, archive)
        if (archive / index.NAME).is_file():
            kinds = _rows(archive, "kind", path=name)
        if kinds or not archived_only:
            return path, kinds[0][0] if kinds else session_path(path).kind, name if kinds else None
    session = well_formed(session)
    found = _rows(archive, "sessions_alike", session=session)
    ids = list(dict.fromkeys(id for id, *_ in found))
    if not found or not session:
        file = "" if archived_only else "no file and "
        raise NoSessionError(
            f"there is {file}no archived session '{one_line(session)[:200]}'; `foldmark sessions` lists them"
        )
    if ids[0] != session and len(ids) > 1:
        raise NoSessionError(
            f"several session ids begin with '{one_line(session)[:100]}': {listing(ids, 5)}; type more of it"
        )
    files = [(index.path_of(name, archive), kind, name) for id, name, kind in found if id == ids[0]]
    # Several files may hold a session. A line number refers to the file with the session's name; without a line, the
    # longest file is read.
    own = [file for file in files if session_path(file[0], file[1]).id == ids[0]]
    return files[0] if whole else (own or files)[0]


def _rows(archive: Path, statement: str, **bindings: Any) -> list[Row]:
    with index.connected(archive, write=False) as db:
        return db.run(statement, **bindings)
