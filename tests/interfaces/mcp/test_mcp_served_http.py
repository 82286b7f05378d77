"""`foldmark mcp --http` serves clients on this machine that have the token, and no page in a browser (SPEC 9)."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from command_line import PROGRAM
from guest import ERAS, Guest, visit, yes
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import foldmark
import forked
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.mcp.http import is_loopback, token
from patience import LIMIT
from planning_talk import IN_CHAT

TOKEN = "a-token-that-nobody-guesses"
CONTEXT = "foldmark://conversations/default/context"
JSON = {"Accept": "application/json, text/event-stream"}
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


class Served:
    """A server on its own port, with its `url` and its first line of output, `said`."""

    def __init__(self, *arguments: str) -> None:
        self.process = forked.Popen(
            [PROGRAM, "mcp", "default", "--http", "0", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stderr is not None
        self.said = self.process.stderr.readline().decode()
        found = re.search(r"http://\S+/mcp", self.said)
        assert found, self.said
        self.url = found[0]

    def end(self) -> tuple[int, bytes, bytes]:
        self.process.send_signal(signal.SIGTERM)
        out, errors = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, out, errors


@pytest.fixture
def serve(log: foldmark.Log) -> Iterator[Callable[..., Served]]:
    agent = log.agent("default")
    agent.append("user", "bananas are yellow")
    agent.end_turn()
    started: list[Served] = []

    def serve(*arguments: str) -> Served:
        started.append(Served(*arguments))
        return started[-1]

    yield serve
    for each in started:
        if each.process.poll() is None:
            each.end()


@pytest.fixture(autouse=True)
def given_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDMARK_MCP_TOKEN", TOKEN)


def bearer(token: str = TOKEN) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_session_of_the_official_client(serve: Callable[..., Served], log: foldmark.Log) -> None:
    server = serve()
    log.agent("default").do("/forget bananas", asking=IN_CHAT)
    log.agent("default").call_tool("filter_context", {"action": "preview"})
    log.agent("default").end_turn()

    async def visiting() -> None:
        for era in ERAS:
            guest = Guest(yes())
            async with httpx2.AsyncClient(headers=bearer()) as http:
                transport = streamable_http_client(server.url, http_client=http)
                guest.client = Client(transport, mode=era, elicitation_callback=guest.ask, cache=None)
                async with guest.client:
                    assert len((await guest.client.list_tools()).tools) == 12
                    assert "Conversation 'default': Context:" in await guest.call("context_meter")
                    if era == "legacy":
                        assert '"messages_filtered":1' in await guest.call("filter_context", action="apply")
                        assert len(guest.asked) == 1
                    assert "foldmark://conversations/default" in await guest.call("search", query="bananas")
                    await guest.call("slash", command="mark", args=era)
                    assert f"mark {era}" in await guest.read(CONTEXT)

    visit(visiting)
    code, out, errors = server.end()
    assert (code, out, errors) == (-signal.SIGTERM, b"", b"")


def test_nobody_else_gets_in(serve: Callable[..., Served]) -> None:
    server = serve()
    port = server.url.split(":")[2].split("/")[0]
    assert TOKEN not in server.said
    assert server.said.endswith("/mcp, for clients with the token in FOLDMARK_MCP_TOKEN\n")
    refused = [
        ({}, 401),
        (bearer("another"), 401),
        (bearer(f"{TOKEN}x"), 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({**bearer(), "Origin": "http://example.com"}, 403),
        ({**bearer(), "Origin": "null"}, 403),
        ({**bearer(), "Origin": f"http://127.0.0.1.example.com:{port}"}, 403),
        ({**bearer(), "Origin": f"http://127.0.0.1:{int(port) + 1}"}, 403),
        ({**bearer(), "Host": f"example.com:{port}"}, 421),
        ({**bearer(), "Host": "127.0.0.1.example.com"}, 421),
    ]
    with httpx2.Client() as http:
        for headers, status in refused:
            answer = http.post(server.url, json=INITIALIZE, headers={**JSON, **headers})
            assert (answer.status_code, headers) == (status, headers)
            assert "access-control-allow-origin" not in answer.headers
        for headers in ({}, {"Origin": server.url[:-4]}, {"Host": f"localhost:{port}"}):
            assert http.post(server.url, json=INITIALIZE, headers={**JSON, **bearer(), **headers}).status_code == 200
        assert http.get(server.url[:-4], headers=bearer()).status_code == 404


def test_what_is_wrong_never_ends_it(serve: Callable[..., Served]) -> None:
    server = serve()
    with httpx2.Client(headers={**JSON, **bearer()}) as http:
        session = http.post(server.url, json=INITIALIZE).headers["mcp-session-id"]
        headers = {"Mcp-Session-Id": session, "Content-Type": "application/json"}
        for body, code in (
            (b"{", -32700),
            (b"\xff", -32700),
            (b"[" * 10_000, -32700),
            (b"[]", -32602),
            (b'{"jsonrpc":"2.0","id":1,"method":7}', -32602),
        ):
            answer = http.post(server.url, content=body, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
        assert http.post(server.url, content=b" " * (5 << 20), headers=headers).status_code == 413
        assert http.post(server.url, json=INITIALIZE, headers={"Mcp-Session-Id": "other"}).status_code == 404
        answer = http.post(server.url, json={"jsonrpc": "2.0", "id": 9, "method": "ping"}, headers=headers)
        assert '"id":9,"result":{}' in answer.text


def test_a_name_that_is_allowed(serve: Callable[..., Served]) -> None:
    server = serve("--host", "127.0.0.2", "--allow-host", "desk.example")
    assert server.url.startswith("http://127.0.0.2:")
    with httpx2.Client(headers={**JSON, **bearer()}) as http:
        for host, status in (("desk.example", 200), ("desk.example:80", 200), ("other.example", 421)):
            assert http.post(server.url, json=INITIALIZE, headers={"Host": host}).status_code == status


def test_a_warning_says_what_other_machines_can_reach(serve: Callable[..., Served]) -> None:
    server = serve("--host", "0.0.0.0")
    assert server.said.endswith("; other machines may reach it, and nothing is encrypted\n")


def test_a_port_that_is_taken(serve: Callable[..., Served]) -> None:
    port = serve().url.split(":")[2].split("/")[0]
    done = forked.run([PROGRAM, "mcp", "--http", port], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 1
    assert done.stderr.startswith(f"foldmark: cannot listen on 127.0.0.1 port {port}: ")
    done = forked.run(
        [PROGRAM, "mcp", "--http", "0", "--host", "192.0.2.1"], capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 1
    assert "cannot listen on 192.0.2.1 port 0: " in done.stderr


def test_a_token_is_made_and_kept(serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FOLDMARK_MCP_TOKEN")
    file = Path(os.environ["HOME"], ".local/state/foldmark/mcp-token")
    server = serve()
    assert str(file) in server.said
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    made = file.read_text().strip()
    assert made not in server.said
    with httpx2.Client(headers={**JSON, **bearer(made)}) as http:
        assert http.post(server.url, json=INITIALIZE).status_code == 200
    assert token(os.environ) == (made, str(file))
    file.chmod(0o644)
    with pytest.raises(FoldmarkError, match=r"other users can read the token in .*; remove the file"):
        token(os.environ)
    file.unlink()
    assert token(os.environ)[0] != made


@pytest.mark.parametrize("given", ["short", "with a space in it, long", "zwölf-und-vier-zeichen", "x" * 600])
def test_an_invalid_token_is_refused(given: str) -> None:
    with pytest.raises(CommandError, match="the token in FOLDMARK_MCP_TOKEN must be 16 to 512"):
        token({"FOLDMARK_MCP_TOKEN": given, "HOME": "/nowhere"})


def test_loopback() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.0.0.1", "example.com")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
