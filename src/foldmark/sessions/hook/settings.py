"""Read the settings of reminders [SPEC 10, S4] for a hook, since `settings.loading` takes several times as long.

The sources and their order are the same, but a hook never fails: an invalid setting counts as missing. The log of hooks
names each unreadable file once.
"""

import os
import stat
from collections.abc import Callable, Mapping

from foldmark.sessions.hook.process import note_once
from foldmark.settings.user_folders import config_folder, home

Problem = Callable[[str, object], None]

DEFAULTS = {"warn_threshold": 60, "recommend_threshold": 75, "urgent_threshold": 85, "check_interval_seconds": 60}

MOST_BYTES = 256 * 1024
"""Maximum size of a settings file, as in `settings.loading`."""

_MAX = {"check_interval_seconds": 10**9}
_MAX_PERCENT = 100


def reminder_settings(environment: Mapping[str, str], folder: str) -> dict[str, int]:
    """Return the values in force for the keys of `DEFAULTS`, for a session with the working folder `folder`."""

    def problem(path: str, why: object) -> None:
        note_once(environment, f"settings in {path} cannot be read, and do not count: {why}")

    path = os.path.join(config_folder(environment), "config.toml")
    tables = (
        _project(folder, home(environment), problem) if os.path.isabs(folder) else {},
        _context(path, read(path, problem), problem) or {},
    )
    found = {}
    for key, default in DEFAULTS.items():
        text = environment.get(f"FOLDMARK_{key.upper()}") or environment.get(f"IKIGAI_{key.upper()}") or ""
        values = (_checked(key, text.strip()), *(_checked(key, table.get(key)) for table in tables))
        found[key] = next((value for value in values if value is not None), default)
    return found


def read(path: str, problem: Problem = lambda path, why: None) -> bytes:
    """Return the content of a file; b"" if it is missing. Call `problem` if it cannot be read."""
    text, why = b"", None
    try:
        if stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "rb") as file:
                text = file.read(MOST_BYTES + 1)
        else:
            why = "it is not a regular file"
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except (OSError, ValueError) as error:
        why = (isinstance(error, OSError) and error.strerror) or str(error)
    if len(text) > MOST_BYTES:
        why = f"it has more than {MOST_BYTES // 1024} KB"
    if why:
        problem(path, why)
        return b""
    return text


def _checked(key: str, value: object) -> int | None:
    """Return a value as a number, or None if it is not valid for this key."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value.lstrip("0")[:11] or 0)
    return value if type(value) is int and 0 <= value <= _MAX.get(key, _MAX_PERCENT) else None


def _project(folder: str, home: str, problem: Problem) -> Mapping[str, object]:
    """Return `[context]` of the project's `.foldmark.toml`, or of `.work.toml` if the former has no such table."""
    try:
        folder, home = os.path.realpath(folder), os.path.realpath(home)
    except (OSError, ValueError):  # a NUL or a lone surrogate
        return {}
    own, work = _nearest(".foldmark.toml", folder, home), _nearest(".work.toml", folder, home)
    texts = [read(path, problem) if path else b"" for path in (own, work)]
    if not any(key.encode() in text for text in texts for key in DEFAULTS):
        return {}
    found = _context(own, texts[0], problem)
    return (_context(work, texts[1], problem) or {}) if found is None else found


def _nearest(name: str, folder: str, home: str) -> str:
    """Return the file of this name in `folder` or the nearest folder above, up to the home folder; "" if none has
    it."""
    while True:
        path = os.path.join(folder, name)
        if os.path.lexists(path):
            return path
        above = os.path.dirname(folder)
        if folder == home or above == folder:
            return ""
        folder = above


def _context(path: str, text: bytes, problem: Problem) -> Mapping[str, object] | None:
    """Return the table `[context]` of a TOML file; None if it has none."""
    if b"context" not in text:
        return None
    import tomllib  # 10 ms

    try:
        table = tomllib.loads(text.decode("utf-8-sig").replace("\r\n", "\n")).get("context")
    except (ValueError, RecursionError) as error:
        problem(path, error)
        return {}
    return table if isinstance(table, dict) else None
