"""Blocks of Anthropic's answers other than text and calls: parsed, kept, and sent back at their positions.

Blocks of unknown types and blocks of tools that the API runs itself are sent back unchanged. For a text, its citations
are kept; for a call, its fields other than the arguments; each with its position in the answer's text. A `compaction`
block replaces everything before it (`Compacted`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from foldmark.core.assembly.media import CONTAINER, IMPORTED
from foldmark.core.assembly.wire import tool_name
from foldmark.core.config import Edit, provider_edits
from foldmark.core.request import AFTER, BOUND, LENGTH, Compacted, Kept, block_in, block_position, block_span, carry
from foldmark.wires.anthropic import RESULT, THINKING, USE, Block, is_hosted, kind_of, valid_thinking
from foldmark.wires.lenient_json import as_object, as_text
from foldmark.wires.parts import SEALED, text_parts

COMPACTION = "compaction"
NAME = "Anthropic"
_MADE_HERE = ("text", USE)
_BETAS = {
    COMPACTION: "compact-2026-01-12",
    "mcp_tool_use": "mcp-client-2025-11-20",
    "mcp_tool_result": "mcp-client-2025-11-20",
    "mcp_tool_listing": "mcp-client-2026-09-15",
    "advisor_tool_result": "advisor-tool-2026-03-01",
    "fallback": "server-side-fallback-2026-07-01",
}
"""The betas that a request has to name for blocks of these types."""
_SIGNED_BETA, _EDITING_BETA = "compact-2026-09-04", "context-management-2025-06-27"
CLEAR_THINKING = "clear_thinking_20251015"
_EDITS = {"clear_thinking": CLEAR_THINKING, "clear_tool_uses": "clear_tool_uses_20250919"}
_UNMARKABLE = ("fallback", "mcp_tool_listing", *THINKING)


# Of an answer


def beside(block: Block) -> Block:
    """Return the fields of a text or a call beside the text or the call itself, such as the program that made it."""
    known = ("text", "id", "name", "input", "type")
    return {name: value for name, value in block.items() if name not in known and value is not None}


def other_kept(block: Block, after: int, kept: int) -> Kept | Compacted:
    """Return any other block; `kept` is the number of blocks kept before it. A failed compaction replaces nothing."""
    text = as_text(block.get("content"))
    if block["type"] == COMPACTION and (text.strip() or as_text(block.get(SEALED))):
        return Compacted((block,), text, after, kept)
    return carry(block, after, "anthropic")


def position(after: int) -> Block:
    """Return the field that places a kept block in the text of its answer."""
    return {AFTER: after} if after else {}


# Into a request


def answer_blocks(text: str, kept: Sequence[Block], uses: Sequence[Block], *, thinks: bool) -> list[Block]:
    """Return the blocks of one answer in the order in which the model made them, without blocks that are not allowed at
    their positions. Thinking blocks still have the key `BOUND`."""
    blocks: list[Block] = []
    left = {use["id"]: use for use in uses}
    done = 0
    for index, block in enumerate(kept):
        kind = kind_of(block)
        if kind == "text" and LENGTH in block:
            begin, end = block_span(block, done, text)
            blocks += [
                *text_parts(text[done:begin]),
                *({**each, **_about(block)} for each in text_parts(text[begin:end])),
            ]
            done = end
        elif kind == USE and isinstance(block.get("id"), str) and block["id"] in left:
            left[block["id"]] = {**left[block["id"]], **_about(block)}
        elif sent := _thought(block) if thinks and kind in THINKING else _own(block):
            end = block_position(block, done, text)
            # A message must not end with thinking.
            if kind not in THINKING or uses or text[end:].strip() or any(map(_own, kept[index + 1 :])):
                blocks += text_parts(text[done:end])
                done = end
            blocks.append(sent)
    return [*blocks, *text_parts(text[done:]), *left.values()]


def markable(blocks: Sequence[Block]) -> list[Block]:
    """Return the last block that can carry a cache mark, if there is any."""
    return next(([block] for block in reversed(blocks) if block["type"] not in _UNMARKABLE), [])


def settle(messages: list[dict[str, Any]]) -> None:
    """Remove blocks that the API would refuse: a result of its own tools without the call, a call without its result
    unless it waits for one, all compactions except the newest, which moves to the front, and thinking at the end of a
    message, where the answer was cut off or the blocks after it were removed."""
    _compaction_first(messages)
    answered = {block["tool_use_id"] for _, block in blocks_in(messages) if _is_result(block)}
    called: set[str] = set()
    last = max((i for i, each in enumerate(messages) if each["role"] == "user" and not _only_results(each)), default=-1)
    for index, message in enumerate(messages):
        stay = []
        for block in message["content"] if message["role"] == "assistant" else ():
            if _is_result(block) and block["tool_use_id"] not in called:
                continue
            if _is_use(block):
                if block["id"] not in answered and index < last:
                    continue
                called.add(block["id"])
            stay.append(block)
        if message["role"] == "assistant":
            message["content"] = stay
    joined(messages)
    for message in messages:
        while message["role"] == "assistant" and message["content"] and message["content"][-1]["type"] in THINKING:
            message["content"].pop()
    joined(messages)


def joined(messages: list[dict[str, Any]]) -> None:
    """Remove messages without content, and merge neighbours of the same role."""
    filled = [message for message in messages if message["content"]]
    messages.clear()
    for message in filled:
        if messages and messages[-1]["role"] == message["role"]:
            messages[-1]["content"] += message["content"]
        else:
            messages.append(message)


def _compaction_first(messages: list[dict[str, Any]]) -> None:
    found = [block for _, block in blocks_in(messages) if block["type"] == COMPACTION]
    if not found:
        return
    for message in messages:
        stay: list[Block] = []
        for block in message["content"]:
            older = text_parts(str(block.get("content") or "")) if block is not found[-1] else []
            stay += older if block["type"] == COMPACTION else [block]
        message["content"] = stay
    if messages[0]["role"] != "assistant":
        messages.insert(0, {"role": "assistant", "content": []})
    messages[0]["content"].insert(0, found[-1])


def parameters(
    messages: Sequence[Mapping[str, Any]], kept: Iterable[Block], edits: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Return the fields that a body needs for its blocks: the newest container and the requested `edits`.

    A compaction that the API made on its own initiative needs one more edit. A requested one is signed, and the API
    refuses it together with that edit.
    """
    found: dict[str, Any] = {}
    for block in kept:
        if block.get("type") == CONTAINER and (container := as_text(as_object(block.get(CONTAINER)).get("id"))):
            found[CONTAINER] = container
    _, first = next(blocks_in(messages[:1]), ("", {}))
    if first.get("type") == COMPACTION and not first.get("signature"):
        edits = [*edits, {"type": "compact_20260112"}]
    if edits:
        found["context_management"] = {"edits": [*edits]}
    return found


def edits(setting: str, *, thinks: bool) -> list[dict[str, Any]]:
    """Return the edits of `provider_editing` in the API's form; thinking is cleared only if the model thinks."""
    try:
        wanted = provider_edits(setting)
    except ValueError:  # recorded by a newer version
        return []
    return [_edit(edit) for edit in wanted if thinks or edit.name != "clear_thinking"]


def _edit(edit: Edit) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": _EDITS[edit.name]}
    for name, value in edit.options.items():
        if isinstance(value, tuple):
            entry["exclude_tools"] = [tool_name(tool) for tool in value]
        elif isinstance(value, int):
            of = "input_tokens" if name != "keep" else edit.name.removeprefix("clear_")
            entry[name] = {"type": "thinking_turns" if of == "thinking" else of, "value": value}
        else:
            entry[name] = value
    return entry


def blocks_in(messages: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Block]]:
    """Return the blocks of messages, each with the role of its message."""
    return ((message["role"], block) for message in messages for block in message["content"])


def betas(body: Mapping[str, Any]) -> list[str]:
    """Return the betas that a request has to name for its blocks and its fields."""
    wanted = (body.get("context_management") or {}).get("edits", ())
    found = [_EDITING_BETA] if any(edit["type"] in _EDITS.values() for edit in wanted) else []
    found += [_SIGNED_BETA] if COMPACTION in body else []
    for _, block in blocks_in(body["messages"]):
        if block["type"] == COMPACTION and block.get("signature"):
            found.append(_SIGNED_BETA)
        elif block["type"] in _BETAS:
            found.append(_BETAS[block["type"]])
    return list(dict.fromkeys(found))


def _own(block: Block) -> Block | None:
    """Return a block of the API's own tools unchanged; None for any other block. Imported sessions also contain such
    blocks."""
    kind = kind_of(block)
    raw = {name: value for name, value in block.items() if name not in (AFTER, IMPORTED)}
    carried = raw if is_hosted(kind) else block_in(block, "anthropic")
    own = carried.get("type") if isinstance(carried, dict) else None
    if carried is None or not isinstance(own, str) or own in _MADE_HERE or own in THINKING or own == COMPACTION:
        return None
    if is_hosted(own) and not isinstance(carried.get("tool_use_id" if own.endswith(RESULT) else "id"), str):
        return None
    # A call that was cut off by the limit has no arguments that could be sent.
    return None if "input" in carried and not isinstance(carried["input"], dict) else dict(carried)


def _is_use(block: Block) -> bool:
    return is_hosted(block["type"]) and not block["type"].endswith(RESULT)


def _is_result(block: Block) -> bool:
    return is_hosted(block["type"]) and block["type"].endswith(RESULT) and isinstance(block.get("tool_use_id"), str)


def _only_results(message: Mapping[str, Any]) -> bool:
    return all(block["type"] == RESULT for block in message["content"])


def _thought(block: Block) -> Block | None:
    valid = valid_thinking(block)
    return {**valid, BOUND: block[BOUND]} if valid is not None and BOUND in block else valid


def _about(block: Block) -> Block:
    return {name: value for name, value in block.items() if name not in ("type", "id", AFTER, LENGTH)}
