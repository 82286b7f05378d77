"""`foldmark doctor --session`: what is wrong with a session file, and what becomes of it on resuming [SPEC 8]."""

from foldmark.sessions.doctor import diagnosis_claude, diagnosis_codex
from foldmark.sessions.doctor.findings import Diagnosis
from foldmark.sessions.places import SessionPath


def diagnose(session: SessionPath) -> Diagnosis:
    """What is wrong with a session. Raises SessionFileError if it cannot be read at all."""
    examine = diagnosis_codex.examine if session.kind == "codex" else diagnosis_claude.examine
    return examine(session)
