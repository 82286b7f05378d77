"""Where Foldmark's own database is, and how fast the offline model talks [SPEC 9]."""

import os
from collections.abc import Mapping
from pathlib import Path

from foldmark.settings.user_folders import config_folder, data_folder


def database(environment: Mapping[str, str], configured: str | None = None) -> str:
    """`FOLDMARK_DB`, or what is configured, or `foldmark.db` in the platform's data folder for this user."""
    named = environment.get("FOLDMARK_DB") or configured
    if named:
        return named
    return str(Path(data_folder(environment), "foldmark.db"))


def is_default(path: str, environment: Mapping[str, str], configured: str | None = None) -> bool:
    """Whether the database is where Foldmark itself chose to put it; then its folder is made as needed."""
    named = environment.get("FOLDMARK_DB") or configured
    return not named and Path(path) == Path(database(environment))


def offline_delay(environment: Mapping[str, str], terminal: bool, configured: float | None = None) -> float:
    """Seconds between the offline model's words: `FOLDMARK_OFFLINE_DELAY`, or what is configured, otherwise a little
    on a terminal."""
    try:
        return min(10.0, max(0.0, float(environment["FOLDMARK_OFFLINE_DELAY"])))
    except (KeyError, ValueError):
        return configured if configured is not None else 0.02 if terminal else 0.0


def user_folder() -> Path:
    """The platform's folder for this user's settings; `XDG_CONFIG_HOME` is honoured."""
    return Path(config_folder(os.environ))


def input_history() -> Path:
    """The file that holds what was typed at the chat's prompt, in the platform's data folder for this user."""
    return Path(data_folder(os.environ), "history.jsonl")
