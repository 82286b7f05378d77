"""The way to a server that speaks OpenAI's dialect, over the official SDK: keys, addresses, streams, errors.

The SDK carries the requests, which are given to it as bytes, reads the streams and knows the errors. Its models of
answers are not used: other servers' answers do not fit them. A client lives for one request, so that no connection
outlives it, whatever loop it ran in.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from foldmark.core.errors import ProviderError
from foldmark.core.request import Request
from foldmark.dialects.openai.errors import caught, masked, shortened, told
from foldmark.providers.access import Access
from foldmark.providers.connection import http

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream

OWN_HOSTS = ("api.openai.com", "eu.api.openai.com", "us.api.openai.com")
"""Where OpenAI's own service answers."""
CONNECT_SECONDS, READ_SECONDS = 10.0, 600.0


class Server:
    """A server and the access to it.

    Raises ProviderError without the SDK, without a key (a server with an address of its own may need none), and for an
    address that is none.
    """

    def __init__(self, access: Access) -> None:
        try:
            import openai  # noqa: F401
        except ImportError:
            raise ProviderError(
                "sdk", "OpenAI's SDK is not installed. Install it: pip install 'foldmark[openai]'"
            ) from None
        if not access.key and access.base_url is None:
            raise ProviderError("key", "There is no key for OpenAI. Set OPENAI_API_KEY.")
        self._access = access
        host = OWN_HOSTS[0] if access.base_url is None else _host(access.base_url)
        self.own = host.partition(":")[0] in OWN_HOSTS
        self.name = "OpenAI" if self.own else host

    def keyed(self, request: Request) -> dict[str, str]:
        """Return the field that routes all requests of one agent to the machine whose cache has them: OpenAI goes by
        the first tokens, which agents share, and by this key. Empty for any other server: several refuse it (NVIDIA,
        Fireworks, Azure)."""
        return {"prompt_cache_key": request.cache_key} if self.own and request.cache_key else {}

    async def events(self, path: str, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Ask for a stream and give its events; a server that does not stream gives its whole answer as one.

        Raises ProviderError. Closing this closes the connection.
        """
        from openai import AsyncStream

        try:
            async with self._client() as client:
                stream = await client.post(
                    path,
                    cast_to=object,
                    content=msgspec.json.encode(body),
                    options=self._options(),
                    stream=True,
                    stream_cls=AsyncStream[object],
                )
                async with stream, aclosing(self._read(stream)) as events:
                    async for event in events:
                        yield event
        except Exception as problem:
            raise caught(self.name, problem, self._access.hidden) from None

    async def _read(self, stream: "AsyncStream[object]") -> AsyncGenerator[dict[str, Any], None]:
        kind = stream.response.headers.get("content-type", "").partition(";")[0].strip()
        if kind == "application/json":
            yield self._checked(json.loads(await stream.response.aread()))
            return
        came = False
        async for event in stream:
            came = True
            yield self._checked(event)
        if not came and kind != "text/event-stream":
            due = f"{self.name} answered with {kind or 'nothing'} where a stream of events was due."
            raise ProviderError("answer", f"{due} Check its address.")

    async def counted(self, body: dict[str, Any]) -> int:
        """The tokens of a body for the Responses API, as the server counts them. Raises ProviderError."""
        import openai

        try:
            async with self._client() as client:
                answer = await client.post(
                    "/responses/input_tokens",
                    cast_to=object,
                    content=msgspec.json.encode(body),
                    options=self._options(),
                )
        except Exception as problem:
            if isinstance(problem, openai.NotFoundError) and problem.code != "model_not_found":
                raise self.no_counting() from None
            raise caught(self.name, problem, self._access.hidden) from None
        tokens = answer.get("input_tokens") if isinstance(answer, dict) else None
        if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 0:
            raise ProviderError("answer", f"{self.name} answered without a number of tokens.")
        return tokens

    def no_counting(self) -> ProviderError:
        """The error where tokens are not counted."""
        return ProviderError("request", f"{self.name} has no counting endpoint; estimates have to do.")

    def refuse(self, answer: dict[str, Any]) -> None:
        """Raise ProviderError if an event of a stream, or a whole answer, tells of an error."""
        choices = answer.get("choices")
        parts = [answer, *(choices if isinstance(choices, list) else ())]
        error = next((part["error"] for part in parts if isinstance(part, dict) and part.get("error")), None)
        if error or answer.get("type") == "error":
            raise told(self.name, 0, error or answer, {}, self._access.hidden)

    def broke_off(self) -> ProviderError:
        """The error for a stream that ended before its answer did."""
        return ProviderError("network", f"The connection to {self.name} ended in the middle of the answer.")

    def _client(self) -> "AsyncOpenAI":
        import openai

        client = openai.AsyncOpenAI(
            api_key=self._access.key or "none",  # the SDK takes no client without; `_options` sends nothing then
            base_url=self._access.base_url,
            project=self._access.project,
            max_retries=0,
            timeout=openai.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
            http_client=http(),
        )
        if self._access.foreign:
            client._custom_headers = {}
        return client

    def _options(self) -> Any:
        from openai import omit

        headers = {} if self._access.key else {"Authorization": omit}
        if self._access.foreign:
            headers |= {"OpenAI-Organization": omit, "OpenAI-Project": omit}
        return {"headers": headers} if headers else {}

    def _checked(self, event: object) -> dict[str, Any]:
        if not isinstance(event, dict):
            shown = shortened(masked(repr(event), self._access.hidden))
            raise ProviderError("answer", f"{self.name} answered what cannot be understood: {shown}.")
        try:
            msgspec.json.encode(event)
        except UnicodeEncodeError:
            return {key: _mended(value) for key, value in event.items()}
        return event


def _host(url: str) -> str:
    """The host of an address, with its port. Raises ProviderError if it is none."""
    try:
        parts = urlsplit(url)
        found = f"{parts.hostname or ''}{'' if parts.port is None else f':{parts.port}'}"
    except ValueError:
        found = ""
    if not found or parts.scheme not in ("http", "https"):
        shown = url.rpartition("@")[2][:80]
        raise ProviderError("request", f"'{shown}' is no address of a server; it begins with http:// or https://.")
    return found


def _mended(value: Any) -> Any:
    """A value whose texts can be written down: halves of surrogate pairs are joined, or replaced if they are alone."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_mended(key): _mended(each) for key, each in value.items()}
    return [_mended(each) for each in value] if isinstance(value, list) else value
