"""Cut a text, and point to the line that holds the whole of it [SPEC 8, S4].

Texts are JSON strings as in a session file, in bytes with their quotes. Lengths are characters (code points). A text
that Foldmark or claude-code-tools has cut is not cut again: the pointer would be lost.
"""

import json
import re
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from foldmark.core import codec
from foldmark.core.assembly.wire import before

_PIECE = 1 << 20
_NEAR = 4096
"""Bytes that are searched backwards for a place where a text may be split; if there is none, it is not split."""

_LOOK = 72
"""Characters before a cut that decide whether it splits something; more than `truncation` looks at."""

_TAIL = 1 << 13
"""Characters at the end of a text that are searched for a pointer: more than the longest path."""

_MARK = "\n... [TRIMMED by Foldmark: "
_OURS = re.compile(
    r"\n\.\.\. \[TRIMMED by Foldmark: ([\d,]{1,20}) of ([\d,]{1,20}) (characters|bytes)\. "
    r"The whole (?:result|argument): line \d+ of [^\0]+\]\Z"
)
_OURS_ENTRIES = re.compile(
    r"\.\.\. \[TRIMMED by Foldmark: ([\d,]{1,20}) of ([\d,]{1,20}) entries\. "
    r"The whole (?:result|argument): line \d+ of [^\0]+\]\Z"
)
_THEIR_MARK = "\n\n[...truncated - "
_THEIRS = re.compile(
    r"\n\n\[\.\.\.truncated - original content was ([\d,]{1,20}) characters, showing first ([\d,]{1,20})\. "
    r"See line \d+ of [^\0]+ for full content\]\Z"
)
_IMAGE = re.compile(r"\S{1,100} image")
_PERSISTED = re.compile(r"<persisted-output>\n[^\n]{0,5000}\n")
"""The beginning of a result that Claude Code itself wrote to a file: these lines name the file."""

IMAGE = 4_800
"""Bytes that count for an image at most, as for 1,600 tokens."""

_decode = msgspec.json.Decoder(str).decode


class Replacement(Struct, frozen=True):
    """The JSON in place of a result, and how many characters of text and bytes of JSON the model no longer reads.

    The model does not read an image as base64, so that counts as `IMAGE` bytes at most.
    """

    raw: bytes
    characters: int
    bytes: int


class Origin(Struct, frozen=True):
    """The original of a result or an argument: a line, counted from 1, of a file."""

    line: int
    file: str
    what: str = "result"

    def pointer(self, kept: int, whole: int, unit: str = "characters") -> str:
        """Return the line that follows the rest of a text."""
        return (
            f"... [TRIMMED by Foldmark: {kept:,} of {whole:,} {unit}. "
            f"The whole {self.what}: line {self.line} of {codec.well_formed(self.file)}]"
        )


def string(raw: bytes, threshold: int, place: Origin) -> Replacement | None:
    """Return a JSON string cut to its first `threshold` characters, with a pointer after them.

    Return None if it has no more, was cut before, is not readable, or would not get shorter.
    """
    if len(raw) - 2 <= threshold:
        return None
    try:
        head, whole, tail = _measured(raw, threshold)
    except (ValueError, RecursionError):
        return None
    if whole <= threshold or is_cut(tail, whole):
        return None
    kept = keeping(head, threshold)
    new = f"{head[:kept]}\n{place.pointer(kept, whole)}"
    encoded = quoted(new)
    if len(new) >= whole or len(encoded) >= len(raw):
        return None
    return Replacement(encoded, whole - kept, len(raw) - len(encoded))


def keeping(text: str, threshold: int) -> int:
    """Return how many characters of a text are kept: at most `threshold`, but always the path of a persisted output."""
    near = text[max(threshold - _LOOK, 0) : threshold + 1]
    plain = near.isascii() and "\\" not in near and "\x1b" not in near and near[-2:] != "\r\n"
    kept = min(threshold, len(text)) if plain else before(text, threshold)
    persisted = _PERSISTED.match(text) if text.startswith("<") else None
    return max(kept, persisted.end()) if persisted else kept


def is_cut(text: str, whole: int) -> bool:
    """Return True if a text ends in a pointer that is right about the text before it.

    `whole` is the length of the text; `text` may be only the last `_TAIL` characters.
    """
    if not text.endswith("]"):
        return False
    if (at := text.rfind(_MARK)) >= 0 and (found := _OURS.match(text, at)):
        kept, of = _number(found[1]), _number(found[2])
        if found[3] == "bytes":
            return kept == 0 and whole == len(text) and _IMAGE.fullmatch(text, 0, at) is not None
        return kept == whole - len(text) + at and kept < of
    if (at := text.rfind(_THEIR_MARK)) >= 0 and (found := _THEIRS.match(text, at)):
        return _number(found[2]) == whole - len(text) + at < _number(found[1])
    return False


def is_image_note(text: str) -> bool:
    """Return True for a text that replaced an image."""
    return (
        len(text) < _TAIL
        and _IMAGE.match(text) is not None
        and text.endswith("]")
        and " bytes. " in text
        and is_cut(text, len(text))
    )


def is_cut_list(end: str, entries: int) -> bool:
    """Return True if the last of so many entries of a list is a pointer that is right about their number."""
    found = _OURS_ENTRIES.match(end)
    return found is not None and _number(found[1]) == entries - 1 < _number(found[2])


def image_note(kind: str, size: int, place: Origin) -> bytes:
    """Return the JSON string that replaces an image of `size` bytes; `kind` is its media type."""
    shown = "".join(char for char in kind if char.isprintable() and not char.isspace())[:100]
    return quoted(f"{shown or 'an'} image\n{place.pointer(0, size, 'bytes')}")


def text_of(raw: bytes | memoryview) -> str:
    """Return the text of a JSON string; lone surrogates stay. Raises ValueError."""
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        text = json.loads(bytes(raw).decode())
        if not isinstance(text, str):
            raise ValueError("no string") from None  # noqa: TRY004 - the caller asked for what is no string
        return text


def quoted(text: str) -> bytes:
    """Return a text as a JSON string; lone surrogates are escaped."""
    try:
        return msgspec.json.encode(text)
    except UnicodeEncodeError:
        return json.dumps(text).encode()


def _number(text: str) -> int:
    return int(text.replace(",", "") or "0")


def _measured(raw: bytes, threshold: int) -> tuple[str, int, str]:
    """Return the beginning of a text, as far as a cut needs it, the text's length, and its end."""
    if len(raw) <= _PIECE:
        text = text_of(raw)
        return text, len(text), text
    head = tail = ""
    whole = 0
    for piece in _pieces(raw):
        text = text_of(b'"%b"' % piece)
        whole += len(text)
        if len(head) < threshold + _NEAR:
            head += text
        tail = (tail[-_TAIL:] + text)[-_TAIL:]
    return head, whole, tail


def _pieces(raw: bytes) -> Iterator[bytes]:
    """Yield the inside of a JSON string in pieces of about a MB, each of which is the inside of a string."""
    at, last = 1, len(raw) - 1
    while at < last:
        end = at + _PIECE
        if end < last:
            end = next((place for place in range(end, end - _NEAR, -1) if _may_part(raw, place)), last)
        yield raw[at : min(end, last)]
        at = end


def _may_part(raw: bytes, at: int) -> bool:
    """Return True if certainly no character, escape or pair of escapes extends across a place."""
    if raw[at] == 0x5C:  # where an escape begins, but not the second of a pair
        return raw[at - 1] != 0x5C and raw[at - 6 : at - 4] != b"\\u"
    return raw[at] & 0xC0 != 0x80 and b"\\" not in raw[at - 11 : at + 1]
