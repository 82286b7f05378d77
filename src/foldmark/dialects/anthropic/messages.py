"""Anthropic's Messages API: encodes a prompt in its wire format, and parses its answers. Needs no SDK."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from foldmark.core.assembly import caching
from foldmark.core.assembly.media import CONTAINER, Document, Medium
from foldmark.core.assembly.prompt import Prompt
from foldmark.core.assembly.view import AnsweredCall, Calls
from foldmark.core.codec import well_formed
from foldmark.core.request import LENGTH, PLAIN, Compacted, Kept, Options, Piece, Stopped, ToolCall, ToolSpec, Usage
from foldmark.dialects.anthropic import blocks as blocks_of
from foldmark.dialects.anthropic import thinking
from foldmark.dialects.anthropic.blocks import NAME, answer_blocks, markable
from foldmark.dialects.anthropic.thinking import ThinkingRequest, thinking_request
from foldmark.dialects.anthropic.usage import INPUT_PARTS, context_usage
from foldmark.dialects.bodies import described, tokens
from foldmark.dialects.dialect import Dialect
from foldmark.dialects.errors import not_understood
from foldmark.wires import anthropic as wire
from foldmark.wires.anthropic import RESULT, THINKING, USE, Block, kind_of
from foldmark.wires.lenient_json import as_object, as_text, objects_in
from foldmark.wires.parts import text_parts

MOST_PAGES = 600
"""Maximum number of pages of documents in a request."""

_NOT_AT_THE_TOP = ("oneOf", "allOf", "anyOf")

# A prompt as a request


def encode(model: str, prompt: Prompt, tools: Sequence[ToolSpec] = (), options: Options = PLAIN) -> dict[str, Any]:
    """Return the body of a request to /v1/messages; consecutive messages of one role become one.

    Cache points follow the parts that stay the same: the stable system text (the tools if there is none), the turns
    before the active one, and everything. One more is set where the second of these was a turn ago, because the API
    looks back at most 20 blocks from a point. All last for `options.cache_ttl`: the API refuses a longer lifetime after
    a shorter one.

    The effect of `options.thinking` depends on the model (`thinking`). Models with a thinking budget refuse to think in
    the middle of calls that they made without thinking; then no thinking is requested. If a model does not think, its
    earlier thinking is not sent: the API refuses it. A model that binds thinking gets its valid blocks.
    """
    how = thinking_request(model, options.thinking, options.output, options.binds)
    messages, settled = _messages(prompt, how)
    if how.strict and _thoughtless(messages):
        how = ThinkingRequest(thinks=False)
        messages, settled = _messages(prompt, how)
    system = [*text_parts(prompt.stable), *text_parts(prompt.anchors)]
    declared = [_tool(tool) for tool in tools]
    thinking.keep_valid(messages, system, declared, binds=how.bound)
    body: dict[str, Any] = {"model": model, "max_tokens": options.output}
    if parameter := _parameter(how, messages):
        body["thinking"] = parameter
    if how.effort:
        body["output_config"] = {"effort": how.effort}
    if system:
        body["system"] = system
    edits = blocks_of.edits(options.editing, thinks=how.thinks)
    body |= blocks_of.parameters(messages, (block for step in prompt.steps for block in step.kept), edits)
    if "thinking" not in body and any(edit["type"] == blocks_of.CLEAR_THINKING for edit in edits):
        body["thinking"] = {"type": "adaptive"}  # it is these models' default, but this edit requires the parameter
    if tools or any(isinstance(step, Calls) for step in prompt.steps):
        # The API has refused messages with tool blocks when `tools` was missing; an empty list satisfies it.
        body["tools"] = declared
    body["messages"] = messages
    if options.compact:
        body["compaction"] = {"type": "summarize"}
    stable = system[:1] if prompt.stable.strip() else declared[-1:]
    for block in (*stable, *settled, *_end(messages)):
        block["cache_control"] = {"type": "ephemeral", **({"ttl": "1h"} if options.cache_ttl == "1h" else {})}
    return body


def _messages(prompt: Prompt, how: ThinkingRequest) -> tuple[list[dict[str, Any]], list[Block]]:
    """Return the messages, and the last blocks of the settled history as of a turn ago and as of now, if any."""
    messages: list[dict[str, Any]] = []
    earlier: list[Block] = []
    settled: list[Block] = []
    thoughts: list[Block] = []  # of an answer without text or calls; they belong before the model's next content
    for index, step in enumerate(prompt.steps):
        if isinstance(step, Calls):
            uses = [wire.use_block(call.call_id, call.name, call.arguments) for call in step.calls]
            blocks = answer_blocks(step.text, step.kept, uses, thinks=how.thinks)
            _add(messages, "assistant", [*thoughts, *blocks], how)
            _add(messages, "user", [_result(call) for call in step.calls], how)
            thoughts = []
        elif step.role == "assistant":
            # A compaction is the provider's own block; other content of a summary is unknown here.
            blocks = list(step.kept) if step.native else answer_blocks(step.text, step.kept, (), thinks=how.thinks)
            blocks = [*thoughts, *(dict(block) for block in blocks)]
            thoughts = blocks if all(map(wire.is_thinking, blocks)) else []
            _add(messages, "assistant", [] if thoughts else blocks, how)
        else:
            thoughts = []
            _add(messages, "user", [*map(_shown, step.media), *text_parts(step.text)], how)
        if index + 1 == prompt.earlier:
            earlier = _end(messages)
        if index + 1 == prompt.settled:
            settled = _end(messages)
    blocks_of.settle(messages)
    return messages, [*earlier, *settled]


def _end(messages: list[dict[str, Any]]) -> list[Block]:
    """Return the last block so far, if any."""
    return markable(messages[-1]["content"]) if messages else []


def _add(messages: list[dict[str, Any]], role: str, blocks: list[Block], how: ThinkingRequest) -> None:
    if not blocks:
        return
    if not messages or messages[-1]["role"] != role:
        messages.append({"role": role, "content": []})
    content = messages[-1]["content"]
    if how.strict and (content or blocks)[0]["type"] not in THINKING:
        blocks = [block for block in blocks if block["type"] not in THINKING]
    content.extend(blocks)


def _thoughtless(messages: list[dict[str, Any]]) -> bool:
    """Return True if the request answers calls that the model made without thinking."""
    answered = messages and any(block["type"] == RESULT for block in messages[-1]["content"])
    return bool(answered) and messages[-2]["content"][0]["type"] not in THINKING


def _parameter(how: ThinkingRequest, messages: list[dict[str, Any]]) -> dict[str, Any] | None:
    if how.bound and any(wire.is_thinking(block) for _, block in blocks_of.blocks_in(messages)):
        return {**(how.parameter or {"type": "adaptive"}), "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    return how.parameter


def _shown(each: Medium) -> Block:
    """Return the block of an image or a document, or a text instead of a document for which the API would refuse the
    request."""
    if isinstance(each, Document) and each.pages > MOST_PAGES:
        return {"type": "text", "text": each.note}
    return wire.medium_block(each)


def _result(call: AnsweredCall) -> Block:
    content: Any = [*text_parts(call.result), *map(_shown, call.media)] if call.media else call.result
    # The API accepts only text in a result that is marked as an error.
    failed = {"is_error": True} if call.failed and not call.media else {}
    return {"type": RESULT, "tool_use_id": call.call_id, "content": content, **failed}


def _tool(tool: ToolSpec) -> Block:
    schema = {key: value for key, value in tool.parameters.items() if key not in _NOT_AT_THE_TOP}
    return {**described(tool), "input_schema": {"type": "object", **schema}}


# An answer as pieces

_WHY = {
    "compaction": "compacted",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}
"""The reason for the end of an answer, by `stop_reason`; `end` for all others, such as `end_turn` and
`stop_sequence`."""


def parse(message: Mapping[str, Any]) -> tuple[Piece, ...]:
    """Return the pieces of a whole message of the API [S2]: text, kept blocks and calls in order, then usage and the
    end.

    Blocks of other kinds are kept unchanged. A call whose arguments the limit may have cut off is left out, and so are
    the calls of a refusal. Raises ProviderError (`answer`) for anything that is not a message, and for a call without
    id or name.
    """
    message = well_formed(dict(message))  # servers cut texts between the halves of a character
    content, word = message.get("content"), as_text(message.get("stop_reason"))
    if not isinstance(content, list):
        raise not_understood(NAME, "the message has no content")
    why = _WHY.get(word, "end")
    if why == "length" and content and kind_of(content[-1]).endswith(USE):
        content = content[:-1]
    elif why == "refused":
        content = [block for block in content if kind_of(block) != USE]
    fresh, read, write, output = (
        tokens(message, "usage", f"{each}_tokens")
        for each in ("input", "cache_read_input", "cache_creation_input", "output")
    )
    edits = as_object(message.get("context_management")).get("applied_edits")
    altered = (*objects_in(message.get("input_transformations")), *objects_in(edits))
    container = as_object(message.get("container"))
    kept = [Kept({"type": CONTAINER, CONTAINER: container})] if as_text(container.get("id")) else []
    usage = Usage(fresh, read, write, output, altered, last_input=_last_call(as_object(message.get("usage"))))
    return (*_pieces(content), *kept, usage, Stopped(why, word))


def _last_call(usage: Mapping[str, Any]) -> int:
    """Return the input tokens of the last of several calls of the model on the messages; 0 if there was one."""
    last = context_usage(usage)
    several = last is not usage and len(objects_in(usage.get("iterations"))) > 1
    return sum(tokens(last, part) for part in INPUT_PARTS) if several else 0


def _pieces(content: list[Any]) -> Iterator[Piece]:
    length, kept, before = 0, 0, ""
    for block in content:
        kind = kind_of(block)
        for piece in _read(block, kind, length, kept, apart=before == "text"):
            kept += isinstance(piece, Kept)
            length += len(piece) if isinstance(piece, str) else 0
            yield piece
        before = kind


def _read(block: Any, kind: str, length: int, kept: int, *, apart: bool) -> Iterator[str | Kept | Compacted | ToolCall]:
    if kind == "text":
        if not isinstance(block.get("text"), str):
            raise not_understood(NAME, "a text block has no text")
        if block["text"] and (apart or blocks_of.beside(block)):
            about = {**blocks_of.beside(block), **blocks_of.position(length), LENGTH: len(block["text"])}
            yield Kept({"type": kind, **about})
        yield block["text"]
    elif kind in THINKING:
        if thought := wire.valid_thinking(block):
            yield Kept({**thought, **blocks_of.position(length)})
    elif kind == USE:
        call_id, name = as_text(block.get("id")), as_text(block.get("name"))
        if not (call_id and name):
            raise not_understood(NAME, "a tool call has no id or no name")
        if about := blocks_of.beside(block):  # without a position: calls always come last
            yield Kept({"type": kind, "id": call_id, **about})
        yield ToolCall(call_id, name, block.get("input", {}))
    elif kind:
        yield blocks_of.other_kept(block, length, kept)


# The blocks that a cache sees


def cache_blocks(body: dict[str, Any]) -> list[caching.Block]:
    """Return the blocks of a body: tools, system, messages."""
    found = [caching.block("tools", tool) for tool in body.get("tools", ())]
    found += [caching.block("system", part) for part in caching.parts(body.get("system"))]
    for message in body.get("messages", ()):
        for part in caching.parts(message["content"]):
            kind = part.get("type", "")
            found.append(caching.block(message["role"], part, kind if kind in (USE, RESULT) else ""))
    if body.get("cache_control") and found:
        found[-1] = found[-1]._replace(marked=True)
    return found


ANTHROPIC = Dialect(
    name="anthropic",
    recorded="anthropic",
    reads="anthropic",
    encode=encode,
    parse=parse,
    blocks=cache_blocks,
    on_the_wire='these bytes, with "stream":true as the last field',
    thinking=thinking.RULE,
    lifetimes=True,
    clears=True,
    compacts=thinking.compacts,
)
