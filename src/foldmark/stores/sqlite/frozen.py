"""The functions that migrations call, unchanged since their migration was written; each has its migration's number.

They are never edited and import nothing from Foldmark: the meaning of an applied migration never changes. Migrations
refer to this module by its former name, sqlite_frozen. The current weight of messages is defined in
`foldmark.core.assembly.wire`, the current words to index in addition to a text in `foldmark.text.tokens`.
"""

import re
import unicodedata
from binascii import Error, a2b_base64
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import msgspec

# Migration 5: the bytes of a message in a request once its turn is over.


def weight_0005(*row: Any) -> int:
    """Return the weight of a row of `events` (kind, content, data, interrupted, id); texts may be bytes."""
    decoded: list[Any] = [each.decode(errors="replace") if isinstance(each, bytes) else each for each in row]
    kind, content, stored, interrupted, event_id = decoded
    content = content if isinstance(content, str) else ""
    try:
        data = msgspec.json.decode(stored, type=dict) if stored is not None else {}
    except (msgspec.MsgspecError, RecursionError, TypeError):
        data = {}
    match kind:
        case "tool_call":
            signature = data.get("thought_signature")
            signed = len(signature) + 24 if isinstance(signature, str) else 0
            return 340 + _name_length(str(data.get("name", ""))) + _escaped(_arguments(content)) + signed
        case "tool_result":
            return _escaped(_shortened(content, event_id))
        case "system":
            return 0
        case "user" if blocks := data.get("blocks"):
            shown = sum(_block(each) for each in blocks) if isinstance(blocks, list) else 0
            return 64 * bool(shown or content.strip()) + _escaped(content) + shown
        case _:
            if not content.strip():
                return 0
            return {"user": 64, "tool": 96}.get(kind, 88) + _escaped(content) + 20 * bool(interrupted)


def _escaped(text: str) -> int:
    return len(msgspec.json.encode(text)) - 2


def _name_length(name: str) -> int:
    """Return the length of a tool's name on the wire: a name that is too long is cut to 55 and gets a hash of 8."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name):
        return len(name)
    return min(len(name) + bool(re.match(r"[0-9-]|\Z", name)), 55) + 9


def _arguments(text: str) -> str:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return msgspec.json.encode({"value": text}).decode()
    if not _shallow(value, 64):
        return msgspec.json.encode({"value": text}).decode()
    return text if isinstance(value, dict) else msgspec.json.encode({"value": value}).decode()


def _shallow(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_shallow(item, levels - 1) for item in inner if isinstance(item, dict | list))


def _block(block: Any) -> int:
    """Return the bytes of an image or a document; 0 if it is not sent, or is a document with uncounted pages."""
    source = block.get("source") if isinstance(block, dict) else None
    if not isinstance(source, dict):
        return 0
    media, url = source.get("media_type"), source.get("url")
    data: Any = source.get("data")
    match block.get("type"), source.get("type"):
        case "image", "base64" if media in ("image/png", "image/jpeg", "image/gif", "image/webp"):
            return 6520 * (data != "" and _is_base64(data, 5_000_000))
        case "image", "url" if isinstance(url, str) and re.fullmatch(r"https://[!-~]{1,2000}", url):
            return 6520 + len(url)
        case "document", "base64" if media == "application/pdf" and _is_base64(data, 28_000_000):
            title, pages = block.get("title"), block.get("pages")
            name = " ".join(title.split())[:200] if isinstance(title, str) else ""
            known = data.startswith("JVBERi") and isinstance(pages, int) and not isinstance(pages, bool) and pages > 0
            return pages * 9600 + 160 + _escaped(name) if known else 0
        case _:
            return 0


def _is_base64(data: Any, most: int) -> bool:
    try:
        a2b_base64(data.encode("ascii"), strict_mode=True)
    except (AttributeError, Error, UnicodeEncodeError):
        return False
    return len(data) <= most


_ESCAPE = (
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}"
    r"|u\{[0-9a-fA-F]{1,6}\}|[0-7]{1,3}|.)"
    r"|\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"
)
_PREPENDED = "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
_HANGUL_AFTER = {"L": "L V LV LVT", "LV": "V T", "V": "V T", "LVT": "T", "T": "T", "": ""}


def _shortened(text: str, event_id: int) -> str:
    """Shorten a tool result of an inactive turn to at most 300 characters, never inside a grapheme or an escape."""
    if len(text) <= 300:
        return text
    index = 300
    while index > 0:
        begin = _escape_begin(text, index)
        if begin is not None:
            index = begin
        elif _joined(text, index):
            index -= 1
        else:
            break
    hint = f'... [TRUNCATED. Use query_db(sql="SELECT content FROM messages WHERE id={event_id}") to see full output]'
    return text[:index] + hint


def _escape_begin(text: str, index: int) -> int | None:
    floor = max(0, index - 64)
    if not re.search(r"[\\\x1b]", text[floor:index]):
        return None
    run = floor - len(text[:floor].rstrip("\\"))
    for match in re.compile(_ESCAPE, re.DOTALL).finditer(text, floor - run % 2, index + 64):
        if match.start() >= index:
            break
        if match.end() > index:
            return match.start()
    return None


def _joined(text: str, index: int) -> bool:
    left, right = text[index - 1], text[index]
    if left < "\u0300" and right < "\u0300":
        return left == "\r" and right == "\n"
    if left in "\r\n" or right in "\r\n":
        return False
    if left == "\u200d" or right in "\u200d\u200c" or re.match(f"[{_PREPENDED}]", left):
        return True
    if unicodedata.category(right) in ("Mn", "Mc", "Me") or right in "\uff9e\uff9f":
        return True
    if "\U0001f3fb" <= right <= "\U0001f3ff" or "\U000e0020" <= right <= "\U000e007f":
        return True
    if _is_regional(left) and _is_regional(right):
        begin = index
        while begin > 0 and _is_regional(text[begin - 1]):
            begin -= 1
        return (index - begin) % 2 == 1
    if unicodedata.combining(left) == 9 and unicodedata.category(right) == "Lo":
        return True
    return _hangul(right) in _HANGUL_AFTER[_hangul(left)].split()


def _is_regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _hangul(char: str) -> str:
    if "\u1100" <= char <= "\u115f" or "\ua960" <= char <= "\ua97c":
        return "L"
    if "\u1160" <= char <= "\u11a7" or "\ud7b0" <= char <= "\ud7c6":
        return "V"
    if "\u11a8" <= char <= "\u11ff" or "\ud7cb" <= char <= "\ud7fb":
        return "T"
    if "\uac00" <= char <= "\ud7a3":
        return "LVT" if (ord(char) - 0xAC00) % 28 else "LV"
    return ""


# Migration 9: the words of a text that SQLite's tokenizer does not see.

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"


def parts_0009(text: Any) -> str:
    """Return the parts of names in code, and the pairs of characters in scripts without spaces; often ""."""
    return " ".join(_parts(str(text)))[:50_000]


def _parts(text: str) -> Iterator[str]:
    length = 0
    for word in dict.fromkeys(re.findall(rf"(?:[{_UNSPACED}]|[^\W_])+", text)):
        if word.isascii():
            pieces = re.split(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})", word) if len(word) <= 64 else []
            if not 1 < len(pieces) <= 8:
                continue
        else:
            pieces = re.findall(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+", word)
            if len(pieces) == 1 and not _is_unspaced(word):
                continue
        for piece in pieces:
            if _is_unspaced(piece):
                characters = _characters(piece)
                yield from (first + second for first, second in pairwise(characters))
                yield characters[-1]
            else:
                yield piece
        length += 2 * len(word)
        if length > 50_000:
            return


def _is_unspaced(word: str) -> bool:
    return re.match(f"[{_UNSPACED}]", word) is not None


def _characters(run: str) -> list[str]:
    """Return the characters of a run, each with its combining marks."""
    found: list[str] = []
    for character in run:
        if found and unicodedata.category(character) in ("Mn", "Mc"):
            found[-1] += character
        else:
            found.append(character)
    return found


FUNCTIONS: tuple[tuple[Callable[..., Any], int], ...] = ((weight_0005, 5), (parts_0009, 1))
"""Each function and its number of arguments."""
