"""A streamed answer of Gemini, and refusals of Google's APIs (google.rpc.Status, as JSON)."""

import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

from msgspec.structs import replace

from foldmark.core.errors import ProviderError
from foldmark.core.request import Piece, Stopped, Thought, ToolCall
from foldmark.dialects.bodies import Json
from foldmark.dialects.errors import brief, broken_off, not_understood, overflow, refused, retry_after, seconds
from foldmark.dialects.gemini.contents import first_candidate, parse, parts_of
from foldmark.wires.lenient_json import as_object, as_text, objects_in


class ResponseReader:
    """Reads the streamed answer to a `request`, given as its bytes; `response_in` returns the GenerateContentResponse
    in a chunk, and `whole` is the response so far."""

    over = False

    def __init__(self, request: bytes, response_in: Callable[[Json], Json] = dict) -> None:
        self._request, self._response_in = request, response_in
        self.whole: Json = {}

    def add(self, event: Json) -> Iterator[str | Thought]:
        """Add a chunk, and yield its text. Later fields replace earlier ones; parts are collected."""
        chunk = self._response_in(event)
        candidate = first_candidate(chunk)
        parts = parts_of(candidate)
        if candidate:
            gathered = self.whole.setdefault("candidates", [{"content": {"parts": []}}])[0]
            gathered["content"]["parts"] += parts
            gathered.update({key: value for key, value in candidate.items() if key != "content"})
        self.whole.update({key: value for key, value in chunk.items() if key != "candidates"})
        for part in parts:
            if new := as_text(part.get("text")):
                yield Thought(new) if part.get("thought") is True else new

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of the whole answer. A call without its own id gets one, made from the request and the
        call's place in the answer."""
        found = parse(self.whole)
        if not any(isinstance(piece, Stopped) for piece in found):
            raise broken_off("Gemini")
        taken: set[str] = set()
        for piece in found:
            if isinstance(piece, ToolCall):
                if not piece.call_id or piece.call_id in taken:
                    place = f"\0{len(taken)}".encode()
                    digest = blake2b(self._request + place, digest_size=12).hexdigest()
                    piece = replace(piece, call_id=f"call_{digest}")
                taken.add(piece.call_id)
            if not isinstance(piece, str):
                yield piece


_BAD_KEY = re.compile(r"API key (?:not valid|expired|not found)|API_KEY_INVALID", re.IGNORECASE)


def refusal(server: str, status: int, body: Any, headers: Mapping[str, str], hint: str) -> ProviderError:
    """Return the error for an answer with this HTTP status, or for an error in a stream with this code.

    `body` is its JSON or its text, without the key; `hint` is the next step after a refused key.
    """
    if isinstance(body, list) and body:
        body = body[0]
    reported = as_object(body).get("error", body)
    error = as_object(reported)
    words, name = as_text(error.get("message")) or as_text(reported), as_text(error.get("status"))
    shown = f"{brief(words).rstrip('.')} ({brief(name)})" if name else words
    sizes = overflow(words) or ((None, None) if status == 413 else None)
    if sizes:
        return refused(server, "overflow", shown, status, tokens=sizes[0], limit=sizes[1])
    if status in (401, 403) or _BAD_KEY.search(words) or "API_KEY_INVALID" in str(error.get("details")):
        return refused(server, "key", shown, status, hint=hint)
    delays = (each["retryDelay"] for each in objects_in(error.get("details")) if as_text(each.get("retryDelay")))
    delay = next(delays, None)
    after = seconds(delay) if delay else retry_after(headers, words)
    if status == 429:
        return refused(server, "rate", shown, status, after=after)
    if status in (408, 499) or 500 <= status < 600:
        return refused(server, "busy", shown, status, after=after)
    if 400 <= status < 500:
        return refused(server, "request", shown, status)
    return not_understood(server, shown or f"HTTP {status}")
