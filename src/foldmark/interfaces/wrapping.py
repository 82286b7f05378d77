"""Long lines, broken between words where the terminal ends; through a pipe they stay as they are."""

import os
import re
import sys
import unicodedata
from typing import TextIO

_STYLE = re.compile("\x1b\\[[0-9;]*m")


def columns(stream: TextIO) -> int:
    """The width of a terminal; 0 for what is none."""
    if not stream.isatty():
        return 0
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except OSError:
        return 0


def fitted(text: str, stream: TextIO | None = None) -> str:
    """Text as it is printed to `stream`, by default standard output: broken between words if that is a terminal."""
    wrapping = Wrapping(columns(stream or sys.stdout))
    return wrapping.feed(text) + wrapping.flush()


class Wrapping:
    """Breaks text that comes piece by piece; 0 columns break nothing. A word is held back until it ends.

    A line that goes on in the next one keeps its indentation. A word that is wider than the terminal begins a line, and
    the terminal breaks it.
    """

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._at: int | None = None  # the column; none on a line where nothing stands yet, not even a lone accent
        self._gap = self._word = self._indent = ""

    def feed(self, text: str) -> str:
        """What may be printed now."""
        return "".join(map(self._char, text)) if self.columns else text

    def flush(self) -> str:
        """What was held back."""
        if not self._word:
            return ""
        gap, word, self._gap, self._word = self._gap, self._word, "", ""
        wide = _width(word)
        if self._at is None:
            self._indent = gap if len(gap) < self.columns // 2 else ""
        elif self._at + len(gap) + wide > self.columns:
            self._at = len(self._indent) + wide
            return f"\n{self._indent}{word}"
        self._at = (self._at or 0) + len(gap) + wide
        return gap + word

    def _char(self, char: str) -> str:
        if char == "\n":
            shown = self.flush() + char
            self._at, self._gap = None, ""
            return shown
        if char in " \t":
            shown = self.flush()
            self._gap += char if char == " " else "    "
            return shown
        if _is_wide(char):  # such scripts have no spaces, and are broken anywhere
            shown = self.flush()
            self._word = char
            return shown + self.flush()
        self._word += char
        return ""


def _width(text: str) -> int:
    """The columns that text takes."""
    plain = _STYLE.sub("", text)
    return sum(2 if _is_wide(char) else 0 if unicodedata.combining(char) else 1 for char in plain)


def _is_wide(char: str) -> bool:
    return char > "\u1100" and unicodedata.east_asian_width(char) in "WF"
