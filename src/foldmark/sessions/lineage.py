"""Keeping track of sessions: which continued which, and why each ended [S4, SPEC 8]."""

from msgspec import structs

from foldmark.conversation import Log
from foldmark.core.codec import well_formed
from foldmark.core.lineage import CodingSession, EndReason
from foldmark.sessions.places import SessionPath


def known(log: Log, session: SessionPath) -> CodingSession:
    """What the log knows of a session; where that is nothing, what its path says. Writes nothing."""
    id, path = well_formed([session.id, str(session.path)])  # a file's name need not be text
    return log.store.coding_session(session.kind, id) or CodingSession(session.kind, id, path)


def ended(
    log: Log, session: SessionPath, reason: EndReason, context: int | None, summary: str | None = None
) -> CodingSession:
    """Record that a session has ended, at `context` percent of the model's window (None: unknown), at this moment.

    One that ended before was resumed since, so that the new end counts; but `completed`, which is how every process
    ends, says nothing against a trim or a rollover.
    """
    with log.store.exclusive():
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
        return structs.replace(after, id=log.store.save_coding_session(after))


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
    return structs.replace(begun, id=log.store.save_coding_session(begun))
