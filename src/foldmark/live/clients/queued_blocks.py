"""Queued prompts as blocks of their own, also where the client put them into another block of a message. Pure.

A system message, or the result of a tool, is divided at the prompts in it (`foldmark.text.queued`). So each of them is
recorded and left out like any other block. `united` puts the remaining ones back.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from foldmark.overlay.pieces import decoded
from foldmark.text import queued
from foldmark.text.queued import TextPart
from foldmark.wires.parts import TextMessage

PROMPT, REST = "foldmark_prompt", "foldmark_rest"
"""Types of blocks that exist only here: a queued prompt in another block, and the text that follows it there."""

_OURS = b'"foldmark_'


def divided(role: str, blocks: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return the blocks of a message, divided at the prompts in them."""
    if not any(map(queued.may_be_wrapped, blocks)):
        return tuple(blocks)
    found = list(map(decoded, blocks))
    last = max((at for at, block in enumerate(found) if block.get("type") == "tool_result"), default=-1)
    made: list[bytes] = []
    for at, (raw, block) in enumerate(zip(blocks, found, strict=True)):
        parts = list(_parts(block)) if role == "system" or (role == "user" and at == last) else []
        divides = len(parts) > 1 or any(part.get("type") == PROMPT for part in parts)
        try:
            made += map(msgspec.json.encode, parts) if divides else [raw]
        except UnicodeEncodeError:  # a lone surrogate
            made.append(raw)
    return tuple(made)


def united(role: str, blocks: Iterable[bytes]) -> list[bytes]:
    """Return blocks as the client sends them: each divided part in the block before it, or alone if that has left."""
    made: list[bytes] = []
    for raw in blocks:
        if _OURS not in raw:
            made.append(raw)
            continue
        block = decoded(raw)
        whole = _with(decoded(made[-1]), block, role) if made else None
        if whole is not None:
            made[-1] = msgspec.json.encode(whole)
        else:
            rest = {name: value for name, value in block.items() if name != "apart"}
            made.append(msgspec.json.encode({**rest, "type": "text", "text": block["text"].lstrip("\n")}))
    return made


def queued_message(prompt: str) -> TextMessage:
    """Return a queued prompt as it is recorded, like one that is imported from a session."""
    return TextMessage("user", prompt, {"attachment": {"type": queued.ATTACHMENT, "commandMode": "prompt"}})


def is_queued(message: TextMessage) -> bool:
    """Return True for a queued prompt."""
    about = (message.data or {}).get("attachment")
    return isinstance(about, dict) and about.get("type") == queued.ATTACHMENT


def prompt_of(block: dict[str, Any]) -> str | None:
    """Return the queued prompt that a block of a user or of the system holds; None for any other block."""
    text = block.get("text")
    return queued.unwrapped(text.strip("\n")) if isinstance(text, str) else None


def _parts(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts of a block; a single one, unchanged, if there is no prompt in it."""
    content = block.get("content")
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        first, *more = queued.divided(block["text"])
        yield {**block, "type": "text" if first.prompt is None else PROMPT, "text": first.text}
        yield from map(_part, more)
    elif isinstance(content, str):
        parts = queued.divided_result(content)
        if parts[0].prompt is not None:
            parts = [TextPart(""), *parts]
        yield {**block, "content": parts[0].text}
        yield from map(_part, parts[1:])
    elif isinstance(content, list):
        ends = len(content)
        while ends and isinstance(content[ends - 1], dict) and prompt_of(content[ends - 1]) is not None:
            ends -= 1
        yield {**block, "content": content[:ends]}
        yield from ({"type": PROMPT, "text": each["text"], "apart": True} for each in content[ends:])
    else:
        yield block


def _part(part: TextPart) -> dict[str, Any]:
    return {"type": REST if part.prompt is None else PROMPT, "text": part.text}


def _with(before: dict[str, Any], part: dict[str, Any], role: str) -> dict[str, Any] | None:
    """Return the block `before` with a part at its end again; None if the part did not come from that block."""
    text, content = part["text"], before.get("content")
    if before.get("type") == "tool_result" and isinstance(content, list):
        return {**before, "content": [*content, {"type": "text", "text": text.lstrip("\n")}]}
    if part.get("apart"):
        return None
    if before.get("type") == "tool_result" and isinstance(content, str):
        return {**before, "content": _apart(content, text)}
    if role == "system" and before.get("type") == "text" and text.startswith("\n"):
        return {**before, "text": _apart(before["text"], text)}
    return None


def _apart(before: str, text: str) -> str:
    """Join two texts by an empty line, as the client does: a part between them may have left with its own."""
    blank = len(before) - len(before.rstrip("\n")) + len(text) - len(text.lstrip("\n"))
    return before + "\n" * (2 - blank) + text if before else text.lstrip("\n")
