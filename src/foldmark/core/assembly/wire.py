"""Tools on the wire: names, call ids, arguments and shortened results; and the weights of messages [SPEC 5.2, 5.3].

A value that every provider accepts is sent unchanged. Any other value is replaced by one that depends on it alone or,
for call ids, on it and the calls before it in the request, so that the same log always gives the same bytes.

A result is never cut inside a grapheme or an escape. Lengths are in code points. Graphemes follow UAX 29, computed from
the tables of the standard library; where these do not suffice, two characters are kept together. An escape is a
backslash escape, as in JSON and source code, or a terminal's control sequence.

The weight of a message is the number of bytes that it takes in a request once its turn is over. It is an upper bound
for every dialect: text is counted with JSON escapes and with the largest frame that any wire format puts around it, a
tool result as it is sent in an inactive turn. So a window that is chosen by weights fits.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from foldmark.core.assembly import media
from foldmark.core.events import Event
from foldmark.core.patterns import pattern

LONGEST_NAME = 64
LONGEST_CALL_ID = 40
"""Maximum length of a call id in OpenAI's Chat Completions."""

DEEPEST = 64
"""Maximum depth of a call's arguments; deeper ones are sent as text."""

INTERRUPTED = "\n\n[Interrupted.]"
"""Suffix of an answer that was cut short."""

NO_RESULT = "[Interrupted: this call has no result.]"
NO_OUTPUT = "[No output.]"
TOOL_MESSAGE = "[Message of a tool:]\n"

_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_CALL_ID = pattern(r"[A-Za-z0-9_-]{1,40}")


def tool_name(name: str) -> str:
    """Return `name` as it is sent: at most 64 letters, digits, `_` and `-`, beginning with a letter or `_`."""
    if _NAME.fullmatch(name):
        return name
    cleaned = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    begin = "" if re.match(r"[A-Za-z_]", cleaned) else "_"
    return f"{begin}{cleaned}"[: LONGEST_NAME - 9] + "_" + _digest(name, 8)


def call_ids(wanted: Iterable[str]) -> list[str]:
    """Return the ids to send for these calls' own ids: distinct, with at most 40 letters, digits, `_` and `-`."""
    used: set[str] = set()
    found = []
    for own in wanted:
        sent, attempt = own if _CALL_ID.fullmatch(own) else _hashed_id(own, 0), 0
        while sent in used:
            attempt += 1
            sent = _hashed_id(own, attempt)
        used.add(sent)
        found.append(sent)
    return found


def arguments(text: str) -> str:
    """Return the arguments of a call as the JSON text of an object; anything else becomes `{"value": ...}`."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return msgspec.json.encode({"value": text}).decode()
    # Without as many brackets no value is so deep, and this runs for every call of every request.
    if text.count("{") + text.count("[") > DEEPEST and not shallow(value, DEEPEST):
        return msgspec.json.encode({"value": text}).decode()
    return text if isinstance(value, dict) else msgspec.json.encode({"value": value}).decode()


def shallow(value: Any, levels: int) -> bool:
    """Return True if a JSON value is nested at most `levels` deep."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(shallow(item, levels - 1) for item in inner if isinstance(item, dict | list))


def _hashed_id(own: str, attempt: int) -> str:
    return "call_" + _digest(f"{own}\0{attempt}", LONGEST_CALL_ID - 5)


def _digest(text: str, length: int) -> str:
    from hashlib import blake2b  # takes 2 ms, and few commands need it

    return blake2b(text.encode("utf-8", "replace"), digest_size=20).hexdigest()[:length]


HINT = '... [TRUNCATED. Use query_db(sql="SELECT content FROM messages WHERE id={id}") to see full output]'
"""Replaces the cut part of a text; `{id}` is the id of its event."""

_ESCAPE = pattern(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}"
    r"|u\{[0-9a-fA-F]{1,6}\}|[0-7]{1,3}|.)"
    r"|\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])",
    re.DOTALL,
)
_LOOK = 64
"""Maximum distance from the beginning of an escape to a cut; longer control sequences are treated as data."""

_ZWJ, _ZWNJ = "\u200d", "\u200c"
_VIRAMA = 9
_PREPENDED = pattern("[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd]")
_INVISIBLE_TAGS = ("\U000e0020", "\U000e007f")
_SKIN = ("\U0001f3fb", "\U0001f3ff")
_REGIONAL = ("\U0001f1e6", "\U0001f1ff")
_HALFWIDTH_MARKS = "\uff9e\uff9f"


class Shortened(NamedTuple):
    """The text that is sent, and the number of characters of the original in it."""

    text: str
    kept: int


def shorten(text: str, limit: int, shape: str, event_id: int) -> Shortened:
    """Return `text` if it has at most `limit` characters, otherwise at most that many of its characters, with the hint
    in place of the rest.

    Shape `head` keeps the beginning; `head-tail` keeps a fifth of `limit` from the beginning and the rest from the end.
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
    """Return the last position up to `index` where `text` may be cut."""
    return _boundary(text, index, -1)


def after(text: str, index: int) -> int:
    """Return the first position from `index` on where `text` may be cut."""
    return _boundary(text, index, 1)


def _boundary(text: str, index: int, step: int) -> int:
    """Return the nearest position where `text` may be cut, looking backwards (`step` -1) or forwards (1)."""
    while 0 < index < len(text):
        escape = _escape_around(text, index)
        if escape is not None:
            index = min(escape) if step < 0 else max(escape)
        elif _joined(text, index):
            index += step
        else:
            break
    return index


def _escape_around(text: str, index: int) -> tuple[int, int] | None:
    """Return the beginning and the end of the escape that a cut at `index` would split."""
    floor = max(0, index - _LOOK)
    window = text[floor:index]
    if "\\" not in window and "\x1b" not in window:
        return None
    # In a run of backslashes every second one is escaped: begin with an unescaped one.
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
    if _is_open(left) and _VOWELS.match(right):
        return True
    return _HANGUL.fullmatch(left + right) is not None


def _flags_before(text: str, index: int) -> int:
    """Return the number of consecutive regional indicators directly before `index`."""
    begin = index
    while begin > 0 and _REGIONAL[0] <= text[begin - 1] <= _REGIONAL[1]:
        begin -= 1
    return index - begin


_LEAD, _VOWEL, _TAIL = "\u1100-\u115f\ua960-\ua97c", "\u1160-\u11a7\ud7b0-\ud7c6", "\u11a8-\u11ff\ud7cb-\ud7fb"
_SYLLABLE = "\uac00-\ud7a3"
_HANGUL = pattern(f"[{_LEAD}][{_LEAD}{_VOWEL}{_SYLLABLE}]|[{_VOWEL}][{_VOWEL}{_TAIL}]|[{_SYLLABLE}{_TAIL}][{_TAIL}]")
"""Two Hangul letters or syllables that belong together, except an open syllable and its vowel."""

_VOWELS = pattern(f"[{_VOWEL}]")


def _is_open(char: str) -> bool:
    """Return True for a Hangul syllable without a final consonant: every 28th syllable."""
    return "\uac00" <= char <= "\ud7a3" and (ord(char) - 0xAC00) % 28 == 0


TEXT = 64
"""Bytes around a person's text: `{"role":"user","content":[{"type":"text","text":""}]},`."""

SAID = 88
"""Bytes around a model's text; the maximum is OpenAI's Responses API."""

CALL = 340
"""Bytes around a call's name and arguments, including the frame of its result and the synthetic text if there is no
result."""

IMAGE = media.TOKENS * 4 + 120
"""Bytes of an image with its frame, at the maximum number of bytes per token of any provider."""

DOCUMENT = 160
"""Bytes of a document's frame, without its data and name."""

INTERRUPTION = 20
"""Bytes of the note after an answer that was cut short."""

NOTE = 32
"""Bytes of the note before a tool's message, which is sent as a person's text."""

FRAME = max(TEXT + NOTE, SAID) + INTERRUPTION
"""The most bytes that a weight counts around a text."""

INACTIVE = 300
"""Default number of characters of a tool result in an inactive turn [S2]."""


def weigh(event: Event) -> int:
    """Return the weight of a recorded message, in bytes."""
    return weight(event.kind, event.content, event.data, event.interrupted, event.id)


def weight(
    kind: str,
    content: str,
    data: Mapping[str, Any] | None,
    interrupted: bool,
    event_id: int,
    kept: int = INACTIVE,
    shape: str = "head",
) -> int:
    """Return the bytes of a message; 0 for a `system` message, which belongs to no turn, and for an empty message.

    `kept` is the number of characters of a tool result that are sent, `shape` the way it is cut.
    """
    match kind:
        case "tool_call":
            known = data or {}
            signature = known.get("thought_signature")
            signed = len(signature) + 24 if isinstance(signature, str) else 0
            return CALL + len(tool_name(str(known.get("name", "")))) + _escaped(arguments(content)) + signed
        case "tool_result":
            return _escaped(shorten(content, kept, shape, event_id).text)
        case "system":
            return 0
        case "user" | "client" if data and data.get("blocks"):
            shown, _ = media.media_of(data)
            sent = sum(shown_bytes(each) for each in shown)
            return TEXT * bool(sent or content.strip()) + _escaped(content) + sent
        case _:
            if not content.strip():
                return 0
            around = {"user": TEXT, "client": TEXT, "tool": TEXT + NOTE}.get(kind, SAID)
            return around + _escaped(content) + INTERRUPTION * interrupted


def shown_bytes(each: media.Medium) -> int:
    """Return the bytes of an image or a document; 0 for a document whose pages were not counted."""
    if isinstance(each, media.Document):
        return each.pages and each.tokens * 4 + DOCUMENT + _escaped(each.name)
    return IMAGE + len(each.url)


def _escaped(text: str) -> int:
    """Return the bytes of a text in JSON, without the quotes around it."""
    return len(msgspec.json.encode(text)) - 2
