"""Truncation of tool results, never inside a grapheme or an escape [S2, SPEC 5.2].

Lengths are code points. Graphemes follow UAX 29, by the standard library's tables; where these do not suffice, two
characters are kept together. An escape is a backslash escape, as in JSON and source code, or a terminal's control
sequence.
"""

import re
import unicodedata
from typing import NamedTuple

HINT = '... [TRUNCATED. Use query_db(sql="SELECT content FROM messages WHERE id={id}") to see full output]'
"""Replaces the cut part of a text; `{id}` is its event's."""

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}"
    r"|u\{[0-9a-fA-F]{1,6}\}|[0-7]{1,3}|.)"
    r"|\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])",
    re.DOTALL,
)
_LOOK = 64
"""How far before a cut an escape may begin; longer control sequences are treated as data."""

_ZWJ, _ZWNJ = "\u200d", "\u200c"
_VIRAMA = 9
_PREPENDED = re.compile("[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd]")
_INVISIBLE_TAGS = ("\U000e0020", "\U000e007f")
_SKIN = ("\U0001f3fb", "\U0001f3ff")
_REGIONAL = ("\U0001f1e6", "\U0001f1ff")
_HALFWIDTH_MARKS = "\uff9e\uff9f"


class Shortened(NamedTuple):
    """The text that is sent, and how many characters of the original it holds."""

    text: str
    kept: int


def shorten(text: str, limit: int, shape: str, event_id: int) -> Shortened:
    """Return `text` if it has at most `limit` characters, else at most that many of it, with the hint in place of the
    rest.

    Shape `head` keeps the beginning; `head-tail` a fifth of `limit` from the beginning and the rest from the end.
    """
    if len(text) <= limit:
        return Shortened(text, len(text))
    hint = HINT.format(id=event_id)
    if shape == "head-tail":
        end = before(text, limit // 5)
        begin = after(text, len(text) - (limit - limit // 5))
        return Shortened(f"{text[:end]}{hint}\n{text[begin:]}", end + len(text) - begin)
    end = before(text, limit)
    return Shortened(text[:end] + hint, end)


def before(text: str, index: int) -> int:
    """Return the last place up to `index` where `text` may be cut."""
    while 0 < index < len(text):
        span = _escape_around(text, index)
        if span is not None:
            index = span[0]
        elif _joined(text, index):
            index -= 1
        else:
            break
    return index


def after(text: str, index: int) -> int:
    """Return the first place from `index` on where `text` may be cut."""
    while 0 < index < len(text):
        span = _escape_around(text, index)
        if span is not None:
            index = span[1]
        elif _joined(text, index):
            index += 1
        else:
            break
    return index


def _escape_around(text: str, index: int) -> tuple[int, int] | None:
    """Return the beginning and the end of the escape that a cut at `index` would split."""
    floor = max(0, index - _LOOK)
    window = text[floor:index]
    if "\\" not in window and "\x1b" not in window:
        return None
    # In a run of backslashes every second one is escaped: begin with one that is not.
    run = floor - len(text[:floor].rstrip("\\"))
    for match in _ESCAPE.finditer(text, floor - run % 2, index + _LOOK):
        if match.start() >= index:
            break
        if match.end() > index:
            return match.span()
    return None


def _joined(text: str, index: int) -> bool:
    """Return True if the characters on both sides of `index` belong to one grapheme."""
    left, right = text[index - 1], text[index]
    if left < "\u0300" and right < "\u0300":
        return left == "\r" and right == "\n"
    if left in "\r\n" or right in "\r\n":
        return False
    if left == _ZWJ or right in (_ZWJ, _ZWNJ) or _PREPENDED.match(left):
        return True
    if unicodedata.category(right) in ("Mn", "Mc", "Me") or right in _HALFWIDTH_MARKS:
        return True
    if _SKIN[0] <= right <= _SKIN[1] or _INVISIBLE_TAGS[0] <= right <= _INVISIBLE_TAGS[1]:
        return True
    if _REGIONAL[0] <= left <= _REGIONAL[1] and _REGIONAL[0] <= right <= _REGIONAL[1]:
        return _flags_before(text, index) % 2 == 1
    if unicodedata.combining(left) == _VIRAMA and unicodedata.category(right) == "Lo":
        return True
    return _hangul(right) in _HANGUL_AFTER.get(_hangul(left), ())


def _flags_before(text: str, index: int) -> int:
    """Return the number of consecutive regional indicators directly before `index`."""
    begin = index
    while begin > 0 and _REGIONAL[0] <= text[begin - 1] <= _REGIONAL[1]:
        begin -= 1
    return index - begin


_HANGUL_AFTER: dict[str, tuple[str, ...]] = {
    "L": ("L", "V", "LV", "LVT"),
    "LV": ("V", "T"),
    "V": ("V", "T"),
    "LVT": ("T",),
    "T": ("T",),
}


def _hangul(char: str) -> str:
    """Return the kind of a Hangul letter or syllable, empty for everything else."""
    if "\u1100" <= char <= "\u115f" or "\ua960" <= char <= "\ua97c":
        return "L"
    if "\u1160" <= char <= "\u11a7" or "\ud7b0" <= char <= "\ud7c6":
        return "V"
    if "\u11a8" <= char <= "\u11ff" or "\ud7cb" <= char <= "\ud7fb":
        return "T"
    if "\uac00" <= char <= "\ud7a3":
        return "LVT" if (ord(char) - 0xAC00) % 28 else "LV"
    return ""
