"""Where coding agents keep their sessions, and which one is meant [SPEC 8].

Claude Code: `<config>/projects/<working folder>/<session id>.jsonl`; config is `CLAUDE_CONFIG_DIR`, else `~/.claude`.
Codex: `<home>/sessions/YYYY/MM/DD/rollout-<time>-<session id>.jsonl`, where home is `CODEX_HOME` or `~/.codex`.
"""

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import listing, one_line
from foldmark.settings.user_folders import home

Kind = Literal["claude", "codex"]

_LONGEST_FOLDER = 200
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_CODEX_FILE = re.compile(rf"rollout-.*?({_UUID})\Z", re.DOTALL)
_BASE_36 = "0123456789abcdefghijklmnopqrstuvwxyz"


class NoSessionError(FoldmarkError):
    """There is no such session, or more than one that fits."""

    exit_code = 2


class SessionPath(Struct, frozen=True):
    """A session file, whose it is, and the session id that its name holds."""

    path: Path
    kind: Kind
    id: str


def claude_folder(environment: Mapping[str, str]) -> Path:
    """Claude Code's folder of this user."""
    return Path(environment.get("CLAUDE_CONFIG_DIR") or Path(home(environment)) / ".claude")


def codex_folder(environment: Mapping[str, str]) -> Path:
    """Codex's folder of this user."""
    return Path(environment.get("CODEX_HOME") or Path(home(environment)) / ".codex")


def projects(environment: Mapping[str, str]) -> Path:
    """The folder in which Claude Code keeps a folder of sessions for each working folder."""
    return claude_folder(environment) / "projects"


def project_folder(cwd: str | os.PathLike[str]) -> str:
    """The name of the folder in which Claude Code keeps the sessions of the working folder `cwd`.

    Everything but ASCII letters and digits becomes `-`, a character beyond U+FFFF two of them; a long name is cut and
    given a hash. Different working folders may share one.
    """
    real = unicodedata.normalize("NFC", os.path.realpath(cwd))
    units = real.encode("utf-16-le", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "little") for at in range(0, len(units), 2)]
    name = "".join(chr(code) if code < 128 and chr(code).isalnum() else "-" for code in codes)
    return name if len(name) <= _LONGEST_FOLDER else f"{name[:_LONGEST_FOLDER]}-{_hash(codes)}"


def claude_sessions(environment: Mapping[str, str]) -> Iterator[Path]:
    """All session files of Claude Code's, those of subagents left out."""
    yield from _files(projects(environment), "*/*.jsonl")


def claude_subagents(environment: Mapping[str, str]) -> Iterator[Path]:
    """All session files of subagents of Claude Code's, where they lie apart from their sessions."""
    yield from _files(projects(environment), "*/*/subagents/*.jsonl")


def codex_sessions(environment: Mapping[str, str]) -> Iterator[Path]:
    """All session files of Codex's."""
    yield from _files(codex_folder(environment) / "sessions", "**/rollout-*.jsonl")


def session_path(path: Path, kind: Kind | None = None) -> SessionPath:
    """A session file by its path; whose it is follows from its name and place, unless `kind` says so."""
    codex = _CODEX_FILE.fullmatch(Path(path.stem).stem if path.suffix == ".zst" else path.stem)  # compressed
    kind = kind or ("codex" if codex else "claude")
    return SessionPath(path, kind, codex[1] if codex and kind == "codex" else path.stem)


def find(named: str | None, cwd: str | os.PathLike[str], environment: Mapping[str, str]) -> SessionPath:
    """The session that is meant: a file, a session's id or the beginning of one.

    None is the session that the program runs in (`CLAUDE_CODE_SESSION_ID`, `CODEX_THREAD_ID`), otherwise the one of the
    working folder `cwd` that was written to last. Raises NoSessionError.
    """
    if named is None:
        return _current(cwd, environment)
    if names_file(named):
        return session_path(Path(os.path.abspath(named)))  # noqa: PTH100 - a link stays what it is
    return _by_id(named, environment)


def names_file(named: str) -> bool:
    """Whether a file is meant and not a session's id."""
    return named.endswith(".jsonl") or os.sep in named or os.path.lexists(named)


def _current(cwd: str | os.PathLike[str], environment: Mapping[str, str]) -> SessionPath:
    inside = environment.get("CLAUDE_CODE_SESSION_ID") or environment.get("CODEX_THREAD_ID")
    if inside:
        return _by_id(inside, environment)
    folder = projects(environment) / project_folder(cwd)
    newest = max(_files(folder, "*.jsonl"), key=_written, default=None)
    if newest is None:
        raise NoSessionError(
            f"there is no Claude Code session of {one_line(str(cwd))} in {one_line(str(folder))}; "
            "name a session: its file or its id"
        )
    return session_path(newest, "claude")


def _by_id(named: str, environment: Mapping[str, str]) -> SessionPath:
    found = [session_path(path, "claude") for path in claude_sessions(environment)]
    found += [session_path(path, "codex") for path in codex_sessions(environment)]
    fitting = [each for each in found if each.id == named] or [each for each in found if each.id.startswith(named)]
    if not named or not fitting:
        raise NoSessionError(
            f"there is no file and no session '{one_line(named)[:100]}' "
            f"({len(found)} sessions in {one_line(str(projects(environment)))} and "
            f"{one_line(str(codex_folder(environment) / 'sessions'))}); name a session: its file or its id"
        )
    if len({each.id for each in fitting}) > 1:
        raise NoSessionError(
            f"'{one_line(named)[:100]}' is the beginning of several sessions' ids: "
            f"{listing((each.id for each in fitting), 5)}; type more of it"
        )
    return max(fitting, key=lambda each: _written(each.path))


def _files(folder: Path, pattern: str) -> Iterator[Path]:
    """What fits in a folder; nothing if it is not there or may not be read."""
    try:
        yield from sorted(path for path in folder.glob(pattern) if path.is_file())
    except OSError:
        return


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it was removed meanwhile
        return 0.0


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
