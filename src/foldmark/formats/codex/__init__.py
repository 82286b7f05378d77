"""Codex's sessions: rollouts, which are JSON lines in chronological order [SPEC 8].

A rollout is in `<home>/sessions/YYYY/MM/DD/rollout-<time>-<session id>.jsonl`, where `<home>` is `CODEX_HOME` or
`~/.codex`.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foldmark.formats.session_format import SessionFormat, files_in, lazy
from foldmark.settings.user_folders import home

if TYPE_CHECKING:
    from datetime import datetime

UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_NAME = rf"rollout-.*?({UUID})\Z"


class CodexFormat(SessionFormat):
    """Codex's rollouts."""

    name, title, dialect, running = "codex", "Codex", "openai", "CODEX_THREAD_ID"
    provider = "openai_responses"
    why_not_repaired = (
        "Codex rollouts are not repaired: Codex itself skips unreadable lines and adds missing outputs of calls; "
        "`foldmark import` reads a rollout as it is"
    )

    is_record = lazy("foldmark.formats.codex.records:is_record")
    messages = lazy("foldmark.formats.codex.records:read_item")
    searched = lazy("foldmark.formats.codex.records:searched_item")
    is_injected = lazy("foldmark.formats.codex.records:is_injected")
    index = lazy("foldmark.formats.codex.records:index")
    active = lazy("foldmark.formats.codex.records:active")
    resume_command = lazy("foldmark.formats.codex.rollouts:resume_command")
    surroundings = lazy("foldmark.formats.codex.rollouts:surroundings")
    new_lines = lazy("foldmark.formats.codex.rollouts:new_lines")
    search_servers = lazy("foldmark.sessions.rollover.rolling:codex_servers")
    trim_kind = lazy("foldmark.sessions.trim.codex:CodexLines")
    diagnose = lazy("foldmark.sessions.doctor.codex:diagnose")

    def folder(self, environment: Mapping[str, str]) -> Path:
        return codex_folder(environment) / "sessions"

    def sessions(self, environment: Mapping[str, str]) -> Iterator[Path]:
        return files_in(self.folder(environment), "**/rollout-*.jsonl")

    def session_id(self, path: Path) -> str | None:
        stem = Path(path.stem).stem if path.suffix == ".zst" else path.stem  # old ones are compressed
        # Hooks call this for every path, and compiling the pattern would take longer than the rest.
        found = re.fullmatch(_NAME, stem, re.DOTALL) if stem.startswith("rollout-") else None
        return found[1] if found else None

    def archived_as(self, path: Path) -> Path:
        parents = [parent.name for parent in path.parents if parent.name]
        dated = list(takewhile(lambda name: name.isascii() and name.isdigit(), parents[:3]))
        return Path(*reversed(dated), path.name)

    def identity(self, record: dict[str, Any]) -> Any:
        payload = record.get("payload")
        return payload.get("id") if isinstance(payload, dict) and record.get("type") == "session_meta" else None

    def new_path(self, session: Path, new_id: str, moment: "datetime") -> Path:
        return session.with_name(f"rollout-{moment:%Y-%m-%dT%H-%M-%S}-{new_id}.jsonl")


def codex_folder(environment: Mapping[str, str]) -> Path:
    """Return this user's Codex folder."""
    return Path(environment.get("CODEX_HOME") or Path(home(environment)) / ".codex")
