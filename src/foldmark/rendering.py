"""Text for a terminal or a pipe: results as text and JSON, without control characters, wrapped between words."""

import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from foldmark.core.patterns import pattern
from foldmark.core.wording import one_line

if TYPE_CHECKING:
    from foldmark.core.ports import Progress
    from foldmark.log import Result

# Control characters except tab and line feed, and marks that change the text direction: text from a model, a file or a
# web page must not control the terminal. Lone surrogates cannot be printed at all.
_STEERING = pattern("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_STYLE = pattern("\x1b\\[[0-9;]*m")


def harmless(text: str) -> str:
    """Make control characters visible, so that the text cannot control a terminal. CR LF becomes LF."""
    return _STEERING.sub(lambda match: ascii(match[0])[1:-1], text.replace("\r\n", "\n"))


def is_bold() -> bool:
    """Return True if standard output is a terminal, which can show bold text, and `NO_COLOR` is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def marked(text: str, places: Iterable[tuple[int, int]], *, bold: bool) -> str:
    """Return harmless text, bold between each of these pairs of positions, given in ascending order."""
    shown, at = "", 0
    for start, end in places if bold else ():
        shown += f"{harmless(text[at:start])}{_BOLD}{harmless(text[start:end])}{_PLAIN}"
        at = end
    return shown + harmless(text[at:])


def result_text(result: "Result") -> str:
    """Return a result as text for a person, with the receipt of an operation."""
    lines = [marked(result.text, result.marks, bold=is_bold())] if result.text else []
    if result.event_id is not None:
        lines.append(f"  {receipt(result)}")
    return "\n".join(lines)


def receipt(result: "Result") -> str:
    """`event 8 · 3 messages (~12 recorded tokens) left · context 5 → 2 messages (~9 recorded tokens) · /restore 8`."""
    from foldmark.operations.history import moves, sized
    from foldmark.operations.receipts import ChangedSettings, DeliveredMail, Receipt

    done = result.effect
    if isinstance(done, ChangedSettings):
        reason = [f"reason: {one_line(done.reason)}"] if done.reason else []
        return " · ".join([f"event {done.event_id}", *done.parts(), *reason, done.back])
    assert isinstance(done, Receipt | DeliveredMail)
    change, parts = done.change, [f"event {result.event_id}"]
    recorded = not isinstance(done, Receipt) or done.outcome.recorded
    parts += moves(((change.left, "left"), (change.returned, "came back")), recorded=recorded)
    if isinstance(done, Receipt):
        outcome = done.outcome
        both = ((outcome.evicted, "evicted"), (outcome.whole_again, "sent as before"))
        parts += moves(both, "result", recorded=recorded)
        parts += done.notes()
    before = "" if change.before == change.after else f"{change.before.messages:,} → "
    parts.append(f"context {before}{sized(change.after, recorded=recorded)}")
    if isinstance(done, Receipt):
        parts += [f"reason: {one_line(done.reason)}"] if done.reason else []
        parts += [done.back] if done.back else []
    return " · ".join(parts)


def result_json(result: "Result") -> str:
    """Return a result as JSON: text, event_id, data."""
    return json_text({"text": result.text, "event_id": result.event_id, "data": result.data})


def json_text(value: Any) -> str:
    """Return indented JSON. Control characters are escaped, which does not change the value."""
    return _escaped(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def json_line(value: Any) -> str:
    """Return JSON on one line, with control characters escaped."""
    return _escaped(msgspec.json.format(msgspec.json.encode(value), indent=0).decode())


def _escaped(text: str) -> str:
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return a table: the first column left-aligned, all others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *cells in rows:
        right = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *right]))
    return "\n".join(lines)


def counter(label: str) -> "Progress | None":
    """Return a function that reports progress on a line of standard error; None if standard error is not a terminal."""
    if not sys.stderr.isatty():
        return None

    def report(done: int, total: int) -> None:
        end = "\n" if done >= total else ""
        print(f"\r{label} {done:,} of {total:,}", end=end, file=sys.stderr, flush=True)

    return report


def columns(stream: TextIO) -> int:
    """Return the width of a terminal; 0 if the stream is not a terminal."""
    if not stream.isatty():
        return 0
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except OSError:
        return 0


def fitted(text: str, stream: TextIO | None = None) -> str:
    """Return text as it is printed to `stream` (default: standard output), wrapped between words for a terminal."""
    wrapping = Wrapping(columns(stream or sys.stdout))
    return wrapping.feed(text) + wrapping.flush()


class Wrapping:
    """Wraps streamed text; with 0 columns, it wraps nothing.

    A word is held back until it ends. A continued line keeps its indentation. A word wider than the terminal begins a
    new line, and the terminal breaks it.
    """

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._at: int | None = None  # the column; None until something is printed on the line
        self._gap = self._word = self._indent = ""

    def feed(self, text: str) -> str:
        """Take the next piece and return the text that can be printed now."""
        return "".join(map(self._char, text)) if self.columns else text

    def flush(self) -> str:
        """Return the text held back so far."""
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
        if _is_wide(char):  # scripts without spaces can be broken anywhere
            shown = self.flush()
            self._word = char
            return shown + self.flush()
        self._word += char
        return ""


def _width(text: str) -> int:
    """Return the width of a text in columns."""
    plain = _STYLE.sub("", text)
    return sum(2 if _is_wide(char) else 0 if unicodedata.combining(char) else 1 for char in plain)


def _is_wide(char: str) -> bool:
    return char > "\u1100" and unicodedata.east_asian_width(char) in "WF"
