"""A model behind OpenAI's Responses API.

On the wire a request is `request.bytes` with `stream` as its last field, and, at OpenAI itself, a key for its cache.
"""

from asyncio import get_running_loop, timeout
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from msgspec.structs import replace

from foldmark.core.errors import ProviderError
from foldmark.core.ports import Provider
from foldmark.core.request import Piece, Request, Thought, ToolCall
from foldmark.dialects.openai.responses import APART, parse
from foldmark.providers.access import Access
from foldmark.providers.openai_client import Server

_COUNTED = ("model", "input", "instructions", "tools", "reasoning")
"""What of a request the counting endpoint takes."""
END_SECONDS = 1.0
"""How long the end of a stream is waited for behind the whole response."""
_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


def connect(model: str, access: Access) -> Provider:
    """The provider of a model. Raises ProviderError where it cannot be asked: no SDK, no key, no address."""
    return _Responses(Server(access))


class _Responses:
    """Asks for responses."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer. Raises ProviderError, ContextOverflowError."""
        body = {**request.body, "stream": True, **self._server.keyed(request)}
        so_far, stream = _SoFar(), self._server.events("/responses", body)
        # Read to the end, which comes at once: leaving a stream in the middle leaves the SDK's generators to the
        # collector, which has no time for them where the program ends.
        try:
            async with timeout(None) as patience, aclosing(stream) as events:
                async for event in events:
                    if so_far.whole():
                        continue
                    self._server.refuse(event)
                    for shown in so_far.add(event):
                        yield shown
                    if so_far.whole():
                        patience.reschedule(get_running_loop().time() + END_SECONDS)
        except (TimeoutError, ProviderError):
            if not so_far.whole():
                raise
        if so_far.response is None:
            raise self._server.broke_off()
        self._server.refuse(so_far.response)
        for piece in parse(so_far.response):
            if isinstance(piece, ToolCall):
                yield replace(piece, name=request.names.get(piece.name, piece.name))
            elif not isinstance(piece, str):
                yield piece
            elif rest := so_far.unsaid(piece):
                yield rest

    async def count(self, request: Request) -> int:
        """The tokens of a request as the server counts them. Raises ProviderError."""
        return await self._server.counted({key: request.body[key] for key in _COUNTED if key in request.body})


class _SoFar:
    """A response while it streams: `response` is the whole once it has come."""

    def __init__(self) -> None:
        self.response: dict[str, Any] | None = None
        self._text = ""
        self._said_by: object = None
        self._thought_by: object = None
        self._items: dict[int, Any] = {}

    def add(self, event: dict[str, Any]) -> Iterator[str | Thought]:
        """Take an event, and give what of it is to be shown at once."""
        kind, delta = event.get("type"), event.get("delta")
        if kind in ("response.output_text.delta", "response.refusal.delta") and isinstance(delta, str):
            yield from self._said(event, delta)
        elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            yield from self._thought(event, delta)
        elif kind == "response.output_item.done":
            index = event.get("output_index")
            self._items[index if isinstance(index, int) else len(self._items)] = event.get("item")
        elif kind in _ENDS and isinstance(event.get("response"), dict):
            self._end(event["response"])
        elif kind is None and "output" in event:
            self._end(event)  # from a server that does not stream

    def whole(self) -> bool:
        """Whether all of the response has come."""
        return self.response is not None

    def unsaid(self, text: str) -> str:
        """What of the whole text has not been shown."""
        return text[len(self._text) :] if text.startswith(self._text) else ""

    def _end(self, response: dict[str, Any]) -> None:
        done = [self._items[index] for index in sorted(self._items)]
        self.response = response if response.get("output") or not done else {**response, "output": done}

    def _said(self, event: dict[str, Any], delta: str) -> Iterator[str]:
        place = event.get("output_index")
        if delta:
            apart = APART if self._text and place != self._said_by else ""
            self._said_by = place
            self._text += apart + delta
            yield apart + delta

    def _thought(self, event: dict[str, Any], delta: object) -> Iterator[Thought]:
        place = (event.get("output_index"), event.get("summary_index"))
        if isinstance(delta, str) and delta:
            apart = APART if self._thought_by not in (None, place) else ""
            self._thought_by = place
            yield Thought(apart + delta)
