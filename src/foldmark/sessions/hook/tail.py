"""How full the context of a coding agent's session is, from the end of its transcript [SPEC 8, S4].

The file is read backwards, in blocks, up to the newest answer of the main chain; so it costs the same however long the
session is. What an answer reports counts as Claude Code itself counts it: all that was sent, from the cache or not, and
the answer, which is part of the next request.
"""

import json
import os
import stat

from foldmark.core.wording import WINDOW, percent
from foldmark.sessions.hook.state import SessionState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

MOST_TOKENS = 10**9

_PARTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")

LARGE_WINDOW = 1_000_000

LARGE = (
    "claude-fable",
    "claude-mythos",
    "claude-opus-4-7",
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-haiku-5-5",
)
"""How the names of those models begin to which Claude Code gives the large window without being asked."""

FIRST_BLOCK, LARGEST_BLOCK = 64 << 10, 1 << 20

MOST_READ = 24 << 20
"""Bytes that are read at most. A result that is an image may be a line of 14 MB, for it stands there twice."""

MOST_LINE = 2 << 20
"""The longest line in which an answer is looked for."""

_WORDS = (b'"usage"', b"compact", b"isCompactSummary", b"token_count")
"""Every line that counts holds one of them."""


class Share:
    """How full a context is: `tokens` of a `window` of tokens, `percent` rounded down, and who answered, if known."""

    __slots__ = ("model", "tokens", "window")

    def __init__(self, tokens: int, window: int, model: str | None) -> None:
        self.tokens, self.window, self.model = tokens, window, model

    @property
    def percent(self) -> int:
        """The share of the window."""
        return percent(self.tokens, self.window)


def share(path: "str | os.PathLike[str]", window: int | None = None, session: str = "") -> Share | None:
    """How full the context of the session file `path`, Claude Code's or Codex's, is.

    `window` is the model's in tokens; otherwise it is Codex's own, the one that Claude Code told the status line or a
    hook, `FOLDMARK_CONTEXT_WINDOW`, or what the model's name and the tokens used say. `session` is what Claude Code
    calls the session, if that is known: one that was resumed by its path may have another id than its file's name. None
    if the share is not known: there is no answer yet, none since a compaction, or the file was trimmed; also if it
    cannot be read.
    """
    found = _newest(path)
    if found is None:
        return None
    tokens, own_window, model = found
    names = session, os.path.splitext(os.path.basename(path))[0]
    return Share(tokens, window or own_window or window_of(os.environ, names, tokens, model), model)


def window_of(environment: "Mapping[str, str]", names: "Iterable[str]", tokens: int, model: str | None) -> int:
    """The window of a session of Claude Code's in which so many tokens are used, where nobody says what it is; `names`
    are those under which it may have been noted."""
    for name in dict.fromkeys(names):
        if name and (noted := SessionState(environment, name).window):
            return noted
    named = environment.get("FOLDMARK_CONTEXT_WINDOW", "").strip()
    if named.isascii() and named.isdigit() and 0 < int(named[:12]) <= MOST_TOKENS:
        return int(named)
    if tokens > WINDOW:
        return LARGE_WINDOW
    name = (model or "").lower()
    large = "[1m]" in name or name.startswith(LARGE)
    return LARGE_WINDOW if large and not environment.get("CLAUDE_CODE_DISABLE_1M_CONTEXT") else WINDOW


def used(usage: "Mapping[str, Any]") -> int:
    """Return the tokens in the context after an answer with this `usage`."""
    return sum(token_count(usage, key) for key in _PARTS)


def token_count(table: "Any", key: str) -> int:
    """Return the token count under a key, or 0 if there is no valid count."""
    value = table.get(key) if isinstance(table, dict) else None
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else 0


Found = tuple[int, int | None, str | None]
"""Tokens, the window if the record has it, the model."""


def _newest(path: "str | os.PathLike[str]") -> Found | None:
    """What the newest record that counts says."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError):  # ValueError: a NUL or half a character in the path
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        return _first(_records(_lines_backwards(descriptor, status.st_size)))
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _first(records: "Iterable[dict[str, Any]]") -> Found | None:
    """What the first of these records, newest first, says that counts."""
    summed_up = False
    for record in records:
        kind, side = record.get("type"), record.get("isSidechain") is True
        found: Found | None = None
        if kind == "event_msg":
            found = _codex_count(record.get("payload"))
        elif kind == "compacted":  # Codex
            return None
        elif kind == "system" and record.get("subtype") == "compact_boundary" and not side:
            found = (token_count(record.get("compactMetadata"), "postTokens"), None, None)
            return found if found[0] else None
        elif record.get("isCompactSummary") is True and not side:
            summed_up = True  # the boundary, in versions that write one, is the line before
        elif kind == "assistant" and not side and record.get("isApiErrorMessage") is not True:
            found = _usage(record.get("message"))
        if found:
            return None if summed_up or not found[0] else found
    return None


def _usage(message: "Any") -> Found | None:
    """What an answer of Claude's reports; 0 tokens where it was reset, None if it is not an answer of a model."""
    if not isinstance(message, dict) or message.get("model") == "<synthetic>":
        return None
    usage = message.get("usage")
    if not isinstance(usage, dict):
        return None
    return used(usage), None, message["model"] if isinstance(message.get("model"), str) else None


def _codex_count(payload: "Any") -> Found | None:
    """What Codex reports; None where it reports something else."""
    if not isinstance(payload, dict) or payload.get("type") != "token_count":
        return None
    info = payload.get("info")
    if not isinstance(info, dict) or not isinstance(info.get("last_token_usage"), dict):
        return None
    tokens = token_count(info["last_token_usage"], "total_tokens")
    return tokens, token_count(info, "model_context_window") or None, None


def _records(lines: "Iterable[bytes]") -> "Iterator[dict[str, Any]]":
    """The records among these lines that may count."""
    for line in lines:
        if any(word in line for word in _WORDS):
            try:
                record = json.loads(line.decode("utf-8", "replace"))
            except (ValueError, RecursionError):  # torn, or never JSON
                continue
            if isinstance(record, dict):
                yield record


def _lines_backwards(descriptor: int, size: int) -> "Iterator[bytes]":
    """The lines that may count, the last one first; those of more than `MOST_LINE` bytes are passed over."""
    end, length, rest = size, FIRST_BLOCK, _Rest()
    while end > 0 and size - end < MOST_READ:
        start = max(0, end - length)
        block = _read(descriptor, start, end - start)
        first, last = block.find(b"\n"), block.rfind(b"\n")
        if first < 0:
            rest.put_before(block)
        else:
            yield rest.put_before(block[last + 1 :]).line()
            between = block[first + 1 : last]
            if any(word in between for word in _WORDS):
                yield from reversed(between.split(b"\n"))
            rest = _Rest().put_before(block[:first])
        end, length = start, min(2 * length, LARGEST_BLOCK)
    if end == 0:
        yield rest.line()


class _Rest:
    """The end of a line whose beginning has not been read yet."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0

    def put_before(self, piece: bytes) -> "_Rest":
        self._length += len(piece)
        if self._length <= MOST_LINE:
            self._pieces.append(piece)
        else:
            self._pieces.clear()
        return self

    def line(self) -> bytes:
        """The whole line; nothing if it is too long."""
        return b"".join(reversed(self._pieces)) if self._length <= MOST_LINE else b""


def _read(descriptor: int, start: int, length: int) -> bytes:
    """So many bytes from `start` on; fewer if the file was cut meanwhile."""
    os.lseek(descriptor, start, os.SEEK_SET)
    return os.read(descriptor, length)
