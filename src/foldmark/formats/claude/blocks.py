"""Read the messages of a Claude Code record [SPEC 8].

Blocks keep their order. Where the format leaves a choice:

- The role of a record is its `type`. A block that belongs to the other role is not usable.
- A block without text is kept in `data={"blocks": [...]}` in the provider's form: thinking in an assistant message
  without content; images and documents in the first user message of their record; all other blocks in the result of
  their tool.
- `data={"response": id}` names the API message of an assistant's text or call, since one spans several records.
- A prompt that a person typed while the model was busy is in an `attachment` record, and becomes a user message. The
  rest of the attachment is kept in `data={"attachment": ...}`, for an export.
- What Claude Code told its model by itself becomes `client` messages (`told`). An attachment with one text is kept in
  `data={"told": ...}` without that text, for an export; of another one, that is empty.
- An API error that Claude Code wrote in place of an answer (`isApiErrorMessage`) is not a message: no model reads it.
- A record that an export made up (`MADE_UP`) is not a message either.
- A message keeps nothing else of its record: no uuids, paths or copies of a result (`toolUseResult`).
"""

import re
from collections.abc import Sequence
from typing import Any

from foldmark.core.assembly.media import IMPORTED
from foldmark.core.patterns import pattern
from foldmark.formats.claude.told import INJECTED, kept, told
from foldmark.formats.messages import NOTHING, RecordMessages
from foldmark.text import queued
from foldmark.wires.lenient_json import filled_text, member
from foldmark.wires.parts import CallMessage, Data, Part, ResultMessage, TextMessage

MADE_UP = "foldmark_made_up"
"""Marks a record that only completes an exported session and was not in the conversation."""

CLIENT = "foldmark_client"
"""Marks an exported record whose text a client wrote by itself."""

RESPONSE = "foldmark_response"
"""The member for the original response id (null: none) of an exported record whose answer got a new id."""

FULL = pattern(
    r"(prompt|input|conversation|request) (is )?too long|context (limit|window|length)|exceeds? .{0,40}\bcontext",
    re.IGNORECASE,
)
"""Matches an API error that reports a full context."""

_USER_BLOCKS = frozenset({"image", "document", "search_result"})
_ASSISTANT_BLOCKS = frozenset({"thinking", "redacted_thinking"})
_SERVER_TOOLS = ("_tool_use", "_tool_result")  # tools that the provider runs: server_tool_use and the like


def read_message(record: Any) -> RecordMessages:
    """Return the messages of a record; `NOTHING` if it is not a user's or the model's message, or not usable."""
    role = record.get("type") if isinstance(record, dict) else None
    if role in ("attachment", "system"):
        return _read_told(record)
    if role not in ("user", "assistant") or record.get(MADE_UP) is True or is_api_error(record):
        return NOTHING
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return NOTHING
    if role == "assistant":
        return _read_assistant(content, response_of(record))
    return _read_user(content, "client" if record.get(CLIENT) is True else "user")


def is_api_error(record: Any) -> bool:
    """Return True if Claude Code wrote an API error in place of an answer."""
    return isinstance(record, dict) and record.get("isApiErrorMessage") is True and record.get("type") == "assistant"


def is_thinking(record: Any) -> bool:
    """Return True if an answer's record holds thinking and nothing else."""
    blocks = _listed(member(record, "message", "content")) if member(record, "type") == "assistant" else []
    return only_thinking([_kind(block) for block in blocks])


def only_thinking(kinds: Sequence[str]) -> bool:
    """Return True if these are the kinds of an answer's blocks that hold thinking and nothing else."""
    return bool(kinds) and _ASSISTANT_BLOCKS.issuperset(kinds)


def says_full(record: dict[str, Any]) -> bool:
    """Return True if a record is an API error that reports a full context."""
    if record.get("isApiErrorMessage") is not True:
        return False
    texts = (block.get("text") for block in _listed(member(record, "message", "content")) if _kind(block) == "text")
    return any(isinstance(text, str) and FULL.search(text) for text in (record.get("errorDetails"), *texts))


def response_of(record: dict[str, Any]) -> str | None:
    """Return the id of the API message to which an assistant record belongs, or None."""
    if RESPONSE in record:
        return filled_text(record[RESPONSE])
    return message_id(record)


def message_id(record: dict[str, Any]) -> str | None:
    """Return the id of the answer whose line an assistant record is, as Claude Code reads it, or None."""
    return filled_text(member(record, "message", "id")) if record.get("type") == "assistant" else None


def made_results(record: dict[str, Any]) -> tuple[str, ...]:
    """Return the calls to which a record that was made up gives results."""
    blocks = _listed(member(record, "message", "content")) if record.get(MADE_UP) is True else []
    return tuple(filter(None, (filled_text(member(block, "tool_use_id")) for block in blocks)))


def _read_told(record: Data) -> RecordMessages:
    """Return the messages of a queued prompt, or what another attachment or a local command told the model."""
    attached = record.get("attachment")
    prompt = queued.queued_prompt(attached) if isinstance(attached, dict) else None
    if isinstance(attached, dict) and prompt is not None:
        reading = _read_user([{"type": "text", "text": prompt}] if isinstance(prompt, str) else _listed(prompt))
        texts = [part for part in reading.parts if isinstance(part, TextMessage)]
        if len(texts) < len(reading.parts):
            return NOTHING
        about = {name: value for name, value in attached.items() if name != "prompt"}
        parts = [TextMessage("user", part.text, {**(part.data or {}), "attachment": about}) for part in texts]
        return RecordMessages(tuple(parts), reading.complete)
    found = told(record)
    if not found:
        return NOTHING
    if record["type"] == "system":
        return RecordMessages(tuple(TextMessage("client", text) for text in found), complete=True)
    left = kept(record, found)
    parts = [TextMessage("client", text, {"told": left}) for text in found]
    return RecordMessages(tuple(parts), complete="attachment" in left)


def _read_user(blocks: list[Any], speaker: str = "user") -> RecordMessages:
    parts: list[Part] = []
    attached = []
    complete = True
    for block in blocks:
        kind = _kind(block)
        text = block if isinstance(block, str) else block.get("text") if kind == "text" else None
        if isinstance(text, str):
            parts.append(TextMessage("client" if INJECTED.match(text) else speaker, text))
        elif kind == "tool_result" and filled_text(block.get("tool_use_id")):
            content = block.get("content")
            text, others = _read_result(content)
            data: Data | None = {"blocks": others} if others else None
            failed, plain = block.get("is_error") is True, isinstance(content, str)
            parts.append(ResultMessage(block["tool_use_id"], text, failed, data, plain))
        elif kind in _USER_BLOCKS:
            attached.append(block)
        else:
            complete = False
    if attached:
        first = next((part for part in parts if isinstance(part, TextMessage) and part.kind == speaker), None)
        at = parts.index(first) if first else len(parts)
        parts[at : at + 1] = [TextMessage(speaker, first.text if first else "", {"blocks": attached})]
    return RecordMessages(tuple(parts), complete and bool(parts))


def _read_assistant(content: list[Any], response: str | None) -> RecordMessages:
    parts: list[Part] = []
    complete = True
    data: Data = {} if response is None else {"response": response}
    for block in content:
        kind = _kind(block)
        if kind == "text" and isinstance(block.get("text"), str):
            parts.append(TextMessage("assistant", block["text"], data or None))
        elif kind == "tool_use" and filled_text(block.get("id")) and filled_text(block.get("name")):
            parts.append(CallMessage(block["id"], block["name"], block.get("input", {}), data or None))
        elif kind in _ASSISTANT_BLOCKS:
            parts.append(TextMessage("assistant", "", {**data, "blocks": [{**block, IMPORTED: True}]}))
        elif kind.endswith(_SERVER_TOOLS):
            parts.append(TextMessage("assistant", "", {**data, "blocks": [block]}))
        else:
            complete = False
    return RecordMessages(tuple(parts), complete and bool(parts))


def _read_result(content: Any) -> tuple[str, list[Any]]:
    """Return the texts of a tool's result, joined by line feeds, and all other blocks unchanged."""
    if content is None:
        return "", []
    texts, others = [], []
    for item in content if isinstance(content, list) else [content]:
        if isinstance(item, str):
            texts.append(item)
        elif _kind(item) == "text" and isinstance(item.get("text"), str):
            texts.append(item["text"])
        else:
            others.append(item)
    return "\n".join(texts), others


def _kind(block: Any) -> str:
    return (filled_text(block.get("type")) if isinstance(block, dict) else None) or ""


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
