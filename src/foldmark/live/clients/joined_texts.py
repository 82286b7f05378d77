"""Texts of a message that Gemini CLI joins, as blocks of their own. Pure.

Gemini CLI joins prompts that were typed while it worked (`foldmark.text.queued`), and it joins the texts of an answer.
If one of them is a command to Foldmark or Foldmark's own text, each text becomes a block. So it is recorded and left
out like any other block. `united` joins the remaining prompts again.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from foldmark.live.clients.dialect import decoded
from foldmark.live.clients.weaving import BEHIND
from foldmark.text import queued

_MARK = "foldmark_prompt"
"""A member that exists only here: it marks one of the prompts that the client has joined."""


def parted(block: bytes, is_command: Callable[[str], bool]) -> list[bytes]:
    """Return each prompt of a block as a block; the block alone if no command is among several prompts."""
    found = decoded(block)
    texts = queued.unjoined(str(found.get("text", "")), is_command)
    if len(texts) < 2:
        return [block]
    return [msgspec.json.encode({**found, "text": text, _MARK: True}) for text in texts]


def is_parted(block: Any) -> bool:
    """Return True for one of the prompts of `parted`."""
    return _MARK in block


def united(blocks: Iterable[bytes]) -> list[bytes]:
    """Return blocks as the client sends them."""
    made: list[bytes] = []
    texts: list[str] = []
    for raw in blocks:
        block = decoded(raw) if _MARK.encode() in raw else {}
        if not is_parted(block):
            made.append(raw)
            texts = []
            continue
        again = bool(texts)
        texts.append(block.pop("text"))
        del block[_MARK]
        made[len(made) - again :] = [msgspec.json.encode({**block, "text": queued.JOIN.join(texts)})]
    return made


def unwoven(blocks: Sequence[bytes], said: Iterable[str]) -> list[bytes] | None:
    """Return the blocks of an answer with one of the texts `said`, which stands before it, as a block of its own; None
    if there is none."""
    first = decoded(blocks[0]) if blocks else {}
    text = first.get("text")
    if not isinstance(text, str):
        return None
    for own in said:
        rest = _behind(text, own)
        if rest is not None:
            behind = [msgspec.json.encode({**first, "text": rest})] if rest else []
            return [msgspec.json.encode({"text": own}), *behind, *blocks[1:]]
    return None


def _behind(text: str, own: str) -> str | None:
    """Return what follows Foldmark's own text; None if the text does not begin with it. The client trims texts when it
    goes on with an earlier session."""
    if text.strip() == own.strip():
        return ""
    for form in (own, own.lstrip()):
        if text.startswith(form + BEHIND):
            return text[len(form + BEHIND) :]
    return None
