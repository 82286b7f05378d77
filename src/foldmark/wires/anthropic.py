"""Blocks of Anthropic's Messages API: what they say, and how they are made [SPEC 8]. Pure.

Sessions of Claude Code, the gateway, exports and Foldmark's own requests ask here, so that a block means the same to
all of them.

Read: blocks keep their order. A block that belongs to the other role is not usable. A block without text is kept in
`data={"blocks": [...]}` in the provider's form: thinking in an assistant message without content; images and documents
in the first user message of their list; all other blocks in the result of their tool. `data={"response": id}` names the
API message of an assistant's text or call.

Made: each block has the plainest form that the API accepts, without its other members. A block that the API would
refuse is left out, because it would make the whole conversation useless.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from foldmark.core.assembly import wire
from foldmark.core.assembly.media import IMPORTED, PDF, Document, Image, Medium, media_of
from foldmark.core.events import OPENING_KINDS, Event
from foldmark.core.request import AFTER
from foldmark.wires.lenient_json import as_text, filled_text, member
from foldmark.wires.parts import CallMessage, Part, Reading, ResultMessage, TextMessage, text_parts

Block = dict[str, Any]

THINKING = {"thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}
"""Types of thinking, and the members with which it goes back to the API. The last one makes it valid."""

USE, RESULT = "tool_use", "tool_result"
"""Types of a call of the client's tools, and of its result."""

SYSTEM_MESSAGE = "[System message:]\n"
"""The prefix of a `system` message where the client has no place for one: it becomes a user's message."""

_HOSTED = ("_tool_use", "_tool_result")
"""Ends of the types of calls and results of tools that the API runs, such as `server_tool_use`."""

USERS = frozenset({"image", "document", "search_result"})
"""Types of blocks of a user that are no text."""

_BEFORE = {"system": SYSTEM_MESSAGE, "tool": wire.TOOL_MESSAGE}


def kind_of(block: Any) -> str:
    """Return the type of a block; an empty text if it has none."""
    return filled_text(member(block, "type")) or ""


def is_hosted(kind: str) -> bool:
    """Return True for the type of a call of a tool that the API runs, or of its result."""
    return kind.endswith(_HOSTED)


def is_thinking(block: Any) -> bool:
    """Return True for a block of thinking."""
    return kind_of(block) in THINKING


def listed(content: Any) -> list[Any]:
    """Return the content of a message, which may be a text, as blocks; none for any other value."""
    found = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return found if isinstance(found, list) else []


# Read


def read_user(blocks: Sequence[Any], is_injected: Callable[[str], bool], speaker: str = "user") -> Reading:
    """Read the blocks of a user's message. A text that `is_injected` is the client's; any other is of the
    `speaker`."""
    parts: list[Part] = []
    attached = []
    complete = True
    for block in blocks:
        kind = kind_of(block)
        text = block if isinstance(block, str) else block.get("text") if kind == "text" else None
        if isinstance(text, str):
            parts.append(TextMessage("client" if is_injected(text) else speaker, text))
        elif kind == RESULT and filled_text(block.get("tool_use_id")):
            parts.append(_read_result(block))
        elif kind in USERS:
            attached.append(block)
        else:
            complete = False
    if attached:
        first = next((part for part in parts if isinstance(part, TextMessage) and part.kind == speaker), None)
        at = parts.index(first) if first else len(parts)
        parts[at : at + 1] = [TextMessage(speaker, first.text if first else "", {"blocks": attached})]
    return Reading(tuple(parts), complete and bool(parts))


def read_answer(blocks: Sequence[Any], response: str | None) -> Reading:
    """Read the blocks of an answer; `response` is the id of its API message."""
    parts: list[Part] = []
    complete = True
    data: Block = {} if response is None else {"response": response}
    for block in blocks:
        kind = kind_of(block)
        if kind == "text" and isinstance(block.get("text"), str):
            parts.append(TextMessage("assistant", block["text"], data or None))
        elif kind == USE and filled_text(block.get("id")) and filled_text(block.get("name")):
            parts.append(CallMessage(block["id"], block["name"], block.get("input", {}), data or None))
        elif kind in THINKING:
            parts.append(TextMessage("assistant", "", {**data, "blocks": [{**block, IMPORTED: True}]}))
        elif is_hosted(kind):
            parts.append(TextMessage("assistant", "", {**data, "blocks": [block]}))
        else:
            complete = False
    return Reading(tuple(parts), complete and bool(parts))


def _read_result(block: Block) -> ResultMessage:
    """Read a result: its texts, joined by line feeds, and all other blocks unchanged."""
    content = block.get("content")
    texts, others = list[str](), list[Any]()
    for item in content if isinstance(content, list) else [] if content is None else [content]:
        text = item if isinstance(item, str) else item.get("text") if kind_of(item) == "text" else None
        texts += [text] if isinstance(text, str) else []
        others += [] if isinstance(text, str) else [item]
    data = {"blocks": others} if others else None
    failed, plain = block.get("is_error") is True, isinstance(content, str)
    return ResultMessage(block["tool_use_id"], "\n".join(texts), failed, data, plain)


# Keys


def meaning(blocks: Iterable[Any]) -> list[list[Any]]:
    """Return what the model reads of each block of an answer, the same for an answer and its echo."""
    return [found for block in blocks if isinstance(block, dict) and (found := _meaning(block))]


def _meaning(block: Block) -> list[Any]:
    kind = block.get("type")
    if kind == "text":
        text = str(block.get("text", "")).strip()
        return [kind, text] if text else []
    if kind == USE:
        return [kind, block.get("id"), block.get("name"), block.get("input")]
    if kind in THINKING:
        return [kind, block.get(THINKING[kind][-1])]
    return [kind, {name: value for name, value in block.items() if name != "cache_control"}]


# Made


def medium_block(medium: Medium) -> Block:
    """Return the block of an image or a document."""
    if isinstance(medium, Document):
        source = {"type": "base64", "media_type": PDF, "data": medium.data}
        return {"type": "document", "source": source, **({"title": medium.name} if medium.name else {})}
    if medium.url:
        return {"type": "image", "source": {"type": "url", "url": medium.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": medium.media, "data": medium.data}}


def use_block(call_id: str, name: str, arguments: str) -> Block:
    """Return the block of a call; `arguments` are JSON."""
    return {"type": USE, "id": call_id, "name": name, "input": msgspec.json.decode(arguments)}


def message_blocks(event: Event) -> list[Block]:
    """Return the blocks of a message that is neither a call nor a result; empty if nothing in it can be sent."""
    if event.kind == "assistant":
        return _answered(event)
    text = _BEFORE.get(event.kind, "") + event.content if event.content.strip() else ""
    others = _usable(event) if event.kind in OPENING_KINDS else []
    return [*others, *text_parts(text)]


def blocks_for(event: Event) -> list[Block]:
    """Return a recorded message as blocks, without its thinking, which was bound to what preceded it then."""
    if event.kind == "tool_call":
        return [call_block(event, event.call_id or "")]
    if event.kind == RESULT:
        return [result_block(event, event.call_id or "")]
    return [block for block in message_blocks(event) if not is_thinking(block)]


def call_block(event: Event, call_id: str) -> Block:
    """Return the block of a tool call with its id in the session."""
    name = wire.tool_name(str((event.data or {}).get("name", "")))
    return use_block(call_id, name, wire.arguments(event.content))


def result_block(event: Event | None, call_id: str) -> Block:
    """Return the block of a result. A missing result becomes a text that says so."""
    block: Block = {"tool_use_id": call_id, "type": RESULT, "content": wire.NO_RESULT}
    if event is None:
        return {**block, "is_error": True}
    if others := _usable(event):  # the API accepts only text in a result that is marked as an error
        return {**block, "content": [*text_parts(event.content), *others]}
    if member(event.data, "is_error") is True:
        return {**block, "content": event.content if event.content.strip() else wire.NO_OUTPUT, "is_error": True}
    return {**block, "content": event.content}


def left_behind(event: Event) -> int:
    """Return the number of blocks of a message that cannot be exported."""
    return len(_blocks(event)) - len(_usable(event))


def _usable(event: Event) -> list[Block]:
    """Return the blocks of a message that can be exported, each in its plainest form."""
    found: list[Block | None] = []
    for block in _blocks(event):
        if event.kind == "assistant":
            found.append(_thought(event, block))
        elif event.kind in (*OPENING_KINDS, "tool_result"):
            found.append(_shown(block) or (_reference(block) if event.kind == "tool_result" else None))
    return [block for block in found if block is not None]


def _answered(event: Event) -> list[Block]:
    """Return the text and thinking of an answer in the order in which the model produced them."""
    text = event.content
    if event.interrupted and text.strip():
        text += wire.INTERRUPTED
    blocks: list[Block] = []
    done = 0
    for block in _blocks(event):
        thought = _thought(event, block)
        if thought is None:
            continue
        after = block.get(AFTER)
        end = min(after, len(text)) if isinstance(after, int) and after > done else done
        if text[done:end].strip() and text[end:].strip():
            blocks += text_parts(text[done:end])
            done = end
        blocks.append(thought)
    return [*blocks, *text_parts(text[done:])]


def _thought(event: Event, block: Any) -> Block | None:
    return valid_thinking(block) if event.dialect == "anthropic" and is_thinking(block) else None


def valid_thinking(block: Block) -> Block | None:
    """Return a block of thinking as the API accepts it back; None if it would not."""
    names = THINKING[block["type"]]
    if not all(isinstance(block.get(name), str) for name in names) or not block[names[-1]].strip():
        return None
    return {"type": block["type"], **{name: block[name] for name in names}}


def _shown(block: Any) -> Block | None:
    """Return the block of an image or a document."""
    if kind_of(block) == "document":
        return _document(block)
    shown, _ = media_of({"blocks": [block]})
    image = shown[0] if shown else None
    return medium_block(image) if isinstance(image, Image) else None


def _document(block: Block) -> Block | None:
    kind, media, data = (member(block, "source", name) for name in ("type", "media_type", "data"))
    pdf = bool(media_of({"blocks": [block]})[0])
    if not pdf and not (kind == "text" and media == "text/plain" and as_text(data).strip()):
        return None
    titles = {name: block[name] for name in ("title", "context") if as_text(block.get(name)).strip()}
    cited = {"citations": block["citations"]} if isinstance(block.get("citations"), dict) else {}
    return {"type": "document", "source": {"type": kind, "media_type": media, "data": data}, **titles, **cited}


def _reference(block: Any) -> Block | None:
    """Return the block for a tool that a result introduced to the model."""
    if kind_of(block) != "tool_reference" or not as_text(block.get("tool_name")).strip():
        return None
    return {"type": "tool_reference", "tool_name": block["tool_name"]}


def _blocks(event: Event) -> list[Any]:
    blocks = member(event.data, "blocks")
    return blocks if isinstance(blocks, list) else []
