"""Answers of OpenAI's Responses API: read what a provider streamed, write one of Foldmark's own [SPEC 5.7]. Pure."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from foldmark.core.errors import ProviderError
from foldmark.core.request import Stopped, Usage
from foldmark.dialects.bodies import objects_in
from foldmark.dialects.openai.responses import parse
from foldmark.live.clients.dialect import event_data

_ENDS = ("response.completed", "response.incomplete")


class ResponseAnswer(NamedTuple):
    """A whole answer: its items, its model, and how it ended."""

    items: list[dict[str, Any]]
    model: str
    usage: Usage | None
    stopped: Stopped | None


def read_answer(body: bytes, *, streamed: bool) -> ResponseAnswer | None:
    """Read an answer; None if it is not a whole one."""
    try:
        response = streamed_response(body) if streamed else msgspec.json.decode(body)
        pieces = parse(response)
    except (ProviderError, msgspec.MsgspecError, UnicodeError, AttributeError, TypeError, ValueError):
        return None
    usage = next((each for each in pieces if isinstance(each, Usage)), None)
    stopped = next((each for each in pieces if isinstance(each, Stopped)), None)
    return ResponseAnswer(objects_in(response["output"]), str(response.get("model", "")), usage, stopped)


def streamed_response(body: bytes) -> dict[str, Any]:
    """Return the response that a stream of events says, with the items as they were finished: those are what Codex
    goes on with, and some servers leave them out of the last event. Raises ProviderError if it broke off."""
    done, whole = dict[int, Any](), None
    for event in _events(body):
        if event.get("type") == "response.output_item.done":
            place = event.get("output_index")
            done[place if isinstance(place, int) else len(done)] = event.get("item")
        elif event.get("type") in _ENDS:
            whole = event.get("response")
    if not isinstance(whole, dict):
        raise ProviderError("answer", "the answer broke off")
    return {**whole, "output": [done[place] for place in sorted(done)] or whole.get("output")}


def _events(body: bytes) -> Iterator[dict[str, Any]]:
    for data in event_data(body):
        if data != b"[DONE]":
            yield msgspec.json.decode(data, type=dict[str, Any])


def written_answer(text: str, id: str, model: str, *, stream: bool) -> tuple[str, bytes]:
    """Return the media type and the body of an answer that says `text`; `id` is that of its message. It reports no
    usage: a client takes what the newest answer reports for the size of its session."""
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item: dict[str, Any] = {"id": id, "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    begun: dict[str, Any] = {"id": f"resp_{id}", "object": "response", "created_at": 0, "model": model, "error": None}
    begun |= {"status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    whole = {**begun, "status": "completed", "output": [item]}
    if not stream:
        return "application/json", msgspec.json.encode(whole)
    at = {"item_id": id, "output_index": 0, "content_index": 0}
    empty = {**item, "status": "in_progress", "content": []}
    events: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": begun}),
        ("response.in_progress", {"response": begun}),
        ("response.output_item.added", {"output_index": 0, "item": empty}),
        ("response.content_part.added", {**at, "part": {**part, "text": ""}}),
        ("response.output_text.delta", {**at, "delta": text, "logprobs": []}),
        ("response.output_text.done", {**at, "text": text, "logprobs": []}),
        ("response.content_part.done", {**at, "part": part}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": whole}),
    ]
    written = list[bytes]()
    for number, (kind, rest) in enumerate(events):
        data = msgspec.json.encode({"type": kind, "sequence_number": number, **rest})
        written.append(b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n")
    return "text/event-stream; charset=utf-8", b"".join(written)
