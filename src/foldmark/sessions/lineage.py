"""Record the predecessor of each session, and why each session ended [S4, SPEC 8]."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct, structs

from foldmark.core.codec import well_formed
from foldmark.core.records import CodingSession, EndReason
from foldmark.core.wording import one_line
from foldmark.sessions.formats import SessionPath

if TYPE_CHECKING:
    from foldmark.core.ports import Clock, Store

ISSUE = ("FOLDMARK_ISSUE", "ISSUE_REF")
WORKER = ("FOLDMARK_WORKER", "WORKER_ID")
"""Environment variables that name the issue and the worker, in the order in which they are tried."""

_LONGEST_NAME, _DIGITS = 200, 18


class Recorder(Protocol):
    """A log, or what this module needs of one."""

    @property
    def store(self) -> "Store":
        """The store with the records."""

    @property
    def clock(self) -> "Clock":
        """The clock of the records."""


class Records(NamedTuple):
    """The records of coding sessions in a store, without its log."""

    store: "Store"
    clock: "Clock"


class Work(Struct, frozen=True):
    """The worker and the issue of a session; None if unknown."""

    worker: int | str | None = None
    issue: str | None = None


def find_work(environment: Mapping[str, str], *, worker: str | None = None, issue: str | None = None) -> Work:
    """Return the given worker and issue; those not given come from the environment."""
    name = _name(worker, WORKER, environment)
    is_number = name is not None and name.isascii() and name.isdigit() and len(name) <= _DIGITS
    return Work(int(name) if name is not None and is_number else name, _name(issue, ISSUE, environment))


def coding_session(log: Recorder, session: SessionPath) -> CodingSession:
    """Return the log's record of a session, or a new record from its path. Nothing is written."""
    id, path = well_formed([session.id, str(session.path)])  # the name of a file may be invalid Unicode
    with log.store.read() as moment:
        return moment.coding_session(session.kind, id) or CodingSession(session.kind, id, path)


def record_end(
    log: Recorder, session: SessionPath, reason: EndReason, context: int | None, summary: str | None = None
) -> CodingSession:
    """Record that a session ends now, at `context` percent of the model's window (None: unknown).

    A session that had already ended has been resumed since, so the new end counts. But `completed`, the end of every
    process, does not replace a trim or a rollover.
    """
    with log.store.write() as transaction:
        before = coding_session(log, session)
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


def record_start(log: Recorder, parent: CodingSession, session: SessionPath, work: Work = Work()) -> CodingSession:  # noqa: B008
    """Record that `session` begins now and continues `parent`. Its worker and issue come from `work`, by default from
    the parent."""
    id, path = well_formed([session.id, str(session.path)])
    begun = CodingSession(
        session.kind,
        id,
        path,
        parent=parent.session_id,
        session_number=parent.session_number + 1,
        worker_id=parent.worker_id if work.worker is None else work.worker,
        issue=parent.issue if work.issue is None else work.issue,
        started_at=log.clock(),
    )
    with log.store.write() as transaction:
        return structs.replace(begun, id=transaction.save_coding_session(begun))


def record_handover(
    log: Recorder,
    session: SessionPath,
    new: SessionPath,
    reason: EndReason,
    context: int | None,
    work: Work,
    summary: str | None = None,
) -> CodingSession:
    """Record in one transaction that `session` has ended and that `new` continues it.

    `work` belongs to the new session. It also fills in a missing worker or issue of the old one.
    """
    with log.store.write() as transaction:
        ended = record_end(log, session, reason, context, summary)
        worker = work.worker if ended.worker_id is None else ended.worker_id
        parent = structs.replace(ended, worker_id=worker, issue=ended.issue or work.issue)
        if parent != ended:
            transaction.save_coding_session(parent)
        return record_start(log, parent, new, work)


def _name(given: str | None, names: tuple[str, ...], environment: Mapping[str, str]) -> str | None:
    values = (given, *(environment.get(name) for name in names))
    found = next((value for value in values if value and value.strip()), "")
    return one_line(found.strip())[:_LONGEST_NAME] or None
