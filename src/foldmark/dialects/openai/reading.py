"""What both of OpenAI's forms say alike: texts, arguments, tokens, ids of calls. Nothing is taken on trust."""

from typing import Any

import msgspec

from foldmark.core.request import Usage


def text_of(content: Any) -> str:
    """The text of a content: a string, or a list of parts of which some are text."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [
        part.get("text") for part in parts if isinstance(part, dict) and part.get("type") in ("text", "output_text")
    ]
    return "".join(text for text in texts if isinstance(text, str))


def arguments(raw: Any) -> Any:
    """The arguments of a call: what their text says as JSON, or else the text itself; none are an empty object."""
    if not isinstance(raw, str):
        return {} if raw is None else raw
    if not raw.strip():
        return {}
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return raw


def tokens(usage: Any, *path: str) -> int:
    """The number of tokens under a name in what a server says about usage; 0 for anything else."""
    for name in path:
        usage = usage.get(name) if isinstance(usage, dict) else None
    return usage if isinstance(usage, int) and not isinstance(usage, bool) and 0 <= usage < 2**53 else 0


def spent(whole: int, read: int, written: int, output: int) -> Usage:
    """The cost of a request whose input of `whole` tokens includes what was read from a cache and written to it."""
    read = min(read, whole)
    written = min(written, whole - read)
    return Usage(whole - read - written, read, written, output)
