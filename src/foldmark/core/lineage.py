"""The sessions of coding agents: which continued which, and why each ended [S4, SPEC 8]."""

from typing import Literal, Protocol

from msgspec import Struct

EndReason = Literal["rollover", "trim", "completed"]


class CodingSession(Struct, frozen=True):
    """One session of a coding agent.

    `kind` is `claude` or `codex`, `session_id` what that calls it, `file` its path. `parent` is the `session_id` of the
    session that it continues, of the same kind; `session_number` counts from 1 along such a line. Times are as
    `Event.created_at`; `context_at_end` is in percent of the model's window; `summary` is what a rollover handed over.
    What is not known is None. `id` is the store's, 0 before it is saved.
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
    end_reason: EndReason | None = None
    context_at_end: int | None = None
    summary: str | None = None
    id: int = 0


class LineageView(Protocol):
    """What a `Snapshot` shows of the sessions of coding agents."""

    def coding_session(self, kind: str, session_id: str) -> CodingSession | None:
        """The session that a coding agent calls so."""

    def coding_sessions(self) -> list[CodingSession]:
        """All of them, in the order in which they became known."""


class Lineage(LineageView, Protocol):
    """What a `Transaction` writes of the sessions of coding agents."""

    def save_coding_session(self, session: CodingSession) -> int:
        """Store a session, in place of what is stored under its `kind` and `session_id`; its `id` in the store, which
        stays the same."""
