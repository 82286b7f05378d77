"""`foldmark live` in an office: proxies, an own certificate authority, and encodings of answers (SPEC 5.7)."""

import gzip
import json
import os
import ssl
import sys
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import httpcore2
import pytest

import foldmark
from foldmark.core.errors import CommandError
from foldmark.live.addresses import NO_PROXY, outward, without_proxy
from foldmark.live.clients.answers import written_message
from foldmark.live.gateway import Gateway
from foldmark.live.live_agent import AnyProgram, agent_named
from foldmark.live.sessions import Sessions
from foldmark.live.upstreams import check_proxies, readable
from forked import PROGRAM, run
from patience import LIMIT
from sampled import sampled

CERTIFICATES = Path(__file__).with_name("certificates")
"""An authority, and the certificate of 127.0.0.1 that it signed, valid until 2126; made for these tests alone."""

ASKS = """
import os, urllib.request
request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/models", headers={"x-api-key": "sk-planted"})
print(urllib.request.urlopen(request, timeout=60).read().decode())
"""


ANSWER = written_message("Recorded.", "msg_1", "m", stream=True)[1]
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": partial(gzip.compress, mtime=0),
    "deflate": zlib.compress,
    "unheard-of": lambda data: data[::-1],
}


class Heard(BaseHTTPRequestHandler):
    """Keep each request line with its headers, and answer `ok`, or a prompt with `ANSWER`."""

    server: "Server"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(b"ok")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        own = self.server.encoding
        self._answer(PACKERS[own](ANSWER), {"content-type": "text/event-stream", "content-encoding": own})

    def _answer(self, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.server.heard.append(f"{self.requestline} {self.headers}")
        self.send_response(200)
        for name, value in {**(headers or {}), "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Heard)
        self.heard: list[str] = []
        self.encoding = "identity"
        self.port: int = self.server_address[1]

    def __enter__(self) -> "Server":
        Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


def asked(gateway: Gateway) -> str:
    url = urlsplit(gateway.url)
    connection = HTTPConnection("127.0.0.1", gateway.port, timeout=LIMIT)
    connection.request("GET", f"{url.path}/v1/models")
    answer = connection.getresponse().read().decode()
    connection.close()
    return answer


@pytest.mark.parametrize("variable", sampled(["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"], 2))
def test_the_agent_reaches_its_gateway_without_the_proxy(variable: str, tmp_path: Path) -> None:
    """The proxy gets the gateway's own request to the provider, and neither the agent's nor the secret path."""
    with Server() as proxy:
        environment = {**os.environ, variable: f"http://127.0.0.1:{proxy.port}", "FOLDMARK_DB": str(tmp_path / "a.db")}
        words = [PROGRAM, "live", "--upstream", "anthropic=http://provider.test", "--", sys.executable, "-c", ASKS]
        done = run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert done.stdout.strip() == "ok", done.stderr
    assert "nothing was recorded: requests came only to /v1/models, which Foldmark does not know" in done.stderr
    assert "requests to /v1/models are passed on and not recorded" in (tmp_path / "live.log").read_text()
    (heard,) = proxy.heard
    assert heard.startswith("GET http://provider.test/v1/models HTTP/1.1")


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, "127.0.0.1,localhost,::1"),
        ({"NO_PROXY": "intern.example, 10.0.0.0/8"}, "intern.example,10.0.0.0/8,127.0.0.1,localhost,::1"),
        ({"no_proxy": "localhost"}, "localhost,127.0.0.1,::1"),
        ({"NO_PROXY": "*"}, "*"),
    ],
)
def test_the_hosts_without_proxy(own: dict[str, str], expected: str) -> None:
    assert without_proxy(own) == {"NO_PROXY": expected, "no_proxy": expected}


def test_the_variables_in_the_settings_of_claude_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They override those of the shell in Claude Code, so they count here too: its upstream, its proxies."""
    home, project = tmp_path / "home", tmp_path / "project"
    for folder, variables in (
        (home, {"ANTHROPIC_BASE_URL": "http://office", "NO_PROXY": "x", "HTTPS_PROXY": "http://p"}),
        (project, {"NO_PROXY": "y", "NODE_EXTRA_CA_CERTS": "/ca.pem", "NUMBER": 3}),
    ):
        (folder / ".claude").mkdir(parents=True)
        (folder / ".claude" / "settings.json").write_text(json.dumps({"env": variables, "model": "opus"}))
    (project / ".claude" / "settings.local.json").write_text("{")
    monkeypatch.chdir(project)
    claude, shell = agent_named("claude"), {"HOME": str(home), "ANTHROPIC_BASE_URL": "http://shell"}
    assert claude.upstreams(shell) == "http://office"
    assert outward(claude.environment(shell)) == {
        "NO_PROXY": "y",
        "HTTPS_PROXY": "http://p",
        "NODE_EXTRA_CA_CERTS": "/ca.pem",
    }
    given = json.loads(claude.options("http://gateway", shell)[1])["env"]
    assert given["ANTHROPIC_BASE_URL"] == "http://gateway"
    assert given["NO_PROXY"] == given["no_proxy"] == ",".join(("y", *NO_PROXY))
    assert AnyProgram("x").environment(shell) == shell


def test_a_socks_proxy_is_used_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    check_proxies()
    with Server() as upstream, Gateway(f"http://127.0.0.1:{upstream.port}") as gateway:
        assert asked(gateway) == "ok"
    monkeypatch.setitem(sys.modules, "socksio", None)
    with pytest.raises(CommandError, match=r"SOCKS proxy is set, and the package for it .* or install it: .* socksio"):
        check_proxies()
    monkeypatch.setenv("ALL_PROXY", "nonsense://127.0.0.1:9")
    with pytest.raises(CommandError, match=r"A proxy cannot be used: .* Correct ALL_PROXY"):
        check_proxies()


@pytest.mark.parametrize("variable", ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "CODEX_CA_CERTIFICATE"])
def test_the_certificates_that_an_agent_trusts(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    create = httpcore2.default_ssl_context  # the other tests share one context, which this one changes
    monkeypatch.setattr("httpcore2.default_ssl_context", getattr(create, "__wrapped__", create))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "server.pem", CERTIFICATES / "server-key.pem")
    upstream = Server()
    upstream.socket = context.wrap_socket(upstream.socket, server_side=True)
    own = {variable: str(CERTIFICATES / "office-ca.pem")}
    with upstream:
        with Gateway(f"https://127.0.0.1:{upstream.port}", environment=own) as gateway:
            assert asked(gateway) == "ok"
        with Gateway(f"https://127.0.0.1:{upstream.port}") as gateway:
            assert "could not be reached" in asked(gateway)


def test_certificates_that_cannot_be_read_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    own = {"NODE_EXTRA_CA_CERTS": "/nowhere/ca.pem"}
    with Server() as upstream, Gateway(f"http://127.0.0.1:{upstream.port}", environment=own) as gateway:
        assert asked(gateway) == "ok"
    assert "the certificates of NODE_EXTRA_CA_CERTS cannot be read" in caplog.text


@pytest.mark.parametrize(
    ("accepted", "offered"),
    [
        (b"gzip, deflate, br, zstd", {b"gzip", b"deflate"}),
        (b"gzip;q=1.0, unheard-of;q=0.5", {b"gzip;q=1.0"}),
        (b"unheard-of", {b"identity"}),
        (b"identity", {b"identity"}),
    ],
)
def test_only_encodings_that_can_be_read_are_offered(accepted: bytes, offered: set[bytes]) -> None:
    found = set(readable(accepted).split(b", "))
    assert offered <= found <= offered | {b"br", b"zstd"}


@pytest.mark.parametrize("encoding", ["identity", "gzip", "deflate", "unheard-of"])
def test_an_answer_is_recorded_or_the_log_says_why_not(encoding: str, caplog: pytest.LogCaptureFixture) -> None:
    """Here the provider encodes its answer without being asked."""
    asked = {"model": "m", "stream": True, "tools": [{"name": "T"}], "messages": [{"role": "user", "content": "Hello"}]}
    with foldmark.open(":memory:", settings={}) as log, Server() as upstream:
        upstream.encoding = encoding
        sessions = Sessions(log, "app")
        with Gateway(f"http://127.0.0.1:{upstream.port}", sessions=sessions) as gateway:
            connection = HTTPConnection("127.0.0.1", gateway.port, timeout=LIMIT)
            headers = {"x-claude-code-session-id": "s", "accept-encoding": "gzip, br, zstd"}
            connection.request("POST", f"{urlsplit(gateway.url).path}/v1/messages", json.dumps(asked), headers)
            assert connection.getresponse().read() == PACKERS[encoding](ANSWER)
            connection.close()
        sessions.close()
        (agent,) = log.agents()
        said = [event.content for event in agent.context().messages]
    assert "accept-encoding: gzip" in upstream.heard[-1].lower()
    known = encoding != "unheard-of"
    assert said == (["Hello", "Recorded."] if known else ["Hello"])
    assert ("an answer was not recorded: its encoding is unheard-of" in caplog.text) is not known
