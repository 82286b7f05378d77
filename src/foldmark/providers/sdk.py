"""The code shared by all providers that use an SDK: the import, the connection, the stream of an answer, its failures.

The SDKs send the requests, which are passed as bytes, and define the errors. Their models of answers are not used,
because the answers of compatible servers do not fit them.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import cache
from importlib import import_module
from shlex import join
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from foldmark.core.codec import well_formed
from foldmark.core.errors import ProviderError
from foldmark.core.request import Piece, Request, ToolCall
from foldmark.dialects.bodies import Json, Reader
from foldmark.dialects.errors import brief, not_understood
from foldmark.providers.registry import Access, no_sdk

CONNECT, READ = 10.0, 600.0
"""Seconds to wait for a connection, and for the next bytes of an answer. Thinking models are silent for minutes."""
END = 1.0
"""Seconds to wait for the end of a stream after the whole answer."""


def imported(module: str, server: str, extra: str) -> Any:
    """Import an SDK. Raises ProviderError if it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        raise ProviderError("sdk", no_sdk(server, extra)) from None


def http(**more: Any) -> Any:
    """Return an HTTP client for an SDK, which closes it together with its own client.

    It does not follow redirects: a conversation is sent only to the given address. Raises ProviderError if a proxy in
    the environment cannot be used.
    """
    import httpx2

    try:
        return httpx2.AsyncClient(verify=certificates(), follow_redirects=False, **more)
    except ImportError:
        from foldmark.installation import package_command

        text = (
            "A SOCKS proxy is set, and the package for it is not installed. Unset ALL_PROXY, HTTPS_PROXY and "
            f"HTTP_PROXY, or install it: {join(package_command('socksio'))}"
        )
        raise ProviderError("sdk", text) from None
    except (ValueError, httpx2.InvalidURL) as error:
        text = f"A proxy cannot be used: {brief(str(error))}. Correct ALL_PROXY, HTTPS_PROXY and HTTP_PROXY."
        raise ProviderError("request", text) from None


@cache
def certificates() -> ssl.SSLContext:
    """Return the trusted certificates. They are cached, because loading them is slow."""
    import httpx2

    return httpx2.create_ssl_context()


def host(url: str) -> str:
    """Return the host of an address, with its port. Raises ProviderError for an invalid address."""
    try:
        parts = urlsplit(url)
        found = f"{parts.hostname or ''}{'' if parts.port is None else f':{parts.port}'}"
    except ValueError:
        found = ""
    if not found or parts.scheme not in ("http", "https") or not url.isprintable() or " " in url:
        shown = url.rpartition("@")[2][:80]
        text = f"'{shown}' is not the address of a server. Set one that begins with http:// or https://."
        raise ProviderError("request", text)
    return found


def check_key(key: str, server: str, variables: str) -> str:
    """Return the key. Raises ProviderError if it is missing or not valid in a header."""
    if not key.strip():
        raise ProviderError("key", f"There is no key for {server}. Set {variables}.")
    if not key.isascii() or not key.isprintable() or " " in key:
        text = f"The key for {server} holds characters that no key has. Set {variables} to the key alone."
        raise ProviderError("key", text)
    return key


def token_count(answer: Any, field: str, server: str) -> int:
    """Return the number of tokens that a server counted. Raises ProviderError if it is not a number."""
    tokens = answer.get(field) if isinstance(answer, dict) else None
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 0:
        raise not_understood(server, "it counted no tokens")
    return tokens


def transport_failure(server: str, problem: Exception, hidden: Callable[[str], str]) -> ProviderError:
    """Return the error for an exception of an SDK or of its connection; `hidden` removes the key from a text."""
    import httpx2

    cause = problem if isinstance(problem, httpx2.HTTPError) else problem.__cause__ or problem
    words = brief(hidden(str(cause))).rstrip(".") or type(cause).__name__
    if isinstance(cause, httpx2.TimeoutException):
        text = f"{server} did not answer in time ({type(cause).__name__}). Ask again."
    elif isinstance(cause, httpx2.InvalidURL | httpx2.UnsupportedProtocol | httpx2.LocalProtocolError):
        return ProviderError("request", f"{server} cannot be reached at its address: {words}. Correct the address.")
    elif isinstance(cause, httpx2.TransportError) or type(problem).__name__ == "APIConnectionError":
        text = f"The connection to {server} failed: {words}. Check the network, then ask again."
    else:
        return not_understood(server, words)
    return ProviderError("network", text)


async def streamed(events: AsyncGenerator[Json, None], reader: Reader, request: Request) -> AsyncGenerator[Piece, None]:
    """Yield the pieces of an answer as they arrive, with calls by the tools' own names. Closing the generator ends the
    request. Raises ProviderError.

    The stream is read to its end, which directly follows the complete answer. Otherwise the SDK's generators would be
    left to the garbage collector, which may not run before the program ends.
    """
    try:
        async with asyncio.timeout(None) as patience, aclosing(events):
            async for event in events:
                for shown in () if reader.over else reader.add(event):
                    yield shown
                if reader.over and patience.when() is None:
                    patience.reschedule(asyncio.get_running_loop().time() + END)
    except (TimeoutError, ProviderError):
        if not reader.over:
            raise
    for piece in reader.pieces():
        if isinstance(piece, ToolCall):
            yield replace(piece, name=request.names.get(piece.name, piece.name))
        else:
            yield piece


class ModelServer:
    """A server that is reached through Anthropic's or OpenAI's SDK, which share one design. Each request has its own
    client, so that no client outlives its event loop. `name` is the server's display name; `hidden` removes the key
    from a text."""

    def __init__(self, name: str, sdk: Any, access: Access) -> None:
        self.name, self.sdk, self.access, self.hidden = name, sdk, access, access.hidden

    def client(self) -> Any:
        """Return a new client of the SDK. Raises ProviderError without a key."""
        raise NotImplementedError

    def refusal(self, status: int, body: Any, headers: Mapping[str, str]) -> ProviderError:
        """Return the error for a refusal; `status` is 0 in the middle of a stream."""
        raise NotImplementedError

    def connected(self, kind: Callable[..., Any], **own: Any) -> Any:
        """Return a new SDK client of this `kind`, with its `own` arguments. It does not retry, and a foreign server
        gets no header that the SDK takes from the environment."""
        timeout = self.sdk.Timeout(READ, connect=CONNECT)
        client = kind(base_url=self.access.base_url, max_retries=0, timeout=timeout, http_client=http(), **own)
        if self.access.foreign:
            client._custom_headers = {}
        return client

    async def events(self, path: str, body: Json, headers: Mapping[str, Any]) -> AsyncGenerator[Json, None]:
        """Request a stream and yield its events. A server that does not stream sends its whole answer as one event.

        Raises ProviderError. Closing this closes the connection.
        """
        try:
            async with self.client() as client:
                stream = await self._post(client, path, body, headers, stream_cls=self.sdk.AsyncStream[object])
                async with stream, aclosing(self._read(stream)) as events:
                    async for event in events:
                        yield event
        except Exception as problem:
            raise self.failure(problem) from None

    async def counted(self, path: str, body: Json, headers: Mapping[str, Any]) -> int:
        """Return the number of tokens that the server counts in a body. Raises ProviderError."""
        try:
            async with self.client() as client:
                return token_count(await self._post(client, path, body, headers), "input_tokens", self.name)
        except Exception as problem:
            raise self.failure(problem) from None

    def failure(self, problem: Any) -> ProviderError:
        """Return the error for an exception during a request."""
        if isinstance(problem, ProviderError):
            return problem
        if isinstance(problem, self.sdk.APIStatusError):
            return self.refusal(problem.status_code, problem.body, problem.response.headers)
        if type(problem) is self.sdk.APIError:  # in the middle of a stream
            return self.refusal(0, problem.body or problem.message, {})
        return transport_failure(self.name, problem, self.hidden)

    def checked(self, event: object) -> Json:
        """Return an event. Raises ProviderError if it is not an event, or reports an error."""
        if not isinstance(event, dict):
            raise not_understood(self.name, self.hidden(repr(event)))
        return well_formed(event)  # type: ignore[no-any-return]  # servers cut texts between the halves of a character

    async def _post(self, client: Any, path: str, body: Json, headers: Mapping[str, Any], **more: Any) -> Any:
        options = {"headers": headers} if headers else {}
        content = msgspec.json.encode(body)
        return await client.post(
            path, cast_to=object, content=content, options=options, stream="stream_cls" in more, **more
        )

    async def _read(self, stream: Any) -> AsyncGenerator[Json, None]:
        kind = stream.response.headers.get("content-type", "").partition(";")[0].strip()
        if kind == "application/json":
            yield self.checked(json.loads(await stream.response.aread()))
            return
        came = False
        async for event in stream:
            came = True
            yield self.checked(event)
        if not came and kind != "text/event-stream":
            due = f"{self.name} answered with {kind or 'nothing'} instead of a stream of events."
            raise ProviderError("answer", f"{due} Check its address.")
