"""Answers of Anthropic's Messages API: read what a provider streamed, write one of Foldmark's own, ask a question [SPEC
5.7]. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from foldmark.core.errors import ProviderError
from foldmark.core.request import Stopped, Usage
from foldmark.dialects.anthropic.messages import parse
from foldmark.dialects.anthropic.stream import MessageReader
from foldmark.live.anthropic import ClientRequest, answer_key, key_of, told
from foldmark.sessions.messages import Part


class ClientAnswer(NamedTuple):
    """A provider's whole answer: its key, what each of its blocks says, its model, and how it ended."""

    key: str
    parts: list[Part | None]
    model: str
    usage: Usage | None
    stopped: Stopped | None


def answered(body: bytes, *, streamed: bool) -> ClientAnswer | None:
    """Read an answer; None if it is not a whole one."""
    try:
        message = streamed_message(body) if streamed else msgspec.json.decode(body)
        pieces = parse(dict(message))
    except (ProviderError, msgspec.MsgspecError, UnicodeError, AttributeError, TypeError, ValueError):
        return None
    content = message.get("content")
    if not isinstance(content, list):
        return None
    parts = [told("assistant", block, message.get("id")) for block in content]
    usage = next((each for each in pieces if isinstance(each, Usage)), None)
    stopped = next((each for each in pieces if isinstance(each, Stopped)), None)
    return ClientAnswer(answer_key(content), parts, str(message.get("model", "")), usage, stopped)


def streamed_message(body: bytes) -> dict[str, Any]:
    reader = MessageReader({})
    for event in body.replace(b"\r\n", b"\n").split(b"\n\n"):
        data = b"".join(line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:"))
        if data:
            for _ in reader.add(msgspec.json.decode(data)):
                pass
    return dict(reader.message())


def answer(text: str, model: str, *, stream: bool) -> tuple[str, bytes]:
    """Return an answer that says `text`, and its media type."""
    usage = {"input_tokens": 0, "output_tokens": 0}
    own = "msg_foldmark_" + key_of("answer", [text.encode("utf-8", "replace")])[:12]
    message: dict[str, Any] = {"id": own, "type": "message", "role": "assistant", "model": model, "usage": usage}
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


def question(body: Mapping[str, Any], request: ClientRequest) -> bytes:
    """Return the body of a question of Foldmark's own to the model of a session. The client's system prompt comes
    first: some credentials are good for nothing else."""
    own = body.get("system") or []
    texts = [[{"type": "text", "text": each}] if isinstance(each, str) else each for each in (request.system, own)]
    system = [{name: block[name] for name in ("type", "text")} for each in texts for block in each if block.get("text")]
    rest = {name: value for name, value in body.items() if name != "system"}
    return msgspec.json.encode(
        {**rest, "model": request.model, "stream": True, **({"system": system} if system else {})}
    )
