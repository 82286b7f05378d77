"""Where Claude Code keeps its sessions: `<config>/projects/<working folder>/<session id>.jsonl` [SPEC 8].

`<config>` is `CLAUDE_CONFIG_DIR`, else `~/.claude`. Standard library only: hooks ask, too.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from foldmark.sessions.formats import files_in
from foldmark.settings.user_folders import home

_LONGEST_FOLDER = 200
_BASE_36 = "0123456789abcdefghijklmnopqrstuvwxyz"


def claude_folder(environment: Mapping[str, str]) -> Path:
    """Return this user's Claude Code folder."""
    return Path(environment.get("CLAUDE_CONFIG_DIR") or Path(home(environment)) / ".claude")


def projects(environment: Mapping[str, str]) -> Path:
    """Return the folder in which Claude Code keeps one folder of sessions per working folder."""
    return claude_folder(environment) / "projects"


def project_folder(cwd: str | os.PathLike[str]) -> str:
    """Return the name of the folder in which Claude Code keeps the sessions of the working folder `cwd`.

    Everything but ASCII letters and digits becomes `-`, a character beyond U+FFFF two of them; a long name is cut and
    given a hash. Different working folders may share one.
    """
    import unicodedata

    real = unicodedata.normalize("NFC", os.path.realpath(cwd))
    units = real.encode("utf-16-le", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "little") for at in range(0, len(units), 2)]
    name = "".join(chr(code) if code < 128 and chr(code).isalnum() else "-" for code in codes)
    return name if len(name) <= _LONGEST_FOLDER else f"{name[:_LONGEST_FOLDER]}-{_hash(codes)}"


def folder_of_project(cwd: str | os.PathLike[str], environment: Mapping[str, str]) -> Path:
    """Return the folder in which Claude Code keeps the sessions of the working folder `cwd`."""
    return projects(environment) / project_folder(cwd)


def claude_sessions(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield all session files of Claude Code except those of subagents."""
    yield from files_in(projects(environment), "*/*.jsonl")


def claude_subagents(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the session files of Claude Code's subagents that are stored apart from their sessions."""
    yield from files_in(projects(environment), "*/*/subagents/*.jsonl")


def _hash(codes: list[int]) -> str:
    """Claude Code's hash of a text, given as UTF-16: 32 bits with a sign, its absolute value to base 36."""
    value = 0
    for code in codes:
        value = (value * 31 + code) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >> 31 else value)
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = _BASE_36[digit] + digits
    return digits or "0"
