"""Claude Code's sessions: one JSON Lines file each, whose records name their parents [SPEC 8]."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from foldmark.sessions.formats import SessionFormat, lazy, other_program

if TYPE_CHECKING:
    from datetime import datetime

_IDENTITY = ("sessionId", "uuid", "parentUuid", "leafUuid", "messageId")
"""Members by which records refer to a session, to themselves or to each other."""

_SUBAGENTS = "subagents"


class ClaudeFormat(SessionFormat):
    """Claude Code's sessions."""

    name, title, dialect, running = "claude", "Claude Code", "anthropic", "CLAUDE_CODE_SESSION_ID"
    linked = null_stops = True
    why_not_repaired = None

    folder = lazy("foldmark.sessions.claude.folders:projects")
    sessions = lazy("foldmark.sessions.claude.folders:claude_sessions")
    subagents = lazy("foldmark.sessions.claude.folders:claude_subagents")
    folder_of_project = lazy("foldmark.sessions.claude.folders:folder_of_project")
    messages = lazy("foldmark.sessions.claude.blocks:read_message")
    index = lazy("foldmark.sessions.claude.index:index")
    is_subagents = lazy("foldmark.sessions.claude.continuing:is_subagents")
    resume_command = lazy("foldmark.sessions.claude.continuing:resume_command")
    surroundings = lazy("foldmark.sessions.claude.continuing:surroundings")
    new_lines = lazy("foldmark.sessions.claude.continuing:new_lines")
    search_servers = lazy("foldmark.sessions.rollover.search_tool:claude_servers")
    trim_kind = lazy("foldmark.sessions.trim.claude:KIND")
    diagnose = lazy("foldmark.sessions.doctor.diagnosis_claude:examine")

    def session_id(self, path: Path) -> str:
        return path.stem

    def project(self, path: Path) -> str:
        return path.parent.parent.parent.name if path.parent.name == _SUBAGENTS else path.parent.name

    def archived_as(self, path: Path) -> Path:
        parents = [parent.name for parent in path.parents if parent.name]
        inside = parents[:3] if parents[:1] == [_SUBAGENTS] else parents[:1]
        return Path(*(reversed(inside) if inside else ["-"]), path.name)

    def is_record(self, value: Any) -> bool:
        is_dict = isinstance(value, dict) and isinstance(value.get("message"), dict)
        return is_dict and value.get("type") in ("user", "assistant") and other_program(value) is None

    def resembles(self, value: Any) -> bool:
        """Return True for a record without a message that names its session, itself or another record."""
        is_typed = isinstance(value, dict) and isinstance(value.get("type"), str)
        return is_typed and any(isinstance(value.get(name), str) for name in _IDENTITY) and other_program(value) is None

    def identity(self, record: dict[str, Any]) -> Any:
        return record.get("uuid") if record.get("type") in ("user", "assistant") else None

    def new_path(self, session: Path, new_id: str, moment: "datetime") -> Path:
        return session.with_name(f"{new_id}.jsonl")
