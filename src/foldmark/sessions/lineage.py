"""Keeping track of sessions: which continued which, and why each ended [S4, SPEC 8]."""

from collections.abc import Mapping

from msgspec import Struct, structs

from foldmark.core.codec import well_formed
from foldmark.core.records import CodingSession, EndReason
from foldmark.core.wording import one_line
from foldmark.log import Log
from foldmark.sessions.formats import SessionPath

ISSUE = ("FOLDMARK_ISSUE", "ISSUE_REF")
WORKER = ("FOLDMARK_WORKER", "WORKER_ID")
"""Names in the environment under which an issue and a worker are looked for, in their order."""

_LONGEST_NAME, _DIGITS = 200, 18


class Work(Struct, frozen=True):
    """Who works, and what for; None where that is not known."""

    worker: int | str | None
    issue: str | None


def given_work(environment: Mapping[str, str], *, worker: str | None = None, issue: str | None = None) -> Work:
    """What a person says, otherwise the environment."""
    named = _named(worker, WORKER, environment)
    is_number = named is not None and named.isascii() and named.isdigit() and len(named) <= _DIGITS
    return Work(int(named) if named is not None and is_number else named, _named(issue, ISSUE, environment))


def known(log: Log, session: SessionPath) -> CodingSession:
    """What the log knows of a session; where that is nothing, what its path says. Writes nothing."""
    id, path = well_formed([session.id, str(session.path)])  # a file's name need not be text
    with log.store.read() as moment:
        return moment.coding_session(session.kind, id) or CodingSession(session.kind, id, path)


def ended(
    log: Log, session: SessionPath, reason: EndReason, context: int | None, summary: str | None = None
) -> CodingSession:
    """Record that a session has ended, at `context` percent of the model's window (None: unknown), at this moment.

    One that ended before was resumed since, so that the new end counts; but `completed`, which is how every process
    ends, says nothing against a trim or a rollover.
    """
    with log.store.write() as transaction:
        before = known(log, session)
        if reason == "completed" and before.end_reason in ("trim", "rollover"):
            return before
        after = structs.replace(
            before,
            ended_at=log.clock(),
            end_reason=reason,
            context_at_end=context,
            summary=before.summary if summary is None else summary,
        )
        return structs.replace(after, id=transaction.save_coding_session(after))


def continued(
    log: Log, parent: CodingSession, session: SessionPath, *, worker: int | str | None = None, issue: str | None = None
) -> CodingSession:
    """Record that `session` begins at this moment, as the continuation of `parent`, whose worker and issue it has
    unless others are given."""
    id, path = well_formed([session.id, str(session.path)])
    begun = CodingSession(
        session.kind,
        id,
        path,
        parent=parent.session_id,
        session_number=parent.session_number + 1,
        worker_id=parent.worker_id if worker is None else worker,
        issue=parent.issue if issue is None else issue,
        started_at=log.clock(),
    )
    with log.store.write() as transaction:
        return structs.replace(begun, id=transaction.save_coding_session(begun))


def passed_on(
    log: Log,
    session: SessionPath,
    new: SessionPath,
    reason: EndReason,
    context: int | None,
    work: Work,
    summary: str | None = None,
) -> CodingSession:
    """Record, both or nothing, that `session` has ended and `new` begins as its continuation; `work` counts for the
    new one, and for the old one where nothing was known of it."""
    with log.store.write() as transaction:
        parent = ended(log, session, reason, context, summary)
        worker = work.worker if parent.worker_id is None else parent.worker_id
        known_now = structs.replace(parent, worker_id=worker, issue=parent.issue or work.issue)
        if known_now != parent:
            transaction.save_coding_session(known_now)
        return continued(log, known_now, new, worker=work.worker, issue=work.issue)


def _named(given: str | None, names: tuple[str, ...], environment: Mapping[str, str]) -> str | None:
    values = (given, *(environment.get(name) for name in names))
    said = next((value for value in values if value and value.strip()), "")
    return one_line(said.strip())[:_LONGEST_NAME] or None
