"""Gemini's API, with a key of Google AI Studio, and the connection to Google's services, which Code Assist shares.

Requests go through the low-level client of Google's SDK (`google-genai`). The SDK's typed calls convert thought
signatures to bytes and back, drop unknown fields, refuse a system instruction when they count tokens, and do not
support Code Assist. The low-level client sends the given JSON. Each request has its own HTTP client, so that closing it
ends the request at once, nothing is retried silently, and a silent connection times out. The stream is read here,
because the SDK's reader, if closed early, leaves its generators to the event loop, which then warns about them.
"""

import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from foldmark.core.codec import well_formed
from foldmark.core.errors import ProviderError
from foldmark.core.ports import Provider
from foldmark.core.request import Piece, Request
from foldmark.dialects.bodies import Json
from foldmark.dialects.errors import not_understood
from foldmark.dialects.gemini.stream import ResponseReader, refusal
from foldmark.providers.registry import Access
from foldmark.providers.sdk import (
    certificates,
    check_key,
    host,
    http,
    imported,
    streamed,
    token_count,
    transport_failure,
)

KEYS = "GEMINI_API_KEY or GOOGLE_API_KEY"

TIMEOUTS = {"connect": 20.0, "read": 600.0, "write": 120.0, "pool": 20.0}
"""Maximum seconds for each step; models that think are silent for minutes."""


def connect(model: str, access: Access) -> Provider:
    """Return the provider of a model. Raises ProviderError without the SDK or a key, or for an invalid address."""
    imported("google.genai", "Gemini", "gemini")
    key = check_key((access.given_key or "").strip(), "Gemini", KEYS)
    server = GoogleServer("Gemini", access.base_url, "v1beta", f"Check {KEYS}.", {"x-goog-api-key": key}, access.hidden)
    return _Gemini(model, server)


class _Gemini:
    """A model of Gemini's API."""

    def __init__(self, model: str, server: "GoogleServer") -> None:
        self._name = quote(model if "/" in model else f"models/{model}")
        self._server = server

    def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Stream the answer to a request; closing the iterator ends the request. Raises ProviderError."""
        events = self._server.events(f"{self._name}:streamGenerateContent?alt=sse", request.body)
        return streamed(events, ResponseReader(request.bytes), request)

    async def count(self, request: Request) -> int:
        """Return the tokens of a request as the API counts them, system and tools included. Raises ProviderError."""
        body = {"generateContentRequest": {**countable(request.body), "model": self._name}}
        return token_count(await self._server.posted(f"{self._name}:countTokens", body), "totalTokens", "Gemini")


class GoogleServer(Struct, frozen=True):
    """One of Google's services: its display name, its address and version, the hint after a refused key, the headers
    with the key, and the function that removes the key from a text."""

    name: str
    base_url: str | None
    version: str
    hint: str
    headers: dict[str, str]
    hidden: Callable[[str], str]

    def __post_init__(self) -> None:
        if self.base_url is not None:
            host(self.base_url)

    def __repr__(self) -> str:
        return f"GoogleServer({self.name!r}, {self.base_url!r})"

    async def events(self, path: str, body: Json) -> AsyncGenerator[Json, None]:
        """Yield the JSON objects of a streamed answer as they arrive. Raises ProviderError."""
        try:
            async with self._client() as (client, responses):
                unread = await client.async_request_streamed("post", path, dict(body))
                await unread.aclose()
                async with aclosing(_events(responses[0])) as events:
                    async for event in events:
                        for each in self._objects(event):
                            yield each
        except Exception as problem:
            raise self._failure(problem) from problem

    async def posted(self, path: str, body: Json) -> Json:
        """Return the JSON object that answers a request. Raises ProviderError."""
        try:
            async with self._client() as (client, _):
                answer = await client.async_request("post", path, dict(body))
            return self._objects(answer.body)[0]
        except Exception as problem:
            raise self._failure(problem) from problem

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[tuple[Any, list[Any]]]:
        """Yield the SDK's client, and the list of the responses that it gets."""
        from google import genai
        from google.genai.types import HttpOptions

        responses: list[Any] = []

        async def prepare(request: Any) -> None:
            request.extensions["timeout"] = TIMEOUTS
            request.headers.pop("x-goog-api-key", None)  # required by the SDK, but perhaps not the credentials
            request.headers.update(self.headers)

        async def check(response: Any) -> None:
            responses.append(response)
            if response.status_code != 200:
                body = _decoded(self.hidden((await response.aread()).decode("utf-8", "replace")))
                raise refusal(self.name, response.status_code, body, response.headers, self.hint)

        async with http(event_hooks={"request": [prepare], "response": [check]}) as client:
            options = HttpOptions(
                base_url=self.base_url,
                api_version=self.version,
                httpx_async_client=client,
                async_client_args={"verify": certificates(), "ssl": certificates()},  # or it loads them twice more
            )
            logging.getLogger("google_genai._api_client").setLevel(logging.ERROR)  # it would log which key it ignored
            sdk = genai.Client(api_key="none", vertexai=False, http_options=options)
            try:
                yield sdk._api_client, responses
            finally:
                sdk.close()
                for response in responses:
                    await response.aclose()

    def _failure(self, problem: Exception) -> ProviderError:
        if isinstance(problem, ProviderError):
            return problem
        where = self.name if self.base_url is None else f"{self.name} at {host(self.base_url)}"
        return transport_failure(where, problem, self.hidden)

    def _objects(self, text: str) -> list[Json]:
        """Return the objects in a piece of an answer, which is an object or a list of objects. Raises ProviderError,
        also if the piece reports an error."""
        found = well_formed(_decoded(text))
        objects = found if isinstance(found, list) and found else [found]
        for each in objects:
            if not isinstance(each, dict) or not isinstance(each.get("error", {}), dict | None):
                raise not_understood(self.name, self.hidden(text))
            if error := each.get("error"):
                code = error.get("code")
                shown = _decoded(self.hidden(json.dumps(each)))
                raise refusal(self.name, code if isinstance(code, int) else 500, shown, {}, self.hint)
        return objects


async def _events(response: Any) -> AsyncGenerator[str, None]:
    """Yield the data of each server-sent event, then everything outside of events as one text, such as an error
    page."""
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


def _decoded(text: str) -> Any:
    """Return the JSON of a body, or its text if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def countable(body: Json) -> Json:
    """Return a request without the parts that the counting endpoint refuses: thoughts, and parts that contain only a
    signature."""
    contents: list[Json] = []
    for content in body["contents"]:
        parts = [part for part in content["parts"] if part.get("text") != "" and not part.get("thought")]
        if contents and contents[-1]["role"] == content["role"]:
            parts = contents.pop()["parts"] + parts
        contents += [{**content, "parts": parts}] if parts else []
    return {**body, "contents": contents}
