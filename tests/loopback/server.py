"""A model's provider on the loopback interface, for a real SDK to talk to.

`Loopback(wire, answers)` plays the answers of plan.py, one for each request, in the wire's protocol; an `Http` is sent
unchanged:

    with Loopback(AnthropicWire(), [Reply((Say(("Hel", "lo")),))]) as server:
        ...                       # connect to server.url
    assert not server.refusals

If several agents ask at once, a function of the request's body replaces the list, so that the answer depends on the
agent. Streams are sent in chunks: one for each event, or of `split` bytes each, which cuts characters and lines apart.
`pause` is the number of seconds between two chunks, as from a model that thinks.
"""

from __future__ import annotations

import json
import select
import socket
import socketserver
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, NamedTuple

from plan import Answer, Broken, Fail, Http, Reply, Stalled, Wire

Answering = Callable[[Any], Answer | Http]
"""A function that answers a request's body. It is called in a separate thread for each request, and may wait there."""


class Received(NamedTuple):
    """A request as it came; header names are lower case."""

    path: str
    headers: dict[str, str]
    body: Any


class Loopback:
    """An HTTP/1.1 server on 127.0.0.1 that speaks one provider's protocol inside its `with` block.

    `requests` holds all requests, `asked` those for an answer that were not refused, `refusals` the texts of the
    refusals; `gone` is set once a client has left during a Stalled answer. The counting endpoint answers `tokens`. An
    error in the wire itself is raised at the end.
    """

    def __init__(
        self,
        wire: Wire,
        answers: Iterable[Answer | Http] | Answering = (),
        *,
        split: int | None = None,
        tokens: int = 1234,
        pause: float = 0.0,
    ):
        self.wire, self.split, self.tokens, self.pause = wire, split, tokens, pause
        self.requests: list[Received] = []
        self.asked: list[Received] = []
        self.refusals: list[str] = []
        self.gone = Event()
        self._answering = answers if callable(answers) else None
        self._answers, self._lock = deque(() if callable(answers) else answers), Lock()
        self._faults: list[BaseException] = []
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def left(self) -> int:
        """The number of answers that no request has taken."""
        return len(self._answers)

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return self._server.connections

    def __enter__(self) -> Loopback:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self._thread.join()
        if self._faults and error is None:
            raise self._faults[0]

    def _next(self, body: Any) -> Answer | Http | None:
        if self._answering is not None:
            return self._answering(body)
        with self._lock:
            return self._answers.popleft() if self._answers else None

    def _fault(self, error: BaseException) -> None:
        self._faults.append(error)


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for all threads
    request_queue_size = 64

    def __init__(self, loopback: Loopback) -> None:
        self.loopback, self.closing = loopback, False
        self._open: set[socket.socket] = set()
        self._guard = Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_bind(self) -> None:
        """Bind without asking for the name of the host, which no test needs."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()

    @property
    def connections(self) -> int:
        with self._guard:
            return len(self._open)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a client that left is no error, and a wire's errors are kept."""

    def close(self) -> None:
        self.shutdown()
        self.closing = True
        with self._guard:
            for request in self._open:
                with suppress(OSError):  # the client may have left already
                    request.shutdown(socket.SHUT_RDWR)
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.loopback = self.server.loopback

    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        raw = self.rfile.read(int(headers.get("content-length", "0")))
        try:
            body = json.loads(raw)
        except ValueError:
            return self._refused(Http(400, {"content-type": "text/plain"}, b"the body is not JSON"))
        received = Received(self.path, headers, body)
        self.loopback.requests.append(received)
        try:
            self._answer(received)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        except Exception as error:
            self.loopback._fault(error)
            self.close_connection = True

    def do_GET(self) -> None:
        self._refused(Http(404, {"content-type": "text/plain"}, f"nothing to get at {self.path}".encode()))

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the tests report what happened."""

    def _answer(self, received: Received) -> None:
        wire = self.loopback.wire
        first = wire.refuse(*received)
        if first is not None and first.status < 400:
            self._plain(first)  # a client may send this before it asks for an answer
        elif first is not None:
            self._refused(first)
        elif wire.is_count(received.path):
            self._plain(wire.counted(self.loopback.tokens))
        else:
            self.loopback.asked.append(received)
            self._play(wire, received.body)

    def _play(self, wire: Wire, body: Any) -> None:
        match self.loopback._next(body):
            case Reply() as reply:
                self._begin()
                self._send(wire.stream(reply, body))
                self._end()
            case Fail() as fail:
                self._plain(wire.failure(fail))
            case Http() as http:
                self._plain(http)
            case Broken(parts, event):
                self._begin()
                self._send(wire.unfinished(parts, body))
                last = wire.error_event() if event else None
                if last is None:
                    self.close_connection = True  # the last chunk never comes
                else:
                    self._send([last])
                    self._end()
            case Stalled(parts):
                self._begin()
                self._stall(wire.unfinished(parts, body))
            case None:
                self._plain(Http(500, {"content-type": "text/plain"}, b"the test has no answer left for this request"))
            case other:
                raise TypeError(f"not an answer: {other!r}")

    def _refused(self, refusal: Http) -> None:
        self.loopback.refusals.append(refusal.body.decode("utf-8", "replace"))
        self._plain(refusal)

    def _plain(self, http: Http) -> None:
        self.send_response(http.status)
        for name, value in http.headers.items():
            if name.lower() != "content-length":
                self.send_header(name, value)
        self.send_header("content-length", str(len(http.body)))
        self.end_headers()
        self.wfile.write(http.body)

    def _begin(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _send(self, events: Iterable[bytes]) -> None:
        for chunk in self._chunks(events):
            if self.loopback.pause and select.select([self.connection], [], [], self.loopback.pause)[0]:
                raise ConnectionResetError("the client has left")  # a client sends nothing else at this point
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))

    def _chunks(self, events: Iterable[bytes]) -> Iterator[bytes]:
        size = self.loopback.split
        if size is None:
            yield from (event for event in events if event)
        else:
            whole = b"".join(events)
            yield from (whole[at : at + size] for at in range(0, len(whole), size))

    def _end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def _stall(self, events: Iterable[bytes]) -> None:
        self.close_connection = True
        try:
            self._send(events)
            select.select([self.connection], [], [])  # the client sends nothing but the end
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client left even earlier
        if not self.server.closing:
            self.loopback.gone.set()
