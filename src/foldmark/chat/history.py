"""The history of lines typed at the prompt, kept across chats."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from foldmark.log import Log
from foldmark.settings.user_folders import data_folder

MOST_LINES = 1000
"""Maximum number of lines to load."""


class InputHistory:
    """Lines typed at the prompt, each stored as JSON on its own line of `path`. Only the owner may read the file.

    `hidden` removes secrets from a line before it is written. An unreadable or unwritable file is not an error: the
    history of this session works without it.
    """

    def __init__(self, path: Path, hidden: Callable[[str], str] = str) -> None:
        self._path, self._hidden = path, hidden

    def load(self) -> list[str]:
        """Return the newest MOST_LINES lines, oldest first. Shorten a file that holds more than twice as many."""
        try:
            stored = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        if len(stored) > 2 * MOST_LINES:
            with suppress(OSError):
                self._write(stored[-MOST_LINES:], os.O_TRUNC)
        found = []
        for line in stored[-MOST_LINES:]:
            with suppress(ValueError):
                if isinstance(text := json.loads(line), str):
                    found.append(text)
        return found

    def add(self, line: str) -> None:
        """Add a line to the history file."""
        with suppress(OSError, ValueError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write([json.dumps(self._hidden(line))], os.O_APPEND)

    def _write(self, lines: list[str], how: int) -> None:
        with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | how, 0o600), "w", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))


def input_history(log: Log) -> InputHistory:
    """Return the history of all chats, in the data folder."""
    return InputHistory(Path(data_folder(os.environ), "history.jsonl"), log.secrets.hidden)
