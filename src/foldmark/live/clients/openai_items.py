"""The items of OpenAI's Responses API: their meaning and their form in the log [SPEC 5.7]. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from foldmark.core.assembly.eviction import OPAQUE
from foldmark.core.assembly.eviction import RESPONSES as READER
from foldmark.core.assembly.media import media_of
from foldmark.core.events import Event
from foldmark.core.request import block_in, carry
from foldmark.dialects.bodies import as_text, objects_in
from foldmark.dialects.openai.items import CALLS, RESULTS
from foldmark.dialects.openai.responses import media_parts
from foldmark.formats.codex.records import INTERRUPTED, is_injected, read_item
from foldmark.formats.messages import CallMessage, Part, ResultMessage, TextMessage
from foldmark.live.clients.dialect import key_of, plain, without_surrogates

Item = Mapping[str, Any]

"""Beginning of the text that Codex sends in place of an answer that a person interrupted."""

KEPT = "item"
"""The member of a recorded call or result that holds the other members of its item."""

LONG_CACHES = ((b'"24h"', re.compile(rb'"prompt_cache_retention"\s*:\s*"24h"'), 86400.0),)
"""As `ClientDialect.long_caches`."""

PASSING = ("id", "status", "internal_chat_message_metadata_passthrough")
"""Members that no model reads. They differ between an answer and its echo, or between requests."""

_NAMED = ("function_call", "custom_tool_call")
_MADE = ("reasoning", "compaction", "context_compaction")
_WRITTEN_BY_CODEX = re.compile(r"\s*<[a-z_]+>")


def items_of(raw: bytes) -> list[bytes]:
    """Return the items of a message, which are joined by commas. Raises msgspec.MsgspecError."""
    whole = b"[" + raw + b"]"
    try:
        found = msgspec.json.decode(whole, type=list[Raw])
    except msgspec.DecodeError:
        found = msgspec.json.decode(without_surrogates(whole), type=list[Raw])
    return list(map(bytes, found))


def kind_of(item: Item) -> str:
    """Return the type of an item; a message may come without one."""
    return str(item.get("type", "message" if "role" in item else ""))


def is_made(item: Item) -> bool:
    """Return True for an item from a model: its thinking, its text or its calls."""
    kind = kind_of(item)
    is_call = kind in CALLS or kind.endswith("_call")
    return kind in _MADE or is_call or (kind == "message" and item.get("role") == "assistant")


def is_output(item: Item) -> bool:
    """Return True for the output of a call."""
    return kind_of(item) in RESULTS or kind_of(item).endswith("_output")


def call_of(item: Item) -> str | None:
    """Return the id of the call that an item makes or answers; None if it names none."""
    found = item.get("call_id")
    return found if isinstance(found, str) else None


def contents_of(item: bytes) -> tuple[bytes, ...]:
    """Return the parts of a message from a user or the developer as JSON."""
    content = bytes(msgspec.json.decode(item, type=dict[str, Raw]).get("content", b"[]"))
    if content[:1] == b'"':
        return (b'{"type":"input_text","text":' + content + b"}",)
    return tuple(map(bytes, msgspec.json.decode(content, type=list[Raw])))


def with_contents(item: bytes, parts: Sequence[bytes]) -> bytes:
    """Return a message from a user with these parts instead of its own."""
    members = msgspec.json.decode(item, type=dict[str, Raw])
    if len(parts) != len(contents_of(item)):
        members.pop(PASSING[-1], None)  # it has an entry for each part
    members["content"] = Raw(b"[" + b",".join(parts) + b"]")
    return msgspec.json.encode(members)


def opens_turn(text: str) -> bool:
    """Return True for a text that a person wrote: text that Codex adds in the middle of a turn, such as a skill or news
    of a sub-agent, is in a tag."""
    return _WRITTEN_BY_CODEX.match(text) is None


# Keys


def key(role: str, items: Iterable[Item]) -> str:
    """Return the key of a message with these items, which is the same for an answer and its echo."""
    meanings = [meaning for item in items if (meaning := _meaning(item))]
    return key_of(role, [msgspec.json.encode(meanings, order="sorted")])


def _meaning(item: Item) -> list[Any]:
    kind = kind_of(item)
    if kind == "message":
        said = _said(item).strip()
        return [kind, item.get("role"), said] if said else []
    if kind in _MADE and as_text(item.get("encrypted_content")):
        return [kind, item.get("encrypted_content")]
    return [kind, plain({name: value for name, value in item.items() if name not in PASSING and value is not None})]


def _said(item: Item) -> str:
    content = item.get("content")
    if isinstance(content, str):
        return content
    return "\n\n".join(
        filter(None, (as_text(part.get("text")) or as_text(part.get("refusal")) for part in objects_in(content)))
    )


# Items in the log


def part_of_user(part: Item) -> Part | None:
    """Return the content of a part of a user's message; None if Codex wrote it."""
    text = part.get("text")
    if isinstance(text, str) and is_injected(text) and not text.lstrip().startswith(INTERRUPTED):
        return None
    read = read_item(_record({"type": "message", "role": "user", "content": [dict(part)]}))
    if len(read.parts) == 1:
        return read.parts[0]
    return TextMessage("user", "", {"blocks": [carry(dict(part), 0, READER).block]})


def part_of_item(item: Item) -> Part | None:
    """Return the content of an item from a model or a tool."""
    kind, call = kind_of(item), call_of(item)
    if kind == "message":
        phase = item.get("phase")
        return TextMessage("assistant", _said(item), {"blocks": [{"type": "phase", "phase": phase}]} if phase else None)
    if kind == "agent_message":  # from another agent, in place of a prompt
        return TextMessage("user", _said(item), {"blocks": [carry(dict(item), 0, READER).block]})
    if not is_made(item) and not is_output(item):
        return None
    read = read_item(_record(item)).parts
    part = read[0] if len(read) == 1 else None
    if isinstance(part, CallMessage):
        rest = _rest(item, CALLS[kind].given)
        usual = rest == {"type": "function_call", "name": part.name}
        return CallMessage(part.call_id, part.name, part.args, None if usual else {KEPT: rest})
    if isinstance(part, ResultMessage):
        rest = _rest(item, CALLS[RESULTS[kind]].answer)
        more = {} if rest == {"type": "function_call_output"} else {KEPT: rest}
        return ResultMessage(part.call_id, part.text, part.is_error, {**(part.data or {}), **more} or None)
    if part is not None:
        return part
    rest = _rest(item, "")
    if call is not None and is_output(item):
        return ResultMessage(call, msgspec.json.encode(rest).decode(), data={KEPT: rest})
    if call is not None:
        return CallMessage(call, kind.removesuffix("_call"), rest, {KEPT: rest})
    opaque = OPAQUE if kind.endswith("compaction") else ""
    return TextMessage("assistant", opaque, {"blocks": [carry(dict(item), 0, READER).block]})


def _record(payload: Item) -> dict[str, Any]:
    return {"type": "response_item", "payload": dict(payload)}


def _rest(item: Item, besides: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in (*PASSING, besides, "call_id")}


# Items for messages that the client no longer sends


def items_for(event: Event) -> list[dict[str, Any]]:
    """Return a recorded message as items, without its thinking."""
    data, call = event.data or {}, {"call_id": event.call_id or ""}
    about = data.get(KEPT)
    kept: dict[str, Any] = dict(about) if isinstance(about, dict) else {}
    if event.kind == "tool_call":
        kind = kept.get("type", "function_call")
        if kind not in CALLS:
            return [{**kept, **call}]
        value: Any = msgspec.json.decode(event.content)
        if kind == "custom_tool_call":
            value = value.get("input") if isinstance(value, dict) else value
        elif kind == "function_call" and not isinstance(value, str):
            value = event.content
        named = {"name": data.get("name")} if kind in _NAMED else {}
        named |= {"status": "completed"} if kind == "local_shell_call" else {}
        return [{"type": kind, **named, **kept, **call, CALLS[kind].given: value}]
    if event.kind == "tool_result":
        kind = kept.get("type", "function_call_output")
        if kind not in RESULTS:
            return [{**kept, **call}]
        answer = CALLS[RESULTS[kind]].answer
        value = event.content if answer == "output" else msgspec.json.decode(event.content)
        return [{"type": kind, **kept, **call, answer: value}]
    return _said_again(event)


def _said_again(event: Event) -> list[dict[str, Any]]:
    blocks = objects_in((event.data or {}).get("blocks"))
    carried = [item for block in blocks if (item := block_in(block, READER)) is not None]
    whole = [item for item in carried if is_made(item) or kind_of(item) == "agent_message"]
    if whole:
        return [item for item in whole if kind_of(item) != "reasoning"]
    texts = [event.content] if event.content.strip() else []
    if event.kind in ("assistant", "summary"):
        phases = [block["phase"] for block in blocks if block.get("type") == "phase"]
        content = [{"type": "output_text", "text": text} for text in texts]
        phase = {"phase": phases[0]} if phases else {}
        return [{"type": "message", "role": "assistant", "content": content, **phase}] if content else []
    shown, _ = media_of(event.data)
    content = [*({"type": "input_text", "text": text} for text in texts), *media_parts(shown, documents=True), *carried]
    return [{"type": "message", "role": "user", "content": content}] if content else []
