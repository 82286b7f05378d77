"""A proxy for a PostgreSQL server that cuts connections in the middle of a commit."""

from __future__ import annotations

import random
import socket
from collections import Counter
from contextlib import suppress
from threading import Lock, Thread
from types import TracebackType

_ANSWERS = (b"COMMIT\0", b"ROLLBACK\0", b"Z\0\0\0\5")
"""Server messages: a commit was carried out, a commit failed, the server is ready for the next statement."""


class Proxy:
    """Listens on a local port and passes everything on, except for some of the commits.

    One in `every` commits is cut: either `before` the server receives it, so that the server rolls back; or `after` the
    server has carried it out, so that the client gets no answer.
    """

    def __init__(self, target: str, every: int, seed: str) -> None:
        """Listen on a free port. `target` is the path of the server's socket."""
        self._target, self._every, self._chance = target, every, random.Random(seed)
        self._lock, self._open = Lock(), list[socket.socket]()
        self.cut = Counter[str]()
        self._listener = socket.create_server(("127.0.0.1", 0))

    @property
    def port(self) -> int:
        """The port that the proxy listens on."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Proxy:
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for each in (self._listener, *self._open):
            _end(each)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(self._target)
                except OSError:  # the server is down
                    client.close()
                    continue
                self._open += [client, server]
                _Passing(self, client, server).begin()

    def decide(self) -> str | None:
        """Return when to cut the next commit (`before` or `after`), or None to pass it on."""
        with self._lock:
            if self._chance.randrange(self._every):
                return None
            how = self._chance.choice(("before", "after"))
            self.cut[how] += 1
            return how


class _Passing:
    """One connection, with a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._mute = False  # if True, the server's answers are no longer passed on
        self._commits = set[bytes]()  # names of prepared statements that commit

    def begin(self) -> None:
        Thread(target=self._up, daemon=True).start()
        Thread(target=self._down, daemon=True).start()

    def _up(self) -> None:
        """Pass data from the client to the server, message by message."""
        waiting, started = b"", False
        with suppress(OSError):
            while data := self._client.recv(65536):
                waiting += data
                while (whole := _message(waiting, started)) is not None:
                    message, waiting = waiting[:whole], waiting[whole:]
                    how = self._proxy.decide() if started and self._commits_with(message) else None
                    started = started or not _asks_for_encryption(message)
                    if how == "before":
                        return self._close()
                    if how == "after":
                        self._mute = True
                    self._server.sendall(message)
        return self._close()

    def _down(self) -> None:
        """Pass data from the server to the client. Once muted, wait for the answer to the commit, then hang up."""
        heard = b""
        with suppress(OSError):
            while data := self._server.recv(65536):
                if not self._mute:
                    self._client.sendall(data)
                elif any(answer in (heard := heard[-16:] + data) for answer in _ANSWERS):
                    break
        self._close()

    def _commits_with(self, message: bytes) -> bool:
        """Return True if the message makes the server commit."""
        kind, body = message[:1], message[5:]
        if kind == b"Q":
            return body.rstrip(b"\0").strip().upper() == b"COMMIT"
        if kind == b"P":
            name, _, rest = body.partition(b"\0")
            (self._commits.add if rest.partition(b"\0")[0].upper() == b"COMMIT" else self._commits.discard)(name)
            return False
        return kind == b"B" and body.split(b"\0", 2)[1] in self._commits

    def _close(self) -> None:
        for each in (self._client, self._server):
            _end(each)


def _message(data: bytes, started: bool) -> int | None:
    """Return the length of the first message in `data`, or None if the message is incomplete."""
    begin = 1 if started else 0  # the first message has no type byte
    if len(data) < begin + 4:
        return None
    length = begin + int.from_bytes(data[begin : begin + 4])
    return length if len(data) >= length else None


def _asks_for_encryption(message: bytes) -> bool:
    return int.from_bytes(message[4:8]) in (80877103, 80877104)  # SSL, GSSAPI: the server declines; the client restarts


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
