"""Answers of Gemini's generateContent: read what a provider sent, write one of Foldmark's own [SPEC 5.7]. Pure."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from foldmark.core.errors import ProviderError
from foldmark.core.request import Stopped, Usage
from foldmark.dialects.gemini.contents import first_candidate, parse, parts_of
from foldmark.live.clients.dialect import event_data


class GeminiAnswer(NamedTuple):
    """A whole answer: its parts, neighbouring texts as one, its model, and how it ended."""

    parts: list[dict[str, Any]]
    model: str
    usage: Usage | None
    stopped: Stopped | None


def read_answer(body: bytes) -> GeminiAnswer | None:
    """Read an answer: a response, a list of them, or a stream of events. None if it is not a whole one."""
    try:
        chunks = list(_chunks(body))
        whole, parts = _gathered(chunks)
        pieces = parse({**whole, "candidates": [{**first_candidate(whole), "content": {"parts": parts}}]})
    except (ProviderError, msgspec.MsgspecError, UnicodeError, AttributeError, TypeError, ValueError):
        return None
    stopped = next((each for each in pieces if isinstance(each, Stopped)), None)
    calls = any("functionCall" in part for part in parts)
    if any("error" in chunk for chunk in chunks) or not (calls or stopped):
        return None
    usage = next((each for each in pieces if isinstance(each, Usage)), None)
    return GeminiAnswer(parts, str(whole.get("modelVersion", "")), usage, stopped)


def _chunks(body: bytes) -> Iterator[dict[str, Any]]:
    text = body.strip()
    if text[:1] in (b"{", b"["):
        found = msgspec.json.decode(text)
        yield from found if isinstance(found, list) else [found]
        return
    yield from map(msgspec.json.decode, event_data(text))


def _gathered(chunks: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the members of the chunks, later ones in place of earlier ones, and all parts."""
    whole: dict[str, Any] = {}
    candidate: dict[str, Any] = {}
    parts: list[dict[str, Any]] = []
    for chunk in chunks:
        whole.update(chunk)
        found = first_candidate(chunk)
        candidate.update(found)
        for part in parts_of(found):
            before = parts[-1] if parts else {}
            if _is_text(before) and _is_text(part) and before.get("thought") == part.get("thought"):
                parts[-1] = {**before, "text": before["text"] + part["text"]}
            elif part.get("text") != "" or part.keys() - {"text", "thought"}:
                parts.append(part)
    whole["candidates"] = [candidate]
    return whole, parts


def _is_text(part: dict[str, Any]) -> bool:
    return isinstance(part.get("text"), str) and not part.keys() - {"text", "thought"}


def written_answer(text: str, model: str, *, stream: bool, events: bool) -> tuple[str, bytes]:
    """Return the media type and the body of an answer that says `text`: a response, and where a `stream` was asked for,
    one event or a list."""
    candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "finishReason": "STOP", "index": 0}
    body = msgspec.json.encode({"candidates": [candidate], "modelVersion": model, "responseId": "foldmark"})
    if stream and events:
        return "text/event-stream", b"data: " + body + b"\r\n\r\n"
    return "application/json; charset=UTF-8", b"[" + body + b"]" if stream else body
