"""Requests through the low-level client of Google's SDK (`google-genai`), for Gemini and for Code Assist.

The SDK's typed calls would not do: they turn thought signatures into bytes and back, drop fields that they do not
know, refuse a system instruction where tokens are counted, and know no Code Assist. Its low-level client sends the
JSON that it is given. It is given an HTTP client of its own for each request, so that closing ends the request at once,
nothing is asked again unseen, and silence ends some time. A stream is read here: the SDK's reader leaves its
generators to the event loop when it is left early, which complains of them in the end.
"""

import json
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from foldmark.core.codec import well_formed
from foldmark.core.errors import ProviderError
from foldmark.dialects.gemini.errors import brief, decoded, refusal
from foldmark.providers.connection import trusted

TIMEOUTS = {"connect": 20.0, "read": 600.0, "write": 120.0, "pool": 20.0}
"""Seconds that each of these may take; models that think are silent for minutes."""


_ADDRESS = re.compile(r"https?://[!-~]+")


class Service(Struct, frozen=True):
    """Whom to ask: a name for people, the address and its version, and what to do about a key that was refused."""

    name: str
    base_url: str | None
    version: str
    hint: str


class Door(Struct, frozen=True):
    """A service, the headers that open it, and what takes the key in them out of an error's text."""

    service: Service
    headers: dict[str, str]
    hidden: Callable[[str], str]

    def __repr__(self) -> str:
        return f"Door({self.service!r})"


def require_sdk() -> None:
    """Raises ProviderError if the SDK is not installed."""
    try:
        there = find_spec("google.genai") is not None and find_spec("httpx2") is not None
    except ModuleNotFoundError:
        there = False
    if not there:
        raise ProviderError("sdk", "Gemini needs a package that is not installed: pip install 'foldmark[gemini]'.")


def checked(address: str | None) -> str | None:
    """The address, if it is one. Raises ProviderError."""
    try:
        fine = address is None or (_ADDRESS.fullmatch(address) is not None and bool(urlsplit(address).hostname))
    except ValueError:
        fine = False
    if not fine:
        raise ProviderError("request", f"{brief(address or '')!r} is no address of a provider, as https://host is.")
    return address


async def streamed(door: Door, path: str, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
    """The JSON objects of a streamed answer as they come. Raises ProviderError."""
    async with _client(door) as (client, responses):
        with _failures(door):
            unread = await client.async_request_streamed("post", path, dict(body))
        await unread.aclose()
        async with aclosing(_events(responses[0])) as events:
            while True:
                with _failures(door):
                    event = await anext(events, None)
                if event is None:
                    return
                for each in _objects(door, event):
                    yield each


async def posted(door: Door, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The JSON object that answers a request. Raises ProviderError."""
    async with _client(door) as (client, _):
        with _failures(door):
            answer = await client.async_request("post", path, dict(body))
        return _objects(door, answer.body)[0]


@asynccontextmanager
async def _client(door: Door) -> AsyncIterator[tuple[Any, list[Any]]]:
    """The SDK's client, and the responses that it gets."""
    import httpx2
    from google import genai
    from google.genai.types import HttpOptions

    service = door.service
    responses: list[Any] = []

    async def prepare(request: Any) -> None:
        request.extensions["timeout"] = TIMEOUTS
        request.headers.pop("x-goog-api-key", None)  # the SDK wants one, whatever opens the door
        request.headers.update(door.headers)

    async def check(response: Any) -> None:
        responses.append(response)
        if response.status_code != 200:
            said = decoded(door.hidden((await response.aread()).decode("utf-8", "replace")))
            raise refusal(service.name, response.status_code, said, response.headers.get("retry-after"), service.hint)

    hooks: dict[str, list[Callable[..., Any]]] = {"request": [prepare], "response": [check]}
    async with httpx2.AsyncClient(event_hooks=hooks, verify=trusted()) as http:
        options = HttpOptions(
            base_url=service.base_url,
            api_version=service.version,
            httpx_async_client=http,
            async_client_args={"verify": trusted(), "ssl": trusted()},  # or it makes two more
        )
        logging.getLogger("google_genai._api_client").setLevel(logging.ERROR)  # it says which key it did not take
        sdk = genai.Client(api_key="none", vertexai=False, http_options=options)
        try:
            yield sdk._api_client, responses
        finally:
            sdk.close()
            for response in responses:
                await response.aclose()


async def _events(response: Any) -> AsyncGenerator[str, None]:
    """The data of each server-sent event, and at the end what was none, as one: an error that came as a page."""
    rest, data, others = b"", list[bytes](), list[bytes]()
    async with aclosing(response.aiter_bytes()) as chunks:
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in (each.removesuffix(b"\r") for each in lines):
                if line.startswith(b"data:"):
                    data.append(line[5:])
                elif line:
                    others.append(line)
                elif data:
                    yield b"\n".join(data).decode("utf-8", "replace")
                    data = []
    if left := b"\n".join([*others, *data, rest]).strip():
        yield left.decode("utf-8", "replace")


@contextmanager
def _failures(door: Door) -> Iterator[None]:
    """Whatever the SDK raises, as a ProviderError."""
    try:
        yield
    except ProviderError:
        raise
    except Exception as error:
        raise _failure(door, error) from error


def _failure(door: Door, error: Exception) -> ProviderError:
    import httpx2

    service = door.service
    what = brief(door.hidden(f"{type(error).__name__}: {error}"))
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol | httpx2.LocalProtocolError):
        text = f"{service.name} cannot be asked at {_host(service.base_url)}: {what}. Check its address."
        return ProviderError("request", text)
    if isinstance(error, httpx2.TransportError):
        at = f" at {_host(service.base_url)}" if service.base_url else ""
        text = f"The connection to {service.name}{at} failed: {what}. Check the network, then try again."
        return ProviderError("network", text)
    return _odd(door, f"{type(error).__name__}: {error}")


def _host(address: str | None) -> str:
    """Where a server is, without what else an address may hold: a password, a path, a query."""
    with suppress(ValueError):
        parts = urlsplit(address or "")
        return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or "its address"
    return "its address"


def _objects(door: Door, text: str) -> list[dict[str, Any]]:
    """What a piece of an answer holds: an object, or a list of them. Raises ProviderError, also for an error in it."""
    try:
        found = well_formed(json.loads(text))
    except (ValueError, RecursionError):
        raise _odd(door, text) from None
    objects = found if isinstance(found, list) and found else [found]
    for each in objects:
        if not isinstance(each, dict):
            raise _odd(door, text)
        if each.get("error") is not None:
            raise _told(door, each)
    return objects


def _told(door: Door, said: dict[str, Any]) -> ProviderError:
    """An error that stands in an answer that had begun."""
    error = said["error"]
    if not isinstance(error, dict):
        return _odd(door, json.dumps(said))
    code = error.get("code")
    shown = decoded(door.hidden(json.dumps(said)))
    return refusal(door.service.name, code if isinstance(code, int) else 500, shown, None, door.service.hint)


def _odd(door: Door, said: str) -> ProviderError:
    what = brief(door.hidden(said)) or "nothing at all"
    text = f"{door.service.name} answered what cannot be understood: {what}. Try again, or check its address."
    return ProviderError("answer", text)
