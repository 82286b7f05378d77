"""The records of coding sessions: which session continued which, whose work it was, and why it ended [S4, SPEC 8].

They are in the file `sessions.jsonl` of the archive, because sessions belong to one machine. The file only grows: each
line is the whole record of a session, and the newest line of a session counts. Nothing else holds the records, so the
file is not part of the index, which may be deleted. The beginning of a line that a killed process or a full disk left
is skipped, like any other line that is no record.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from foldmark.core.codec import well_formed
from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import one_line
from foldmark.formats.session_format import SessionPath
from foldmark.sessions.archive.storing import OPENING, locked_file
from foldmark.stores.folders import make_folder

NAME = "sessions.jsonl"
"""Name of the file in the archive's folder."""

ISSUE = ("FOLDMARK_ISSUE", "ISSUE_REF")
WORKER = ("FOLDMARK_WORKER", "WORKER_ID")
"""Environment variables that name the issue and the worker, in the order in which they are tried."""

_LONGEST_NAME, _DIGITS = 200, 18


class LineageError(FoldmarkError):
    """The records of coding sessions cannot be read or written. The sessions themselves are unchanged."""


class CodingSession(Struct, frozen=True):
    """One session of a coding agent.

    `kind` is `claude` or `codex`, `session_id` is the agent's own id of the session, `file` its path. `parent` is the
    `session_id` of the session that it continues, of the same kind; `session_number` counts from 1 along such a chain.
    Times are as in `Event.created_at`; `context_at_end` is a percentage of the model's window; `summary` is the summary
    that a rollover handed over. Unknown fields are None.
    """

    kind: str
    session_id: str
    file: str
    parent: str | None = None
    session_number: int = 1
    worker_id: int | str | None = None
    issue: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    end_reason: Literal["rollover", "trim", "completed"] | None = None
    context_at_end: int | None = None
    summary: str | None = None


Records = dict[tuple[str, str], CodingSession]
"""Records by kind and session id, in the order in which the sessions became known."""


class Work(Struct, frozen=True):
    """The worker and the issue of a session; None if unknown."""

    worker: int | str | None = None
    issue: str | None = None


def find_work(environment: Mapping[str, str], *, worker: str | None = None, issue: str | None = None) -> Work:
    """Return the given worker and issue; those not given come from the environment."""
    name = _name(worker, WORKER, environment)
    is_number = name is not None and name.isascii() and name.isdigit() and len(name) <= _DIGITS
    return Work(int(name) if name is not None and is_number else name, _name(issue, ISSUE, environment))


def records(archive: Path) -> Records:
    """Return the records in an archive; none if there is no such folder or file. Raises LineageError."""
    path = archive / NAME
    try:
        descriptor = os.open(path, os.O_RDONLY | OPENING)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
            return _decoded(file.read() or b"")  # None: a pipe
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise LineageError(f"{one_line(str(path))} cannot be read: {error.strerror}") from None


def record_of(known: Records, session: SessionPath) -> CodingSession:
    """Return the record of a session, or a new record from its path."""
    id, path = well_formed([session.id, str(session.path)])  # the name of a file may be invalid Unicode
    return known.get((session.kind, id)) or CodingSession(session.kind, id, path)


def record_end(archive: Path, session: SessionPath, context: int | None, at: str) -> CodingSession:
    """Record that a session was completed at the time `at`, at `context` percent of the model's window (None: unknown).

    A completed session may have been resumed since, so the new end counts. But every process ends like this, also after
    a trim or a rollover, whose record stays. Return the record. Raises LineageError or ArchiveError.
    """
    with _recording(archive) as (known, added):
        before = record_of(known, session)
        if before.end_reason in ("trim", "rollover"):
            return before
        ended = structs.replace(before, ended_at=at, end_reason="completed", context_at_end=context)
        added.append(ended)
        return ended


def record_handover(
    archive: Path,
    session: SessionPath,
    new: SessionPath,
    reason: Literal["rollover", "trim"],
    context: int | None,
    work: Work,
    at: str,
    summary: str | None = None,
) -> CodingSession:
    """Record together that `session` ended at the time `at`, and that `new` began then and continues it.

    `work` belongs to the new session, by default that of the old one. It also fills in a missing worker or issue of the
    old one. A later end replaces an earlier one, whose summary stays if there is no new one. Return the new session's
    record. Raises LineageError or ArchiveError.
    """
    id, path = well_formed([new.id, str(new.path)])
    with _recording(archive) as (known, added):
        before = record_of(known, session)
        ended = structs.replace(
            before,
            worker_id=work.worker if before.worker_id is None else before.worker_id,
            issue=before.issue or work.issue,
            ended_at=at,
            end_reason=reason,
            context_at_end=context,
            summary=before.summary if summary is None else summary,
        )
        begun = CodingSession(
            new.kind,
            id,
            path,
            parent=ended.session_id,
            session_number=ended.session_number + 1,
            worker_id=ended.worker_id if work.worker is None else work.worker,
            issue=ended.issue if work.issue is None else work.issue,
            started_at=at,
        )
        added += [ended, begun]
        return begun


@contextmanager
def _recording(archive: Path) -> Iterator[tuple[Records, list[CodingSession]]]:
    """Lock the file, and yield its records and an empty list. The records in the list are appended together."""
    path, added = archive / NAME, list[CodingSession]()
    try:
        make_folder(archive)
        with locked_file(path, os.O_APPEND) as descriptor, open(descriptor, "r+b", 0, closefd=False) as file:
            file.seek(0)  # a lock on Windows is taken elsewhere
            data = file.read() or b""  # None: a pipe
            yield _decoded(data), added
            lines = b"".join(msgspec.json.encode(each) + b"\n" for each in added)
            if lines:
                _append(descriptor, lines if not data or data.endswith(b"\n") else b"\n" + lines, len(data))
    except OSError as error:
        raise LineageError(f"{one_line(str(path))} cannot be written: {error.strerror}") from None


def _append(descriptor: int, data: bytes, end: int) -> None:
    """Append bytes to a file that ends at `end`, all of them or none."""
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(descriptor, left) :]  # one write, unless the disk is full
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, end)
        raise


def _decoded(data: bytes) -> Records:
    found: Records = {}
    for line in data.splitlines():
        try:
            session = _DECODER.decode(line)
        except (ValueError, RecursionError):  # msgspec's own errors are ValueErrors
            continue
        found[session.kind, session.session_id] = session
    return found


_DECODER = msgspec.json.Decoder(CodingSession)


def _name(given: str | None, names: tuple[str, ...], environment: Mapping[str, str]) -> str | None:
    values = (given, *(environment.get(name) for name in names))
    found = next((value for value in values if value and value.strip()), "")
    return one_line(found.strip())[:_LONGEST_NAME] or None
