"""Answers of Anthropic's Messages API: read what a provider streamed, write one of Foldmark's own [SPEC 5.7]. Pure."""

from typing import Any, NamedTuple

import msgspec

from foldmark.core.errors import ProviderError
from foldmark.core.request import Stopped, Usage
from foldmark.dialects.anthropic.messages import parse
from foldmark.dialects.anthropic.stream import MessageReader
from foldmark.live.clients.dialect import event_data


class MessageAnswer(NamedTuple):
    """A whole answer: its id, its blocks, its model, and how it ended."""

    id: Any
    content: list[Any]
    model: str
    usage: Usage | None
    stopped: Stopped | None


def read_answer(body: bytes, *, streamed: bool) -> MessageAnswer | None:
    """Read an answer; None if it is not a whole one."""
    try:
        message = streamed_message(body) if streamed else msgspec.json.decode(body)
        pieces = parse(dict(message))
    except (ProviderError, msgspec.MsgspecError, UnicodeError, AttributeError, TypeError, ValueError):
        return None
    content = message.get("content")
    if not isinstance(content, list):
        return None
    usage = next((each for each in pieces if isinstance(each, Usage)), None)
    stopped = next((each for each in pieces if isinstance(each, Stopped)), None)
    return MessageAnswer(message.get("id"), content, str(message.get("model", "")), usage, stopped)


def streamed_message(body: bytes) -> dict[str, Any]:
    """Return the message that a stream of events says. Raises ProviderError if it broke off."""
    reader = MessageReader({})
    for data in event_data(body):
        for _ in reader.add(msgspec.json.decode(data)):
            pass
    return dict(reader.message())


def written_answer(text: str, id: str, model: str, *, stream: bool) -> tuple[str, bytes]:
    """Return the media type and the body of an answer that says `text`."""
    usage = {"input_tokens": 0, "output_tokens": 0}
    message: dict[str, Any] = {"id": id, "type": "message", "role": "assistant", "model": model, "usage": usage}
    message |= {"stop_sequence": None}
    if not stream:
        content = [{"type": "text", "text": text}]
        return "application/json", msgspec.json.encode({**message, "content": content, "stop_reason": "end_turn"})
    delta = {"type": "text_delta", "text": text}
    events: list[tuple[str, dict[str, Any]]] = [
        ("message_start", {"message": {**message, "content": [], "stop_reason": None}}),
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 0}}),
        ("message_stop", {}),
    ]
    lines = [
        b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode({"type": kind, **rest}) for kind, rest in events
    ]
    return "text/event-stream; charset=utf-8", b"".join(line + b"\n\n" for line in lines)
