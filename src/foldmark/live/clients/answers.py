"""Read providers' answers, whole or streamed, and write Foldmark's own, for each wire [SPEC 5.7]. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from foldmark.core.errors import ProviderError
from foldmark.core.request import Piece, Stopped, Usage
from foldmark.dialects.bodies import Json, Reader
from foldmark.dialects.gemini import stream as gemini
from foldmark.dialects.gemini.contents import first_candidate, parts_of
from foldmark.wires.lenient_json import decode
from foldmark.wires.parts import Part
from foldmark.wires.responses import answered

R = TypeVar("R", bound=Reader)

STREAM = "text/event-stream; charset=utf-8"


class WholeAnswer(NamedTuple):
    """A complete answer in the form of its wire, its usage, and how it ended."""

    body: Json
    usage: Usage | None
    stopped: Stopped | None


def read_answer(body_of: Callable[[], Json], parse: Callable[[Json], tuple[Piece, ...]]) -> WholeAnswer | None:
    """Return the answer that `body_of` reads; None if it is incomplete or invalid."""
    try:
        body = body_of()
        pieces = parse(body)
    except (ProviderError, msgspec.MsgspecError, UnicodeError, AttributeError, TypeError, ValueError):
        return None
    usage = next((each for each in pieces if isinstance(each, Usage)), None)
    return WholeAnswer(body, usage, next((each for each in pieces if isinstance(each, Stopped)), None))


def answer_in(
    body: bytes, reader: R, whole: Callable[[R], Json], parse: Callable[[Json], tuple[Piece, ...]], *, streamed: bool
) -> WholeAnswer | None:
    """Return the answer in a body as `body_in` reads it; None if it is incomplete or invalid."""
    return read_answer(lambda: body_in(body, reader, whole, streamed=streamed), parse)


def put_first(parts: list[Part | None], blocks: Sequence[Json]) -> None:
    """Put blocks before those of the first part that says something."""
    place, part = next(((place, part) for place, part in enumerate(parts) if part is not None), (0, None))
    if blocks and part is not None:
        about = part.data or {}
        parts[place] = replace(part, data={**about, "blocks": [*blocks, *about.get("blocks", ())]})


def _events(body: bytes) -> Iterator[Json]:
    """Yield the events of a stream (`text/event-stream`) that have data."""
    for event in body.replace(b"\r\n", b"\n").split(b"\n\n"):
        data = b"".join(line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:"))
        if data not in (b"", b"[DONE]"):
            yield decode(data)


def _fed(reader: R, events: Iterable[Json]) -> R:
    """Return the reader of a stream after these events."""
    for event in events:
        for _ in reader.add(event):
            pass
    return reader


def body_in(body: bytes, reader: R, whole: Callable[[R], Json], *, streamed: bool = True) -> Json:
    """Return the answer in a body, as `whole` gets it of the reader of a stream. Raises ProviderError if a stream broke
    off."""
    return whole(_fed(reader, _events(body))) if streamed else dict(decode(body))


def named_event(kind: str, members: Mapping[str, Any]) -> bytes:
    """Return a named event of a stream."""
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode({"type": kind, **members}) + b"\n\n"


def _stream(events: Iterable[tuple[str, Json]]) -> bytes:
    """Return named events as a stream."""
    return b"".join(named_event(kind, members) for kind, members in events)


# Anthropic's Messages API


def written_message(text: str, id: str, model: str, *, stream: bool) -> tuple[str, bytes]:
    """Return the media type and the body of a message with the text `text`."""
    usage = {"input_tokens": 0, "output_tokens": 0}
    message: Json = {"id": id, "type": "message", "role": "assistant", "model": model, "usage": usage}
    message |= {"stop_sequence": None}
    if not stream:
        content = [{"type": "text", "text": text}]
        return "application/json", msgspec.json.encode({**message, "content": content, "stop_reason": "end_turn"})
    begins = {"message": {**message, "content": [], "stop_reason": None}}
    ended = {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 0}}
    rest = _stream([("message_delta", ended), ("message_stop", {})])
    return STREAM, named_event("message_start", begins) + text_block_events(text) + rest


def text_block_events(text: str) -> bytes:
    """Return the events of a message's first block with the text `text`."""
    events: list[tuple[str, Json]] = [
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": text}}),
        ("content_block_stop", {"index": 0}),
    ]
    return _stream(events)


# OpenAI's Chat Completions


def written_completion(text: str, id: str, model: str, *, stream: bool) -> tuple[str, bytes]:
    """Return the media type and the body of a chat completion with the text `text`. As in `written_response`, it
    reports no usage."""
    about: Json = {"id": id, "created": 0, "model": model}
    said = {"role": "assistant", "content": text}
    end = {"index": 0, "logprobs": None, "finish_reason": "stop"}
    if not stream:
        whole = {**about, "object": "chat.completion", "choices": [{**end, "message": {**said, "refusal": None}}]}
        return "application/json", msgspec.json.encode(whole)
    about["object"] = "chat.completion.chunk"
    chunks = [{**about, "choices": [{**end, "delta": said, "finish_reason": None}]}]
    chunks.append({**about, "choices": [{**end, "delta": {}}]})
    return STREAM, b"".join(b"data: " + each + b"\n\n" for each in (*map(msgspec.json.encode, chunks), b"[DONE]"))


# OpenAI's Responses API


def written_response(text: str, id: str, model: str, *, stream: bool) -> tuple[str, bytes]:
    """Return the media type and the body of a response with the text `text`; `id` is that of its message. It reports no
    usage, because a client takes the usage of the newest answer as the size of its session."""
    item = text_item(text, id)
    begun: Json = {"id": f"resp_{id}", "object": "response", "created_at": 0, "model": model, "error": None}
    begun |= {"status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    whole = {**begun, "status": "completed", "output": [item]}
    if not stream:
        return "application/json", msgspec.json.encode(whole)
    made = text_item_events(item, 2)
    begins = [("response.created", {"response": begun}), ("response.in_progress", {"response": begun})]
    first = _stream((kind, {"sequence_number": number, **members}) for number, (kind, members) in enumerate(begins))
    last = {"sequence_number": 2 + len(made), "response": whole}
    return STREAM, first + b"".join(made) + named_event("response.completed", last)


def text_item(text: str, id: str) -> Json:
    """Return an item of a response with the text `text`."""
    return {"id": id, "status": "completed", **answered(text, annotations=[], logprobs=[])}


def text_item_events(item: Json, first: int) -> list[bytes]:
    """Return the events of a response's first item, which `text_item` made; `first` is the number of the first one."""
    (part,) = item["content"]
    at = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    said = {**at, "text": part["text"], "logprobs": []}
    events: list[tuple[str, Json]] = [
        ("response.output_item.added", {"output_index": 0, "item": {**item, "status": "in_progress", "content": []}}),
        ("response.content_part.added", {**at, "part": {**part, "text": ""}}),
        ("response.output_text.delta", {**at, "delta": part["text"], "logprobs": []}),
        ("response.output_text.done", said),
        ("response.content_part.done", {**at, "part": part}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
    ]
    return [named_event(kind, {"sequence_number": first + at, **members}) for at, (kind, members) in enumerate(events)]


# Gemini's generateContent


def contents_in(body: bytes) -> Json:
    """Return the response in a body, which is a response, a list of them, or a stream of events. Adjacent texts become
    one part. Raises ProviderError if it reports an error."""
    text = body.strip()
    found = decode(text) if text[:1] in (b"{", b"[") else list(_events(text))
    chunks, parts = found if isinstance(found, list) else [found], list[Json]()
    if any("error" in chunk for chunk in chunks):
        raise ProviderError("answer", "the answer is an error")
    reader = _fed(gemini.ResponseReader(b""), chunks)
    candidate = first_candidate(reader.whole)
    for part in parts_of(candidate):
        before = parts[-1] if parts else {}
        if _is_text(before) and _is_text(part) and before.get("thought") == part.get("thought"):
            parts[-1] = {**before, "text": before["text"] + part["text"]}
        elif part.get("text") != "" or part.keys() - {"text", "thought"}:
            parts.append(part)
    return {**reader.whole, "candidates": [{**candidate, "content": {"parts": parts}}]}


def _is_text(part: Json) -> bool:
    return isinstance(part.get("text"), str) and not part.keys() - {"text", "thought"}


def written_contents(text: str, model: str, *, stream: bool, events: bool) -> tuple[str, bytes]:
    """Return the media type and the body of a response with the text `text`. A stream is a single event with `events`,
    otherwise a list."""
    candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "finishReason": "STOP", "index": 0}
    body = msgspec.json.encode({"candidates": [candidate], "modelVersion": model, "responseId": "foldmark"})
    if stream and events:
        return "text/event-stream", b"data: " + body + b"\r\n\r\n"
    return "application/json; charset=UTF-8", b"[" + body + b"]" if stream else body
