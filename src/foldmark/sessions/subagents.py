"""Sessions of subagents, which nobody resumes: the session that they belong to is resumed [SPEC 8]."""

from foldmark.core.wording import one_line
from foldmark.sessions.formats import format_named
from foldmark.sessions.session_path import SessionPath


def refusal(session: SessionPath) -> str | None:
    """Return why a session cannot be continued, if it is a subagent's; otherwise None. Raises SessionFileError."""
    if not format_named(session.kind).is_subagents(session):
        return None
    return (
        f"{one_line(session.path.name)} is the session of a subagent, which nobody resumes; "
        "name the session that it belongs to"
    )
