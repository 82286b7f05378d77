"""`foldmark doctor --session`: what is wrong with a session file, and what becomes of it on resuming [SPEC 8]."""

from foldmark.sessions.doctor.findings import Diagnosis
from foldmark.sessions.formats import SessionPath, format_named


def diagnose(session: SessionPath) -> Diagnosis:
    """Return what is wrong with a session. Raises SessionFileError if it cannot be read at all."""
    found: Diagnosis = format_named(session.kind).diagnose(session)
    return found
