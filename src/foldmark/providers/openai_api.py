"""A model behind OpenAI's Chat Completions, at OpenAI or at any other server that speaks them.

On the wire a request is `request.bytes` with `stream` and `stream_options` as its last fields, and, at OpenAI itself, a
key for its cache.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec.structs import replace

from foldmark.core.ports import Provider
from foldmark.core.request import Piece, Request, ToolCall
from foldmark.dialects.openai.chat import parse
from foldmark.dialects.openai.stream import Whole
from foldmark.providers.access import Access
from foldmark.providers.openai_client import Server
from foldmark.providers.openai_counting import countable


def connect(model: str, access: Access) -> Provider:
    """The provider of a model. Raises ProviderError where it cannot be asked: no SDK, no key, no address."""
    return _ChatCompletions(Server(access))


class _ChatCompletions:
    """Asks for chat completions."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer. Raises ProviderError, ContextOverflowError."""
        streamed = {"stream": True, "stream_options": {"include_usage": True}}
        body = {**request.body, **streamed, **self._server.keyed(request)}
        whole = Whole()
        async with aclosing(self._server.events("/chat/completions", body)) as chunks:
            async for chunk in chunks:
                self._server.refuse(chunk)
                for shown in whole.add(chunk):
                    yield shown
        if not whole.finish:
            raise self._server.broke_off()
        for piece in parse(whole.completion()):
            if isinstance(piece, ToolCall):
                yield replace(piece, name=request.names.get(piece.name, piece.name))
            elif not isinstance(piece, str):
                yield piece

    async def count(self, request: Request) -> int:
        """The tokens of a request as OpenAI counts them; other servers count none. Raises ProviderError."""
        if not self._server.own:
            raise self._server.no_counting()
        return await self._server.counted(countable(request.body))
