"""A streamed answer of Gemini's, in pieces: text as it comes, the rest as `parse` understands the whole."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from hashlib import blake2b
from typing import Any

from msgspec.structs import replace

from foldmark.core.errors import ProviderError
from foldmark.core.request import Piece, Request, Stopped, Thought, ToolCall
from foldmark.dialects.gemini.contents import first_candidate, parse, parts_of


async def pieces_of(
    chunks: AsyncIterator[dict[str, Any]],
    request: Request,
    response_in: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> AsyncGenerator[Piece, None]:
    """The pieces of the answer to `request`; `response_in` is the GenerateContentResponse of a chunk.

    Raises ProviderError where the answer ends before it says that it is complete, or cannot be understood.
    """
    whole: dict[str, Any] = {}
    async for chunk in chunks:
        for part in _gather(whole, response_in(chunk)):
            text = part.get("text")
            if isinstance(text, str) and text:
                yield Thought(text) if part.get("thought") is True else text
    found = parse(whole)
    if not any(isinstance(piece, Stopped) for piece in found):
        raise ProviderError("network", "Gemini's answer broke off before it was complete. Try again.")
    taken: set[str] = set()
    for piece in found:
        if isinstance(piece, ToolCall):
            piece = _own(piece, request, taken)
            taken.add(piece.call_id)
        if not isinstance(piece, str):
            yield piece


def _gather(whole: dict[str, Any], chunk: dict[str, Any]) -> list[dict[str, Any]]:
    """Add a chunk to the response, in which later words replace earlier ones and parts add up; return its parts."""
    candidate = first_candidate(chunk)
    parts = parts_of(candidate)
    if candidate:
        gathered = whole.setdefault("candidates", [{"content": {"parts": []}}])[0]
        gathered["content"]["parts"] += parts
        gathered.update({key: value for key, value in candidate.items() if key != "content"})
    whole.update({key: value for key, value in chunk.items() if key != "candidates"})
    return parts


def _own(call: ToolCall, request: Request, taken: set[str]) -> ToolCall:
    """The call by its tool's own name, and by an id of its own: its place in the answer to this very request."""
    call_id = call.call_id
    if not call_id or call_id in taken:
        place = f"\0{len(taken)}".encode()
        call_id = f"call_{blake2b(request.bytes + place, digest_size=12).hexdigest()}"
    return replace(call, call_id=call_id, name=request.names.get(call.name, call.name))
