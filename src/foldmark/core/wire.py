"""Names, call ids and arguments of tools in a form that every provider accepts.

What fits is left as it is. What does not is replaced by something that depends on it alone, or, for call ids, on it
and the calls before it in the request, so that the same log gives the same bytes.
"""

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec

LONGEST_NAME = 64
LONGEST_CALL_ID = 40
"""OpenAI's Chat Completions take no longer id of a call."""
DEEPEST = 64
"""Levels of nesting in the arguments of a call; deeper ones are sent as text."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


def tool_name(name: str) -> str:
    """Return `name` as it stands on the wire: letters, digits, `_` and `-`, at most 64, the first one a letter or
    `_`."""
    if _NAME.fullmatch(name):
        return name
    cleaned = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    begin = "" if re.match(r"[A-Za-z_]", cleaned) else "_"
    return f"{begin}{cleaned}"[: LONGEST_NAME - 9] + "_" + _digest(name, 8)


def call_ids(wanted: Iterable[str]) -> list[str]:
    """For each call's own id the one to send: letters, digits, `_` and `-`, at most 40, no two the same."""
    used: set[str] = set()
    found = []
    for own in wanted:
        sent, attempt = own if _CALL_ID.fullmatch(own) else _made(own, 0), 0
        while sent in used:
            attempt += 1
            sent = _made(own, attempt)
        used.add(sent)
        found.append(sent)
    return found


def arguments(text: str) -> str:
    """Return the arguments of a call as the JSON text of an object; anything else becomes `{"value": ...}`."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return msgspec.json.encode({"value": text}).decode()
    if not _shallow(value, DEEPEST):
        return msgspec.json.encode({"value": text}).decode()
    return text if isinstance(value, dict) else msgspec.json.encode({"value": value}).decode()


def _shallow(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_shallow(item, levels - 1) for item in inner if isinstance(item, dict | list))


def _made(own: str, attempt: int) -> str:
    return "call_" + _digest(f"{own}\0{attempt}", LONGEST_CALL_ID - 5)


def _digest(text: str, length: int) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=20).hexdigest()[:length]
