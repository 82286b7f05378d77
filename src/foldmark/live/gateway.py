"""The gateway: it forwards an agent's requests to the provider and the provider's answers back, byte for byte.

It listens only on the loopback interface. The agent's base URL contains an unguessable path segment, and the Host
header has to name the loopback interface, so that neither another user of the machine nor a web page (through DNS
rebinding) can use the agent's credentials. The upstream is fixed at the start; no request can change it.
"""

import asyncio
import json
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from threading import Thread
from types import TracebackType
from typing import NamedTuple, Self

import httpx2 as httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from foldmark.live.answering import Answering, Taken
from foldmark.live.clients.weaving import Weaver
from foldmark.live.sessions import LONGEST, Sessions
from foldmark.live.tally import Passed
from foldmark.live.upstreams import client, decoded, readable, target_at, upstream_url
from foldmark.rendering import harmless

LOG = logging.getLogger(__name__)

HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer trailers "
    b"transfer-encoding upgrade expect".split()
)
"""Headers about one connection, not about the message (RFC 9110, 7.6.1). This server has already answered `expect`."""

_ACCEPTED, _OF_THE_BYTES = b"accept-encoding", (b"content-length", b"content-encoding")

SILENCE_SECONDS = 30.0
"""Seconds without any request after which the log says so."""

LEAVE_SECONDS = 3
"""Seconds to wait at the end for answers that are still streaming."""

Headers = list[tuple[bytes, bytes]]


class Passing(NamedTuple):
    """A request to forward: its upstream, its path below the gateway's own address, its path and query as the agent
    sent them, and those at the upstream."""

    upstream: httpx.URL
    path: bytes
    asked: str
    target: bytes


class Gateway:
    """A gateway to `upstream`, an http or https URL, that runs while it is entered; `url` is the agent's base URL. With
    several upstreams, name -> URL, the base URL for each is `url/NAME`. `environment` names certificates to trust.

    `sessions` record and edit the requests; without them, everything is only forwarded. A gateway that replaces another
    one receives its `port`, or its `listening` socket, and its `secret`, so that the agent's base URL stays valid.
    Raises CommandError for an upstream that is not such a URL, OSError for a port that is in use.
    """

    def __init__(
        self,
        upstream: str | Mapping[str, str],
        *,
        port: int = 0,
        secret: str = "",
        sessions: Sessions | None = None,
        listening: socket.socket | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.secret = secret or secrets.token_urlsafe(24)
        self._socket = listening or loopback_socket(port)
        try:
            self.port: int = self._socket.getsockname()[1]
            self.url = f"http://127.0.0.1:{self.port}/{self.secret}"
            several = {"": upstream} if isinstance(upstream, str) else upstream
            upstreams = {name: upstream_url(url) for name, url in several.items()}
            forwarder = Forwarder(upstreams, self.secret, self.port, sessions, environment or {})
            if sessions is not None:
                sessions.others.base = f"http://127.0.0.1:{self.port}"
        except BaseException:
            self._socket.close()
            raise
        application = Starlette(routes=[Mount("/", app=forwarder)], lifespan=forwarder.lifespan)
        self._server = uvicorn.Server(
            uvicorn.Config(
                application,
                ws="none",
                access_log=False,  # paths contain the secret
                log_config=None,
                log_level="critical",  # it would clutter the agent's screen; anything important is logged here
                server_header=False,
                date_header=False,
                timeout_graceful_shutdown=LEAVE_SECONDS,
            )
        )
        self._thread = Thread(target=self._server.run, args=([self._socket],), name="foldmark-gateway")

    def __enter__(self) -> Self:
        self._socket.listen(128)  # connections made now wait until the server accepts them
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


class Forwarder:
    """The ASGI application that forwards every request under `/secret/NAME`, or `/secret` for the name "", to the same
    path under the upstream of that name."""

    def __init__(
        self,
        upstreams: Mapping[str, httpx.URL],
        secret: str,
        port: int,
        sessions: Sessions | None,
        environment: Mapping[str, str],
    ) -> None:
        self._sessions, self._environment = sessions, environment
        self._places = {f"/{secret}/{name}".rstrip("/").encode(): url for name, url in upstreams.items()}
        self._hosts = {f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost")}
        self._client: httpx.AsyncClient

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Hold the connections to the upstream, and notice if no request comes."""
        silence = asyncio.get_running_loop().call_later(SILENCE_SECONDS, self._note_silence)
        async with client(self._environment) as self._client:
            yield
        silence.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        passing = self._passing(scope)
        if passing is None and (asked := await self._asked_by_others(request)) is not None:
            await asked(scope, receive, send)
            return
        if passing is None:
            await PlainTextResponse("There is nothing here.\n", 404)(scope, receive, send)
            return
        read = self._sessions is not None and self._sessions.reads(passing.asked)
        if read and request.headers.get("upgrade", "").lower() == "websocket":
            # WebSocket traffic could not be read. After this answer Codex uses HTTP.
            await PlainTextResponse("This gateway takes requests only.\n", 426)(scope, receive, send)
            return
        if self._sessions is not None and not read:
            self._note_path(passing.path)
        headers, made = forwarded(scope["headers"]), Answering(b"")
        content: bytes | AsyncIterator[bytes] | None = _body(request)
        if self._sessions is not None and read and request.method == "POST":
            try:
                begun = await _read(request, LONGEST)
            except ClientDisconnect:
                return
            if isinstance(begun, bytes):
                known = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
                made = await self._sessions.pass_on(passing.asked, known, begun)
                if made.reply is not None:
                    media, body = made.reply
                    await Response(body, media_type=None, headers={"content-type": media})(scope, receive, send)
                    return
                content = made.body
                if made.taken is None:
                    self._sessions.tally.add(Passed())
                elif made.weaver is not None:
                    headers = [(name, value) for name, value in headers if name != _ACCEPTED]
                    headers.append((_ACCEPTED, b"identity"))
                else:
                    headers = [(name, readable(value) if name == _ACCEPTED else value) for name, value in headers]
                if made.body is not begun:
                    headers = [(name, value) for name, value in headers if name != b"content-length"]
                    headers.append((b"content-length", str(len(made.body)).encode()))
            else:
                content = begun
                self._sessions.tally.add(Passed())
        # A URL object would resolve `..` and rewrite escapes, so the target is passed on unchanged.
        sent = httpx.Request(
            request.method, passing.upstream, headers=headers, content=content, extensions={"target": passing.target}
        )
        status = 0
        try:
            status = await self._answer(sent, made, scope, receive, send)
        finally:
            made.ended(status)

    def _note_path(self, path: bytes) -> None:
        assert self._sessions is not None
        shown = harmless(path.decode("latin-1")) or "/"
        if self._sessions.tally.add(Passed(path=shown)):
            LOG.warning("requests to %s are passed on and not recorded: this is no endpoint of a conversation", shown)

    def _note_silence(self) -> None:
        if self._sessions is not None and self._sessions.tally.is_empty:
            LOG.warning("no request has come for %.0f seconds: does the agent use this address?", SILENCE_SECONDS)

    async def _answer(
        self,
        sent: httpx.Request,
        made: Answering,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> int:
        """Send a request to the upstream and its answer to the client. Return the status that the client got, 0 if it
        has left before."""
        try:
            answer = await self._client.send(sent, stream=True)
        except ClientDisconnect:
            return 0
        except httpx.HTTPError as error:
            LOG.warning("the upstream could not be asked: %s", type(error).__name__)
            refused = _unreachable(sent.url.host, error)
            await refused(scope, receive, send)
            return refused.status_code
        try:
            headers = forwarded((name.lower(), value) for name, value in answer.headers.raw)
            if made.taken is None or answer.status_code != 200:
                pieces = _pieces(answer)
            else:
                weaver = _weaver(made, answer)
                headers = headers if weaver is None else [each for each in headers if each[0] not in _OF_THE_BYTES]
                pieces = _kept(answer, made.taken, weaver)
            back = StreamingResponse(pieces, answer.status_code)
            back.raw_headers = headers
            await back(scope, receive, send)
            return answer.status_code
        finally:
            await answer.aclose()

    async def _asked_by_others(self, request: Request) -> Response | None:
        """Return the answer to another of the user's programs that asks a session's model; None for anything else."""
        sessions, path = self._sessions, request.url.path
        if sessions is None or not sessions.others.asks(path):
            return None
        if request.method != "POST" or not self._is_here(request.scope):
            return None
        try:
            body = await _read(request, LONGEST)
        except ClientDisconnect:
            return Response(status_code=400)
        if not isinstance(body, bytes):
            return Response(status_code=413)
        status, text = await asyncio.to_thread(sessions.others.answer, path, body)
        return PlainTextResponse(text, status)

    def _is_here(self, scope: Scope) -> bool:
        """Return True if the Host header names the loopback interface."""
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        return len(hosts) == 1 and hosts[0].lower() in self._hosts

    def _passing(self, scope: Scope) -> Passing | None:
        """Return a request that has the secret and is addressed to this host; None for any other."""
        path, query = scope["raw_path"], b"?" + scope["query_string"] if scope["query_string"] else b""
        for prefix, upstream in self._places.items():
            rest: bytes = path[len(prefix) :]
            if secrets.compare_digest(path[: len(prefix)], prefix) and rest[:1] in (b"", b"/"):
                asked = (rest + query).decode("latin-1")
                passing = Passing(upstream, rest, asked, target_at(upstream, rest) + query)
                return passing if self._is_here(scope) else None
        return None


def loopback_socket(port: int = 0) -> socket.socket:
    """Return a socket on the loopback interface, at any free port by default. Raises OSError for a port in use."""
    # The protocol is explicit because asyncio checks it before it sets TCP_NODELAY, which sends small packets at once.
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
    except BaseException:
        made.close()
        raise
    return made


def forwarded(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers to forward, names in lower case, without those about the connection and without Host."""
    given = list(headers)
    named = {each.strip().lower() for name, value in given if name == b"connection" for each in value.split(b",")}
    return [(name, value) for name, value in given if name not in HOP_BY_HOP and name not in named and name != b"host"]


def _body(request: Request) -> AsyncIterator[bytes] | None:
    """Return the body as a stream; None for a request without one."""
    framed = "content-length" in request.headers or "transfer-encoding" in request.headers
    return request.stream() if framed else None


async def _read(request: Request, longest: int) -> bytes | AsyncIterator[bytes]:
    """Return the whole body, or a stream of it if it is longer than `longest` bytes. Raises ClientDisconnect."""
    begun, size, stream = list[bytes](), 0, request.stream()
    named = request.headers.get("content-length", "")
    if named.isdecimal() and int(named) > longest:
        return stream
    async for piece in stream:
        begun.append(piece)
        size += len(piece)
        if size > longest:
            return _chained(begun, stream)
    return b"".join(begun)


async def _chained(begun: list[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    while begun:
        yield begun.pop(0)
    async for piece in rest:
        yield piece


async def _kept(answer: httpx.Response, taken: Taken, weaver: Weaver | None) -> AsyncIterator[bytes]:
    """Yield the answer as it arrives, with the text that `weaver` puts before it, and pass that to `taken` unless it is
    too long."""
    kept, whole = bytearray(), False
    try:
        async for arrived in _pieces(answer, encoded=weaver is None):
            piece = arrived if weaver is None else weaver.add(arrived)
            if len(kept) <= LONGEST:
                kept += piece
            yield piece
        if weaver is not None:
            kept += (rest := weaver.end())
            yield rest
        whole = True
    finally:  # a client may leave as soon as it has the last event
        plain = bytes(kept) if len(kept) <= LONGEST else None
        if plain is not None and weaver is None:
            plain = decoded(answer, plain)
        if plain is not None:
            taken(plain, _is_stream(answer), whole)
        elif whole:
            LOG.warning("an answer was not recorded: %s", _unread(answer))


def _weaver(made: Answering, answer: httpx.Response) -> Weaver | None:
    """Return what puts a text before an answer; None if there is none, or if it fails: the answer is then passed on."""
    try:
        return None if made.weaver is None else made.weaver(_is_stream(answer))
    except Exception as error:
        LOG.warning("a text is not shown before an answer: %s", type(error).__name__)
        return None


def _is_stream(answer: httpx.Response) -> bool:
    return "event-stream" in answer.headers.get("content-type", "")


def _unread(answer: httpx.Response) -> str:
    encoding = answer.headers.get("content-encoding", "identity")
    return "it is too long" if encoding == "identity" else f"its encoding is {encoding}, or it is too long"


async def _pieces(answer: httpx.Response, *, encoded: bool = True) -> AsyncIterator[bytes]:
    """Yield the answer as it arrives, `encoded` or plain. If it breaks off, so does the agent's: half must not look
    like the whole."""
    try:
        async for piece in answer.aiter_raw() if encoded else answer.aiter_bytes():
            yield piece
    except httpx.HTTPError as error:
        LOG.warning("the upstream broke off in the middle of an answer: %s", type(error).__name__)
        raise


def _unreachable(host: str, error: Exception) -> Response:
    """Return the error for the agent, in a form in which the SDKs of all providers find a message."""
    message = f"foldmark: {host} could not be reached ({error}); the gateway is well, so ask again"
    body = {"type": "error", "error": {"type": "api_error", "message": message}}
    return Response(json.dumps(body), 502, media_type="application/json")
