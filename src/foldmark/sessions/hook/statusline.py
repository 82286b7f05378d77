"""`foldmark statusline`: show how full the context is, in one line for Claude Code's status line [SPEC 8].

It never fails: on any error it prints an empty line and logs.
"""

import os
from collections.abc import Mapping

from foldmark.core.wording import count, meter
from foldmark.sessions.hook import live_state, process, tail
from foldmark.sessions.hook.tail import token_count, used

_LONGEST_NAME = 60


def run() -> None:
    """Print the line for the status on standard input."""
    text = ""
    try:
        text = line(process.read(), os.environ)
    except BaseException as error:
        process.note(os.environ, f"status line: {type(error).__name__}: {error}")
    try:
        process.write(text)
    except BaseException as error:
        process.note(os.environ, f"status line: {type(error).__name__}: {error}")


def line(given: Mapping[str, object], environment: Mapping[str, str]) -> str:
    """Return the line for a status of Claude Code, such as `Opus 4.8 · Context: 124K/200K tokens (62%) ⚪`.

    A session that runs under `foldmark live` also gets `· live: ~32K taken out, 2 operations`. Unknown parts are left
    out. The window is noted for hooks, which do not get it from Claude Code.
    """
    model, status, session = given.get("model"), given.get("context_window"), process.text(given, "session_id")
    status = status if isinstance(status, dict) else {}
    window = token_count(status, "context_window_size")
    if session and window:
        try:
            process.SessionState(environment, session).note_window(window)
        except OSError as error:
            process.note(environment, f"status line: {error}")
    tokens = _used(status, window)
    found = None if tokens else tail.share(process.text(given, "transcript_path"), window or None, session)
    if found:
        tokens, window = found.tokens, found.window
    elif tokens and not window:
        window = tail.window_of(environment, (session,), tokens, _text(model, "id"))
    name = "".join(char for char in _text(model, "display_name") if char.isprintable())[:_LONGEST_NAME].strip()
    parts = (
        name,
        meter(tokens, window) if tokens else "",
        _live(live_state.read(environment, session) if session else {}),
    )
    return " · ".join(part for part in parts if part)


def _live(told: Mapping[str, object]) -> str:
    """Return the part of the line about a session that runs under `foldmark live`; empty for any other session."""
    if not told:
        return ""
    out, operations, prevented = (token_count(told, key) for key in ("taken_out", "operations", "prevented"))
    parts = [f"~{(out + 500) // 1000}K taken out" if out >= 1000 else f"~{out} taken out" if out else ""]
    parts += [count(operations, "operation") if operations else "", f"{prevented} prevented" if prevented else ""]
    shown = ", ".join(part for part in parts if part) or "nothing taken out"
    return f"live: {shown}{', compacts when idle' if token_count(told, 'idle_compaction') else ''}"


def _used(status: Mapping[str, object], window: int) -> int:
    """Return the tokens in the context that the status reports, or 0."""
    usage, share = status.get("current_usage"), status.get("used_percentage")
    if isinstance(usage, dict):
        return used(usage)
    if isinstance(share, int | float) and 0 < share <= 100:
        return -int(-window * share // 100)
    return 0


def _text(model: object, key: str) -> str:
    """Return a text of the model. Some programs report only its name."""
    return process.text(model, key) if isinstance(model, dict) else model if isinstance(model, str) else ""
