"""Items of OpenAI's Responses API: what they say, their keys, and items made anew [SPEC 5.7, 8]. Pure.

The one place that knows an item. Imports of rollouts, the gateway, the OpenAI Agents SDK, trim and doctor ask here, so
an item means the same to all of them:

- A tool that somebody else than the provider runs has its result in an item of its own: the first is a call, the second
  a result. So it is with a type that nobody knows yet, if it is named like these and has a `call_id`.
- A tool that the provider runs has both in one item. Only the provider reads it, so it goes back as it is, in a block.
- Thinking goes back only if it is sealed, and then without its id: the API would look the id up among stored items.
- Images and PDF documents become blocks in Foldmark's own form. A refusal is a text.
- Any other item, and one that the API itself would refuse, says nothing. Its reader keeps it whole.

The API refuses a call without its result, a result without its call, and thinking without the item after it.
Source: the OpenAPI description of OpenAI, and what Codex sends.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from foldmark.core.assembly.eviction import OPAQUE
from foldmark.core.assembly.eviction import RESPONSES as READER
from foldmark.core.assembly.media import PDF, Document, Medium, image_at, media_of
from foldmark.core.events import Event
from foldmark.core.request import block_in, carry
from foldmark.wires.lenient_json import arguments, as_text, filled_text, objects_in
from foldmark.wires.parts import SEALED, CallMessage, Data, Part, Reading, ResultMessage, TextMessage, text_parts

Item = Mapping[str, Any]


class Called(NamedTuple):
    """What a type of call has: the member with the arguments, the type of the item with its result, and its member."""

    given: str
    result: str
    answer: str = "output"


MESSAGE, THINKING, COMPACTION, FROM_AGENT = "message", "reasoning", "compaction", "agent_message"
FUNCTION, FUNCTION_OUTPUT, CUSTOM = "function_call", "function_call_output", "custom_tool_call"

CALLS: Mapping[str, Called] = {
    FUNCTION: Called("arguments", FUNCTION_OUTPUT),
    CUSTOM: Called("input", "custom_tool_call_output"),
    "local_shell_call": Called("action", "local_shell_call_output"),
    "shell_call": Called("action", "shell_call_output"),
    "apply_patch_call": Called("operation", "apply_patch_call_output"),
    "computer_call": Called("action", "computer_call_output"),
    "tool_search_call": Called("arguments", "tool_search_output", "tools"),
    "program": Called("code", "program_output"),
    "mcp_approval_request": Called("arguments", "mcp_approval_response", "approve"),
}
"""The types of calls whose result is a separate item, and what each has."""

RESULTS: Mapping[str, str] = {called.result: kind for kind, called in CALLS.items()}
"""The types of items with results, and of their calls."""

PICTURE = "image_generation_call"
HOSTED = ("web_search_call", "file_search_call", "code_interpreter_call", "mcp_call", PICTURE)
"""Calls of tools that the provider runs: the result is in the same item."""

WORDED = (FUNCTION_OUTPUT, CALLS[CUSTOM].result)
"""The types of results that may hold any text."""

INPUT_TEXT, OUTPUT_TEXT, INPUT_IMAGE = "input_text", "output_text", "input_image"
TEXTS = (INPUT_TEXT, OUTPUT_TEXT, "text")
"""The types of parts with a text in a message or a result."""

PASSING = ("id", "status", "metadata", "internal_chat_message_metadata_passthrough")
"""Members that no model reads. They differ between an answer and its echo, or between requests."""

KEPT = "item"
"""The member of a recorded call or result that holds those members of its item that its text does not say."""

_IDS = {
    "mcp_approval_request": "id",
    "mcp_approval_response": "approval_request_id",
    "local_shell_call": "id",
    "local_shell_call_output": "id",
}
"""The member with the id that a call and its result share, of types that may lack a `call_id`."""

_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_MADE = (THINKING, COMPACTION, "context_compaction")
_FAILED = ("failed", "incomplete")
_ANSWERS = ("output", "outputs", "result", "results", "tools", "error")
_PDF = f"data:{PDF};base64,"


# What an item is


def kind_of(item: Item) -> str:
    """Return the type of an item, empty if it names none; a message may come without one."""
    kind = item.get("type")
    return as_text(kind) if kind is not None else MESSAGE if "role" in item else ""


def is_call(kind: str) -> bool:
    """Return True for a type of a call, whoever runs the tool."""
    return kind in CALLS or kind.endswith("_call")


def is_result(kind: str) -> bool:
    """Return True for a type of a separate item with the result of a call."""
    return kind in RESULTS or kind.endswith("_output")


def is_paired(kind: str) -> bool:
    """Return True for a known type of a call whose result is a separate item, or of such a result."""
    return kind in CALLS or kind in RESULTS


def is_made(item: Item) -> bool:
    """Return True for an item from a model: its thinking, its text or its calls."""
    kind = kind_of(item)
    return kind in _MADE or is_call(kind) or (kind == MESSAGE and item.get("role") == "assistant")


def is_output(item: Item) -> bool:
    """Return True for the result of a call."""
    return is_result(kind_of(item))


def is_thinking(item: Item) -> bool:
    """Return True for a model's thinking. The API accepts it only together with the item after it."""
    return kind_of(item) == THINKING


def speaker(item: Item) -> str:
    """Return the kind of message that an item is: user, assistant or system; assistant for anything but a message."""
    return _ROLES.get(as_text(item.get("role")), "assistant") if kind_of(item) == MESSAGE else "assistant"


def call_of(item: Item) -> str | None:
    """Return the id that a call and its result share; None if an item names none."""
    found = item.get("call_id")
    return found if isinstance(found, str) and found else filled_text(item.get(_IDS.get(kind_of(item), "")))


def tool_of(item: Item) -> str:
    """Return the name of a call's tool: the one that it gives, otherwise that of its type."""
    name, space = filled_text(item.get("name")), filled_text(item.get("namespace"))
    if name is None:
        return kind_of(item).removesuffix("_call")
    return name if space is None else f"{space}__{name}"


def args_of(item: Item) -> Any:
    """Return the arguments of a call: a text that is JSON decoded, and an empty object for none; the text of a custom
    tool in an object; of a type that nobody knows, and of a tool that the provider runs, all members but its
    results."""
    kind = kind_of(item)
    if kind == CUSTOM:
        return {"input": item.get("input")}
    given = CALLS[kind].given if kind in CALLS else "arguments"
    if kind not in CALLS and given not in item:
        return {name: each for name, each in _rest(item).items() if name not in ("type", "name", *_ANSWERS)}
    value = item.get(given)
    return value if kind == "program" else arguments(value)


# What it says


NOTHING = Reading((), complete=False)


class Contents(NamedTuple):
    """The texts of a content, its images and documents as blocks, and whether that is everything."""

    texts: list[str]
    media: list[Data]
    complete: bool


def read(item: Item) -> Reading:
    """Return the messages of an item; `NOTHING` if it says nothing. A user's message has one for each text."""
    kind = kind_of(item)
    if kind == MESSAGE:
        return _message(item)
    if kind == FROM_AGENT:  # in place of a prompt
        return Reading((TextMessage("user", said(item), {"blocks": [carried(item)]}),))
    if kind == THINKING:
        block = thinking(item)
        return Reading((TextMessage("assistant", "", {"blocks": [block]}),)) if block else NOTHING
    return _call(item, kind) if is_call(kind) else _result(item, kind) if is_result(kind) else NOTHING


def contents(value: Any) -> Contents:
    """Return what the content of a message or a result says: a text, a part, or a list of both."""
    texts, media, complete = list[str](), list[Data](), True
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, str):
            texts.append(part)
        elif not isinstance(part, dict):
            complete = False
        elif isinstance(text := part.get("text", part.get("refusal")), str):
            texts.append(text)
        elif medium := image_at(part.get("image_url")) or document(part):
            media.append(medium)
        else:
            complete = False
    return Contents(texts, media, complete)


def said(item: Item) -> str:
    """Return the text of a message."""
    return "".join(contents(item.get("content")).texts)


def thinking(item: Item) -> Data | None:
    """Return an item of thinking in the form in which the API accepts it back; None for anything else, and without a
    sealed part."""
    sealed = item.get(SEALED)
    if item.get("type") != THINKING or not as_text(sealed).strip():
        return None
    texts = [part.get("text") for part in objects_in(item.get("summary"))]
    summary = [{"type": "summary_text", "text": each} for each in texts if isinstance(each, str)]
    return {"type": THINKING, "summary": summary, SEALED: sealed}


def carried(item: Item) -> Data:
    """Return the block that holds an item, or a part of one, for the provider alone. It wants the id back."""
    return carry({name: value for name, value in item.items() if name not in PASSING[2:]}, 0, READER).block


def _message(item: Item) -> Reading:
    kind, found = _ROLES.get(as_text(item.get("role"))), contents(item.get("content"))
    if kind is None or not (found.texts or found.media):
        return NOTHING
    texts, blocks, complete = found
    if kind == "assistant":
        texts, phase = ["".join(texts)], filled_text(item.get("phase"))
        complete, blocks = complete and not blocks, [{"type": "phase", "phase": phase}] if phase else []
    first = TextMessage(kind, texts[0] if texts else "", {"blocks": blocks} if blocks else None)
    return Reading((first, *[TextMessage(kind, text) for text in texts[1:]]), complete)


def _call(item: Item, kind: str) -> Reading:
    call_id = call_of(item)
    if kind in (FUNCTION, CUSTOM):
        if call_id is None or not filled_text(item.get("name")):
            return NOTHING
    elif call_id is None or kind in HOSTED:  # the provider has run it
        return Reading((TextMessage("assistant", "", {"blocks": [carried(item)]}),))
    return Reading((CallMessage(call_id, tool_of(item), args_of(item)),))


def _result(item: Item, kind: str) -> Reading:
    call_id, value, failed = call_of(item), _answer(item, kind), item.get("status") in _FAILED
    if isinstance(value, dict) and "content" in value:  # of early versions of Codex
        failed, value = failed or value.get("success") is False, value["content"]
    if call_id is None or not isinstance(value, str | list | dict):
        return NOTHING
    texts, media, complete = contents(value)
    if value and not texts and not media:
        texts, complete = [as_json(value)], True
    data = {"blocks": media} if media else None
    return Reading((ResultMessage(call_id, "\n".join(texts), failed, data),), complete)


def _answer(item: Item, kind: str) -> Any:
    """Return what a result answers, in words if it approves a call."""
    if kind == "mcp_approval_response":
        answer = "Approved." if item.get("approve") is True else "Refused."
        return f"{answer} {as_text(item.get('reason'))}".rstrip()
    if kind in RESULTS:
        return item.get(CALLS[RESULTS[kind]].answer)
    return item.get("output", _rest(item))


def document(part: Data) -> Data | None:
    """Return the PDF document in a file as a block; None for any other file."""
    data, name = part.get("file_data"), part.get("filename")
    if not isinstance(data, str) or not data.startswith(_PDF):
        return None
    source = {"type": "base64", "media_type": PDF, "data": data.removeprefix(_PDF)}
    return {"type": "document", "source": source, **({"title": name} if filled_text(name) else {})}


def as_json(value: Any) -> str:
    """Return a value as JSON text, or in Python's notation if it is not JSON."""
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return str(value)


# Keys


def meaning(item: Item) -> list[Any]:
    """Return what the model reads of an item, the same for an answer and its echo; empty for a message without text."""
    kind = kind_of(item)
    if kind == MESSAGE:
        text = said(item).strip()
        return [kind, item.get("role"), text] if text else []
    if kind in _MADE and as_text(item.get(SEALED)):
        return [kind, item.get(SEALED)]
    return [kind, {name: value for name, value in item.items() if name not in PASSING and value is not None}]


# Items in the log of a client, and made of it again


def recorded(item: Item) -> Part | None:
    """Return the message of an item from a model or a tool as the log records it, from which
    `items_for` makes the item again; None for any other item.

    An item that says nothing is an empty message, so that it can leave with its turn.
    """
    parts = read(item).parts
    part, kind = parts[0] if parts else None, kind_of(item)
    if part is None:
        text = OPAQUE if kind.endswith("compaction") else ""
        is_placed = is_made(item) or is_output(item)
        return TextMessage("assistant", text, {"blocks": [carried(item)]}) if is_placed else None
    if isinstance(part, TextMessage):
        return part
    rest, answer = _rest(item), CALLS[RESULTS[kind]].answer if kind in RESULTS else ""
    if not filled_text(item.get("call_id")):
        rest[_IDS[kind]] = part.call_id
    if kind in CALLS:
        rest.pop(CALLS[kind].given, None)
    elif kind in WORDED or isinstance(item.get(answer), str):
        del rest[answer]
    usual = {"type": FUNCTION, "name": part.name} if isinstance(part, CallMessage) else {"type": FUNCTION_OUTPUT}
    more = {} if rest == usual else {KEPT: rest}
    return replace(part, data={**(part.data or {}), **more} or None)


def items_for(event: Event) -> list[Data]:
    """Return a recorded message as items, without its thinking."""
    data = event.data or {}
    about = data.get(KEPT)
    kept: Data = dict(about) if isinstance(about, dict) else {}
    kind = as_text(kept.get("type"))
    call = {} if _IDS.get(kind) in kept else {"call_id": event.call_id or ""}
    if event.kind == "tool_call":
        kind = kind or FUNCTION
        if kind not in CALLS:
            return [{**kept, **call}]
        value: Any = msgspec.json.decode(event.content)
        if kind == CUSTOM:
            value = value.get("input") if isinstance(value, dict) else value
        elif kind in (FUNCTION, "mcp_approval_request") and not isinstance(value, str):
            value = event.content
        named = {"name": data.get("name")} if kind in (FUNCTION, CUSTOM) else {}
        named |= {"status": "completed"} if kind == "local_shell_call" else {}
        return [{"type": kind, **named, **kept, **call, CALLS[kind].given: value}]
    if event.kind == "tool_result":
        kind = kind or FUNCTION_OUTPUT
        answer = CALLS[RESULTS[kind]].answer if kind in RESULTS else ""
        if not answer or answer in kept:
            return [{**kept, **call}]
        output = content(event.content, media_of(data)[0]) if answer == "output" else msgspec.json.decode(event.content)
        return [{"type": kind, **kept, **call, answer: output}]
    return _said_again(event)


def _said_again(event: Event) -> list[Data]:
    blocks = objects_in((event.data or {}).get("blocks"))
    held = [item for block in blocks if (item := block_in(block, READER)) is not None]
    whole = [item for item in held if is_made(item) or kind_of(item) == FROM_AGENT]
    if whole:
        return [item for item in whole if not is_thinking(item)]
    if event.kind in ("assistant", "summary"):
        phase = next(({"phase": block["phase"]} for block in blocks if block.get("type") == "phase"), {})
        return [{**answered(event.content), **phase}] if event.content.strip() else []
    parts = [*content_parts(event.content, media_of(event.data)[0]), *held]
    return [{"type": MESSAGE, "role": "user", "content": parts}] if parts else []


# Items made anew


def text_part(text: str) -> Data:
    """Return a text as a part of a message or a result."""
    return {"type": INPUT_TEXT, "text": text}


def image_part(url: str) -> Data:
    """Return the image at a URL, or in a data URL, as a part."""
    return {"type": INPUT_IMAGE, "image_url": url, "detail": "auto"}


def file_part(file: Data) -> Data:
    """Return a document (`media.Document.file`) as a part."""
    return {"type": "input_file", **file}


def content_parts(text: str, media: Iterable[Medium], *, documents: bool = True) -> list[Data]:
    """Return a text, images and documents as the parts of a message or a result. Without `documents`, a note replaces
    each document."""
    parts = text_parts(text, INPUT_TEXT)
    for each in media:
        if isinstance(each, Document):
            parts.append(file_part(each.file) if documents else text_part(each.note))
        else:
            parts.append(image_part(each.data_url))
    return parts


def content(text: str, media: Sequence[Medium], *, documents: bool = True) -> str | list[Data]:
    """Return the content of a message or a result: `content_parts`, or the text alone if there are no `media`."""
    return content_parts(text, media, documents=documents) if media else text


def asked(text: str, role: str = "user") -> Data:
    """Return a message of the user, or of the developer, with this text."""
    return {"type": MESSAGE, "role": role, "content": [text_part(text)]}


def answered(text: str, **about: Any) -> Data:
    """Return a message of the model with this text; `about` are further members of its part."""
    return {"type": MESSAGE, "role": "assistant", "content": [{"type": OUTPUT_TEXT, "text": text, **about}]}


def called(call_id: str | None, name: str, arguments: str) -> Data:
    """Return a call of a function; `arguments` are JSON text."""
    return {"type": FUNCTION, "call_id": call_id, "name": name, "arguments": arguments}


def result(call_id: str | None, output: Any) -> Data:
    """Return the result of a function call. `output` is a text or a list of parts."""
    return {"type": FUNCTION_OUTPUT, "call_id": call_id, "output": output}


def _rest(item: Item) -> Data:
    return {name: value for name, value in item.items() if name not in (*PASSING, "call_id")}
