"""The searchable parts of a session record: texts, tool calls and results [SPEC 7, 8].

Sidechains, abandoned branches and what lies before a compaction are among it. What stands in a record a second time
(`toolUseResult`, Codex's `event_msg`) is not, and neither are instructions of the program (Codex's developer messages).
"""

from typing import Any

from msgspec import json

from foldmark.sessions.formats import format_named
from foldmark.sessions.messages import SearchedMessage

LONGEST = 100_000
"""Characters of one message that are searched."""


def said(record: Any, kind: str) -> list[SearchedMessage]:
    """Return the messages of a record, in order; none for whatever is not understood."""
    if not isinstance(record, dict):
        return []
    return [each for each in format_named(kind).searched(record) if each.text or each.tool]


def searched(record: Any, kind: str, part: int) -> str:
    """A message of a record as it is indexed, with the name of its tool in front of it; "" if there is none."""
    messages = said(record, kind)
    if part >= len(messages):
        return ""
    message = messages[part]
    return (f"{message.tool}\n{message.text}" if message.tool else message.text)[:LONGEST]


def key(record: Any, part: int, message: SearchedMessage) -> int:
    """64 bits that are the same wherever the same message is met again: in a copy, a fork, a trimmed session."""
    from hashlib import blake2b  # a search reads records, and needs no key

    uuid = record.get("uuid")
    if isinstance(uuid, str):
        named: list[Any] = [uuid, part]
    elif message.call:
        named = [message.role, message.call]
    else:
        named = [message.role, record.get("timestamp"), message.text[:LONGEST]]
    return int.from_bytes(blake2b(json.encode(named), digest_size=8).digest(), "big", signed=True)
