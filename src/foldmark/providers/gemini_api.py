"""Gemini's API, with a key of Google AI Studio."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

from foldmark.core.errors import ProviderError
from foldmark.core.ports import Provider
from foldmark.core.request import Piece, Request
from foldmark.dialects.gemini.stream import pieces_of
from foldmark.providers.access import Access
from foldmark.providers.gemini_sdk import Door, Service, checked, posted, require_sdk, streamed

KEYS = "GEMINI_API_KEY or GOOGLE_API_KEY"


def connect(model: str, access: Access) -> Provider:
    """The model behind Google's API. Raises ProviderError without the SDK, a key, or an address that can be one."""
    require_sdk()
    key = (access.given_key or "").strip()
    if not key:
        raise ProviderError("key", f"Gemini needs a key. Set {KEYS}; aistudio.google.com gives one.")
    if not (key.isascii() and key.isprintable()):
        raise ProviderError("key", f"The key for Gemini holds characters that no key has. Check {KEYS}.")
    service = Service("Gemini", checked(access.base_url), "v1beta", f"Check {KEYS}.")
    return Gemini(model, Door(service, {"x-goog-api-key": key}, access.hidden))


class Gemini:
    """A model that is asked directly."""

    def __init__(self, model: str, door: Door) -> None:
        self._name = quote(model if "/" in model else f"models/{model}")
        self._door = door

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer to a request; closing the iterator ends the request. Raises ProviderError."""
        path = f"{self._name}:streamGenerateContent?alt=sse"
        async with (
            aclosing(streamed(self._door, path, request.body)) as chunks,
            aclosing(pieces_of(chunks, request)) as pieces,
        ):
            async for piece in pieces:
                yield piece

    async def count(self, request: Request) -> int:
        """The tokens of a request as the API counts them, system and tools included. Raises ProviderError."""
        body = {"generateContentRequest": {**countable(request.body), "model": self._name}}
        return counted(await posted(self._door, f"{self._name}:countTokens", body))


def countable(body: dict[str, Any]) -> dict[str, Any]:
    """A request without what the counting endpoint stumbles over: thoughts, and parts that hold a signature alone."""
    contents: list[dict[str, Any]] = []
    for content in body["contents"]:
        parts = [part for part in content["parts"] if part.get("text") != "" and not part.get("thought")]
        if contents and contents[-1]["role"] == content["role"]:
            parts = contents.pop()["parts"] + parts
        contents += [{**content, "parts": parts}] if parts else []
    return {**body, "contents": contents}


def counted(answer: dict[str, Any]) -> int:
    """The tokens that an endpoint counted. Raises ProviderError if it does not say."""
    tokens = answer.get("totalTokens")
    if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0:
        return tokens
    raise ProviderError("answer", "Gemini did not say how many tokens the request has. Go on without its count.")
