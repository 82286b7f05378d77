"""Models that answer over OpenAI's Responses API, through the official SDK.

On the wire a request is `request.bytes` with `stream` as its last field, and, at OpenAI itself, a key for its cache.
"""

from collections.abc import AsyncGenerator

from foldmark.core.ports import Provider
from foldmark.core.request import Piece, Request
from foldmark.dialects.openai.stream import ResponseReader
from foldmark.providers.openai_api import OpenAIServer
from foldmark.providers.registry import Access
from foldmark.providers.sdk import streamed

_COUNTED = ("model", "input", "instructions", "tools", "reasoning")
"""Fields of a request that the counting endpoint accepts."""


def connect(model: str, access: Access) -> Provider:
    """Return the provider of a model. Raises ProviderError if the SDK, the key or the address is missing."""
    return _Responses(access)


class _Responses(OpenAIServer):
    """Asks for responses."""

    def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer. Raises ProviderError, ContextOverflowError."""
        return streamed(self.answer_events("/responses", request, {"stream": True}), ResponseReader(self.name), request)

    async def count(self, request: Request) -> int:
        """Return the tokens of a request as the server counts them. Raises ProviderError."""
        return await self.counted_as_response({key: request.body[key] for key in _COUNTED if key in request.body})
