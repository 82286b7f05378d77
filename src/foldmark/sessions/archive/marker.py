"""Whether a person asked that a session be kept out of archive and index.

Two forms count: the one that people who use the episodic-memory program know, wherever it stands in a text; and
`DO NOT INDEX THIS SESSION` as a line of its own. They count in what the user said and in system texts; not in what a
tool answered, where a file that was read or a page may say anything, and not in what a model says about them. Standard
library only: a hook asks, too.
"""

import re
from typing import IO, Any

OTHERS = "<INSTRUCTIONS-TO-EPISODIC-MEMORY>DO NOT INDEX THIS CHAT</INSTRUCTIONS-TO-EPISODIC-MEMORY>"
OURS = "DO NOT INDEX THIS SESSION"

_NEEDLE = b"DO NOT INDEX THIS "  # in both forms, and written the same by every encoder of JSON
_OWN_LINE = re.compile(rf"^[ \t]*{OURS}[ \t]*[.!]?[ \t]*\r?$", re.MULTILINE)
_PIECE = 1 << 20
_LONGEST = 64 << 20
_DEPTH = 6
_SAID = ("content", "text", "message", "payload", "prompt", "base_instructions", "instructions")
_NOT_SAID = frozenset(
    {
        "assistant",
        "tool_result",
        "function_call_output",
        "custom_tool_call_output",
        "agent_message",
        "reasoning",
        "agent_reasoning",
        "compacted",
    }
)


def is_marked(text: str) -> bool:
    """Whether a text of the user's or of the system carries a marker."""
    return OURS[:-7] in text and (OTHERS in text or _OWN_LINE.search(text) is not None)


def record_is_marked(record: Any) -> bool:
    """Whether one record of a session, of Claude Code's or Codex's, carries a marker where it counts."""
    return any(map(is_marked, _texts(record, 0)))


def file_is_marked(file: IO[bytes], start: int, end: int) -> bool:
    """Whether a record between two offsets of a session file does; `start` is the beginning of a line."""
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
    """Where the line begins that holds the byte at `offset`; behind a line's end, `offset` itself."""
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
    """Where the needle stands next; -1 if it does not."""
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
    """What the user or the system says in a record: the texts of its message, or of what wraps one."""
    if not isinstance(value, dict) or depth > _DEPTH:
        return []
    kind = value.get("type")
    if (
        (isinstance(kind, str) and kind in _NOT_SAID)
        or value.get("role") == "assistant"
        or value.get("isCompactSummary") is True
    ):
        return []
    queued = value.get("attachment") if value.get("type") == "attachment" else None
    found = _texts({"prompt": queued.get("prompt")}, depth + 1) if isinstance(queued, dict) else []
    for key in _SAID:
        each = value.get(key)
        for part in each if isinstance(each, list) else [each]:
            found += [part] if isinstance(part, str) else _texts(part, depth + 1)
    return found
