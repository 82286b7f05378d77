"""Sessions of subagents, which nobody resumes: the session that they belong to is resumed [SPEC 8]."""

from foldmark.core.wording import one_line
from foldmark.sessions.places import SessionPath
from foldmark.sessions.session_file import Record, SessionFile


def refusal(session: SessionPath) -> str | None:
    """Return why a session cannot be continued, if it is a subagent's; otherwise None.

    Its folder tells, or all of its messages. Raises SessionFileError.
    """
    if session.path.parent.name != "subagents" and not _only_side_chain(session):
        return None
    return (
        f"{one_line(session.path.name)} is the session of a subagent, which nobody resumes; "
        "name the session that it belongs to"
    )


def _only_side_chain(session: SessionPath) -> bool:
    """Return True if there are messages and each is a subagent's. Reads as far as the first that is not."""
    if session.kind != "claude":
        return False
    found = False
    with SessionFile(session.path) as file:
        for line in file.lines():
            if isinstance(line, Record) and line.type in ("user", "assistant"):
                if line.value.get("isSidechain") is not True:
                    return False
                found = True
    return found
