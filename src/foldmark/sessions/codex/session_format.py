"""Codex's sessions: rollouts of JSON lines in the order in which they happened [SPEC 8]."""

from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foldmark.sessions.formats import SessionFormat, lazy

if TYPE_CHECKING:
    from datetime import datetime


class CodexFormat(SessionFormat):
    """Codex's rollouts."""

    name, title, dialect, running = "codex", "Codex", "openai", "CODEX_THREAD_ID"
    why_not_repaired = (
        "rollouts of Codex's are not repaired: Codex itself passes over lines that it cannot read, and adds what a "
        "call is missing; `foldmark import` reads what is there"
    )

    folder = lazy("foldmark.sessions.codex.folders:sessions_folder")
    sessions = lazy("foldmark.sessions.codex.folders:codex_sessions")
    is_record = lazy("foldmark.sessions.codex.items:is_codex")
    messages = lazy("foldmark.sessions.codex.items:read_item")
    searched = lazy("foldmark.sessions.codex.items:searched_item")
    is_injected = lazy("foldmark.sessions.codex.items:is_injected")
    index = lazy("foldmark.sessions.codex.index:index")
    resume_command = lazy("foldmark.sessions.codex.continuing:resume_command")
    surroundings = lazy("foldmark.sessions.codex.continuing:surroundings")
    new_lines = lazy("foldmark.sessions.codex.continuing:new_lines")
    search_servers = lazy("foldmark.sessions.rollover.search_tool:codex_servers")
    trim_kind = lazy("foldmark.sessions.trim.codex:KIND")
    diagnose = lazy("foldmark.sessions.doctor.diagnosis_codex:examine")

    def session_id(self, path: Path) -> str | None:
        if not path.name.startswith("rollout-"):
            return None
        from foldmark.sessions.codex.folders import id_in_name

        return id_in_name(path)

    def archived_as(self, path: Path) -> Path:
        parents = [parent.name for parent in path.parents if parent.name]
        dated = list(takewhile(lambda name: name.isascii() and name.isdigit(), parents[:3]))
        return Path(*reversed(dated), path.name)

    def identity(self, record: dict[str, Any]) -> Any:
        payload = record.get("payload")
        return payload.get("id") if isinstance(payload, dict) and record.get("type") == "session_meta" else None

    def new_path(self, session: Path, new_id: str, moment: "datetime") -> Path:
        return session.with_name(f"rollout-{moment:%Y-%m-%dT%H-%M-%S}-{new_id}.jsonl")
