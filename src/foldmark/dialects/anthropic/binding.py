"""What a thinking block is bound to, and which blocks a request may hold. Pure.

Newer models take a thinking block only behind what stood in front of it when it was made: the system prompt, the tools,
in whatever order, and every message. Cache marks and other thinking do not count, but each block knows the one in front
of it: blocks may be left out at the beginning, and not between others. So an answer's thinking is kept with a hash of
its prefix, and is sent while that is the prefix of the request.

What is thought behind a compaction block is bound to that. What was thought before, in turns that stay behind a summary
that the API was asked for, stays valid: so such a block is kept with the prefix that it took the place of.

Source: platform.claude.com/docs/en/build-with-claude/preserved-thinking, /preserved-thinking/prefix-checks and
/compaction-thinking-blocks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import structs

from foldmark.core.assembly.prompt import Prompt
from foldmark.core.request import BOUND, Compacted, Kept, Piece, ToolCall, behind
from foldmark.dialects.anthropic.blocks import COMPACTION, THINKING, Block, joined, said

_DIGITS = 32
_BESIDE = frozenset({"cache_control", BOUND})
"""Keys of a block that do not count for the prefix."""


class _Prefix:
    """The hash of what stands in front of a block, while a request is gone through; behind a compaction also `instead`,
    what it would be with what that took the place of."""

    def __init__(self, system: Sequence[Block], tools: Sequence[Block]) -> None:
        fixed = sha256()
        for block in (*system, *sorted(tools, key=lambda tool: str(tool.get("name")))):
            fixed.update(_canonical(block))
        self._fixed = self.own = fixed.hexdigest()[:_DIGITS]
        self.instead: str | None = None
        self.role = ""

    def add(self, role: str, block: Block) -> None:
        """Go on behind a block that is not thinking."""
        new = b"" if role == self.role else role.encode() + b"\n"
        if block["type"] == COMPACTION:
            bound, self.own, new = block.get(BOUND), self._fixed, role.encode() + b"\n"
            known = bound if isinstance(bound, dict) else {}
            self.instead = str(known["prefix"]) if known.get("fixed") == self._fixed else None
        elif self.instead is not None:
            self.instead = _chained(self.instead, new, block)
        self.own, self.role = _chained(self.own, new, block), role

    def taken(self) -> dict[str, str] | None:
        """What a compaction of all this takes the place of; None where the API would take it and the next message for
        one."""
        return {"fixed": self._fixed, "prefix": self.own} if self.role == "assistant" else None


def bind(asked: Callable[[], Mapping[str, Any]], pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """The pieces of an answer, each thinking block with what it is bound to, and a compaction that was asked for with
    what it takes the place of; `asked` gives the request, if it is needed."""
    thought = any(isinstance(piece, Kept) and _is_thought(piece.block) for piece in pieces)
    if not thought and not any(isinstance(piece, Compacted) for piece in pieces):
        return tuple(pieces)
    body = asked()
    prefix, before = _Prefix(body.get("system", ()), body.get("tools", ())), None
    bound: dict[str, dict[str, Any]] = {}
    for role, block in _blocks(body["messages"]):
        if _is_thought(block):
            before = mark(block)
        else:
            prefix.add(role, block)
    taken = prefix.taken() if "compaction" in body else None
    for block in _as_sent(pieces):
        if not _is_thought(block):
            prefix.add("assistant", block)
            continue
        bound[mark(block)] = {"model": body.get("model"), "prefix": prefix.own, "after": before}
        before = mark(block)
    return tuple(_with(piece, bound, taken) for piece in pieces)


def _with(piece: Piece, bound: Mapping[str, dict[str, Any]], taken: dict[str, str] | None) -> Piece:
    if isinstance(piece, Compacted) and taken is not None:
        return structs.replace(piece, items=(*piece.items[:-1], {**piece.items[-1], BOUND: taken}))
    if isinstance(piece, Kept) and _is_thought(piece.block):
        known = bound.get(mark(piece.block))
        return piece if known is None else Kept({**piece.block, BOUND: known})
    return piece


def _as_sent(pieces: Sequence[Piece]) -> Iterator[Block]:
    """The blocks of an answer in the form and order in which they go back."""
    text = "".join(piece for piece in pieces if isinstance(piece, str))
    kept = [piece.block for piece in pieces if isinstance(piece, Kept)]
    uses = [{"type": "tool_use", "id": piece.call_id} for piece in pieces if isinstance(piece, ToolCall)]
    done = before = 0
    for each in (piece for piece in pieces if isinstance(piece, Compacted)):
        yield from said(text[done : each.after], behind(kept[before : each.kept], done), (), thinks=True)
        yield each.items[-1]
        done, before = each.after, each.kept
    yield from said(text[done:], behind(kept[before:], done), uses, thinks=True)


def keep_valid(messages: list[Block], system: Sequence[Block], tools: Sequence[Block], *, binds: bool) -> None:
    """Remove the thinking that a model which `binds` it would refuse from the messages of a request, and the key
    `BOUND` from all blocks.

    What fits stays as far back from the newest as each block stands behind the one in front of it. A block without a
    hash was made in another program, or recorded before there were hashes.
    """
    found = list(_blocks(messages))
    last = max((index for index, (_, block) in enumerate(found) if _is_thought(block)), default=-1)
    prefix = _Prefix(system, tools) if binds and last >= 0 else None
    fitting: list[tuple[Block, Any]] = []
    for role, block in found[: last + 1]:
        if not _is_thought(block):
            if prefix is not None:
                prefix.add(role, block)
            continue
        bound = block.get(BOUND)
        if prefix is not None and isinstance(bound, dict) and bound.get("prefix") in (prefix.own, prefix.instead):
            fitting.append((block, bound.get("after")))
    for _, block in found:
        block.pop(BOUND, None)
    if prefix is not None:
        begin = max(len(fitting) - 1, 0)
        while begin and fitting[begin][1] == mark(fitting[begin - 1][0]):
            begin -= 1
        _only(messages, {id(block) for block, _ in fitting[begin:]})


def staying(body: Mapping[str, Any], compaction: Mapping[str, Any]) -> set[str]:
    """The thinking blocks of a request, by their marks, that stay valid when a compaction that was asked for takes the
    place of what it is bound to."""
    prefix, behind, found = _Prefix(body.get("system", ()), body.get("tools", ())), False, set[str]()
    for role, block in _blocks(body["messages"]):
        if not _is_thought(block):
            prefix.add(role, block)
            behind = behind or compaction.get(BOUND, 0) == prefix.taken()
        elif behind:
            found.add(mark(block))
    return found


def without(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same request without the thinking of earlier answers."""
    messages = [{**message, "content": list(message["content"])} for message in body["messages"]]
    _only(messages, set())
    thinking = {name: value for name, value in body.get("thinking", {}).items() if name != "block_binding"}
    return {**body, **({"thinking": thinking} if thinking else {}), "messages": messages}


def thinking(prompt: Prompt, body: Mapping[str, Any]) -> dict[str, str]:
    """The thinking blocks that a request holds, each by its mark with the model that made it, empty where that is not
    known; `prompt` is what the request was made of."""
    made = {}
    for block in (block for step in prompt.steps for block in step.kept if _is_thought(block)):
        bound = block.get(BOUND)
        made[mark(block)] = str(bound.get("model") or "") if isinstance(bound, dict) else ""
    sent = [mark(block) for _, block in _blocks(body["messages"]) if _is_thought(block)]
    return {each: made.get(each, "") for each in sent}


def mark(block: Mapping[str, Any]) -> str:
    """What a thinking block is known by."""
    signed = str(block.get(THINKING[block["type"]][-1]))
    return sha256(signed.encode(errors="replace")).hexdigest()[:_DIGITS]


def _only(messages: list[Block], stay: set[int]) -> None:
    for message in messages:
        content = [block for block in message["content"] if not _is_thought(block) or id(block) in stay]
        message["content"][:] = content
    joined(messages)


def _is_thought(block: Mapping[str, Any]) -> bool:
    return isinstance(kind := block.get("type"), str) and kind in THINKING


def _blocks(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Block]]:
    return ((message["role"], block) for message in messages for block in message["content"])


def _chained(before: str, new: bytes, block: Mapping[str, Any]) -> str:
    return sha256(before.encode() + new + _canonical(block)).hexdigest()[:_DIGITS]


def _canonical(block: Mapping[str, Any]) -> bytes:
    if not _BESIDE.isdisjoint(block):
        block = {name: value for name, value in block.items() if name not in _BESIDE}
    return msgspec.json.encode(block, order="sorted") + b"\n"
