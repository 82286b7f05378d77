"""Measure how full the context of a coding agent's session is, from the end of its transcript [SPEC 8, S4].

The file is read backwards up to the newest answer of the main chain, so the cost does not depend on the length of the
session. Tokens are counted as Claude Code counts them: the whole request, cached or not, and the answer, which is part
of the next request.

The records of both agents are read here, because a hook has no time to import the session formats.
"""

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping

from foldmark.core.wording import WINDOW, percent
from foldmark.dialects.anthropic.usage import PARTS, context_usage
from foldmark.formats.backwards import lines_backwards
from foldmark.formats.claude import members
from foldmark.sessions.hook.process import SessionState

MOST_TOKENS = 10**9

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
"""Prefixes of the models to which Claude Code gives the large window by default."""

MOST_READ = 24 << 20
"""Maximum number of bytes to read. A result that is an image may need a line of 14 MB, since it is stored twice."""

MOST_LINE = 2 << 20
"""Maximum length of a line that is parsed, in bytes."""

_WORDS = (b'"usage"', b"ompact", b"token_count")
"""Every record that counts contains one of these words; a compaction is written with a small or a large letter."""


class Share:
    """How full a context is: `tokens` of a `window` of tokens, and the `model` that answered, if known."""

    __slots__ = ("model", "tokens", "window")

    def __init__(self, tokens: int, window: int, model: str | None) -> None:
        self.tokens, self.window, self.model = tokens, window, model

    @property
    def percent(self) -> int:
        """The share of the window, rounded down."""
        return percent(self.tokens, self.window)


def share(path: str | os.PathLike[str], window: int | None = None, session: str = "") -> Share | None:
    """Return how full the context of a session file of Claude Code or Codex is.

    `window` is the model's window in tokens. By default it is the one that Codex recorded or that Claude Code reported
    to the status line or a hook, `FOLDMARK_CONTEXT_WINDOW`, or a guess from the model's name and the tokens used.
    `session` is Claude Code's id of the session: after a resume by path it may differ from the file's name. Return None
    if there is no answer, or none since a compaction or a trim, or if the file cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError):  # ValueError: a NUL or a lone surrogate in the path
        return None

    def read(start: int, end: int) -> bytes:
        os.lseek(descriptor, start, os.SEEK_SET)
        return os.read(descriptor, end - start)

    try:
        status = os.fstat(descriptor)
        names = session, os.path.splitext(os.path.basename(path))[0]
        return share_in(read, status.st_size, names, window) if stat.S_ISREG(status.st_mode) else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def share_in(
    read: Callable[[int, int], bytes], size: int, names: Iterable[str], window: int | None = None
) -> Share | None:
    """Return the same as `share` of an open file of `size` bytes. `read` returns its bytes from an offset to another,
    and `names` are ids of the session, under which the window may be noted."""
    found = _first(_records(lines_backwards(read, size, MOST_READ, MOST_LINE)))
    if found is None:
        return None
    tokens, own_window, model = found
    return Share(tokens, window or own_window or window_of(os.environ, names, tokens, model), model)


def window_of(environment: Mapping[str, str], names: Iterable[str], tokens: int, model: str | None) -> int:
    """Return the window of a Claude Code session with this number of tokens in use. `names` are ids under which the
    window may be noted."""
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


def used(usage: Mapping[str, object]) -> int:
    """Return the tokens in the context after an answer with this `usage`."""
    counted = context_usage(usage)
    return sum(token_count(counted, key) for key in PARTS)


def token_count(table: object, key: str) -> int:
    """Return the token count under a key, or 0 if there is no valid count."""
    value = table.get(key) if isinstance(table, dict) else None
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else 0


Found = tuple[int, int | None, str | None]
"""Tokens, window (None: not in the record), model."""


def _first(records: Iterable[dict[str, object]]) -> Found | None:
    """Return the usage that the first relevant one of these records reports. The newest record comes first.

    Behind an edit, its answers stand again without their usage, with their old times: the boundary reports the usage.
    """
    summed_up = False
    reset: object = None  # the time of the newest answer without usage
    for record in records:
        kind = record.get("type")
        found: Found | None = None
        if kind == "event_msg":
            found = _codex_count(record.get("payload"))
        elif kind == "compacted":  # Codex
            return None
        elif members.is_aside(record):
            continue
        elif members.is_boundary(record):
            found = (token_count(members.compaction(record), "postTokens"), None, None)
            return found if found[0] and (reset is None or str(reset) <= str(record.get("timestamp"))) else None
        elif members.is_summary(record):
            summed_up = True  # newer versions write a boundary in the line before
        elif kind == "assistant" and not members.is_api_error(record):
            found = _usage(record.get("message"))
            if found and not found[0]:
                reset, found = reset or record.get("timestamp") or "~", None
        if found:
            return None if summed_up or reset or not found[0] else found
    return None


def _usage(message: object) -> Found | None:
    """Return the usage of an answer; 0 tokens if a trim has reset it, None if no model answered."""
    if not isinstance(message, dict) or message.get("model") == "<synthetic>":
        return None
    usage = message.get("usage")
    if not isinstance(usage, dict):
        return None
    return used(usage), None, message["model"] if isinstance(message.get("model"), str) else None


def _codex_count(payload: object) -> Found | None:
    """Return the usage that Codex reports, or None if the record is about something else."""
    if not isinstance(payload, dict) or payload.get("type") != "token_count":
        return None
    info = payload.get("info")
    if not isinstance(info, dict) or not isinstance(info.get("last_token_usage"), dict):
        return None
    tokens = token_count(info["last_token_usage"], "total_tokens")
    return tokens, token_count(info, "model_context_window") or None, None


def _records(lines: Iterable[bytes]) -> Iterator[dict[str, object]]:
    """Yield the records among these lines that may be relevant."""
    for line in lines:
        if line and any(word in line for word in _WORDS):
            try:
                record = json.loads(line.decode("utf-8", "replace"))
            except (ValueError, RecursionError):  # torn, or never JSON
                continue
            if isinstance(record, dict):
                yield record
