"""What a message of Pydantic AI says, entry by entry: each entry becomes one message of a conversation.

A request or a response holds parts. A part that says something (a prompt, an answer, a call, a result, a summary of
what came before) is an entry of its own. What says nothing to a reader (thinking, files, calls that the provider runs
itself, changes of instructions, a kind of part that is not known here) goes with the entry beside it: in a response
with the next one, since thinking belongs to what it led to, in a request with the one before.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    CompactionPart,
    FileUrl,
    ModelMessage,
    ModelRequest,
    RetryFeedbackPart,
    RetryPromptPart,
    SpeechPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from foldmark.core import codec
from foldmark.core.assembly.eviction import OPAQUE

OMITTED = UserPromptPart("[Earlier conversation omitted.]", timestamp=datetime.fromtimestamp(0, UTC))
"""Stands in front of a context that does not begin with a request. It is recognised by its time, and never recorded."""

NO_RESULT = {"foldmark": "no result"}
"""The metadata of a tool return that stands in for one that never came, or is not shown. It is never recorded."""


class Entry(NamedTuple):
    """One message of a conversation, and the parts that it was made of.

    `at` are the indices of its parts in the message and `said` the one of them that says `text`, None if none does.
    `time` is when it was said. For a call, `text` is its arguments as JSON and `args` the same as a value. A prompt is
    a `person`'s; what Pydantic AI itself asks for again is the system's. `standing` marks the system prompt that an
    agent begins with.
    """

    kind: str
    text: str
    at: tuple[int, ...]
    said: int | None = None
    time: datetime | None = None
    call_id: str = ""
    name: str = ""
    args: Any = None
    failed: bool = False
    person: bool = False
    standing: bool = False


def split(message: ModelMessage, *, opens: bool) -> list[Entry]:
    """The entries of a message in order; none for what Foldmark put in itself, or what an interrupted run left empty.

    `opens` says whether it is the first request of a history, where an agent's own system prompt stands.
    """
    request, time = isinstance(message, ModelRequest), message.timestamp
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
    if silent and body:
        found[-1] = found[-1]._replace(at=(*found[-1].at, *silent))
    elif not body and not (own and not silent) and not (request and not found and _was_left_empty(message)):
        found.append(Entry("user" if request else "assistant", "", tuple(silent), time=time))
    return found


def standing_prompt(message: ModelMessage) -> list[SystemPromptPart]:
    """The system prompt that a request begins with."""
    found: list[SystemPromptPart] = []
    for part in message.parts:
        if not isinstance(part, SystemPromptPart) or part.scope == "request" or part.context_id is not None:
            break
        found.append(part)
    return found


def _said(part: Any, index: int, time: datetime | None, *, standing: bool, request: bool) -> Entry | None:
    match part:
        case SystemPromptPart():
            return Entry("system", part.content, (index,), index, part.timestamp, standing=standing)
        case UserPromptPart():
            return Entry("user", prompt_text(part.content), (index,), index, part.timestamp, person=True)
        case ToolReturnPart():
            failed = part.outcome in ("failed", "retried")
            return _result(part, _readable(part), index, failed=failed)
        case RetryPromptPart() if part.tool_name is not None:
            return _result(part, part.model_response(), index, failed=True)
        case RetryFeedbackPart() | RetryPromptPart():
            return Entry("user", part.model_response(), (index,), index, part.timestamp)
        case CompactionPart() if _stands_for_something(part, request=request):
            return Entry("summary", part.content or OPAQUE, (index,), index if part.content else None, time)
        case TextPart():
            return Entry("assistant", part.content, (index,), index, time)
        case SpeechPart():
            return Entry("assistant", str(part.transcript or ""), (index,), index, time)
        case ToolCallPart():
            args, text = _arguments(part.args)
            return Entry("tool_call", text, (index,), index, time, part.tool_call_id, part.tool_name, args)
        case _:
            return None


def _stands_for_something(part: CompactionPart, *, request: bool) -> bool:
    """Whether anybody reads a compaction: that of a response is for its provider; one without content failed."""
    opaque = (part.provider_details or {}).get("encrypted_content")
    return bool(part.content or opaque) and (request or part.provider_name is not None)


def _readable(part: ToolReturnPart[Any]) -> str:
    """What a tool returned as the model reads it; what cannot be written as text, such as JSON too deep, is named."""
    try:
        return part.model_response_str()
    except (ValueError, TypeError, RecursionError):
        return f"[{type(part.content).__name__} that cannot be written as text]"


def _result(part: ToolReturnPart[Any] | RetryPromptPart, text: str, index: int, *, failed: bool) -> Entry:
    return Entry("tool_result", text, (index,), index, part.timestamp, part.tool_call_id, failed=failed)


def _arguments(args: Any) -> tuple[Any, str]:
    """A call's arguments as a value, and that as JSON; what is no JSON is its own value."""
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
    """What a prompt says, with a line for each thing in it that is no text."""
    if isinstance(content, str):
        return content
    return "\n".join(_named(each) for each in content if not isinstance(each, CachePoint))


def _named(content: Any) -> str:
    match content:
        case str():
            return content
        case TextContent():
            return content.content
        case BinaryContent():
            return f"[{content.media_type}, {len(content.data):,} bytes]"
        case FileUrl():
            return f"[{getattr(content, 'kind', 'url')} {content.url}]"
        case _:
            return f"[{getattr(content, 'kind', type(content).__name__)}]"


def _is_own(part: Any) -> bool:
    if isinstance(part, ToolReturnPart):
        return bool(part.metadata == NO_RESULT)
    return isinstance(part, UserPromptPart) and part.timestamp == OMITTED.timestamp and part.content == OMITTED.content


def _was_left_empty(message: ModelMessage) -> bool:
    return isinstance(message, ModelRequest) and message.state == "interrupted" and not message.parts
