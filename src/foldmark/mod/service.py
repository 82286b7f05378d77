"""The service behind the plugins of Claude Code: one process for each database [SPEC 8].

It listens on a Unix socket, which no proxy is asked for, or on the loopback interface where there is none. Its address
is in a file that only this user can read, together with the token that every request has to carry. It ends after half
an hour without a request, and when a newer Foldmark starts its own.
"""

import hmac
import json
import os
import secrets
import socket
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import one_line
from foldmark.sessions.file_lock import locked
from foldmark.sessions.hook import live_state
from foldmark.sessions.new_file import replaced_file
from foldmark.settings.user_folders import state_folder

LONGEST = 64 << 20
"""Maximum bytes of a request."""

IDLE_SECONDS = 1800.0
"""Seconds without a request after which the service ends."""

START_SECONDS = 20.0
"""Maximum seconds until a service that is being started listens."""

TOKEN = "x-foldmark-token"
"""The header with the token."""

_LOOK_SECONDS = 0.02

_LONGEST_PATH = 100
"""Bytes that the path of a Unix socket may have everywhere."""

Answer = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Answers a question, given by its name and its arguments. Raises FoldmarkError."""


class Address(NamedTuple):
    """Where a service listens: its URL, its token, the version of its Foldmark, its process, and the Unix socket to go
    over instead of TCP (empty: none)."""

    url: str
    token: str
    version: str
    process: int
    socket: str = ""


class _UnixServer(ThreadingHTTPServer):
    """A server on a Unix socket."""

    address_family = getattr(socket, "AF_UNIX", socket.AF_INET)

    def server_bind(self) -> None:
        """Bind without looking up the name of a host."""
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "localhost", 0

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        """Accept a connection. Its peer has no address."""
        return self.socket.accept()[0], ("localhost", 0)


class Service:
    """A running service. `answer` answers the questions; `end` is set once it is to end. `path` is the Unix socket to
    listen on; without it, or where there are none, it listens on the loopback interface."""

    def __init__(self, answer: Answer, path: str = "", *, token: str = "", idle: float = IDLE_SECONDS) -> None:
        self.token = token or secrets.token_urlsafe(24)
        self.end = Event()
        self._answer, self._idle, self._newest, self._busy = answer, idle, monotonic(), 0
        self.socket = path if hasattr(socket, "AF_UNIX") and 0 < len(os.fsencode(path)) < _LONGEST_PATH else ""
        self._server: ThreadingHTTPServer
        if self.socket:
            with suppress(FileNotFoundError):
                os.unlink(self.socket)  # noqa: PTH108 - that of a killed service
            self._server = _UnixServer(self.socket, self._handler())  # type: ignore[arg-type]
            self.url = "http://localhost"
        else:
            self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
            self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._server.daemon_threads = True

    def run(self) -> None:
        """Answer requests until nothing has come for a while, or `end` is set."""
        thread = Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        while not self.end.wait(min(1.0, self._idle / 4)):
            if not self._busy and monotonic() - self._newest > self._idle:
                break
        self._server.shutdown()
        self._server.server_close()
        thread.join()

    def _handler(service) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler inside
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words: object) -> None:
                """Log nothing: requests hold a conversation."""

            def do_POST(self) -> None:
                service._newest = monotonic()
                service._busy += 1
                try:
                    self._respond(*self._answered())
                finally:
                    service._busy -= 1
                    service._newest = monotonic()

            def _answered(self) -> tuple[int, Mapping[str, Any]]:
                size = self.headers.get("content-length") or ""
                if not size.isdecimal() or int(size) > LONGEST:
                    self.close_connection = True
                    return 413, {"error": f"a request has at most {LONGEST >> 20} MB"}
                body = self.rfile.read(int(size))  # before it is refused: a client that still sends would see no answer
                host = (self.headers.get("host") or "").partition(":")[0]
                given = (self.headers.get(TOKEN) or "").encode("utf-8", "replace")
                if host not in ("127.0.0.1", "localhost") or not hmac.compare_digest(given, service.token.encode()):
                    return 403, {"error": "the token is wrong"}
                try:
                    asked = json.loads(body or b"{}")
                except (ValueError, RecursionError):
                    return 400, {"error": "the request is not JSON"}
                if not isinstance(asked, dict):
                    return 400, {"error": "the request is not an object"}
                try:
                    return 200, service._answer(self.path.strip("/"), asked)
                except FoldmarkError as error:
                    return 409, {"error": str(error)}
                except Exception as error:
                    return 500, {"error": f"it failed ({type(error).__name__})"}

            def _respond(self, status: int, answer: Mapping[str, Any]) -> None:
                body = json.dumps(answer).encode()
                with suppress(OSError):  # the client has left
                    self.send_response(status)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

        return Handler


def address_file(environment: Mapping[str, str], database: str) -> Path:
    """Return the file that holds the address of a database's service."""
    return Path(state_folder(environment)) / f"mod-{blake2b(database.encode(), digest_size=6).hexdigest()}.json"


def address(environment: Mapping[str, str], database: str) -> Address | None:
    """Return the address of the running service of a database; None if there is none."""
    try:
        found = Address(**json.loads(address_file(environment, database).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return found if _listens(found) else None


def serve(answer: Answer, environment: Mapping[str, str], database: str, version: str) -> bool:
    """Run the service of a database in this process until it ends. Return False if another process runs it."""
    file = address_file(environment, database)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(f"{file}.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if not locked(descriptor):
            return False
        service = Service(answer, str(file.with_suffix(".sock")))
        own = Address(service.url, service.token, version, os.getpid(), service.socket)
        with replaced_file(file) as out:
            out.write(json.dumps(own._asdict()).encode())
        try:
            service.run()
        finally:
            for each in (file, file.with_suffix(".sock")):
                with suppress(OSError):
                    each.unlink()
        return True
    finally:
        os.close(descriptor)


def started(environment: Mapping[str, str], database: str, version: str, command: list[str]) -> Address:
    """Return the address of the service of a database, after starting it with `command` if needed. A service of another
    version is replaced. Raises FoldmarkError if it does not start."""
    found = address(environment, database)
    if found is not None and found.version == version:
        return found
    if found is not None:
        _end(found)
    log = address_file(environment, database).with_suffix(".log")
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with log.open("wb") as said:
        begun = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True, env=dict(environment)
        )
    until = monotonic() + START_SECONDS
    while monotonic() < until:
        found = address(environment, database)
        if found is not None and found.version == version:
            return found
        if begun.poll() not in (None, 0):
            break
        sleep(_LOOK_SECONDS)
    why = one_line(log.read_text(encoding="utf-8", errors="replace").strip().removeprefix("foldmark: "))[-300:]
    raise FoldmarkError(f"the service did not start{': ' + why if why else ''}; {log} has its messages")


def _listens(found: Address) -> bool:
    """Return whether a service listens there. The number of its process would not say so: after a restart of the
    machine another program may have it."""
    url = urlsplit(found.url)
    unix = bool(found.socket)
    with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(found.socket if unix else (url.hostname or "", url.port or 0)) == 0


def _end(found: Address) -> None:
    with suppress(OSError):
        os.kill(found.process, 15)
    until = monotonic() + 5.0
    while live_state.runs(found.process) and monotonic() < until:
        sleep(_LOOK_SECONDS)
