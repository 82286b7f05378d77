"""Cut a text, and point to the line that holds all of it [SPEC 8, S4].

Texts are JSON strings as in a session file: bytes with their quotes. Lengths count characters (code points). A text
that Foldmark or claude-code-tools has cut is not cut again, because the pointer would be lost.
"""

import msgspec
from msgspec import Struct

from foldmark.core import codec
from foldmark.core.assembly.wire import before
from foldmark.core.patterns import pattern

_NOTE_LIMIT = 1 << 13
"""Maximum characters of a note that replaces an image: more than the longest path."""

_MARK = "\n... [TRIMMED by Foldmark: "
_POINTER = pattern(
    r"\.\.\. \[TRIMMED by Foldmark: ([\d,]{1,20}) of ([\d,]{1,20}) (characters|bytes|entries)\. "
    r"The whole (?:result|argument): line \d+ of [^\0]+\]\Z"
)
_THEIR_MARK = "\n\n[...truncated - "
_THEIRS = pattern(
    r"\n\n\[\.\.\.truncated - original content was ([\d,]{1,20}) characters, showing first ([\d,]{1,20})\. "
    r"See line \d+ of [^\0]+ for full content\]\Z"
)
_IMAGE = pattern(r"\S{1,100} image")
_PERSISTED = pattern(r"<persisted-output>\n[^\n]{0,5000}\n")
"""Matches the lines that name the file to which Claude Code itself wrote a result."""

IMAGE = 4_800
"""Maximum bytes to count for an image, the equivalent of 1,600 tokens."""

_decode = msgspec.json.Decoder(str).decode


class Replacement(Struct, frozen=True):
    """The JSON that replaces a result, and the characters of text and bytes of JSON that the model no longer reads.

    Bytes are those of JSON without needless escapes (`sent_size`). The model does not read an image as base64, so an
    image counts as at most `IMAGE` bytes.
    """

    raw: bytes
    characters: int
    bytes: int


class Origin(Struct, frozen=True):
    """The place of an original result or argument: a file and a line, counted from 1."""

    line: int
    file: str
    what: str = "result"

    def pointer(self, kept: int, whole: int, unit: str = "characters") -> str:
        """Return the line that replaces the end of a text."""
        return (
            f"... [TRIMMED by Foldmark: {kept:,} of {whole:,} {unit}. "
            f"The whole {self.what}: line {self.line} of {codec.well_formed(self.file)}]"
        )


def string(raw: bytes, threshold: int, place: Origin) -> Replacement | None:
    """Return a JSON string cut to its first `threshold` characters, with a pointer after them.

    Return None if it is not longer, was cut before, is not readable, or would not get shorter.
    """
    if len(raw) - 2 <= threshold:
        return None
    try:
        text = text_of(raw)
    except (ValueError, RecursionError):
        return None
    if len(text) <= threshold or is_cut(text):
        return None
    kept = keeping(text, threshold)
    new = f"{text[:kept]}\n{place.pointer(kept, len(text))}"
    encoded = quoted(new)
    if len(new) >= len(text) or len(encoded) >= len(raw):
        return None
    whole = len(quoted(text)) if b"\\u" in raw else len(raw)  # as `sent_size` counts it
    return Replacement(encoded, len(text) - kept, whole - len(encoded))


def sent_size(raw: bytes) -> int:
    """Return the bytes of a JSON value without needless escapes: a program may write every character as one, which the
    model does not read."""
    if b"\\u" not in raw:
        return len(raw)
    try:
        return len(msgspec.json.encode(msgspec.json.decode(raw)))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return len(raw)


def keeping(text: str, threshold: int) -> int:
    """Return how many characters of a text to keep: at most `threshold`, but always the path of a persisted output."""
    kept = before(text, min(threshold, len(text)))
    persisted = _PERSISTED.match(text)
    return max(kept, persisted.end()) if persisted else kept


def is_cut(text: str) -> bool:
    """Return True if a text ends in a pointer that agrees with the text before it."""
    if not text.endswith("]"):
        return False
    if (at := text.rfind(_MARK)) >= 0 and (found := _POINTER.match(text, at + 1)):
        kept, of, unit = _number(found[1]), _number(found[2]), found[3]
        if unit == "bytes":
            return kept == 0 and _IMAGE.fullmatch(text, 0, at) is not None
        return unit == "characters" and kept == at < of
    if (at := text.rfind(_THEIR_MARK)) >= 0 and (found := _THEIRS.match(text, at)):
        return _number(found[2]) == at < _number(found[1])
    return False


def is_image_note(text: str) -> bool:
    """Return True for a text that replaced an image."""
    return len(text) < _NOTE_LIMIT and _IMAGE.match(text) is not None and " bytes. " in text and is_cut(text)


def is_cut_list(end: str, entries: int) -> bool:
    """Return True if `end`, the last of `entries` entries of a list, is a pointer that agrees with their number."""
    found = _POINTER.match(end)
    return found is not None and found[3] == "entries" and _number(found[1]) == entries - 1 < _number(found[2])


def image_note(kind: str, size: int, place: Origin) -> bytes:
    """Return the JSON string that replaces an image of `size` bytes; `kind` is its media type."""
    shown = "".join(char for char in kind if char.isprintable() and not char.isspace())[:100]
    return quoted(f"{shown or 'an'} image\n{place.pointer(0, size, 'bytes')}")


def text_of(raw: bytes | memoryview) -> str:
    """Return the text of a JSON string. Lone surrogates stay. Raises ValueError for any other value."""
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        import json  # 3 ms, for strings that msgspec does not read

        text = json.loads(bytes(raw).decode())
        if not isinstance(text, str):
            raise ValueError("not a string") from None  # noqa: TRY004 - the one error that callers expect
        return text


def quoted(text: str) -> bytes:
    """Return a text as a JSON string. Lone surrogates are escaped."""
    try:
        return msgspec.json.encode(text)
    except UnicodeEncodeError:
        import json

        return json.dumps(text).encode()


def _number(text: str) -> int:
    return int(text.replace(",", "") or "0")
