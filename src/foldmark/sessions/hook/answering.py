"""`foldmark hook`: handle an event of a Claude Code session, mainly to remind the model of a full context [SPEC 8, S4].

It fails silently by design: on any error it prints nothing, exits 0 and logs. It runs after every tool call, so imports
that only some events need are inside the functions for these events.
"""

import json
import os
from collections.abc import Mapping

from foldmark.sessions.hook import process
from foldmark.sessions.hook.settings import read, reminder_settings
from foldmark.settings.user_folders import config_folder, data_folder

ADVICE = {
    "urgent_threshold": "Use /trim or /rollover before auto-compaction at 95%.",
    "recommend_threshold": "Recommend /trim now or /rollover soon.",
    "warn_threshold": "Consider /trim if responses feel degraded.",
}
"""Threshold -> the advice of [S4]'s reminder, the most urgent first. A trim recognizes reminders by it."""

REMINDS = ("PostToolUse", "UserPromptSubmit")
"""The events at which the model is reminded."""

_MAX_FIRST_LINE = 1 << 20
"""Maximum bytes to read of a session's first line."""

_MAX_PATH = 1000


def run(version: str) -> None:
    """Handle the event on standard input. `version` is Foldmark's."""
    event = "hook"
    try:
        given = process.read()
        event = process.text(given, "hook_event_name") or event
        if answer := answered(given, os.environ):
            process.write(answer)
        if event == "SessionStart":
            follow_upgrade(os.environ, version)
    except BaseException as error:
        process.note(os.environ, f"{event}: {type(error).__name__}: {error}")


def follow_upgrade(environment: Mapping[str, str], version: str) -> None:
    """Write the plugin that runs this hook again if another version of Foldmark wrote it; the next session reads it.

    A project's plugins stay as they are under version control. Raises OSError or FoldmarkError.
    """
    plugin = os.path.realpath(environment.get("CLAUDE_PLUGIN_ROOT", ""))
    if not plugin.startswith(os.path.join(os.path.realpath(data_folder(environment)), "claude", "")):
        return
    if f'"version": "{version}"'.encode() not in read(os.path.join(plugin, ".claude-plugin", "plugin.json")):
        from foldmark.sessions.install.locations import installed_program
        from foldmark.sessions.install.plugins import write_again

        write_again(plugin, installed_program(), version)


def answered(given: Mapping[str, object], environment: Mapping[str, str]) -> str | None:
    """Return the JSON to print for an event, or None. May raise any exception."""
    names = ("hook_event_name", "session_id", "transcript_path")
    event, session, transcript = (process.text(given, name) for name in names)
    if not session or process.text(given, "agent_id"):  # a subagent: transcript and share are the main session's
        return None
    text = None
    if event in REMINDS:
        text = _reminder(session, transcript, process.text(given, "cwd"), environment)
    elif event == "SessionStart":
        _note_window(session, process.text(given, "model"), environment)
        source = process.text(given, "source")
        if source == "compact" and process.SessionState(environment, session).took_edit():
            return None  # nothing is lost, and the model is to read nothing of it
        text = _start_text(source, transcript, environment)
    elif event in ("PreCompact", "Stop"):
        _archive(transcript, environment)  # prints nothing at a Stop, because that would make the model continue
    elif event == "SessionEnd":
        _end(session, transcript, environment)
    if not text:
        return None
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}})


def _reminder(session: str, transcript: str, folder: str, environment: Mapping[str, str]) -> str | None:
    """Return [S4]'s reminder if the context is full enough and the last reminder is long enough ago."""
    from foldmark.sessions.hook import tail

    share = tail.share(transcript, session=session)
    if share is None:
        return None
    settings = reminder_settings(environment, folder)
    advice = next((advice for key, advice in ADVICE.items() if share.percent >= settings[key]), None)
    if advice is None or not process.SessionState(environment, session).may_remind(settings["check_interval_seconds"]):
        return None
    return f"Context at {share.percent}%. {advice}"


def _note_window(session: str, model: str, environment: Mapping[str, str]) -> None:
    """Note the window of a session that begins with this model, if the event names it.

    A transcript has the bare name even if the session runs a model with the large window, `NAME[1m]`. An earlier note
    may be about another model.
    """
    from foldmark.sessions.hook import tail

    state = process.SessionState(environment, session)
    if "[1m]" in model.lower():
        state.note_window(tail.LARGE_WINDOW)
    elif model and state.window:
        state.note_window(0)


def _start_text(source: str, transcript: str, environment: Mapping[str, str]) -> str | None:
    """Return the text for the model when a session begins by `source` (`resume`, `compact`), or None."""
    if source == "compact" and _archive(transcript, environment):
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


def _archive(transcript: str, environment: Mapping[str, str]) -> bool:
    """Archive a session as it is now. Return True if it is in the archive afterwards."""
    if not _is_session(transcript) or _is_excluded(transcript, environment):
        return False
    from pathlib import Path

    from foldmark.sessions.archive.storing import archive_folder, put

    return put(Path(transcript), archive_folder(environment)).state != "excluded"


def _end(session: str, transcript: str, environment: Mapping[str, str]) -> None:
    """Record that a session has ended, then archive it. Claude Code waits at most 1.5 seconds for this."""
    if not _is_session(transcript):  # nothing was said
        return
    from datetime import UTC, datetime
    from pathlib import Path

    from foldmark.core.codec import timestamp
    from foldmark.formats.places import session_path
    from foldmark.sessions.archive.storing import archive_folder
    from foldmark.sessions.hook import tail
    from foldmark.sessions.lineage import record_end

    share, now = tail.share(transcript, session=session), timestamp(datetime.now(UTC))
    try:
        ended, context = session_path(Path(transcript)), share.percent if share else None
        record_end(archive_folder(environment), ended, context, now)
    finally:
        _archive(transcript, environment)


def _is_excluded(transcript: str, environment: Mapping[str, str]) -> bool:
    """Return True if the person keeps sessions of this folder out of the archive (`sync_exclude`).

    Raises CommandError for invalid settings, because the invalid part may be the name of this folder.
    """
    folder = config_folder(environment)
    if not (
        environment.get("FOLDMARK_SYNC_EXCLUDE")
        or environment.get("IKIGAI_SYNC_EXCLUDE")
        or b"sync_exclude" in read(os.path.join(folder, "config.toml"))
    ):
        return False  # reading all settings would take 100 ms
    from pathlib import Path

    from foldmark.formats.session_file import SessionFile
    from foldmark.sessions.archive.syncing import passes_over
    from foldmark.settings.loading import load

    with SessionFile(transcript) as file:
        return passes_over(file, load(environment, None, Path(folder)).sync_exclude, environment)


def _is_session(transcript: str) -> bool:
    return transcript.endswith(".jsonl") and os.path.isfile(transcript)


def _first_record(transcript: str) -> dict[str, object]:
    """Return the first line of a session; {} if it is not a record with Foldmark's metadata."""
    if not _is_session(transcript):
        return {}
    with open(transcript, "rb") as file:
        line = file.readline(_MAX_FIRST_LINE)
    try:
        record = json.loads(line.decode("utf-8", "replace")) if b"_metadata" in line else None
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _search(environment: Mapping[str, str]) -> str:
    from foldmark.sessions.install.locations import typed_program

    return f"{typed_program(environment)} search 'what you need'"


def _in(path: object) -> str:
    """Return ` (FILE)` for a printable path, otherwise ""."""
    return f" ({path})" if isinstance(path, str) and path.isprintable() and 0 < len(path) <= _MAX_PATH else ""
