"""What a record of a Codex rollout says, as messages [SPEC 8].

Messages are what the model reads: the items of `response_item` records, and a compaction's summary. What `event_msg`
records repeat of them is for the display. Where the format leaves a choice:

- Instructions to the model (messages of the developer or the system) are Codex's own, and no part of a conversation.
- What a tool put out stays as it is, also where it is JSON or begins with an exit code: so the model read it.
- Images and PDF documents become blocks in Foldmark's own form; of reasoning only what goes back to the provider
  (encrypted) is a block.
- A custom tool's input, which is text, becomes `{"input": text}`.
"""

import re
from collections.abc import Iterator
from typing import Any

from foldmark.sessions.lenient_json import NotJsonError, decode, filled_text
from foldmark.sessions.messages import (
    NOTHING,
    CallMessage,
    Data,
    Part,
    RecordMessages,
    ResultMessage,
    SearchedMessage,
    TextMessage,
    arguments,
)

TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state")
"""Types of records that only a rollout has."""

INJECTED = ("<environment_context>", "<user_instructions>", "<turn_aborted>", "# AGENTS.md instructions")
"""Prefixes of user messages that Codex itself inserts."""

CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
"""The types of items that call a tool, and the member that holds what it is given."""

OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")

_SEARCHED = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_DATA_URL = re.compile(r"data:(image/[a-z+.-]{1,20});base64,(.*)", re.DOTALL)
_PDF = "data:application/pdf;base64,"
_ROLES = {"user": "user", "assistant": "assistant"}


def is_codex(record: Any) -> bool:
    """Whether a record is one of a Codex rollout."""
    return isinstance(record, dict) and record.get("type") in TYPES and isinstance(record.get("payload"), dict)


def read_item(record: Any) -> RecordMessages:
    """The messages of a record; `NOTHING` for what is none, or not usable."""
    if not is_codex(record):
        return NOTHING
    payload = record["payload"]
    if record["type"] == "compacted":
        text = summary_of(payload)
        return RecordMessages((TextMessage("user", text),), complete=True) if text is not None else NOTHING
    if record["type"] != "response_item":
        return NOTHING
    kind = filled_text(payload.get("type"))
    if kind == "message":
        return _message(payload)
    if kind == "reasoning":
        return _reasoning(payload)
    if kind in CALLS:
        return _call(payload)
    if kind in OUTPUTS:
        return _output(payload)
    return NOTHING


def searched_item(record: Data) -> Iterator[SearchedMessage]:
    """Yield what is searched of a record, thinking and searches of the web too, and of the output only its text.

    The first versions wrote items as they are, later ones wrap them.
    """
    item = record.get("payload") if record.get("type") in ("response_item", "compacted") else record
    if not isinstance(item, dict):
        return
    kind, role, call = filled_text(item.get("type")), item.get("role"), filled_text(item.get("call_id"))
    if record.get("type") == "compacted":
        yield SearchedMessage("assistant", _searched(item.get("message")))
    elif kind == "message" and role in ("user", "assistant"):
        yield SearchedMessage(role, _searched(item.get("content")))
    elif kind == "reasoning":
        texts = filter(None, (_searched(item.get("summary")), _searched(item.get("content"))))
        yield SearchedMessage("thinking", "\n".join(texts))
    elif kind in CALLS:
        tool = filled_text(item.get("name")) or ("shell" if kind == "local_shell_call" else None)
        yield SearchedMessage("tool_call", arguments(_unpacked(item.get(CALLS[kind]))), tool, call)
    elif kind == "web_search_call":
        yield SearchedMessage("tool_call", arguments(item.get("action")), "web_search", call)
    elif kind in OUTPUTS:
        yield SearchedMessage("tool_result", _searched_output(item.get("output")), None, call)


def _searched_output(value: Any) -> str:
    """Return the text of a tool's output, which older versions wrote as JSON within a text."""
    inner = _unpacked(value)
    if isinstance(inner, dict) and isinstance(inner.get("output"), str):
        return str(inner["output"])
    if isinstance(value, dict):
        value = value.get("content") or value.get("output")
    return _searched(value)


def _searched(value: Any) -> str:
    """Return a text, or the texts of a list of blocks."""
    if isinstance(value, str):
        return value
    texts = []
    for block in value if isinstance(value, list) else ():
        if isinstance(block, dict) and block.get("type") in _SEARCHED:
            block = block.get("text")
        if isinstance(block, str):
            texts.append(block)
    return "\n".join(texts)


def _unpacked(value: Any) -> Any:
    """Return what a text holds that is a JSON object; otherwise the value itself."""
    return _parsed(value) if isinstance(value, str) and value.startswith("{") else value


def is_injected(text: str) -> bool:
    """Return True for a text that Codex itself writes in a user's name."""
    return text.lstrip().startswith(INJECTED)


def summary_of(payload: Data) -> str | None:
    """The summary that a compaction puts in place of what was before; None where it cannot be read."""
    message = payload.get("message")
    return message if isinstance(message, str) and message.strip() else None


def said_by(item: Any) -> list[str]:
    """The texts of a message of a user or the model."""
    reading = _message(item) if isinstance(item, dict) and item.get("type") == "message" else NOTHING
    return [part.text for part in reading.parts if isinstance(part, TextMessage)]


def _message(payload: Data) -> RecordMessages:
    role = payload.get("role")
    kind = _ROLES.get(role) if isinstance(role, str) else None
    content = payload.get("content")
    if kind is None or not isinstance(content, str | list):
        return NOTHING
    texts, others, complete = _contents([content] if isinstance(content, str) else content)
    parts: list[Part] = [TextMessage(kind, text) for text in texts]
    if others:
        first = texts[0] if texts else ""
        parts[:1] = [TextMessage(kind, first, {"blocks": others})]
    return RecordMessages(tuple(parts), complete and bool(parts))


def _reasoning(payload: Data) -> RecordMessages:
    encrypted, summary = payload.get("encrypted_content"), payload.get("summary")
    if not isinstance(encrypted, str) or not encrypted.strip():
        return NOTHING
    block = {
        "type": "reasoning",
        "summary": summary if isinstance(summary, list) else [],
        "encrypted_content": encrypted,
    }
    return RecordMessages((TextMessage("assistant", "", {"blocks": [block]}),), complete=True)


def _call(payload: Data) -> RecordMessages:
    kind, call_id, name = payload["type"], payload.get("call_id"), payload.get("name")
    arguments: Any
    if kind == "local_shell_call":
        name, arguments = "local_shell", payload.get("action")
    elif kind == "custom_tool_call":
        arguments = {"input": payload.get("input")}
    else:
        arguments = payload.get("arguments")
        if isinstance(arguments, str):
            arguments = _parsed(arguments)
    if not isinstance(call_id, str) or not isinstance(name, str) or not call_id or not name:
        return NOTHING
    space = payload.get("namespace")
    full = f"{space}__{name}" if isinstance(space, str) and space else name
    return RecordMessages((CallMessage(call_id, full, arguments),), complete=True)


def _parsed(text: str) -> Any:
    try:
        return decode(text.encode("utf-8", "replace"))
    except NotJsonError:
        return text


def _output(payload: Data) -> RecordMessages:
    call_id, output = payload.get("call_id"), payload.get("output")
    if not isinstance(call_id, str) or not call_id:
        return NOTHING
    failed = False
    if isinstance(output, dict):
        failed, output = output.get("success") is False, output.get("content")
    if not isinstance(output, str | list):
        return NOTHING
    texts, others, complete = _contents([output] if isinstance(output, str) else output)
    data = {"blocks": others} if others else None
    return RecordMessages((ResultMessage(call_id, "\n".join(texts), failed, data),), complete)


def _contents(items: list[Any]) -> tuple[list[str], list[Any], bool]:
    """Texts, images and documents as blocks, and whether that is all."""
    texts, others, complete = [], [], True
    for item in items:
        if isinstance(item, str):
            texts.append(item)
        elif not isinstance(item, dict):
            complete = False
        elif item.get("type") in ("input_text", "output_text", "text") and isinstance(item.get("text"), str):
            texts.append(item["text"])
        elif item.get("type") == "input_image" and (image := _image(item.get("image_url"))):
            others.append(image)
        elif item.get("type") == "input_file" and (document := _document(item)):
            others.append(document)
        else:
            complete = False
    return texts, others, complete


def _document(item: Data) -> Data | None:
    data, name = item.get("file_data"), item.get("filename")
    if not isinstance(data, str) or not data.startswith(_PDF):
        return None
    source = {"type": "base64", "media_type": "application/pdf", "data": data.removeprefix(_PDF)}
    return {"type": "document", "source": source, **({"title": name} if isinstance(name, str) and name else {})}


def _image(url: Any) -> Data | None:
    if not isinstance(url, str):
        return None
    inside = _DATA_URL.fullmatch(url)
    if inside is None:
        return {"type": "image", "source": {"type": "url", "url": url}} if url.startswith("https://") else None
    return {"type": "image", "source": {"type": "base64", "media_type": inside[1], "data": inside[2]}}
