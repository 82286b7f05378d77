"""Anthropic's models through the official SDK.

The bytes are encoded here and passed to the SDK's `post`: its `messages.create` would reorder the fields and refuse
beta fields. On the wire a request is `request.bytes` with `"stream":true` as the last field.
"""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from foldmark.core.errors import ProviderError
from foldmark.core.request import Piece, Request
from foldmark.dialects.anthropic.blocks import NAME, betas
from foldmark.dialects.anthropic.stream import MessageReader, refusal
from foldmark.dialects.anthropic.thinking import BINDING_BETA
from foldmark.dialects.bodies import Json
from foldmark.providers.registry import Access
from foldmark.providers.sdk import ModelServer, check_key, host, imported, streamed

KEY = "ANTHROPIC_API_KEY"

_COUNTED = ("model", "thinking", "output_config", "context_management", "system", "tools", "messages")


def connect(model: str, access: Access) -> "Anthropic":
    """Return the provider of a model. Raises ProviderError if the SDK is missing or the address is invalid."""
    if access.base_url is not None:
        host(access.base_url)
    return Anthropic(NAME, imported("anthropic", NAME, "anthropic"), access)


class Anthropic(ModelServer):
    """Sends requests to the Messages API. Each request names its model."""

    def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer. Kept blocks, calls, usage and the end follow once it is complete. Raises ProviderError."""
        body = {**request.body, "stream": True}
        return streamed(self.events("/v1/messages", body, _headers(body)), MessageReader(request.body), request)

    async def count(self, request: Request) -> int:
        """Return the tokens of a request as the API counts them. Raises ProviderError."""
        body = {name: request.body[name] for name in _COUNTED if name in request.body}
        return await self.counted("/v1/messages/count_tokens", body, _headers(body))

    def client(self) -> Any:
        """Return a new client of the SDK. Raises ProviderError without a key."""
        configured = self.access.given_key
        checked = None if configured is None else check_key(configured, NAME, KEY)
        client = self.connected(self.sdk.AsyncAnthropic, api_key=checked)
        # The SDK may know a key, a token or credentials from the environment.
        key = client.api_key or client.auth_token
        self.hidden = Access(key).hidden
        check_key(key or ("…" if client.credentials else ""), NAME, KEY)
        return client

    def refusal(self, status: int, body: Any, headers: Mapping[str, str]) -> ProviderError:
        """Return the error for a refusal; a status below 400 is that of a stream."""
        return refusal(status, body, headers, self.hidden)

    def failure(self, problem: Any) -> ProviderError:
        """Return the error for an exception during a request."""
        if isinstance(problem, self.sdk.CredentialsError):
            return ProviderError("key", f"There is no key for {NAME}. Set {KEY}. ({self.hidden(str(problem))})")
        return super().failure(problem)


def _headers(body: Json) -> dict[str, str]:
    named = [BINDING_BETA] if "block_binding" in body.get("thinking", {}) else []
    named += betas(body)
    return {"anthropic-beta": ",".join(named)} if named else {}
