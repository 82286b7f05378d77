"""Messages of Pydantic AI as messages of a conversation: their content, and their form in events.

A request or a response holds parts. A part with text for a reader (a prompt, an answer, a call, a result, a summary of
earlier messages) is its own entry. Other parts (thinking, files, calls that the provider runs itself, changes of
instructions, unknown kinds) belong to a neighbouring entry: in a response to the next one, since thinking belongs to
the part that it led to, in a request to the previous one.

The data of an event holds the JSON of its parts under the key `pydantic_ai`, from which the identical message is
restored. The first event of a message also holds the rest of the message; the others name that event. The event's own
text is not stored twice (`repeated`), nor are the arguments of which it is the JSON. Fields with the default values of
their class are left out.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from pydantic_ai import messages as sdk

from foldmark.core import codec
from foldmark.core.assembly.eviction import OPAQUE, forms
from foldmark.core.events import Event
from foldmark.wires.lenient_json import as_object
from foldmark.wires.parts import SEALED, Data
from foldmark.wires.repeated import packed, unpacked

OMITTED = sdk.UserPromptPart("[Earlier conversation omitted.]", timestamp=datetime.fromtimestamp(0, UTC))
"""Precedes a context that does not begin with a request. It is recognized by its time and never recorded."""

NO_RESULT = {"foldmark": "no result"}
"""The metadata of a tool return that replaces a missing or hidden one. It is never recorded."""


class Entry(NamedTuple):
    """One message of a conversation, and the parts that it was made from.

    `at` are the indices of its parts in the message, and `time` is the time of the message. For a call, `text` is its
    arguments as JSON and `args` the same as a value. A prompt comes from a `person`; a retry prompt of Pydantic AI
    itself comes from the system. `standing` marks the system prompt that an agent begins with.
    """

    kind: str
    text: str
    at: tuple[int, ...]
    time: datetime | None = None
    call_id: str = ""
    name: str = ""
    args: Any = None
    failed: bool = False
    person: bool = False
    standing: bool = False


def split(message: sdk.ModelMessage, *, opens: bool) -> list[Entry]:
    """Return the entries of a message in order; none for parts that Foldmark has added, or an empty message left by an
    interrupted run.

    `opens` is True for the first request of a history, which holds the agent's own system prompt.
    """
    request, time = isinstance(message, sdk.ModelRequest), message.timestamp
    standing = len(standing_prompt(message)) if opens else 0
    found: list[Entry] = []
    silent: list[int] = []
    own = 0
    for index, part in enumerate(message.parts):
        if _is_own(part):
            own += 1
            continue
        entry = _said(part, index, time, standing=index < standing, request=request)
        if entry is None and request and found and not found[-1].standing:
            found[-1] = found[-1]._replace(at=(*found[-1].at, index))
        elif entry is None:
            silent.append(index)
        elif entry.standing:
            found.append(entry)
        else:
            found.append(entry._replace(at=(*silent, *entry.at)))
            silent = []
    body = [entry for entry in found if not entry.standing]
    left_empty = isinstance(message, sdk.ModelRequest) and message.state == "interrupted" and not message.parts
    if silent and body:
        found[-1] = found[-1]._replace(at=(*found[-1].at, *silent))
    elif not body and not (own and not silent) and not left_empty:
        found.append(Entry("user" if request else "assistant", "", tuple(silent), time=time))
    return found


def standing_prompt(message: sdk.ModelMessage) -> list[sdk.SystemPromptPart]:
    """Return the system prompt that a request begins with."""
    found: list[sdk.SystemPromptPart] = []
    for part in message.parts:
        if not isinstance(part, sdk.SystemPromptPart) or part.scope == "request" or part.context_id is not None:
            break
        found.append(part)
    return found


def _said(part: Any, index: int, time: datetime | None, *, standing: bool, request: bool) -> Entry | None:
    match part:
        case sdk.SystemPromptPart():
            return Entry("system", part.content, (index,), part.timestamp, standing=standing)
        case sdk.UserPromptPart():
            return Entry("user", prompt_text(part.content), (index,), part.timestamp, person=True)
        case sdk.ToolReturnPart():
            failed = part.outcome in ("failed", "retried")
            return _result(part, _readable(part), index, failed=failed)
        case sdk.RetryPromptPart() if part.tool_name is not None:
            return _result(part, part.model_response(), index, failed=True)
        case sdk.RetryFeedbackPart() | sdk.RetryPromptPart():
            return Entry("user", part.model_response(), (index,), part.timestamp)
        case sdk.CompactionPart() if _stands_for_something(part, request=request):
            return Entry("summary", part.content or OPAQUE, (index,), time)
        case sdk.TextPart():
            return Entry("assistant", part.content, (index,), time)
        case sdk.SpeechPart():
            return Entry("assistant", str(part.transcript or ""), (index,), time)
        case sdk.ToolCallPart():
            args, text = _arguments(part.args)
            return Entry("tool_call", text, (index,), time, part.tool_call_id, part.tool_name, args)
        case _:
            return None


def _stands_for_something(part: sdk.CompactionPart, *, request: bool) -> bool:
    """Return True if a compaction can be read. One in a response is for its provider; one without content has
    failed."""
    opaque = (part.provider_details or {}).get(SEALED)
    return bool(part.content or opaque) and (request or part.provider_name is not None)


def _readable(part: sdk.ToolReturnPart[Any]) -> str:
    """Return a tool's return as the model reads it. A note replaces content that cannot be written as text, such as
    JSON that is nested too deeply."""
    try:
        return part.model_response_str()
    except (ValueError, TypeError, RecursionError):
        return f"[{type(part.content).__name__} that cannot be written as text]"


def _result(part: sdk.ToolReturnPart[Any] | sdk.RetryPromptPart, text: str, index: int, *, failed: bool) -> Entry:
    return Entry("tool_result", text, (index,), part.timestamp, part.tool_call_id, failed=failed)


def _arguments(args: Any) -> tuple[Any, str]:
    """Return a call's arguments as a value and as JSON. A text that is not JSON is its own value."""
    value = {} if args in (None, "") else args
    if isinstance(value, str):
        with suppress(msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            value = msgspec.json.decode(value)
    try:
        return value, msgspec.json.encode(codec.well_formed(value)).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        value = repr(args)
        return value, msgspec.json.encode(value).decode()


def prompt_text(content: str | Sequence[Any]) -> str:
    """Return the text of a prompt, with a line for each part that is not text."""
    if isinstance(content, str):
        return content
    return "\n".join(_named(each) for each in content if not isinstance(each, sdk.CachePoint))


def _named(content: Any) -> str:
    match content:
        case str():
            return content
        case sdk.TextContent():
            return content.content
        case sdk.BinaryContent():
            return f"[{content.media_type}, {len(content.data):,} bytes]"
        case sdk.FileUrl():
            return f"[{getattr(content, 'kind', 'url')} {content.url}]"
        case _:
            return f"[{getattr(content, 'kind', type(content).__name__)}]"


def _is_own(part: Any) -> bool:
    if isinstance(part, sdk.ToolReturnPart):
        return bool(part.metadata == NO_RESULT)
    return (
        isinstance(part, sdk.UserPromptPart) and part.timestamp == OMITTED.timestamp and part.content == OMITTED.content
    )


# The data of an event

KEY = "pydantic_ai"
_TELLING = {"kind", "part_kind"}


def dump(message: sdk.ModelMessage) -> tuple[Data, list[Data]] | None:
    """Return a message without its parts, and the parts, as JSON values; None if they cannot be JSON."""
    try:
        (whole,) = sdk.ModelMessagesTypeAdapter.dump_python([message], mode="json", fallback=repr, warnings=False)
        parts = [_bare(part, made) for part, made in zip(whole.pop("parts"), message.parts, strict=True)]
    except (ValueError, TypeError, RecursionError):
        return None
    envelope = _bare(whole, message)
    if usage := envelope.get("usage"):
        envelope["usage"] = {key: value for key, value in usage.items() if value}
    return envelope, parts


def data_of(entry: Entry, parts: Sequence[Data], beside: Data) -> Data:
    """Return the data of an entry's event; `beside` is `{"message": …}` or `{"of": id}`."""
    own = [parts[index] for index in entry.at]

    def place_of(value: Any) -> str | None:
        is_args = value == entry.args and repr(value) == repr(entry.args)  # since 1 == True == 1.0
        return "text" if value == entry.text else "args" if is_args else None

    return {KEY: {**beside, "parts": packed(own, place_of)}}


def as_given(event: Event) -> str:
    """Return the kind that an event has as a message of Pydantic AI, which knows no texts of a client."""
    return "user" if event.kind == "client" else event.kind


def kept_in(event: Event) -> Data | None:
    """Return the data of an event under `KEY`; None for one that is not from Pydantic AI, or that an older Foldmark
    recorded with other places (`said`)."""
    data = event.data or {}
    kept = as_object((forms(event) if event.kind == "summary" else data).get(KEY))
    return kept if isinstance(kept.get("parts"), list) and "said" not in kept else None


def head_of(event: Event) -> int:
    """Return the first event of the message to which this event belongs."""
    head = (kept_in(event) or {}).get("of", event.id)
    return head if isinstance(head, int) and 0 < head < event.id else event.id


def is_standing(event: Event) -> bool:
    """Return True for a part of the system prompt that an agent begins with."""
    return (kept_in(event) or {}).get("standing") is True


def envelope_of(first: Event | None) -> Data:
    """Return the message that begins with an event, without its parts; empty if there is none."""
    return as_object(as_object(first and kept_in(first)).get("message"))


def restore(envelope: Data, events: Sequence[Event]) -> tuple[sdk.ModelMessage, list[list[Any]]] | None:
    """Return the message that these events record, and the parts of each event; None if it can no longer be read."""
    try:
        parts = [unpacked((kept_in(event) or {})["parts"], partial(_original, event)) for event in events]
        text = json.dumps([{**envelope, "parts": [part for own in parts for part in own]}])
        (message,) = sdk.ModelMessagesTypeAdapter.validate_json(text)
    except (KeyError, ValueError, TypeError, RecursionError):
        return None
    made = iter(message.parts)
    shared = [list(islice(made, len(own))) for own in parts]
    return (message, shared) if sum(map(len, shared)) == len(message.parts) else None


def _original(event: Event, place: str) -> Any:
    return msgspec.json.decode(event.content) if place == "args" else event.content


def _bare(value: Mapping[str, Any], made: Any) -> Data:
    """Return the fields of a dataclass as JSON, without those that have their default values."""
    usual = {f.name: f.default for f in dataclasses.fields(made) if f.name not in _TELLING}
    # The types must be equal as well, because 1 == True.
    return {
        key: each
        for key, each in value.items()
        if not (key in usual and type(usual[key]) is type(each) and usual[key] == each)
    }
