"""`foldmark rollover`: a session ends, and a new one begins with what it hands over [S4, SPEC 8].

The new session's file is written first, whole or not at all; then, in one transaction, that the old session ended and
the new one began. The old session's file is read and never written. What does not keep the new session from working
(archive, lineage) warns.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from foldmark.core.codec import timestamp, utc
from foldmark.core.errors import FoldmarkError
from foldmark.log import Log
from foldmark.sessions import lineage
from foldmark.sessions.archive import syncing
from foldmark.sessions.archive.marker import file_is_marked, is_marked
from foldmark.sessions.archive.reading import messages_in
from foldmark.sessions.formats import (
    ResumeCommand,
    SessionPath,
    SessionSurroundings,
    format_named,
    refusal,
    resume_command,
)
from foldmark.sessions.hook import tail
from foldmark.sessions.new_file import new_file
from foldmark.sessions.places import recognized, session_path
from foldmark.sessions.rollover.continuation import GO_ON, Continuation, SearchHint, metadata, prompt
from foldmark.sessions.rollover.handover import Handover
from foldmark.sessions.rollover.search_tool import ARCHIVED, search_tool
from foldmark.sessions.session_file import SessionFile, SessionRecord

_ANCESTORS = 50


class RolloverError(FoldmarkError):
    """A session cannot be rolled over; nothing was written."""

    exit_code = 2


class Rolled(Struct, frozen=True):
    """A rollover that was done: the `parent` ended at `context` percent (None: not known), `session` begins, number
    `number` of its line, with `prompt`, when `command` starts it."""

    parent: SessionPath
    session: SessionPath
    number: int
    context: int | None
    prompt: str
    command: ResumeCommand
    warnings: tuple[str, ...]


def check(session: SessionPath) -> SessionPath:
    """Return the session as its content shows it, before there is a summary.

    Raises RolloverError or SessionFileError for what cannot be rolled over.
    """
    if refused := refusal(session):
        raise RolloverError(refused)
    session = recognized(session)
    format_named(session.kind).surroundings(session)
    return session


def has_content(session: SessionPath) -> bool:
    """Return True if something was said in a session, besides the prompt that an earlier rollover began it with.

    Reads as far as the first message. Raises SessionFileError.
    """
    prompts, is_injected = 0, format_named(session.kind).is_injected
    with SessionFile(session.path) as file:
        for line in file.lines():
            if (
                not isinstance(line, SessionRecord)
                or not isinstance(line.value, dict)
                or line.value.get("isMeta") is True
            ):
                continue
            # Claude Code's record with the mark holds the prompt, Codex's stands in front of it.
            prompts += isinstance(line.value.get("continue_metadata"), dict)
            for message in messages_in(line.value, session.kind):
                if message.role == "user" and is_injected(message.text):
                    continue
                if not prompts or message.role != "user":
                    return True
                prompts -= 1
    return False


def roll_over(
    log: Log,
    session: SessionPath,
    summary: Handover,
    environment: Mapping[str, str],
    *,
    new_id: str,
    issue: str | None = None,
    worker: str | None = None,
) -> Rolled:
    """End a session that was checked and begin the one that continues it. Raises SessionFileError and WriteError; then
    nothing was written.

    What `issue` and `worker` leave open is taken from the environment, then from the session. `new_id` is the new
    session's id.
    """
    where = format_named(session.kind).surroundings(session)
    warnings = list(summary.warnings)
    search = _archived(log, session, where, environment, warnings)
    share = tail.share(session.path)
    percent = None if share is None else share.percent
    parent = lineage.coding_session(log, session)
    given = lineage.find_work(environment, worker=worker, issue=issue)
    issue = given.issue or parent.issue
    worker_id = parent.worker_id if given.worker is None else given.worker
    private = _is_marked(session.path)
    if not private and is_marked(summary.text):
        warnings.append("the summary holds a marker not to be indexed, so the new session will not be archived")
    number = parent.session_number + 1
    told = Continuation(number, str(session.path), summary, issue, percent, worker_id, search, private)
    text = prompt(told)
    new = _write(log, session, where, told, text, new_id)
    try:
        _record(log, session, new, told)
    except FoldmarkError as error:
        warnings.append(f"the new session is not in the lineage: {error}")
    command = resume_command(new, environment, GO_ON)
    return Rolled(session, new, told.number, percent, text, command, tuple(warnings))


def _archived(
    log: Log, session: SessionPath, where: SessionSurroundings, environment: Mapping[str, str], warnings: list[str]
) -> SearchHint | None:
    """Archive and index the session, and those that it continues: the details that a trim has cut are in these. How
    they are searched afterwards."""
    search = search_tool(session.kind, where.cwd, environment)
    patterns = log.given.sync_exclude
    try:
        done = syncing.sync(environment, patterns, [session.path])
        why = done.problems[0][1] if done.problems else "it is kept out of the archive" if done.excluded else None
        if earlier := list(_earlier(log, session)):
            warnings += [
                f"{path} was not archived: {said}"
                for path, said in syncing.sync(environment, patterns, earlier).problems
            ]
    except FoldmarkError as error:
        why = str(error)
    if why is None:
        return search
    warnings.append(f"the session was not archived: {why}")
    return None if search.where == ARCHIVED else search


def _earlier(log: Log, session: SessionPath) -> Iterator[Path]:
    """The files of the sessions that this one continues, as far as they are known and there."""
    at, met = lineage.coding_session(log, session), {session.id}
    while at.parent and at.parent not in met and len(met) <= _ANCESTORS:
        met.add(at.parent)
        with log.store.read() as moment:
            parent = moment.coding_session(at.kind, at.parent)
        if parent is None:
            return
        at = parent
        if os.path.isfile(at.file):  # noqa: PTH113 - never raises
            yield Path(at.file)


def _write(
    log: Log, session: SessionPath, where: SessionSurroundings, told: Continuation, text: str, new_id: str
) -> SessionPath:
    now = utc(log.clock())
    written = timestamp(now, "milliseconds")
    mark = metadata(told.parent_file, timestamp(now, "seconds"), told.worker)
    kept = format_named(session.kind)
    path = kept.new_path(session.path, new_id, now.astimezone())
    lines = kept.new_lines(where, new_id, log.new_id(), text, mark, written)
    with new_file(path) as file:
        file.write(lines)
    return session_path(path, session.kind)


def _record(log: Log, session: SessionPath, new: SessionPath, told: Continuation) -> None:
    work = lineage.Work(told.worker, told.issue)
    lineage.record_handover(log, session, new, "rollover", told.percent, work, told.handover.text)


def _is_marked(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return file_is_marked(file, 0, file.seek(0, os.SEEK_END))
    return False
