"""Where Codex keeps its rollouts: `<home>/sessions/YYYY/MM/DD/rollout-<time>-<session id>.jsonl` [SPEC 8].

`<home>` is `CODEX_HOME`, else `~/.codex`. Standard library only: hooks ask, too.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from foldmark.sessions.formats import files_in
from foldmark.settings.user_folders import home

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_NAME = re.compile(rf"rollout-.*?({_UUID})\Z", re.DOTALL)


def codex_folder(environment: Mapping[str, str]) -> Path:
    """Return this user's Codex folder."""
    return Path(environment.get("CODEX_HOME") or Path(home(environment)) / ".codex")


def sessions_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder in which Codex keeps its rollouts."""
    return codex_folder(environment) / "sessions"


def codex_sessions(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield all session files of Codex."""
    yield from files_in(sessions_folder(environment), "**/rollout-*.jsonl")


def id_in_name(path: Path) -> str | None:
    """Return the session id in a rollout's name; None if the file has another name."""
    stem = Path(path.stem).stem if path.suffix == ".zst" else path.stem  # old ones are compressed
    found = _NAME.fullmatch(stem)
    return found[1] if found else None
