"""The session format of Claude Code: where its sessions are, and the functions that read them [SPEC 8].

A session is in `<config>/projects/<working folder>/<session id>.jsonl`, where `<config>` is `CLAUDE_CONFIG_DIR` or
`~/.claude`.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foldmark.formats.claude import members
from foldmark.formats.session_format import SessionFormat, files_in, lazy, other_program
from foldmark.settings.user_folders import home

if TYPE_CHECKING:
    from datetime import datetime

_SUBAGENTS = "subagents"
_LONGEST_FOLDER = 200
_BASE_36 = "0123456789abcdefghijklmnopqrstuvwxyz"


class ClaudeFormat(SessionFormat):
    """Claude Code's sessions."""

    name, title, dialect, running = "claude", "Claude Code", "anthropic", "CLAUDE_CODE_SESSION_ID"
    provider = "anthropic"
    linked = null_stops = True
    why_not_repaired = None

    messages = lazy("foldmark.formats.claude.blocks:read_message")
    index = lazy("foldmark.formats.claude.records:index")
    is_edit = lazy("foldmark.formats.claude.records:is_edit")
    edited = lazy("foldmark.formats.claude.edits:edited")
    is_injected = lazy("foldmark.formats.claude.told:is_injected")
    is_instruction = lazy("foldmark.formats.claude.told:is_instruction")
    active = lazy("foldmark.formats.claude.active:active")
    is_subagents = lazy("foldmark.formats.claude.continuing:is_subagents")
    resume_command = lazy("foldmark.formats.claude.continuing:resume_command")
    surroundings = lazy("foldmark.formats.claude.continuing:surroundings")
    new_lines = lazy("foldmark.formats.claude.continuing:new_lines")
    search_servers = lazy("foldmark.sessions.rollover.rolling:claude_servers")
    trim_kind = lazy("foldmark.sessions.trim.claude:ClaudeLines")
    diagnose = lazy("foldmark.sessions.doctor.claude:diagnose")

    def folder(self, environment: Mapping[str, str]) -> Path:
        return claude_folder(environment) / "projects"

    def sessions(self, environment: Mapping[str, str]) -> Iterator[Path]:
        return files_in(self.folder(environment), "*/*.jsonl")

    def subagents(self, environment: Mapping[str, str]) -> Iterator[Path]:
        return files_in(self.folder(environment), f"*/*/{_SUBAGENTS}/*.jsonl")

    def session_id(self, path: Path) -> str:
        return path.stem

    def folder_of_project(self, cwd: str | os.PathLike[str], environment: Mapping[str, str]) -> Path:
        return self.folder(environment) / project_folder(cwd)

    def project(self, path: Path) -> str:
        return path.parent.parent.parent.name if path.parent.name == _SUBAGENTS else path.parent.name

    def archived_as(self, path: Path) -> Path:
        parents = [parent.name for parent in path.parents if parent.name]
        inside = parents[:3] if parents[:1] == [_SUBAGENTS] else parents[:1]
        return Path(*(reversed(inside) if inside else ["-"]), path.name)

    def is_record(self, value: Any) -> bool:
        is_dict = isinstance(value, dict) and isinstance(value.get("message"), dict)
        return is_dict and value.get("type") in members.SAID and other_program(value) is None

    def resembles(self, value: Any) -> bool:
        """Return True for a record without a message that names its session, itself or another record."""
        return isinstance(value, dict) and members.names_record(value) and other_program(value) is None

    def rewrites(self, record: dict[str, Any]) -> bool:
        return members.is_boundary(record)

    def is_beside(self, record: dict[str, Any]) -> bool:
        return members.is_aside(record) or members.is_injected(record)

    def identity(self, record: dict[str, Any]) -> Any:
        return record.get("uuid") if record.get("type") in members.SAID else None

    def new_path(self, session: Path, new_id: str, moment: "datetime") -> Path:
        return session.with_name(f"{new_id}.jsonl")


def claude_folder(environment: Mapping[str, str]) -> Path:
    """Return this user's Claude Code folder."""
    return Path(environment.get("CLAUDE_CONFIG_DIR") or Path(home(environment)) / ".claude")


def project_folder(cwd: str | os.PathLike[str]) -> str:
    """Return the name of the folder in which Claude Code keeps the sessions of the working folder `cwd`.

    Every character except ASCII letters and digits becomes `-`, and one beyond U+FFFF becomes two. A long name is cut
    and gets a hash. Different working folders may share one folder.
    """
    import unicodedata

    real = unicodedata.normalize("NFC", os.path.realpath(cwd))
    units = real.encode("utf-16-le", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "little") for at in range(0, len(units), 2)]
    name = "".join(chr(code) if code < 128 and chr(code).isalnum() else "-" for code in codes)
    return name if len(name) <= _LONGEST_FOLDER else f"{name[:_LONGEST_FOLDER]}-{_hash(codes)}"


def _hash(codes: list[int]) -> str:
    """Return Claude Code's hash of a text in UTF-16: the absolute value of a signed 32-bit number, in base 36."""
    value = 0
    for code in codes:
        value = (value * 31 + code) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >> 31 else value)
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = _BASE_36[digit] + digits
    return digits or "0"
