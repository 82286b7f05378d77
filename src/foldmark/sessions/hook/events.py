"""What a hook does at the beginning and the end of a session and around a compaction [SPEC 8]; imported only then."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foldmark.sessions.archive.storing import archive_folder, put
from foldmark.sessions.hook import tail
from foldmark.sessions.hook.settings import read
from foldmark.sessions.hook.state import SessionState
from foldmark.settings.user_folders import config_folder

if TYPE_CHECKING:
    from foldmark.log import Log

    Opening = Callable[[], AbstractContextManager[Log]]

MOST_FIRST_LINE = 1 << 20
"""Bytes of a session's first line that are looked at."""

_LONGEST_PATH = 1000


def note_window(session: str, model: str, environment: Mapping[str, str]) -> None:
    """Remember the window of a session that begins with this model, if that is named.

    A transcript has the bare name even where the session runs a model with the large window, `NAME[1m]`. What was
    remembered may be of another model. Raises OSError.
    """
    state = SessionState(environment, session)
    if "[1m]" in model.lower():
        state.note_window(tail.LARGE_WINDOW)
    elif model and state.window:
        state.note_window(0)


def begun(source: str, transcript: str, environment: Mapping[str, str]) -> str | None:
    """What the model is told when a session begins in this way (`resume`, `compact`); None for nothing.

    Raises FoldmarkError.
    """
    if source == "compact" and archived(transcript, environment):
        return (
            "[Foldmark: the conversation before this compaction is archived whole. "
            f"For details that the summary leaves out: {_search(environment)}]"
        )
    if source != "resume":
        return None
    first = _first_record(transcript)
    if isinstance(trimmed := first.get("trim_metadata"), dict):
        return (
            "[Foldmark: tool outputs in this session were trimmed. Each cut one names the file and line where the "
            f"whole of it stands{_in(trimmed.get('parent_file'))}. To find something: {_search(environment)}]"
        )
    if isinstance(continued := first.get("continue_metadata"), dict):
        return (
            f"[Foldmark: this session continues an earlier one{_in(continued.get('parent_session_file'))}. "
            f"For details that its summary leaves out: {_search(environment)}]"
        )
    return None


def archived(transcript: str, environment: Mapping[str, str]) -> bool:
    """Archive a session as it is now; whether it is in the archive. Raises FoldmarkError."""
    if not _is_session(transcript) or _is_passed_over(transcript, environment):
        return False
    return put(Path(transcript), archive_folder(environment)).state != "excluded"


def ended(session: str, transcript: str, log: "Opening", environment: Mapping[str, str]) -> None:
    """Record that a session has ended, then archive it. Claude Code waits for this 1.5 seconds and no longer.

    Raises FoldmarkError.
    """
    if not _is_session(transcript):  # nothing was said
        return
    from foldmark.sessions.lineage import ended as record_end
    from foldmark.sessions.places import session_path

    share = tail.share(transcript, session=session)
    try:
        with log() as opened:
            record_end(opened, session_path(Path(transcript)), "completed", share.percent if share else None)
    finally:
        archived(transcript, environment)


def _is_passed_over(transcript: str, environment: Mapping[str, str]) -> bool:
    """Whether the person keeps sessions of this folder out of the archive (`sync_exclude`).

    Finding out takes 100 ms, so the setting is looked for first. Raises CommandError for wrong settings, for what is
    wrong there may be the folder's name.
    """
    folder = config_folder(environment)
    if not (
        environment.get("FOLDMARK_SYNC_EXCLUDE")
        or environment.get("IKIGAI_SYNC_EXCLUDE")
        or b"sync_exclude" in read(os.path.join(folder, "config.toml"))
    ):
        return False
    from foldmark.sessions.archive.sources import passes_over
    from foldmark.settings.loading import load

    patterns = load(environment, None, Path(folder)).sync_exclude
    return passes_over(Path(transcript), patterns, environment)


def _is_session(transcript: str) -> bool:
    return transcript.endswith(".jsonl") and os.path.isfile(transcript)


def _first_record(transcript: str) -> dict[str, Any]:
    """The first line of a session; empty if it is no record."""
    if not _is_session(transcript):
        return {}
    with open(transcript, "rb") as file:
        line = file.readline(MOST_FIRST_LINE)
    try:
        record = json.loads(line.decode("utf-8", "replace")) if b"_metadata" in line else None
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _search(environment: Mapping[str, str]) -> str:
    from foldmark.sessions.install.locations import typed_program

    return f"{typed_program(environment)} search 'what you need'"


def _in(path: Any) -> str:
    """` (FILE)` for a path that may stand in a line."""
    return f" ({path})" if isinstance(path, str) and path.isprintable() and 0 < len(path) <= _LONGEST_PATH else ""
