"""Messages of OpenAI's Chat Completions and their parts: what they say, and how they are made [SPEC 5.7, 8]. Pure.

The gateway, Foldmark's own requests, the offline model and the counters of tokens ask here, so that a message means the
same to all of them.

Read: a refusal is a text. Arguments that are not JSON stay text; a custom call has its text in an object. Images and
PDF documents become blocks in Foldmark's own form; any other part, such as audio, is kept whole in a block.

Made: the result of a tool has images and documents only if its client sent them there, because OpenAI's own models
accept only text in a tool message.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from foldmark.core.assembly.media import Document, Medium, image_at, media_of
from foldmark.core.events import Event
from foldmark.core.request import block_in, carry
from foldmark.wires import responses
from foldmark.wires.lenient_json import arguments, as_object, as_text, objects_in
from foldmark.wires.parts import CallMessage, Data, ResultMessage, TextMessage, text_parts

CALLS, ANSWERED = "tool_calls", "tool_call_id"
FUNCTION, CUSTOM = "function", "custom"
READER = "openai"

REASONING = ("reasoning_content", "reasoning")
"""Fields of a model's thinking: DeepSeek and many others use the first; vLLM, Ollama and OpenRouter use the second."""

_DETAILS = "reasoning_details"


# Read


def calls_of(message: Mapping[str, Any]) -> list[Data]:
    """Return the calls of a message."""
    return objects_in(message.get(CALLS))


def is_call(part: Mapping[str, Any]) -> bool:
    """Return True for a call."""
    return isinstance(part.get(FUNCTION), dict) or isinstance(part.get(CUSTOM), dict)


def read_call(call: Mapping[str, Any]) -> CallMessage:
    """Return what a call says; its id and its name are empty if it has none."""
    piece, call_id = piece_of(call), as_text(call.get("id"))
    if piece["type"] == CUSTOM:
        return CallMessage(call_id, piece["name"], {"input": piece["arguments"]}, {CUSTOM: True})
    return CallMessage(call_id, piece["name"], arguments(piece["arguments"]))


def piece_of(call: Mapping[str, Any]) -> dict[str, str]:
    """Return the `type`, the `name` and the `arguments` of a call, or of a piece of a streamed one, as texts."""
    custom = as_object(call.get(CUSTOM))
    found = custom or as_object(call.get(FUNCTION))
    raw = found.get("input" if custom else "arguments")
    text = raw if isinstance(raw, str) else "" if raw is None else responses.as_json(raw)
    return {"type": CUSTOM if custom else FUNCTION, "name": as_text(found.get("name")), "arguments": text}


def text_in(part: Mapping[str, Any]) -> str | None:
    """Return the text of a part, which may be a refusal; None for any other part."""
    kind = part.get("type", "text")
    text = part.get("refusal") if kind == "refusal" else part.get("text") if kind in responses.TEXTS else None
    return text if isinstance(text, str) else None


def text_of(content: Any) -> str:
    """Return the text of a content, which is a string or a list of parts."""
    return as_text(content) or "".join(text_in(part) or "" for part in objects_in(content))


def answered(part: Mapping[str, Any]) -> CallMessage | TextMessage | None:
    """Return what a part or a call of an answer says; None for a blank text and any other part."""
    if is_call(part):
        return read_call(part)
    text = text_in(part) or ""
    return TextMessage("assistant", text) if text.strip() else None


def given(part: Mapping[str, Any]) -> TextMessage | None:
    """Return what a part of a user's message says; None for a blank text and an empty part."""
    if (text := text_in(part)) is not None:
        return TextMessage("user", text) if text.strip() else None
    return TextMessage("user", "", {"blocks": [_attached(part)]}) if part else None


def call_of(message: Mapping[str, Any]) -> str | None:
    """Return the id of the call that a tool message answers; None for any other message."""
    return as_text(message.get(ANSWERED)) if message.get("role") == "tool" else None


def read_result(message: Mapping[str, Any]) -> ResultMessage:
    """Return what a tool message says."""
    content = message.get("content")
    blocks = [_attached(part) for part in objects_in(content) if text_in(part) is None]
    data = {"blocks": blocks} if blocks else None
    return ResultMessage(as_text(message.get(ANSWERED)), text_of(content), data=data)


def kept_of(message: Mapping[str, Any]) -> list[Data]:
    """Return the fields of an answer that its server wants back, as blocks: thinking, and annotations of the text. The
    details of thinking contain its text and opaque parts."""
    notes, details = message.get("annotations"), objects_in(message.get(_DETAILS))
    noted = [{"type": "annotations", "annotations": notes}] if isinstance(notes, list) and notes else []
    if details:
        return [{"type": _DETAILS, "details": details}, *noted]
    field = next((each for each in REASONING if as_text(message.get(each))), None)
    if field is None:
        return noted
    other = {} if field == REASONING[0] else {"field": field}
    return [{"type": REASONING[0], "text": message[field], **other}, *noted]


def kept_fields(blocks: Iterable[Data]) -> Data:
    """Return kept blocks as fields of an answer again."""
    found: Data = {}
    for block in blocks:
        kind, field = block.get("type"), block.get("field")
        if kind == REASONING[0] and as_text(block.get("text")):
            found[field if field in REASONING else REASONING[0]] = block["text"]
        elif kind == _DETAILS and (details := objects_in(block.get("details"))):
            found[_DETAILS] = details
        elif kind == "annotations" and isinstance(block.get("annotations"), list):
            found["annotations"] = block["annotations"]
    return found


def _attached(part: Mapping[str, Any]) -> Data:
    """Return the block of an image or a document that every dialect can send; any other part is kept whole."""
    image, file = as_object(part.get("image_url")), as_object(part.get("file"))
    block = image_at(image.get("url")) or responses.document(file)
    return block if block and media_of({"blocks": [block]})[0] else carry(dict(part), 0, READER).block


# Keys


def meaning(parts: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return the text and the calls of an answer, without its thinking, which clients may leave out."""
    texts, calls = list[str](), list[Any]()
    for part in parts:
        if is_call(part):
            found = read_call(part)
            calls.append([found.call_id, found.name, found.args])
        else:
            texts.append(text_in(part) or "")
    return ["".join(texts).strip(), calls]


# Made


def media_parts(media: Iterable[Medium], *, documents: bool = True) -> list[Data]:
    """Return images and documents as the API accepts them; without `documents`, a note replaces each document."""
    found: list[Data] = []
    for each in media:
        if not isinstance(each, Document):
            found.append({"type": "image_url", "image_url": {"url": each.data_url}})
        else:
            found += [{"type": "file", "file": each.file}] if documents else text_parts(each.note)
    return found


def called(call_id: str, name: str, text: str, kind: str = FUNCTION) -> Data:
    """Return a call. `text` has its arguments as JSON; for a custom call it may be any text."""
    return {"id": call_id, "type": kind, kind: {"name": name, "input" if kind == CUSTOM else "arguments": text}}


def asked(content: str | list[Data], role: str = "user") -> Data:
    """Return a message of the user, or of the system."""
    return {"role": role, "content": content}


def answer(text: str | None, calls: list[Data]) -> Data:
    """Return a message of the model."""
    return {"role": "assistant", "content": text, **({CALLS: calls} if calls else {})}


def result(call_id: str, content: str | list[Data]) -> Data:
    """Return the result of a call."""
    return {"role": "tool", ANSWERED: call_id, "content": content}


def call_for(event: Event) -> Data:
    """Return a recorded call."""
    about, value = event.data or {}, msgspec.json.decode(event.content)
    call_id, name = event.call_id or "", as_text(about.get("name"))
    if about.get(CUSTOM):
        return called(call_id, name, as_text(as_object(value).get("input")), CUSTOM)
    # Arguments that were no JSON were recorded as a text.
    return called(call_id, name, value if isinstance(value, str) else event.content)


def messages_for(event: Event) -> list[Data]:
    """Return a recorded message as messages, without its thinking; empty if it says nothing."""
    if event.kind == "tool_call":
        return [answer(None, [call_for(event)])]
    if event.kind in ("assistant", "summary"):
        return [answer(event.content, [])] if event.content.strip() else []
    parts: list[Data] = []
    for block in objects_in((event.data or {}).get("blocks")):
        carried = block_in(block, READER)
        parts += [carried] if carried else media_parts(media_of({"blocks": [block]})[0])
    content = [*text_parts(event.content), *parts] if parts else event.content
    if event.kind == "tool_result":
        return [result(event.call_id or "", content)]
    return [asked(content)] if parts or event.content.strip() else []


def items_for(message: Data) -> list[Data]:
    """Return a message that Foldmark made, except for the system prompt, as items of the Responses API."""
    content = message.get("content")
    parts = [_item_part(part) for part in content] if isinstance(content, list) else content
    if message["role"] == "tool":
        return [responses.result(message[ANSWERED], parts)]
    calls = [responses.called(call["id"], **call[FUNCTION]) for call in calls_of(message)]
    return [*([{"role": message["role"], "content": parts}] if parts else []), *calls]


def _item_part(part: Data) -> Data:
    if part["type"] == "file":
        return responses.file_part(part["file"])
    return responses.image_part(part["image_url"]["url"]) if "image_url" in part else responses.text_part(part["text"])
