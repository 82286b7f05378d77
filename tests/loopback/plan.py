"""What a loopback provider is to answer, in no dialect, and what each dialect's wire has to know how to say.

A suite gives a `Loopback` (server.py) a list of answers, one for each request in order, and a `Wire` that turns them
into the bytes of its provider's protocol. The scenarios are one list for all (scenarios.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from foldmark.core.request import Usage


class Say(NamedTuple):
    """Text, in the pieces in which it is streamed."""

    pieces: tuple[str, ...]


class Think(NamedTuple):
    """Thinking, and the opaque signature (or encrypted content) that the provider wants back."""

    text: str
    signature: str


class Use(NamedTuple):
    """A tool call; `signature` is Gemini's thought signature, other wires ignore it. `raw` is the text of the arguments
    where it is to be no JSON, in the protocols that stream text; others send `args`."""

    call_id: str
    name: str
    args: dict[str, Any]
    signature: str | None = None
    raw: str | None = None


Part = Say | Think | Use


class Reply(NamedTuple):
    """A whole answer. `stop` is as `Stopped.why`: end, calls, length or refused."""

    parts: tuple[Part, ...]
    stop: str = "end"
    usage: Usage = Usage(fresh=100, cache_read=40, cache_write=0, output=20)


class Fail(NamedTuple):
    """No answer but an HTTP error. `kind` is as `ProviderError.kind`: key (401), rate (429), busy (5xx; Anthropic's
    529 overloaded among them), request (400) or overflow (in the provider's own words, with `tokens` and `limit` where
    it says them)."""

    kind: str
    status: int = 0
    retry_after: float | None = None
    tokens: int = 250_000
    limit: int = 200_000


class Broken(NamedTuple):
    """An answer that begins and then breaks off: by an error event in the stream where the protocol has one
    (`event`), otherwise by a closed connection."""

    parts: tuple[Part, ...]
    event: bool = False


class Stalled(NamedTuple):
    """An answer that begins and then sends no more until the client goes away."""

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
    """One that these requests are sent to."""

    def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Http | None:
        """The real one's refusal of a request: unknown path 404, no key 401, a body that breaks the rules of
        tests/wire/request_validators.py 400. None for a request to be answered. Header names are lower case."""

    def is_count(self, path: str) -> bool:
        """Whether the path is that of the counting endpoint."""

    def counted(self, tokens: int) -> Http:
        """The counting endpoint's answer."""

    def stream(self, reply: Reply, body: dict[str, Any]) -> Iterator[bytes]:
        """The events of a streamed answer, each as its bytes on the wire, in the protocol's order."""

    def unfinished(self, parts: tuple[Part, ...], body: dict[str, Any]) -> Iterator[bytes]:
        """The events of an answer up to the last of these parts, and not its end."""

    def failure(self, fail: Fail) -> Http:
        """An error as the real one says it."""

    def error_event(self) -> bytes | None:
        """An overload told in the middle of a stream; None if the protocol has none."""

    def texts(self, body: dict[str, Any]) -> list[tuple[str, str]]:
        """What a request says, in order: (user, text), (assistant, text), (call, name), (result, text), (thinking,
        signature), (image, media type or url), (system, text)."""
