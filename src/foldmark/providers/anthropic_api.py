"""Anthropic's models over the official SDK, which is imported when one is first asked.

The SDK's `post` is given our own bytes: its `messages.create` would order the fields in its own way and not take what
is in beta. What is added on the wire is `"stream":true` as the last field of the body, and the SDK's headers. Events
are taken as the JSON that they are, so that whatever comes is judged in one place (`anthropic_stream`, `parse`).
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from foldmark.core.request import Piece, Request, ToolCall
from foldmark.dialects.anthropic import errors
from foldmark.dialects.anthropic.binding import bind
from foldmark.dialects.anthropic.blocks import betas
from foldmark.dialects.anthropic.messages import not_understood, parse
from foldmark.dialects.anthropic.stream import Reading
from foldmark.dialects.anthropic.thinking import BINDING_BETA
from foldmark.providers.access import Access
from foldmark.providers.connection import http

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

CONNECT, READ = 10.0, 600.0
"""Seconds to wait for a connection, and for the next bytes of an answer."""

_COUNTED = ("model", "thinking", "output_config", "context_management", "system", "tools", "messages")


def connect(model: str, access: Access) -> "Anthropic":
    """The provider; nothing is opened before it is asked. Each request names its model itself."""
    return Anthropic(access)


class Anthropic:
    """Asks the Messages API. Each request has a client of its own, so none outlives its event loop."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def __repr__(self) -> str:
        return f"Anthropic({self._access!r})"

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer; kept blocks, calls, usage and the end come when it is whole. Raises ProviderError."""
        client = self._client()
        reading = Reading()
        with _telling(_key_of(client)):
            async with client:
                body = {**request.body, "stream": True}
                async with await client.post(
                    "/v1/messages",
                    cast_to=object,
                    content=msgspec.json.encode(body),
                    options={"headers": _headers(body)},
                    stream=True,
                    stream_cls=_stream(),
                ) as events:
                    async for event in events:
                        for new in reading.take(event):
                            yield new
                        if reading.over:
                            break
        for piece in bind(lambda: request.body, parse(reading.message())):
            if isinstance(piece, ToolCall):
                yield replace(piece, name=request.names.get(piece.name, piece.name))
            elif not isinstance(piece, str):
                yield piece

    async def count(self, request: Request) -> int:
        """The tokens of a request as the API counts them. Raises ProviderError."""
        client = self._client()
        with _telling(_key_of(client)):
            async with client:
                body = {name: request.body[name] for name in _COUNTED if name in request.body}
                counted: Any = await client.post(
                    "/v1/messages/count_tokens",
                    cast_to=object,
                    content=msgspec.json.encode(body),
                    options={"headers": _headers(body)},
                )
        tokens = counted.get("input_tokens") if isinstance(counted, dict) else None
        if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 0:
            raise not_understood("it counted no tokens")
        return tokens

    def _client(self) -> "AsyncAnthropic":
        try:
            import anthropic
        except ImportError:
            raise errors.no_sdk() from None
        key = self._access.given_key
        if key is not None:
            _check(key)
        with _telling(key):
            client = anthropic.AsyncAnthropic(
                api_key=key,
                base_url=self._access.base_url,
                max_retries=0,
                timeout=anthropic.Timeout(READ, connect=CONNECT),
                http_client=http(),
            )
        if client.api_key is None and client.auth_token is None and client.credentials is None:
            raise errors.no_key()
        _check(client.api_key or client.auth_token or "…")
        if self._access.foreign:
            client._custom_headers = {}
        return client


def _stream() -> Any:
    from anthropic import AsyncStream

    return AsyncStream[object]


def _key_of(client: "AsyncAnthropic") -> str | None:
    return client.api_key or client.auth_token


def _check(key: str) -> None:
    if not key.strip():
        raise errors.no_key()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise errors.odd_key()


def _headers(body: dict[str, Any]) -> dict[str, str]:
    named = [BINDING_BETA] if "block_binding" in body.get("thinking", {}) else []
    named += betas(body)
    return {"anthropic-beta": ",".join(named)} if named else {}


@contextmanager
def _telling(key: str | None) -> Iterator[None]:
    """Whatever fails within is told as a ProviderError."""
    try:
        yield
    except Exception as error:
        raise errors.told(error, key) from None
