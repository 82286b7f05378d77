"""The sessions of coding agents: which session continued which, and why each ended [S4, SPEC 8]."""

from typing import Literal, Protocol

from msgspec import Struct

EndReason = Literal["rollover", "trim", "completed"]


class CodingSession(Struct, frozen=True):
    """One session of a coding agent.

    `kind` is `claude` or `codex`, `session_id` the agent's own id of it, `file` its path. `parent` is the `session_id`
    of the session that it continues, of the same kind; `session_number` counts from 1 along such a line. Times are as
    `Event.created_at`; `context_at_end` is in percent of the model's window; `summary` is what a rollover handed over.
    Unknown fields are None. `id` is the store's, 0 before it is saved.
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
    """The part of `Snapshot` that reads the sessions of coding agents."""

    def coding_session(self, kind: str, session_id: str) -> CodingSession | None:
        """Return the session with the coding agent's own id."""

    def coding_sessions(self) -> list[CodingSession]:
        """Return all sessions, in the order in which they became known."""


class Lineage(LineageView, Protocol):
    """The part of `Transaction` that writes the sessions of coding agents."""

    def save_coding_session(self, session: CodingSession) -> int:
        """Store a session, replacing the one with its `kind` and `session_id`. Return its `id` in the store, which
        never changes."""
