"""The gateway without operations: traffic passes unchanged, and nobody else can use it (SPEC 5.7)."""

import hashlib
import json
import logging
import random
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection, IncompleteRead
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple

import psutil
import pytest

from foldmark.core.errors import CommandError
from foldmark.live.gateway import HOP_BY_HOP, Gateway, loopback_socket
from patience import LIMIT
from sampled import DEEP

KEY = "sk-planted-5b1f77e0"
REQUESTS = 1000 if DEEP else 120

Headers = list[tuple[str, str]]


class Got(NamedTuple):
    method: str
    path: str
    headers: Headers
    body: bytes


class Upstream(ThreadingHTTPServer):
    """A server that keeps the requests, and answers with `status`, `headers` and `pieces`. It pauses after the first
    piece until `go` is set, and breaks off at the end if `breaks`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[Got] = []
        self.begun, self.left, self.go = Event(), Event(), Event()
        self.go.set()
        self.breaks = False
        self.answer(200, [("Content-Type", "application/json")], [b"{}"])

    def answer(self, status: int, headers: Headers, pieces: list[bytes]) -> None:
        self.status, self.headers, self.pieces = status, headers, pieces

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore broken connections: some tests cause them."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Upstream

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(1 << 16)
        if not self.raw_requestline:
            self.close_connection = True
        elif self.parse_request():
            self.server.begun.set()
            self.server.got.append(Got(self.command, self.path, self.headers.items(), self._body()))
            self._reply()

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            wanted = int(self.headers.get("content-length", "0"))
            read = self.rfile.read(wanted)
            if len(read) < wanted:
                self.server.left.set()
            return read
        found = b""
        while size := int(self.rfile.readline() or b"0", 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _reply(self) -> None:
        server = self.server
        self.send_response_only(server.status)
        for name, value in server.headers:
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if self.command == "HEAD":
            return
        try:
            for number, piece in enumerate(server.pieces):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                if number == 0 and not server.go.is_set():
                    self._wait()
            if server.breaks:
                self.close_connection = True
            else:
                self.wfile.write(b"0\r\n\r\n")
        except OSError:
            server.left.set()

    def _wait(self) -> None:
        """Wait until the test continues, or until the client has left."""
        self.connection.settimeout(0.02)
        while not self.server.go.is_set():
            with suppress(TimeoutError):
                if not self.connection.recv(1):
                    raise ConnectionResetError


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.go.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def gateway(upstream: Upstream) -> Iterator[Gateway]:
    with Gateway(upstream.url) as gateway:
        yield gateway


def connection(gateway: Gateway) -> Any:
    return closing(HTTPConnection("127.0.0.1", gateway.port, timeout=LIMIT))


def put(
    client: HTTPConnection, method: str, target: str, headers: Headers, body: bytes | None, *, chunked: bool = False
) -> None:
    """Send a request with exactly these headers, besides the host and the length."""
    client.putrequest(method, target, skip_accept_encoding=True)
    for name, value in headers:
        client.putheader(name, value)
    if chunked:
        client.putheader("Transfer-Encoding", "chunked")
    elif body is not None:
        client.putheader("Content-Length", str(len(body)))
    client.endheaders(body, encode_chunked=chunked)


def own(headers: Headers) -> Headers:
    """Return the headers about the message, not about the connection."""
    lower = [(name.lower(), value) for name, value in headers]
    return sorted(each for each in lower if each[0].encode() not in HOP_BY_HOP and each[0] != "host")


def made(rng: random.Random) -> tuple[str, str, Headers, bytes | None, bool]:
    """Return a random request that a client might make, or nearly."""
    path = rng.choice(["/v1/messages", "/v1/messages?beta=true", "/v1beta/models/gemini:streamGenerateContent?alt=sse"])
    path = rng.choice([path, "/v1/responses", "/a%2Fb/../c//d;e?x=%20&y=+", "", "/%E2%82%AC", "/v1/models?a=1&a=2"])
    text = "".join(rng.choices('abc \n"\\{}é€😀\ud83d\u2028\0', k=rng.randrange(2000)))
    plain = rng.randbytes(rng.randrange(3000))
    body = rng.choice([json.dumps({"messages": [{"role": "user", "content": text}]}).encode(), plain, b"", None])
    names = ["X-Api-Key", "authorization", "anthropic-beta", "Accept", "User-Agent", "Cookie", "Accept-Encoding"]
    headers = [(rng.choice(names), f"{KEY} {rng.random()}") for _ in range(rng.randrange(8))]
    method = "POST" if body is not None else rng.choice(["GET", "DELETE", "OPTIONS", "HEAD"])
    return method, path, headers, body, body is not None and rng.random() < 0.2


def test_requests_and_answers_pass_byte_for_byte(upstream: Upstream, gateway: Gateway) -> None:
    rng = random.Random(20261124)
    with connection(gateway) as client:
        for number in range(REQUESTS):
            method, path, headers, body, chunked = made(rng)
            back = [("X-Request-Id", str(number)), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]
            back += rng.choice([[], [("Content-Encoding", "gzip")], [("Retry-After", "3")]])
            pieces = [] if method == "HEAD" else [rng.randbytes(rng.randrange(1, 500)) for _ in range(rng.randrange(4))]
            upstream.answer(rng.choice([200, 201, 400, 401, 404, 429, 500, 529]), back, pieces)
            put(client, method, f"/{gateway.secret}{path}", headers, body, chunked=chunked)
            answer = client.getresponse()
            read = answer.read()
            got = upstream.got.pop()
            assert (got.method, got.path) == (method, path if path.startswith("/") else f"/{path}")
            assert hashlib.sha256(got.body).digest() == hashlib.sha256(body or b"").digest()
            length = [] if body is None or chunked else [("content-length", str(len(body)))]
            assert own(got.headers) == own(headers + length)
            assert (answer.status, own(answer.getheaders())) == (upstream.status, own(back))
            assert read == b"".join(pieces)
    assert upstream.got == []


def test_an_answer_is_passed_on_as_it_comes(upstream: Upstream, gateway: Gateway) -> None:
    upstream.go.clear()
    upstream.answer(200, [("Content-Type", "text/event-stream")], [b"event: one\n\n", b"event: two\n\n"])
    with connection(gateway) as client:
        put(client, "POST", f"/{gateway.secret}/v1/messages", [], b"{}")
        answer = client.getresponse()
        assert answer.read1() == b"event: one\n\n"
        upstream.go.set()
        assert answer.read() == b"event: two\n\n"


def test_a_request_is_passed_on_as_it_comes(upstream: Upstream, gateway: Gateway) -> None:
    """The upstream gets it before its end, so a body of any size takes no memory."""
    with connection(gateway) as client:
        client.putrequest("POST", f"/{gateway.secret}/v1/files", skip_accept_encoding=True)
        client.putheader("Content-Length", "4")
        client.endheaders(b"ha")
        assert upstream.begun.wait(LIMIT)
        client.send(b"lf")
        assert client.getresponse().read() == b"{}"
    assert upstream.got[-1].body == b"half"


def test_a_stream_that_breaks_off_is_reported(
    upstream: Upstream, gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.breaks = True
    upstream.answer(200, [], [b"half of"])
    with connection(gateway) as client:
        put(client, "POST", f"/{gateway.secret}/v1/messages", [], b"{}")
        answer = client.getresponse()
        with pytest.raises(IncompleteRead) as end:
            answer.read()
    assert end.value.partial == b"half of"
    assert "the upstream broke off in the middle of an answer" in caplog.text


def test_a_request_that_the_client_breaks_off_ends_at_the_upstream(upstream: Upstream, gateway: Gateway) -> None:
    with connection(gateway) as client:
        client.putrequest("POST", f"/{gateway.secret}/v1/messages", skip_accept_encoding=True)
        client.putheader("Content-Length", "100")
        client.endheaders(b"half")
        assert upstream.begun.wait(LIMIT)
    assert upstream.left.wait(LIMIT)
    assert works(gateway)


def test_the_upstream_notices_a_client_that_leaves(upstream: Upstream, gateway: Gateway) -> None:
    """The upstream can stop, so nobody pays for the rest of the answer."""
    upstream.go.clear()
    upstream.answer(200, [], [b"one", b"two"])
    with connection(gateway) as client:
        put(client, "POST", f"/{gateway.secret}/v1/messages", [], b"{}")
        assert client.getresponse().read1() == b"one"
    assert upstream.left.wait(LIMIT)
    upstream.go.set()
    assert works(gateway)


def test_two_clients_at_once(upstream: Upstream, gateway: Gateway) -> None:
    upstream.go.clear()
    upstream.answer(200, [], [b"one", b"two"])
    with connection(gateway) as first, connection(gateway) as second:
        for each in (first, second):
            put(each, "POST", f"/{gateway.secret}/v1/messages", [], b"{}")
        answers = [each.getresponse() for each in (first, second)]
        assert [each.read1() for each in answers] == [b"one", b"one"]
        upstream.go.set()
        assert [each.read() for each in answers] == [b"two", b"two"]


def test_an_unreachable_upstream_is_reported_as_bad_gateway() -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        with Gateway(f"http://127.0.0.1:{taken.getsockname()[1]}") as gateway, connection(gateway) as client:
            put(client, "POST", f"/{gateway.secret}/v1/messages", [], b"{}")
            answer = client.getresponse()
            told = json.loads(answer.read())
    assert (answer.status, told["type"]) == (502, "error")
    assert "127.0.0.1 could not be reached" in told["error"]["message"]


def test_a_gateway_that_takes_the_place_of_another(upstream: Upstream) -> None:
    with Gateway(f"{upstream.url}/base/") as first:
        assert works(first)
    with Gateway(f"{upstream.url}/base/", port=first.port, secret=first.secret) as second:
        assert second.url == first.url
        assert works(second)
    assert upstream.got[-1].path == "/base/v1/models"


@pytest.mark.parametrize(
    "base", ["", "api.anthropic.com", "ftp://host", "https://", "https://host/?key=1", "https://[::", 3 * "x:"]
)
def test_an_invalid_upstream_is_refused(base: str) -> None:
    with pytest.raises(CommandError, match="no base URL"):
        Gateway(base)


# Nobody else


def test_a_request_without_the_secret_is_refused(upstream: Upstream, gateway: Gateway) -> None:
    secret = gateway.secret
    for target in (
        "/",
        "/v1/messages",
        f"/{secret[:-1]}/v1",
        f"/{secret}x/v1",
        f"/x/../{secret}/v1",
        "*",
        f"//{secret}/v1",
    ):
        assert status(gateway, target) == 404
    assert status(gateway, f"{upstream.url}/v1/messages") == 404
    assert status(gateway, f"http://127.0.0.1:{gateway.port}/{secret}/v1") == 404
    assert upstream.got == []


def test_only_by_the_names_of_the_loopback_interface(upstream: Upstream, gateway: Gateway) -> None:
    target = f"/{gateway.secret}/v1/models"
    for host in (
        "evil.example",
        f"evil.example:{gateway.port}",
        "127.0.0.1",
        "127.0.0.1:1",
        f"127.0.0.1.:{gateway.port}",
        "",
    ):
        assert status(gateway, target, host) in (400, 404)
    assert upstream.got == []
    assert status(gateway, target, f"localhost:{gateway.port}") == 200
    assert status(gateway, target, f"LOCALHOST:{gateway.port}") == 200


def test_the_gateway_listens_on_one_address_only(gateway: Gateway) -> None:
    listening = [each.laddr for each in psutil.Process().net_connections("tcp") if each.status == psutil.CONN_LISTEN]
    assert [address.ip for address in listening if address.port == gateway.port] == ["127.0.0.1"]


def test_no_key_is_logged(upstream: Upstream, gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    secrets = [("Authorization", f"Bearer {KEY}"), ("X-Api-Key", KEY), ("Cookie", KEY)]
    upstream.breaks = True
    with connection(gateway) as client, suppress(IncompleteRead):
        put(client, "POST", f"/{gateway.secret}/v1/messages?key={KEY}", secrets, KEY.encode())
        client.getresponse().read()
    logged = "\n".join(each.getMessage() for each in caplog.records if each.name.startswith(("foldmark", "uvicorn")))
    assert "broke off" in logged
    assert KEY not in logged
    assert gateway.secret not in logged


def works(gateway: Gateway) -> bool:
    return status(gateway, f"/{gateway.secret}/v1/models") == 200


def status(gateway: Gateway, target: str, host: str | None = None) -> int:
    with connection(gateway) as client:
        client.putrequest("GET", target, skip_host=host is not None)
        if host is not None:
            client.putheader("Host", host)
        client.endheaders()
        answer = client.getresponse()
        answer.read()
        return int(answer.status)


def test_small_packets_leave_at_once() -> None:
    """asyncio sets TCP_NODELAY only on a socket with an explicit protocol; without it, an answer began 40 ms later."""
    with closing(loopback_socket()) as made:
        assert made.proto == socket.IPPROTO_TCP
