"""What a coding agent writes to the standard input of its hooks and its status line, and what it reads from them."""

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST = 16 << 20
"""Bytes that are read as JSON: a tool's result is part of what a hook is told, and may be an image."""

MOST_PASSED = 1 << 30
"""Bytes that are taken in before giving up; whoever is still writing gets an error."""

PATIENCE = 10
"""Seconds until the first byte: a pipe may be there into which nobody ever writes."""


class Told:
    """A JSON object from standard input; whatever may stand in it, `text` is safe to ask."""

    def __init__(self, values: "Any") -> None:
        self.values: dict[str, Any] = values if isinstance(values, dict) else {}

    def text(self, key: str) -> str:
        """A text; empty if there is none."""
        value = self.values.get(key)
        return value if isinstance(value, str) else ""


def read() -> Told:
    """What stands on standard input. Raises ValueError if it is no JSON object, OSError."""
    if sys.stdin is None:  # closed by whoever started us; another file may have its number
        raise ValueError("standard input is closed")
    if os.isatty(0):
        why = "standard input is a terminal; Claude Code runs this, `foldmark install claude` sets it up"
        sys.stderr.write(f"foldmark: {why}\n")
        raise ValueError(why)
    data = _read_all()
    if len(data) > MOST:
        raise ValueError(f"standard input has more than {MOST >> 20} MB")
    try:
        told = Told(json.loads(data.decode("utf-8", "replace")))
    except RecursionError:
        raise ValueError("standard input is nested too deeply") from None
    if not told.values:
        raise ValueError("standard input is no JSON object")
    return told


def write(text: str) -> None:
    """Print one line. Raises OSError."""
    if sys.stdout is None:
        raise OSError("standard output is closed")
    data = f"{text}\n".encode("utf-8", "replace")
    while data:
        data = data[os.write(1, data) :]


def _read_all() -> bytes:
    """Everything; of what is longer than `MOST` a little more than that."""
    if sys.platform != "win32":
        from select import select

        if not select([0], [], [], PATIENCE)[0]:
            raise ValueError(f"nobody writes to standard input, after {PATIENCE} seconds")
    pieces, length, passed = [], 0, 0
    while passed < MOST_PASSED and (piece := os.read(0, 1 << 16)):
        passed += len(piece)
        if length <= MOST:
            pieces.append(piece)
            length += len(piece)
    return b"".join(pieces)
