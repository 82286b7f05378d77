"""A proxy that plays the providers' own servers, so that real agents ask their own addresses, and stay on this machine.

It ends the encryption for the names in its certificate (certificates/providers.pem), and passes the bytes on to a
`Loopback`. Connections to any other host are refused.
"""

import asyncio
import json
import re
import ssl
import subprocess
import sys
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from plan import Reply, Say, Wire
from server import Loopback, Received

from patience import LIMIT

PLACE = Path(__file__).with_name("certificates")
AUTHORITY = PLACE / "providers-ca.pem"

HOSTS = ("api.openai.com", "chatgpt.com", "generativelanguage.googleapis.com", "api.anthropic.com")
"""The names in the certificate."""


class ProviderProxy:
    """A proxy inside its `with` block; `upstream` is the base URL of the server behind it."""

    def __init__(self, upstream: str) -> None:
        self._port = urlsplit(upstream).port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(PLACE / "providers.pem", PLACE / "providers-key.pem")
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._open = list[asyncio.StreamWriter]()

    @property
    def variables(self) -> dict[str, str]:
        """The variables of an agent that uses the proxy and trusts it."""
        own = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        trusted = dict.fromkeys(("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE"), str(AUTHORITY))
        return {"HTTPS_PROXY": own, "https_proxy": own, "NO_PROXY": "127.0.0.1,localhost", **trusted}

    def __enter__(self) -> "ProviderProxy":
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._connected, "127.0.0.1", 0))
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._closed())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, wanted: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(wanted, self._loop).result()

    async def _closed(self) -> None:
        self._server.close()
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.append(writer)
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, *_ = head.decode("latin-1").split(" ")
            if method != "CONNECT" or target.partition(":")[0] not in HOSTS:
                writer.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
            else:
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                await writer.drain()
                await writer.start_tls(self._context)
                behind, out = await asyncio.open_connection("127.0.0.1", self._port)
                await asyncio.gather(_piped(reader, out), _piped(behind, writer))
        writer.close()


async def _piped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
    writer.close()


def first_request(
    wire: Wire, words: Sequence[str], work: Path, variables: Mapping[str, str], *, live: bool
) -> Received:
    """Run an agent that asks its provider's own server, by itself or under `foldmark live`. Return its first request
    for an answer, without the ids and times of the run."""
    program = [*([sys.executable, "-m", "foldmark", "live"] if live else []), *words]
    with Loopback(wire, lambda body: Reply((Say(("Fine.",)),))) as upstream, ProviderProxy(upstream.url) as proxy:
        ended = subprocess.run(
            program,
            env={**variables, **proxy.variables},
            cwd=work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    path, headers, body = upstream.asked[0]
    kept = {name: _made_up(value) for name, value in headers.items() if name not in _OF_THE_CONNECTION}
    return Received(path, kept, json.loads(_made_up(json.dumps(body))))


def _made_up(text: str) -> str:
    return re.sub(r"\w{8}(-\w{4}){3}-\w{12}|\b1[789]\d{8}(\d{3}|\.\d+)", "0", text)


_OF_THE_CONNECTION = ("connection", "host", "content-length", "accept-encoding")
