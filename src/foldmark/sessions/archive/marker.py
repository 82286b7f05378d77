"""Find the marker by which a person keeps a session out of the archive and the index.

The marker has two forms: that of the episodic-memory program, anywhere in a text, and `DO NOT INDEX THIS SESSION` on
its own line. It counts in texts of the user and the system. It does not count in a tool's result, because a file or a
page may contain anything, or in a model's own text. Standard library only, because a hook looks for it, too.
"""

import re
from typing import IO, Any

from foldmark.formats.claude.members import is_summary

OTHERS = "<INSTRUCTIONS-TO-EPISODIC-MEMORY>DO NOT INDEX THIS CHAT</INSTRUCTIONS-TO-EPISODIC-MEMORY>"
OURS = "DO NOT INDEX THIS SESSION"

_NEEDLE = b"DO NOT INDEX THIS "  # in both forms; every JSON encoder writes it in the same way
_OWN_LINE = rf"^[ \t]*{OURS}[ \t]*[.!]?[ \t]*\r?$"
_PIECE = 1 << 20
_LONGEST = 64 << 20
_DEPTH = 6
_TEXTS = ("content", "text", "message", "payload", "prompt", "base_instructions", "instructions")
_IGNORED = frozenset(
    {
        "assistant",
        "agent_message",
        "reasoning",
        "agent_reasoning",
        "compacted",
    }
)

_RESULTS = ("_result", "_output")
"""The ends of the types of results, of all programs."""


def is_marked(text: str) -> bool:
    """Return True if a text of the user or the system contains a marker."""
    return OURS[:-7] in text and (OTHERS in text or re.search(_OWN_LINE, text, re.MULTILINE) is not None)


def record_is_marked(record: Any) -> bool:
    """Return True if a record contains a marker where it counts."""
    return any(map(is_marked, _texts(record, 0)))


def file_is_marked(file: IO[bytes], start: int, end: int) -> bool:
    """Return True if a record between two offsets of a file contains a marker. `start` is the beginning of a line."""
    import json

    at = start
    while (at := _found(file, at, end)) >= 0:
        begin = line_start(file, at)
        file.seek(begin)
        line = file.readline(min(_LONGEST, end - begin))
        try:
            record = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            record = None
        if record_is_marked(record):
            return True
        at = max(at, begin + len(line) - 1) + 1
    return False


def line_start(file: IO[bytes], offset: int) -> int:
    """Return the beginning of the line that contains the byte at `offset`; `offset` itself after a line end."""
    piece = 1 << 12
    while offset > 0:
        begin = max(0, offset - piece)
        file.seek(begin)
        at = file.read(offset - begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        offset, piece = begin, min(_PIECE, 2 * piece)
    return 0


def _found(file: IO[bytes], at: int, end: int) -> int:
    """Return the offset of the next needle, or -1."""
    while at < end:
        file.seek(at)
        piece = file.read(min(_PIECE, end - at))
        found = piece.find(_NEEDLE)
        if found >= 0:
            return at + found
        if len(piece) < len(_NEEDLE):
            return -1
        at += len(piece) - len(_NEEDLE) + 1
    return -1


def _texts(value: Any, depth: int) -> list[str]:
    """Return the texts of the user or the system in a record, in its message or in a wrapper around it."""
    if not isinstance(value, dict) or depth > _DEPTH:
        return []
    kind = value.get("type")
    is_result = isinstance(kind, str) and (kind in _IGNORED or kind.endswith(_RESULTS))
    if is_result or value.get("role") == "assistant" or is_summary(value):
        return []
    queued = value.get("attachment") if value.get("type") == "attachment" else None
    found = _texts({"prompt": queued.get("prompt")}, depth + 1) if isinstance(queued, dict) else []
    for key in _TEXTS:
        each = value.get(key)
        for part in each if isinstance(each, list) else [each]:
            found += [part] if isinstance(part, str) else _texts(part, depth + 1)
    return found
