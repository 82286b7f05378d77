"""Models that answer over OpenAI's Chat Completions, at OpenAI or any compatible server, through the official SDK.

On the wire a request is `request.bytes` with `stream` and `stream_options` as its last fields, and, at OpenAI itself, a
key for its cache.
"""

from collections.abc import AsyncGenerator, Mapping
from itertools import chain
from typing import Any

from foldmark.core.errors import ProviderError
from foldmark.core.ports import Provider
from foldmark.core.request import Piece, Request
from foldmark.dialects.bodies import Json
from foldmark.dialects.openai.stream import CompletionReader, failure_in, masked, refusal
from foldmark.providers.registry import Access
from foldmark.providers.sdk import ModelServer, host, imported, streamed
from foldmark.wires import chat as wire

OWN_HOSTS = ("api.openai.com", "eu.api.openai.com", "us.api.openai.com")
"""Hosts of OpenAI's own service."""


def connect(model: str, access: Access) -> Provider:
    """Return the provider of a model. Raises ProviderError if the SDK, the key or the address is missing."""
    return _ChatCompletions(access)


class OpenAIServer(ModelServer):
    """A server that speaks OpenAI's dialect, and the access to it.

    Raises ProviderError without the SDK, without a key (unless the server has its own address), and for an invalid
    address. `own` is True for OpenAI itself.
    """

    def __init__(self, access: Access) -> None:
        sdk = imported("openai", "OpenAI", "openai")
        if not access.key and access.base_url is None:
            raise ProviderError("key", "There is no key for OpenAI. Set OPENAI_API_KEY.")
        where = OWN_HOSTS[0] if access.base_url is None else host(access.base_url)
        self.own = where.partition(":")[0] in OWN_HOSTS
        super().__init__("OpenAI" if self.own else where, sdk, access)
        self.hidden = lambda text: masked(text, access.hidden)

    def answer_events(self, path: str, request: Request, fields: Json) -> AsyncGenerator[Json, None]:
        """Request a streamed answer, adding `fields` to the request, and yield its events.

        Raises ProviderError. OpenAI uses the first tokens of a request, which agents share, and a key of the agent to
        route the request to the machine whose cache has it. No other server gets that key, because several refuse it
        (NVIDIA, Fireworks, Azure).
        """
        keyed = {"prompt_cache_key": request.cache_key} if self.own and request.cache_key else {}
        return self.events(path, {**request.body, **fields, **keyed}, self._headers())

    async def counted_as_response(self, body: Json) -> int:
        """Return the tokens of a body for the Responses API, as the server counts them. Raises ProviderError."""
        return await self.counted("/responses/input_tokens", body, self._headers())

    def no_counting(self) -> ProviderError:
        """Return the error for a server that does not count tokens."""
        return ProviderError("request", f"{self.name} has no counting endpoint; only estimates are available.")

    def client(self) -> Any:
        """Return a new client of the SDK."""
        key = self.access.key or "none"  # the SDK requires a key; without one, `_headers` does not send it
        return self.connected(self.sdk.AsyncOpenAI, api_key=key, project=self.access.project)

    def refusal(self, status: int, body: Any, headers: Mapping[str, str]) -> ProviderError:
        """Return the error for a refusal; `status` is 0 in the middle of a stream."""
        return refusal(self.name, status, body, headers, self.hidden)

    def checked(self, event: object) -> Json:
        """Return an event. Raises ProviderError if it is not an event, or reports an error."""
        found = super().checked(event)
        if error := failure_in(found):
            raise self.refusal(0, error, {})
        return found

    def failure(self, problem: Any) -> ProviderError:
        """Return the error for an exception during a request."""
        no_path = isinstance(problem, self.sdk.NotFoundError) and problem.code != "model_not_found"
        if no_path and problem.request.url.path.endswith("/input_tokens"):
            return self.no_counting()
        return super().failure(problem)

    def _headers(self) -> dict[str, Any]:
        from openai import omit

        headers = {} if self.access.key else {"Authorization": omit}
        return headers | ({"OpenAI-Organization": omit, "OpenAI-Project": omit} if self.access.foreign else {})


class _ChatCompletions(OpenAIServer):
    """Asks for chat completions."""

    def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer. Raises ProviderError, ContextOverflowError."""
        fields = {"stream": True, "stream_options": {"include_usage": True}}
        return streamed(self.answer_events("/chat/completions", request, fields), CompletionReader(self.name), request)

    async def count(self, request: Request) -> int:
        """Return the tokens of a request as OpenAI counts them. Raises ProviderError, also for any other server."""
        if not self.own:
            raise self.no_counting()
        return await self.counted_as_response(countable(request.body))


def countable(chat: Json) -> Json:
    """Return a body of Chat Completions as a body of /v1/responses/input_tokens, OpenAI's only endpoint that counts
    tokens."""
    system = [wire.text_of(message["content"]) for message in chat["messages"] if message["role"] == "system"]
    others = [message for message in chat["messages"] if message["role"] != "system"]
    body: Json = {"model": chat["model"], "input": list(chain.from_iterable(map(wire.items_for, others)))}
    if system:
        body["instructions"] = "\n\n".join(system)
    if "tools" in chat:
        body["tools"] = [{"type": "function", **tool["function"], "strict": False} for tool in chat["tools"]]
    if "reasoning_effort" in chat:
        body["reasoning"] = {"effort": chat["reasoning_effort"]}
    return body
