"""The functions that a model's SQL may call: harmless ones, and of those that SQLite cannot interrupt only such as take
time in proportion to their arguments."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import apsw

Check = Callable[[], None]
"""Raises when the time is over."""

_MAKING = "char concat concat_ws format hex printf quote randomblob strftime timediff zeroblob group_concat string_agg"
_JSON = (
    "json json_array json_array_length json_extract json_group_array json_group_object json_insert json_object "
    "json_pretty json_quote json_remove json_replace json_set json_type json_valid -> ->>"
)
_TEXT = "instr length like lower ltrim octet_length replace rtrim substr substring trim typeof unicode upper"
_CHOOSING = "coalesce if ifnull iif likelihood likely nullif unlikely"
_NUMBERS = (
    "abs acos asin atan atan2 ceil ceiling cos degrees exp floor ln log log10 log2 mod pi pow power radians random "
    "round sign sin sqrt tan trunc"
)
_TIMES = "current_date current_time current_timestamp date datetime julianday time unixepoch"
_GROUPS = "avg count max min sum total"
_WINDOWS = "cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number"

SHORT = frozenset(f"{_MAKING} {_JSON}".split())
"""Functions that are called on texts of usual length only: they are slow for each byte, or enlarge their input."""

FUNCTIONS = SHORT | frozenset(f"{_TEXT} {_CHOOSING} {_NUMBERS} {_TIMES} {_GROUPS} {_WINDOWS}".split())

_MOST_CHARACTERS = 1000
"""Maximum number of characters that `trim` removes."""

_LONG = 10_000
"""Characters of a text from which on a check of the time costs relatively little."""

_LONGEST_PATTERN = 200
"""Maximum characters of a pattern of LIKE."""

_ANY, _ONE = b"\xff", rb"[\x00-\x7f\xc0-\xff][\x80-\xbf]*+"
"""A `_` of a pattern, as a byte that UTF-8 never contains, and a character as a regular expression."""


def replace_slow(db: apsw.Connection, check: Check) -> None:
    """Replace SQLite's own functions whose time grows with the product of their arguments' lengths: one call of `instr`
    on two texts of a megabyte takes minutes, and nothing can interrupt it."""

    def add(name: str, number: int, function: Callable[..., Any]) -> None:
        def checked(*values: Any) -> Any:
            check()
            return None if None in values else function(*values)

        db.create_scalar_function(name, checked, number, deterministic=True)

    def like(*values: Any) -> bool | None:
        # It is called for every message of a log, so the usual case is handled at once.
        pattern, text, escape = values if len(values) == 3 else (*values, "")
        if type(text) is not str or type(pattern) is not str or type(escape) is not str:
            if None in (pattern, text, escape):
                return None
            if isinstance(pattern, bytes) or isinstance(text, bytes):
                return False
            pattern, text, escape = str(pattern), str(text), _text(escape)
        if len(text) > _LONG:
            check()
        return _matcher(pattern, escape)(text.encode().lower())

    db.create_scalar_function("like", like, 2, deterministic=True)
    db.create_scalar_function("like", like, 3, deterministic=True)
    add("instr", 2, _instr)
    add("replace", 3, partial(_replace, db))
    for name, strip in (("trim", str.strip), ("ltrim", str.lstrip), ("rtrim", str.rstrip)):
        add(name, 1, partial(_trim, strip))
        add(name, 2, partial(_trim, strip))


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _instr(whole: Any, part: Any) -> int:
    if isinstance(whole, bytes) and isinstance(part, bytes):
        return whole.find(part) + 1
    return _text(whole).find(_text(part)) + 1


def _replace(db: apsw.Connection, whole: Any, old: Any, new: Any) -> str:
    text, before, after = _text(whole), _text(old), _text(new)
    if not before:
        return text
    if len(text) + text.count(before) * (len(after) - len(before)) > db.limit(apsw.SQLITE_LIMIT_LENGTH):
        raise apsw.TooBigError("string or blob too big")
    return text.replace(before, after)


def _trim(strip: Callable[[str, str], str], text: Any, characters: Any = " ") -> str:
    if len(_text(characters)) > _MOST_CHARACTERS:
        raise apsw.TooBigError("string or blob too big")
    return strip(_text(text), _text(characters))


@lru_cache(maxsize=64)
def _matcher(pattern: str, escape: str) -> Callable[[bytes], bool]:
    """Return a predicate that matches a text in lower case (of ASCII, as in SQLite) with a pattern of LIKE.

    Between two `%` the first match is as good as any later one, so nothing is examined twice.
    """
    if len(pattern) > _LONGEST_PATTERN:
        raise apsw.SQLError(f"a LIKE pattern has at most {_LONGEST_PATTERN} characters")
    if len(escape) > 1:
        raise apsw.SQLError("ESCAPE expression must be a single character")
    pieces: list[list[bytes]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            pieces[-1].append(next(characters, "\0").encode().lower())
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append(_ANY if character == "_" else character.encode().lower())
    if any(_ANY in piece for piece in pieces):
        return _with_gaps(pieces)
    first, *middle, last = [b"".join(piece) for piece in pieces] if len(pieces) > 1 else (b"".join(pieces[0]), b"")
    if len(pieces) == 1:
        return first.__eq__

    def fits(text: bytes) -> bool:
        at, end = len(first), len(text) - len(last)
        if at > end or not text.startswith(first) or not text.endswith(last):
            return False
        for piece in middle:
            if (at := text.find(piece, at, end)) < 0:
                return False
            at += len(piece)
        return True

    return fits


def _with_gaps(pieces: list[list[bytes]]) -> Callable[[bytes], bool]:
    """Return a predicate for a pattern with `_`; the literal parts are searched for first."""
    import re

    def compiled(part: list[list[bytes]], join: str) -> re.Pattern[bytes]:
        sources = (b"".join(_ONE if each == _ANY else re.escape(each) for each in piece) for piece in part)
        return re.compile(b"".join(join.encode() % source for source in sources), re.DOTALL)

    first, middle, last = pieces[:1], pieces[1:-1], pieces[-1:]
    head = compiled(first, "%b"), compiled(middle, "(?>.*?%b)"), compiled(last, "%b")
    literal = [run for piece in pieces for run in b"".join(piece).split(_ANY) if run]

    def fits(text: bytes) -> bool:
        if not all(run in text for run in literal):
            return False
        begin, between, end = head
        if len(pieces) == 1:
            return begin.fullmatch(text) is not None
        found = begin.match(text)
        found = found and between.match(text, found.end())
        start = _characters_before(text, len(last[0]))
        return found is not None and start >= found.end() and end.fullmatch(text, start) is not None

    return fits


def _characters_before(text: bytes, number: int) -> int:
    """Return the beginning of the last `number` characters of a text in UTF-8; -1 if it has fewer."""
    start = len(text)
    for _ in range(number):
        start -= 1
        while start > 0 and text[start] & 0xC0 == 0x80:
            start -= 1
    return max(start, -1)
