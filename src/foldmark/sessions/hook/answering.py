"""`foldmark hook`: what Claude Code runs after a tool call and at other moments of a session [SPEC 8, S4].

It never fails the caller. Whatever goes wrong, it prints nothing, ends well, and leaves a line in the log of hooks. And
it is quick, for it runs after every tool call: what only some events need is imported where they need it.
"""

import json
import os

from foldmark.sessions.hook import state as hook_state
from foldmark.sessions.hook import streams, tail
from foldmark.sessions.hook.settings import reminder_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from foldmark.sessions.hook.events import Opening

ADVICE = {
    "urgent_threshold": "Use /trim or /rollover before auto-compaction at 95%.",
    "recommend_threshold": "Recommend /trim now or /rollover soon.",
    "warn_threshold": "Consider /trim if responses feel degraded.",
}
"""What [S4]'s reminders say behind the share, the most urgent first. A trim finds them by this."""

REMINDS = ("PostToolUse", "UserPromptSubmit")
"""The events at which the model is reminded."""


def run(log: "Opening") -> None:
    """Answer the event on standard input; `log` opens the database in which the ends of sessions are recorded."""
    event = "hook"
    try:
        told = streams.read()
        event = told.text("hook_event_name") or event
        if answer := answered(told, log, os.environ):
            streams.write(answer)
    except BaseException as error:
        hook_state.note(os.environ, f"{event}: {type(error).__name__}: {error}")


def answered(told: "streams.Told", log: "Opening", environment: "Mapping[str, str]") -> str | None:
    """What is to be printed for an event; None for nothing. Raises whatever goes wrong."""
    event, session, transcript = (told.text(key) for key in ("hook_event_name", "session_id", "transcript_path"))
    if not session or told.text("agent_id"):  # a subagent: the transcript and its share are the main session's
        return None
    text = None
    if event in REMINDS:
        text = _reminder(session, transcript, told.text("cwd"), environment)
    elif event == "SessionStart":
        from foldmark.sessions.hook.events import begun, note_window

        note_window(session, told.text("model"), environment)
        text = begun(told.text("source"), transcript, environment)
    elif event in ("PreCompact", "Stop"):
        # Nothing is printed at a Stop: that would make the model go on.
        from foldmark.sessions.hook.events import archived

        archived(transcript, environment)
    elif event == "SessionEnd":
        from foldmark.sessions.hook.events import ended

        ended(session, transcript, log, environment)
    return _for_model(event, text) if text else None


def _reminder(session: str, transcript: str, folder: str, environment: "Mapping[str, str]") -> str | None:
    """[S4]'s reminder, where the context is full enough for one and there was none for a while."""
    share = tail.share(transcript, session=session)
    if share is None:
        return None
    settings = reminder_settings(environment, folder)
    advice = next((advice for key, advice in ADVICE.items() if share.percent >= settings[key]), None)
    if advice is None:
        return None
    state = hook_state.SessionState(environment, session)
    if not state.may_remind(settings["check_interval_seconds"]):
        return None
    return f"Context at {share.percent}%. {advice}"


def _for_model(event: str, text: str) -> str:
    """The form in which Claude Code passes a text on to the model."""
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}})
