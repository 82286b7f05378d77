"""The command that resumes a session, as its format knows it [SPEC 8]."""

from collections.abc import Mapping

from foldmark.sessions.formats import format_named
from foldmark.sessions.session_path import ResumeCommand, SessionPath

__all__ = ["ResumeCommand", "resume_command"]


def resume_command(session: SessionPath, environment: Mapping[str, str], *prompt: str) -> ResumeCommand:
    """Return the command that resumes an existing session and sends it `prompt`."""
    return format_named(session.kind).resume_command(session, environment, *prompt)
