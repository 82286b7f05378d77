"""Convert messages into content blocks of the Messages API, for a session that Claude Code continues [SPEC 8].

Each block has the plainest form that the API accepts, without its other members. A block that the API would refuse is
left out, because it would make the whole session useless. Pure.
"""

from typing import Any

import msgspec

from foldmark.core.assembly import wire
from foldmark.core.assembly.media import Image, media_of
from foldmark.core.assembly.view import INTERRUPTED, NO_OUTPUT, NO_RESULT, TOOL_MESSAGE
from foldmark.core.events import OPENING_KINDS, Event
from foldmark.core.request import AFTER
from foldmark.dialects.anthropic.messages import image_block
from foldmark.dialects.bodies import text_parts
from foldmark.text import queued
from foldmark.wires.lenient_json import member

Block = dict[str, Any]

SYSTEM_MESSAGE = "[System message:]\n"
"""The prefix of a `system` message. A session has no place for such messages, so they become user messages."""

THOUGHTS = {"thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}
"""Types of blocks in an answer that go back to the API, mapped to their members. The last member must not be blank."""

_BEFORE = {"system": SYSTEM_MESSAGE, "tool": TOOL_MESSAGE}


def message_blocks(event: Event) -> list[Block]:
    """Return the blocks of a message that is neither a call nor a result; empty if nothing in it can be sent."""
    if event.kind == "assistant":
        return _answered(event)
    text = _BEFORE.get(event.kind, "") + event.content if event.content.strip() else ""
    others = _usable(event) if event.kind in OPENING_KINDS else []
    return [*others, *text_parts(text)]


def call_block(event: Event, call_id: str) -> Block:
    """Return the block of a tool call with its id in the session."""
    name = wire.tool_name(str((event.data or {}).get("name", "")))
    arguments = msgspec.json.decode(wire.arguments(event.content))
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result_block(event: Event | None, call_id: str) -> Block:
    """Return the block of a result. A missing result becomes a text that says so."""
    block: Block = {"tool_use_id": call_id, "type": "tool_result", "content": NO_RESULT}
    if event is None:
        return {**block, "is_error": True}
    if others := _usable(event):  # the API accepts only text in a result that is marked as an error
        return {**block, "content": [*text_parts(event.content), *others]}
    if member(event.data, "is_error") is True:
        return {**block, "content": event.content if event.content.strip() else NO_OUTPUT, "is_error": True}
    return {**block, "content": event.content}


def attachment(event: Event) -> Block | None:
    """Return a queued prompt as the attachment that it was imported from, or None for any other message."""
    about = member(event.data, "attachment") if event.kind == "user" else None
    if not isinstance(about, dict) or about.get("type") != queued.ATTACHMENT:
        return None
    blocks = message_blocks(event)
    alone = blocks[0].get("text") if len(blocks) == 1 else None
    return {**about, "prompt": alone or blocks} if blocks else None


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
        text += INTERRUPTED
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
    kind = member(block, "type")
    names = THOUGHTS.get(kind, ()) if isinstance(kind, str) else ()
    if not names or event.dialect != "anthropic":
        return None
    if not all(isinstance(block.get(name), str) for name in names) or not block[names[-1]].strip():
        return None
    return {"type": block["type"], **{name: block[name] for name in names}}


def _shown(block: Any) -> Block | None:
    """Return the block of an image or a document."""
    if member(block, "type") == "document":
        return _document(block)
    shown, _ = media_of({"blocks": [block]})
    image = shown[0] if shown else None
    return image_block(image) if isinstance(image, Image) else None


def _document(block: Block) -> Block | None:
    kind, media, data = (member(block, "source", name) for name in ("type", "media_type", "data"))
    pdf = bool(media_of({"blocks": [block]})[0])
    if not pdf and not (kind == "text" and media == "text/plain" and _filled(data)):
        return None
    titles = {name: block[name] for name in ("title", "context") if _filled(block.get(name))}
    cited = {"citations": block["citations"]} if isinstance(block.get("citations"), dict) else {}
    return {"type": "document", "source": {"type": kind, "media_type": media, "data": data}, **titles, **cited}


def _reference(block: Any) -> Block | None:
    """Return the block for a tool that a result introduced to the model."""
    if member(block, "type") != "tool_reference" or not _filled(block.get("tool_name")):
        return None
    return {"type": "tool_reference", "tool_name": block["tool_name"]}


def _blocks(event: Event) -> list[Any]:
    blocks = member(event.data, "blocks")
    return blocks if isinstance(blocks, list) else []


def _filled(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
