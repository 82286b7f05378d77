"""The answers of a loopback provider, independent of any dialect, and the interface of each provider's wire.

A suite gives a `Loopback` (server.py) a list of answers, one for each request in order, and a `Wire` that turns them
into the bytes of its provider's protocol. All wires share the scenarios in scenarios.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from foldmark.core.request import Usage


class Say(NamedTuple):
    """Text, in its streamed pieces."""

    pieces: tuple[str, ...]


class Think(NamedTuple):
    """Thinking, and the opaque signature (or encrypted content) that the provider wants back."""

    text: str
    signature: str


class Use(NamedTuple):
    """A tool call. `signature` is Gemini's thought signature; other wires ignore it. `raw` replaces the text of the
    arguments, to send invalid JSON in the protocols that stream text; others send `args`."""

    call_id: str
    name: str
    args: dict[str, Any]
    signature: str | None = None
    raw: str | None = None


Part = Say | Think | Use


class Reply(NamedTuple):
    """A whole answer. `stop` is a value of `Stopped.why`: end, calls, length or refused."""

    parts: tuple[Part, ...]
    stop: str = "end"
    usage: Usage = Usage(fresh=100, cache_read=40, cache_write=0, output=20)


class Fail(NamedTuple):
    """An HTTP error instead of an answer. `kind` is a value of `ProviderError.kind`: key (401), rate (429), busy (5xx,
    including Anthropic's 529 overloaded), request (400) or overflow (in the provider's own words, with `tokens` and
    `limit` if it gives them)."""

    kind: str
    status: int = 0
    retry_after: float | None = None
    tokens: int = 250_000
    limit: int = 200_000


class Broken(NamedTuple):
    """An answer that begins and then breaks off: with an error event in the stream if `event` is set and the protocol
    has one, otherwise with a closed connection."""

    parts: tuple[Part, ...]
    event: bool = False


class Stalled(NamedTuple):
    """An answer that begins and then sends nothing more until the client leaves."""

    parts: tuple[Part, ...]


Answer = Reply | Fail | Broken | Stalled


class Http(NamedTuple):
    """A plain HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Wire(Protocol):
    """One provider's protocol, as a server speaks it."""

    provider: str
    """As in `provider/model`."""
    model: str
    """The model that the requests are sent to."""

    def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Http | None:
        """Return the real API's refusal of a request: 404 for an unknown path, 401 without a key, 400 for a body that
        breaks the rules of tests/wire/request_validators.py. Return None if the request is to be answered. Header
        names are lower case."""

    def is_count(self, path: str) -> bool:
        """Return True if the path is that of the counting endpoint."""

    def counted(self, tokens: int) -> Http:
        """Return the counting endpoint's answer."""

    def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
        """Yield the events of a streamed answer as bytes, in the protocol's order."""

    def unfinished(self, parts: tuple[Part, ...], body: dict[str, Any]) -> Iterator[bytes]:
        """Yield the events of an answer up to the last of these parts, without its end."""

    def failure(self, fail: Fail) -> Http:
        """Return an error in the words of the real API."""

    def error_event(self) -> bytes | None:
        """Return the event that reports an overload within a stream, or None if the protocol has none."""

    def texts(self, body: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the content of a request in order: (user, text), (assistant, text), (call, name), (result, text),
        (thinking, signature), (image, media type or url), (document, media type), (system, text)."""
