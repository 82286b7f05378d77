"""`foldmark statusline`: how full the context is, on one line for Claude Code's status line [SPEC 8].

It never fails: whatever goes wrong leaves an empty line there, and one in the log of hooks.
"""

import os

from foldmark.core.wording import meter
from foldmark.sessions.hook import state, streams, tail
from foldmark.sessions.hook.tail import token_count, used

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_LONGEST_NAME = 60


def run() -> None:
    """Print the line for the status on standard input."""
    text = ""
    try:
        text = line(streams.read(), os.environ)
    except BaseException as error:
        state.note(os.environ, f"status line: {type(error).__name__}: {error}")
    try:
        streams.write(text)
    except BaseException as error:
        state.note(os.environ, f"status line: {type(error).__name__}: {error}")


def line(told: streams.Told, environment: "Mapping[str, str]") -> str:
    """The line for a status of Claude Code's: `Opus 4.8 · Context: 124K/200K tokens (62%) ⚪`.

    What is not known is left out. Notes the window's size, which hooks are not told.
    """
    model, status, session = told.values.get("model"), told.values.get("context_window"), told.text("session_id")
    status = status if isinstance(status, dict) else {}
    window = token_count(status, "context_window_size")
    if session and window:
        try:
            state.SessionState(environment, session).note_window(window)
        except OSError as error:
            state.note(environment, f"status line: {error}")
    tokens = _used(status, window)
    found = None if tokens else tail.share(told.text("transcript_path"), window or None, session)
    if found:
        tokens, window = found.tokens, found.window
    elif tokens and not window:
        window = tail.window_of(environment, (session,), tokens, _text(model, "id"))
    name = "".join(char for char in _text(model, "display_name") if char.isprintable())[:_LONGEST_NAME].strip()
    return " · ".join(part for part in (name, meter(tokens, window) if tokens else "") if part)


def _used(status: "Mapping[str, Any]", window: int) -> int:
    """The tokens in the context as the status has them; 0 if it does not say."""
    usage, share = status.get("current_usage"), status.get("used_percentage")
    if isinstance(usage, dict):
        return used(usage)
    if isinstance(share, int | float) and 0 < share <= 100:
        return -int(-window * share // 100)
    return 0


def _text(model: "Any", key: str) -> str:
    """What a status says of the model; some programs have only a name there."""
    text = model.get(key) if isinstance(model, dict) else model
    return text if isinstance(text, str) else ""
