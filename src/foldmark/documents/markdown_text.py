"""Texts inside a Markdown document: they keep their own Markdown, and cannot be mistaken for the document's own lines.

Pure.
"""

import re
from collections.abc import Iterator

from foldmark.rendering import harmless

DEEPER = 3
"""Number of levels by which headings in texts are lowered: the document's own headings have the levels up to this."""

_DEEPEST = 6
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_HEADING = re.compile(r"( {0,3})(#{1,6})(?=[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_NOTE = re.compile(r" {0,3}>[ \t]*\[")
_HTML = re.compile(r" {0,3}<(?![a-z][a-z0-9+.-]*:|[^ <>]*@)[a-z/!?]", re.IGNORECASE)
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def fenced(text: str, language: str = "") -> str:
    """Return a text as a code block. Its fence is longer than any run of backticks in the text, so the text stays as it
    is."""
    shown = harmless(text)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if not shown or shown.endswith("\n") else "\n"
    return f"{fence}{language}\n{shown}{end}{fence}"


def plain(text: str) -> str:
    """Return a text of one line that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", harmless(text))


def guarded(text: str) -> str:
    """Return a message's Markdown for a place inside a document. An unfinished code block is finished, headings are
    lowered, and lines that would begin raw HTML, or look like a note of the document, are escaped."""
    return "\n".join(_lines(harmless(text).strip("\n").split("\n")))


def _lines(lines: list[str]) -> Iterator[str]:
    fence, before = "", ""
    for line in lines:
        opening = _FENCE.match(line)
        if fence:
            if opening and opening[1].startswith(fence) and not line[opening.end() :].strip():
                fence = ""
            yield line
        elif opening:
            fence = opening[1]
            yield line
        else:
            yield _line(line, before)
        before = line
    if fence:
        yield fence


def _line(line: str, before: str) -> str:
    if heading := _HEADING.match(line):
        level = min(len(heading[2]) + DEEPER, _DEEPEST)
        return f"{'#' * level}{line[heading.end() :]}"
    if (_UNDERLINE.match(line) and before.strip()) or _NOTE.match(line) or _HTML.match(line):
        blank = len(line) - len(line.lstrip(" "))
        return f"{line[:blank]}\\{line[blank:]}"
    return line
