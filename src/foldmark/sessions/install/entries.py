"""Foldmark's entries that no plugin can bring: the main status line, and the paragraph in CLAUDE.md [SPEC 8; S4
components 2, 3, 5].

A kind of file edits its text. The file may belong to somebody else, so all other text keeps its characters.
"""

import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from foldmark.sessions.install.json_text import NotMergeableError, blank, check, put, put_raw, raw, remove
from foldmark.sessions.install.locations import MARKET, is_foldmark, shell

BEGIN, END = "<!-- foldmark:begin -->", "<!-- foldmark:end -->"
"""The marks around the paragraph in a CLAUDE.md. Claude Code hides such comments from the model."""

_BLOCK = re.compile(rf"{BEGIN}.*?{END}", re.DOTALL)
_BLOCK_WITH_GAP = re.compile(rf"(?:\A|(?<=\n)\r?\n|){BEGIN}.*?{END}(?:\r?\n)?", re.DOTALL)
_LINE = "statusLine"
_BY_CLIENT = ("enabledPlugins", "extraKnownMarketplaces")
"""Members that Claude Code writes when it installs a plugin."""


class Edited(NamedTuple):
    """The new text of a file (None: no file), and notes for the person."""

    text: str | None
    notes: tuple[str, ...] = ()


class FileKind(Protocol):
    """Edits one kind of file. Both methods raise NotMergeableError."""

    def put_in(self, text: str | None) -> Edited:
        """Return the text with Foldmark's entries."""

    def take_out(self, text: str, original: str | None) -> str:
        """Return the text without Foldmark's entries. `original` is the text before them, if it is known."""


class SettingsFile:
    """The status line in Claude Code's `settings.json`.

    `program` is the path of the `foldmark` script. `shadowed` is a file with a person's own status line, which a status
    line in this file would hide. With `replace`, Foldmark's status line replaces another one.
    """

    def __init__(self, program: str, shadowed: str | None = None, replace: bool = False) -> None:
        self._command = f"{shell(program)} statusline"
        self._shadowed, self._replace = shadowed, replace

    def put_in(self, text: str | None) -> Edited:
        """Add the status line at the end; another one stays, unless it is to be replaced."""
        given, is_empty = text, blank(text)
        text = "{}" if text is None or is_empty else text
        value = check(text)
        found = value.get(_LINE)
        notes: tuple[str, ...] = ()
        if value.get("disableAllHooks") is True:
            notes = ("`disableAllHooks` is set there: Claude Code runs no hooks, so there will be no reminders",)
        own = found if is_own_status_line(found) else None
        if not own and not self._replace and (_LINE in value or self._shadowed):
            kept = "has a status line of its own, which is kept"
            hidden = f"got no status line: it would hide yours in {self._shadowed}"
            return Edited(given, (*notes, self._combine(kept if _LINE in value else hidden)))
        if not own or own["command"] != self._command:
            text = put(text, _LINE, {**(own or {"type": "command"}), "command": self._command})
        return Edited(f"{text}\n" if is_empty else text, notes)

    def take_out(self, text: str, original: str | None) -> str:
        """Remove the status line, and plugins that the client does not know and so left. Restore a status line that was
        replaced."""
        if blank(text):
            return text
        value = check(text)
        text = _without_plugins(text, value)
        if not is_own_status_line(value.get(_LINE)):
            return text
        before = {} if original is None or blank(original) else check(original)
        if original and _LINE in before and not is_own_status_line(before[_LINE]):
            return put_raw(text, _LINE, raw(original, _LINE))
        return remove(text, _LINE)

    def _combine(self, note: str) -> str:
        return (
            f"{note}; to see the context's share as well, let its script pass its standard input on to "
            f"`{self._command}` too, or replace it with --replace-statusline"
        )


class PromptFile:
    """A paragraph about the context [S4 component 5] at the end of a `CLAUDE.md`, between two marks.

    `program` is the path of the `foldmark` script.
    """

    def __init__(self, program: str) -> None:
        text = Path(__file__).with_name("context.md").read_bytes().decode()
        self._text = text.strip().replace("{foldmark}", shell(program))

    def put_in(self, text: str | None) -> Edited:
        """Append the paragraph, or replace it in place. Raises NotMergeableError if a mark is missing."""
        newline = "\r\n" if text and "\r\n" in text else "\n"
        block = f"{BEGIN}\n{self._text}\n{END}".replace("\n", newline)
        if not text:
            return Edited(block + newline)
        if _has_block(text):
            return Edited(_BLOCK.sub(lambda _: block, text))
        gap = newline if text.endswith("\n") else newline * 2
        return Edited(f"{text}{gap}{block}{newline}")

    def take_out(self, text: str, original: str | None) -> str:
        """Remove the paragraph with the empty line before it."""
        return _BLOCK_WITH_GAP.sub("", text) if _has_block(text) else text


def is_same(one: str | None, other: str | None) -> bool:
    """Return True for texts that differ in blanks at the end only, and for JSON that says the same.

    A missing file says the same as an empty one. A plugin that comes and goes leaves empty objects in Claude Code's
    settings, which say nothing.
    """
    if (one or "").rstrip() == (other or "").rstrip():
        return True
    value = _settings(one)
    return value is not None and value == _settings(other)


def is_own_status_line(value: object) -> bool:
    """Return True for a status line that runs Foldmark's, wherever Foldmark is installed."""
    command = value.get("command") if isinstance(value, dict) else None
    if not isinstance(command, str):
        return False
    for posix in (True, False):  # the second mode keeps the backslashes of a path
        try:
            words = shlex.split(command, posix=posix)
        except ValueError:  # an unclosed quote
            return False
        if len(words) > 1 and is_foldmark(words[0]) and words[1] == "statusline":
            return True
    return False


def _without_plugins(text: str, value: dict[str, Any]) -> str:
    """Remove Foldmark's marketplace and its plugins, which are named `PLUGIN@MARKETPLACE`."""
    for key in _BY_CLIENT:
        found = value.get(key)
        if isinstance(found, dict):
            others = {name: each for name, each in found.items() if name.rpartition("@")[2] != MARKET}
            if others != found:
                text = put(text, key, others) if others else remove(text, key)
    return text


def _settings(text: str | None) -> dict[str, Any] | None:
    try:
        value = {} if text is None or blank(text) else check(text)
    except NotMergeableError:
        return None
    return {key: each for key, each in value.items() if each != {} or key not in _BY_CLIENT}


def _has_block(text: str) -> bool:
    """Return True if the text has Foldmark's paragraph. Raises NotMergeableError if the marks are not one pair."""
    marks = re.findall(f"{BEGIN}|{END}", text)
    if marks not in ([], [BEGIN, END]):
        raise NotMergeableError(f"its marks {BEGIN} and {END} are not one pair; --no-prompt leaves the file as it is")
    return bool(marks)
