"""The model's `### STATE` block: split from the end of an answer, and held back while the answer streams [S2, SPEC 7].

A block begins with its own line, `### STATE` or `### State`, bold or not, outside of code fences; the last such
line counts. It extends to the end of the answer and holds at least one of its four members (`Goal:`, `Context:`,
`Resolved:`, `Technical Anchors:`) with content. Any other block, or one followed by another heading, is malformed: it
is text like any other.

One kind of fence does not count as a code fence: a plain or Markdown fence (no language, `markdown`, `md` or `text`) at
the end of the answer that contains a block and nothing else. Some models put one around the block.

A paragraph after the last member and an empty line, neither indented nor a list, belongs to the answer. Otherwise it
would not be shown.
"""

import re
from typing import NamedTuple

_MOST = 40
"""Maximum length of the line that begins a block, trailing spaces included: the most characters that are held back."""

KEYS = ("Goal", "Context", "Resolved", "Technical Anchors")
"""The members of a block, in the words of the guidelines."""

_BEGINS = re.compile(r"#{2,4}[ \t]+(?:STATE|State)[ \t]*:?[ \t\r]*")
_MAY_BEGIN = re.compile(r"#{0,4}|#{2,4}[ \t]+(?:S|ST|STA|STAT|St|Sta|Stat|(?:STATE|State)[ \t]*:?[ \t\r]*)?")
_BOLD = str.maketrans("", "", "*_")
_WRAPS = re.compile(r" {0,3}(?:`{3,}+|~{3,}+)[ \t]*(?:markdown|md|text)?[ \t\r]*", re.IGNORECASE)
_FENCES = ("```", "~~~")
_MAY_WRAP = re.compile(
    r" {0,3}(?:`*+|~*+)"
    r"(?:(?<=[`~]{3})[ \t]*(?:m|ma|mar|mark|markd|markdo|markdow|t|te|tex|(?:markdown|md|text)[ \t\r]*)?)?",
    re.IGNORECASE,
)
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t\r]|\Z)")
_MEMBER = re.compile(
    r"[ \t]*+(?:[-*+][ \t]++)?(?:\*\*|__)?(goal|context|resolved|technical anchors)(?:\*\*|__)?[ \t]*+:",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"[ \t]|[-*+>|][ \t]|[0-9]{1,9}[.)][ \t]")
"""Beginnings of a paragraph that belongs to the member before it."""

_FENCE = re.compile(r" {0,3}(`{3,}+(?=[^`]*\Z)|~{3,}+)")
_PIECES = re.compile(r"[^\n]*+\n|[^\n]++")


class Parted(NamedTuple):
    """An answer without its block, and the block without its first line; None if there is none."""

    text: str
    block: str | None


def parted(text: str) -> Parted:
    """Split an answer from the block at its end. A text without a block is returned unchanged. Takes linear time."""
    before, block, behind = _around(text)
    return Parted(text, None) if block is None else Parted(_joined(before, behind, bool(before)), block)


def missing(block: str) -> list[str]:
    """Return the members that a block lacks, in the words of the guidelines."""
    found = {match[1].casefold() for line in block.split("\n") if (match := _MEMBER.match(line))}
    return [key for key in KEYS if key.casefold() not in found]


def goal(block: str) -> str:
    """Return the goal of a block on one line; empty if it has none."""
    found: list[str] = []
    for line in block.split("\n"):
        if match := _MEMBER.match(line):
            if found:
                break
            found += [line[match.end() :]] if match[1].casefold() == "goal" else []
        elif found:
            found.append(line)
    return " ".join(" ".join(found).split())


def may_hold(text: str) -> bool:
    """Return False if a text certainly has no block."""
    return "STATE" in text or "State" in text


def _around(text: str) -> tuple[str, str | None, str]:
    """Return the text before the block, the block, and the part of the answer after the block."""
    if wrapped := _wrapped(text):
        return *wrapped, ""
    begin, first, ends, fence, place = -1, 0, False, "", 0
    for line in text.split("\n") if may_hold(text) else ():  # only "\n" ends a line: not U+2028
        inside, fence = fence, fence_behind(line, fence)
        if not inside and _is_head(line):
            begin, first, ends = place, place + len(line) + 1, False
        elif not inside and begin >= 0 and _HEADING.match(line):
            ends = True
        place += len(line) + 1
    length = 0 if begin < 0 or ends else _members(text[first:])
    if not length:
        return text, None, ""
    return text[:begin], text[first : first + length].strip(), text[first + length :]


def _wrapped(text: str) -> tuple[str, str] | None:
    """Return the text before the plain fence at the end of a text, and the block in the fence; None if there is
    none."""
    fence, place, opened, first, last = "", 0, -1, 0, -1
    for line in text.split("\n") if may_hold(text) and text.rstrip().endswith(_FENCES) else ():
        inside, fence = fence, fence_behind(line, fence)
        behind = place + len(line) + 1
        if fence and not inside:
            opened, first, last = place if _wraps(line) else -1, behind, -1
        elif inside and not fence:
            last = place
        elif not inside and line.strip():
            last = -1
        place = behind
    if opened < 0 or last < 0:
        return None
    head, _, block = text[first:last].partition("\n")
    if not block or not _is_head(head) or any(map(_HEADING.match, block.split("\n"))) or _members(block) < len(block):
        return None
    return text[:opened], block.strip()


def _joined(before: str, behind: str, shown: bool) -> str:
    return (before + behind if shown else behind.lstrip()).rstrip()


def _members(text: str) -> int:
    """Return the length of the members that follow a block's first line; 0 if there are none with content."""
    place, gap, end, member, has_content, fence = 0, -1, 0, False, False, ""
    for line in text.split("\n"):
        inside, fence = fence, fence_behind(line, fence)
        begins = _MEMBER.match(line)
        if begins:
            member, end = True, 0
        elif member and not end and gap >= 0 and not inside and line.strip() and not _GOES_ON.match(line):
            end = gap
        has_content = has_content or (not end and bool(line[begins.end() if begins else 0 :].strip(" \t\r*_+`~-")))
        gap = -1 if line.strip() else gap if gap >= 0 else place
        place += len(line) + 1
    return (end or len(text)) if member and has_content else 0


def _is_head(line: str) -> bool:
    return len(line) <= _MOST and _BEGINS.fullmatch(line.translate(_BOLD)) is not None


def _wraps(line: str) -> bool:
    return len(line) <= _MOST and _WRAPS.fullmatch(line) is not None


def fence_behind(line: str, fence: str) -> str:
    """Return the code fence that is open after a line, as it was opened ("```"), given the fence that was open before
    the line; "" for none."""
    if not fence:
        opened = _FENCE.match(line)
        return opened[1] if opened else ""
    bare = line.strip(" \t\r")
    closes = len(bare) >= len(fence) and not bare.strip(fence[0]) and not line.startswith(("    ", "\t"))
    return "" if closes else fence


class Hiding:
    """An answer as it streams, without its block: the output of `feed` and `end` together equals the text of `parted`,
    up to white space at the end.

    A line is shown as it streams, unless it may begin a block or a plain fence around one. From the beginning of a
    block on, everything is held back until the end.
    """

    def __init__(self) -> None:
        self._line: list[str] = []
        self._wrap = ""
        self._fence, self._goes_out, self._begun, self._shown = "", False, False, False

    def feed(self, piece: str) -> str:
        """Take the next piece of the answer and return the text that can be shown now."""
        shown = "".join(map(self._take, _PIECES.findall(piece)))
        self._shown = self._shown or bool(shown)
        return shown

    def end(self, interrupted: bool = False) -> str:
        """End the answer and return the text that was held back but is not a block. An `interrupted` answer has no
        block."""
        pending = "" if self._goes_out else self._wrap + "".join(self._line)
        self._line, self._wrap, self._begun, self._goes_out = [], "", False, False
        before, block, behind = (pending, None, "") if interrupted else _around(pending)
        return before if block is None else _joined(before, behind, self._shown or bool(before))

    def _take(self, piece: str) -> str:
        """Take a piece of a line, or its end."""
        self._line.append(piece)
        if self._begun:
            return ""
        shown = piece
        if not self._goes_out:
            line = "".join(self._line)
            if self._waits(line):
                return ""
            shown, self._goes_out, self._wrap = self._wrap + line, True, ""
        if piece.endswith("\n"):
            self._fence = fence_behind("".join(self._line).removesuffix("\n"), self._fence)
            self._line, self._goes_out = [], False
        return shown

    def _waits(self, line: str) -> bool:
        """Return True if an unfinished line is held back: it may begin a block, or the fence around one."""
        if self._fence and not self._wrap:
            return False
        whole = line.endswith("\n")
        self._begun = whole and _is_head(line[:-1])
        if self._begun or (len(line) <= _MOST and _MAY_BEGIN.fullmatch(line.translate(_BOLD))):
            return True
        if self._wrap:
            return False
        if whole and _wraps(line[:-1]):
            self._wrap, self._fence, self._line = line, fence_behind(line[:-1], ""), []
            return True
        return len(line) <= _MOST and _MAY_WRAP.fullmatch(line) is not None
