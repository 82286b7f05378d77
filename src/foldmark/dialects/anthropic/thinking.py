"""Thinking of Anthropic's models: the parameters of each model, by its name, and the earlier blocks that a request may
contain.

Models up to Claude 3.5 do not think. Models up to 4.5 think within a budget of tokens, which is part of `max_tokens`.
From 4.6 on they decide themselves ("adaptive"), and an effort level sets how much; from 5 on this is the default, and
some models cannot switch it off: for these, a low effort is the closest to "off". From 4.7 on the text of the thinking
is left out of the answer unless it is requested. For a model whose name has no version, nothing is requested.

From 5.1 on, unless the table of models says otherwise, a model accepts a thinking block only after the same prefix as
when the block was made: the system prompt, the tools, in any order, and every message. Cache marks and other thinking
do not count, but each block depends on the one before it: blocks may be left out at the beginning, but not between
others. So an answer's thinking is kept with a hash of its prefix, and is sent as long as the request has that prefix.
Thinking after a compaction block is bound to that block. Earlier thinking, in turns that remain after a requested
summary, stays valid: such a compaction block is kept with the prefix that it replaced.

Sources, autumn 2026: platform.claude.com/docs/en/build-with-claude/thinking, /thinking-troubleshooting, /effort,
/preserved-thinking, /preserved-thinking/prefix-checks and /compaction-thinking-blocks, and the migration guides of Opus
5.5, Sonnet 5.5 and Haiku 5.5.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct, structs

from foldmark.core.assembly.prompt import Prompt
from foldmark.core.request import BOUND, Compacted, Kept, Piece, ToolCall, shifted
from foldmark.dialects.anthropic.blocks import COMPACTION, answer_blocks, blocks_in, joined
from foldmark.dialects.dialect import ThinkingRule
from foldmark.wires.anthropic import THINKING, USE, Block, is_thinking
from foldmark.wires.lenient_json import as_object, as_text, member

BINDING_BETA = "thinking-binding-controls-2026-08-01"
"""The `anthropic-beta` that a request with `block_binding` needs."""

SMALLEST = 1024
"""Minimum number of tokens of a budget."""

_NAME = re.compile(r"claude-(?:([a-z]+)-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)(?:-([a-z]+))?")
_QUARTERS = {"low": 1, "medium": 2, "high": 3}
_CAN_STOP = {("opus", (5, 0)), ("sonnet", (5, 0)), ("haiku", (5, 5))}
_STOPS_BEFORE_TOOLS = {("sonnet", (5, 5))}


class ThinkingRequest(Struct, frozen=True):
    """The part of a request about thinking: its `thinking` parameter and its effort, each None to leave it out.

    `thinks` is True if the model may think; only then does it expect its thinking blocks back. A `strict` model
    requires that an answer with thinking begins with a thinking block. `bound` is True if blocks are bound to the
    content before them.
    """

    parameter: dict[str, Any] | None = None
    effort: str | None = None
    thinks: bool = True
    strict: bool = False
    bound: bool = False


def thinking_request(model: str, level: str, output: int, bound: bool | None = None) -> ThinkingRequest:
    """Return the request for thinking at `level` (of `Options.thinking`) by a model that may answer with `output`
    tokens. `bound` comes from the table of models, None if unknown."""
    family, version = _named(model)
    if not any(version):
        return ThinkingRequest(bound=bool(bound))
    if version < (3, 7):
        return ThinkingRequest(thinks=False)
    if version < (4, 6):
        return _budgeted(level, output)
    return _adaptive(family, version, level, binds(model) if bound is None else bound)


def binds(model: str) -> bool:
    """Return True if a model binds thinking, by its name, for models that are newer than the table of models."""
    return _named(model)[1] >= (5, 1)


def compacts(model: str) -> bool:
    """Return True if the API can summarize a conversation with this model on request
    (build-with-claude/compaction-on-demand): from 4.6 on, Haiku models from 5.5 on."""
    family, version = _named(model)
    return version >= ((5, 5) if family == "haiku" else (4, 6))


def _named(model: str) -> tuple[str, tuple[int, int]]:
    """Return the family and the version in a model's name; (0, 0) without a version."""
    name = _NAME.search(model)
    return (name[1] or name[4] or "", (int(name[2]), int(name[3] or 0))) if name else ("", (0, 0))


def _budgeted(level: str, output: int) -> ThinkingRequest:
    """Return the request for a budget: a quarter, a half or three quarters of the answer's tokens; without thinking if
    that leaves none for the answer."""
    budget = max(SMALLEST, output * _QUARTERS.get(level, 0) // 4)
    if level in _QUARTERS and budget < output:
        return ThinkingRequest({"type": "enabled", "budget_tokens": budget}, strict=True)
    return ThinkingRequest({"type": "disabled"} if level == "off" else None, thinks=False)


def _adaptive(family: str, version: tuple[int, int], level: str, bound: bool) -> ThinkingRequest:
    if level in _QUARTERS:
        shown = {"display": "summarized"} if version >= (4, 7) else {}
        return ThinkingRequest({"type": "adaptive", **shown}, level, bound=bound)
    if level != "off":
        return ThinkingRequest(thinks=version >= (5, 0), bound=bound)
    if version < (5, 0) or (family, version) in _CAN_STOP:
        return ThinkingRequest({"type": "disabled"}, thinks=False)
    if (family, version) in _STOPS_BEFORE_TOOLS:
        return ThinkingRequest({"type": "between_tools"}, thinks=False)
    return ThinkingRequest(None, "low", bound=bound)


# The prefix that a block is bound to

_DIGITS = 32
_BESIDE = frozenset({"cache_control", BOUND})
"""Keys of a block that are not part of the prefix."""


class _Prefix:
    """The hash of the request before a block, `own`, updated block by block. After a compaction also `instead`: the
    hash with the replaced messages in place of the compaction."""

    def __init__(self, system: Sequence[Block], tools: Sequence[Block]) -> None:
        fixed = sha256()
        for block in (*system, *sorted(tools, key=lambda tool: str(tool.get("name")))):
            fixed.update(_canonical(block))
        self._fixed = self.own = fixed.hexdigest()[:_DIGITS]
        self.instead: str | None = None
        self.role = ""

    def add(self, role: str, block: Block) -> None:
        """Include a block that is not thinking."""
        new = b"" if role == self.role else role.encode() + b"\n"
        if block["type"] == COMPACTION:
            known, self.own, new = as_object(block.get(BOUND)), self._fixed, role.encode() + b"\n"
            self.instead = str(known["prefix"]) if known.get("fixed") == self._fixed else None
        elif self.instead is not None:
            self.instead = _chained(self.instead, new, block)
        self.own, self.role = _chained(self.own, new, block), role

    def thoughts(self, blocks: Iterable[tuple[str, Block]]) -> Iterator[Block]:
        """Include blocks, each with its role, and yield the thinking among them, when all before it is included."""
        for role, block in blocks:
            if is_thinking(block):
                yield block
            else:
                self.add(role, block)

    def replaced(self) -> dict[str, str] | None:
        """Return the content that a compaction of everything so far replaces; None if the API would join the compaction
        to the next message."""
        return {"fixed": self._fixed, "prefix": self.own} if self.role == "assistant" else None


def bind(body_of: Callable[[], Mapping[str, Any]], pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Return the pieces of an answer; each thinking block also stores the content that it is bound to, and a requested
    compaction stores the content that it replaces. `body_of` returns the body of the request; it is called only if the
    body is needed."""
    thought = any(isinstance(piece, Kept) and is_thinking(piece.block) for piece in pieces)
    if not thought and not any(isinstance(piece, Compacted) for piece in pieces):
        return tuple(pieces)
    body = body_of()
    prefix, before = _Prefix(body.get("system", ()), body.get("tools", ())), None
    bound: dict[str, dict[str, Any]] = {}
    for block in prefix.thoughts(blocks_in(body["messages"])):
        before = mark(block)
    replaced = prefix.replaced() if "compaction" in body else None
    for block in prefix.thoughts(("assistant", each) for each in _as_sent(pieces)):
        bound[mark(block)] = {"model": body.get("model"), "prefix": prefix.own, "after": before}
        before = mark(block)
    return tuple(_with(piece, bound, replaced) for piece in pieces)


def _with(piece: Piece, bound: Mapping[str, dict[str, Any]], replaced: dict[str, str] | None) -> Piece:
    if isinstance(piece, Compacted) and replaced is not None:
        return structs.replace(piece, items=(*piece.items[:-1], {**piece.items[-1], BOUND: replaced}))
    if isinstance(piece, Kept) and is_thinking(piece.block):
        known = bound.get(mark(piece.block))
        return piece if known is None else Kept({**piece.block, BOUND: known})
    return piece


def _as_sent(pieces: Sequence[Piece]) -> Iterator[Block]:
    """Return the blocks of an answer in the form and order in which they are sent again."""
    text = "".join(piece for piece in pieces if isinstance(piece, str))
    kept = [piece.block for piece in pieces if isinstance(piece, Kept)]
    uses = [{"type": USE, "id": piece.call_id} for piece in pieces if isinstance(piece, ToolCall)]
    done = before = 0
    for each in (piece for piece in pieces if isinstance(piece, Compacted)):
        yield from answer_blocks(text[done : each.after], shifted(kept[before : each.kept], done), (), thinks=True)
        yield each.items[-1]
        done, before = each.after, each.kept
    yield from answer_blocks(text[done:], shifted(kept[before:], done), uses, thinks=True)


def keep_valid(messages: list[Block], system: Sequence[Block], tools: Sequence[Block], *, binds: bool) -> None:
    """Remove the thinking that a model would refuse from the messages of a request if the model `binds` thinking, and
    the key `BOUND` from all blocks.

    Of the blocks with a matching prefix, the longest unbroken chain that ends with the newest one stays. A block
    without a hash comes from another program, or was recorded before hashes existed.
    """
    found = list(blocks_in(messages))
    last = next((at for at in range(len(found) - 1, -1, -1) if is_thinking(found[at][1])), -1)
    if binds and last >= 0:
        prefix, fitting = _Prefix(system, tools), list[Block]()
        for block in prefix.thoughts(found[: last + 1]):
            if member(block, BOUND, "prefix") in (prefix.own, prefix.instead or prefix.own):
                fitting.append(block)
        begin = max(len(fitting) - 1, 0)
        while begin and member(fitting[begin], BOUND, "after") == mark(fitting[begin - 1]):
            begin -= 1
        _only(messages, set(map(id, fitting[begin:])))
    for _, block in found:
        block.pop(BOUND, None)


def staying(body: Mapping[str, Any], compaction: Mapping[str, Any]) -> set[str]:
    """Return the marks of a request's thinking blocks that stay valid when a requested compaction replaces the messages
    that they are bound to."""
    prefix, behind, found = _Prefix(body.get("system", ()), body.get("tools", ())), False, set[str]()
    for role, block in blocks_in(body["messages"]):
        if not is_thinking(block):
            prefix.add(role, block)
            behind = behind or compaction.get(BOUND, 0) == prefix.replaced()
        elif behind:
            found.add(mark(block))
    return found


def without(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same request without the thinking of earlier answers."""
    messages = [{**message, "content": list(message["content"])} for message in body["messages"]]
    _only(messages, set())
    thinking = {name: value for name, value in body.get("thinking", {}).items() if name != "block_binding"}
    return {**body, **({"thinking": thinking} if thinking else {}), "messages": messages}


def sent(prompt: Prompt, body: Mapping[str, Any]) -> dict[str, str]:
    """Return the thinking blocks of a request made from `prompt`, as a mapping of marks to the models that made the
    blocks, empty if unknown."""
    kept = (block for step in prompt.steps for block in step.kept if is_thinking(block))
    models = {mark(block): as_text(member(block, BOUND, "model")) for block in kept}
    marks = [mark(block) for _, block in blocks_in(body["messages"]) if is_thinking(block)]
    return {each: models.get(each, "") for each in marks}


def mark(block: Mapping[str, Any]) -> str:
    """Return the digest that identifies a thinking block."""
    signed = str(block.get(THINKING[block["type"]][-1]))
    return sha256(signed.encode(errors="replace")).hexdigest()[:_DIGITS]


RULE = ThinkingRule(binds=binds, bind=bind, sent=sent, without=without, staying=staying)


def _only(messages: list[Block], stay: set[int]) -> None:
    for message in messages:
        content = [block for block in message["content"] if not is_thinking(block) or id(block) in stay]
        message["content"][:] = content
    joined(messages)


def _chained(before: str, new: bytes, block: Mapping[str, Any]) -> str:
    return sha256(before.encode() + new + _canonical(block)).hexdigest()[:_DIGITS]


def _canonical(block: Mapping[str, Any]) -> bytes:
    if not _BESIDE.isdisjoint(block):
        block = {name: value for name, value in block.items() if name not in _BESIDE}
    return msgspec.json.encode(block, order="sorted") + b"\n"
