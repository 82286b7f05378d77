"""`foldmark mcp` as a program over standard input and output prints only the protocol, for any input (SPEC 9)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from command_line import PROGRAM, Cli
from guest import ERAS, outside, visit

import foldmark
import forked
from foldmark.installation import installs
from patience import LIMIT
from stored import stored

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
OPENING = [{"id": 0, "method": "initialize", "params": INITIALIZE}, {"method": "notifications/initialized"}]


PATIENT = (
    sys.executable,
    "-c",
    "from foldmark.mcp import stdio; stdio.LINGER = 600; from foldmark.cli.program import main; main()",
)
"""The program, modified to wait for its last answers longer than any test does."""


def raw(*messages: Any) -> bytes:
    """Return messages as lines. A message given as bytes is already a line."""
    lines = [each if isinstance(each, bytes) else json.dumps({"jsonrpc": "2.0", **each}).encode() for each in messages]
    return b"".join(line + b"\n" for line in lines)


def call(id: int, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def answers(data: bytes) -> dict[Any, Any]:
    """Return the answers to `data` as the whole input, by id. Every line of the output must be a message."""
    done = forked.run([*PATIENT, "mcp", "default"], input=data, capture_output=True, timeout=LIMIT)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    found: dict[Any, Any] = {}
    for line in done.stdout.splitlines():
        message = json.loads(line)
        assert message.pop("jsonrpc") == "2.0"
        found.setdefault(message.pop("id"), []).append(message)
    return found


@pytest.fixture
def agent(log: foldmark.Log) -> foldmark.Agent:
    agent = log.agent("default")
    agent.append("user", "hello there")
    agent.append("assistant", "Hello.")
    agent.end_turn()
    return agent


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.usefixtures("agent")
def test_a_session_of_the_official_client(tmp_path: Path, era: str) -> None:
    async def visiting() -> None:
        async with outside("default", era=era, errors=tmp_path / "errors") as guest:
            info = guest.client.server_info
            assert info is not None
            assert (info.name, info.version) == ("foldmark", foldmark.__version__)
            assert "Foldmark keeps conversations" in (guest.client.instructions or "")
            able = guest.client.server_capabilities.resources
            assert able is not None
            assert not able.subscribe
            assert not able.list_changed
            assert len((await guest.client.list_tools()).tools) == 12
            assert "hello there" in await guest.call("search", query="hello")
            assert "created" in await guest.call("slash", command="mark")
            assert "hello there" in await guest.read("foldmark://conversations/default/context")
            assert (await guest.client.get_prompt("trim")).messages

    visit(visiting)
    assert (tmp_path / "errors").read_text() == ""


@pytest.mark.usefixtures("agent")
def test_a_byte_order_mark_before_the_first_message_loses_nothing() -> None:
    found = answers(b"\xef\xbb\xbf" + raw(*OPENING, {"id": 1, "method": "ping"}))
    assert {id: [*message] for id, (message,) in found.items()} == {0: ["result"], 1: ["result"]}


def test_what_is_wrong_never_ends_it(agent: foldmark.Agent) -> None:
    nobody = object()
    wrong = [
        (b"{", None, -32700),
        (b"\xff\xfe\x00", None, -32700),
        (b"[1]", None, -32600),
        ({"id": 10, "method": 5}, 10, -32600),
        ({"id": 11, "method": "no/such"}, 11, -32601),
        ({"id": 12, "method": "tools/call"}, 12, -32602),
        ({"id": 13, "method": "tools/call", "params": {"name": "bash"}}, 13, -32602),
        ({"id": 14, "method": "tools/call", "params": {"name": "slash", "arguments": "mark"}}, 14, -32602),
        ({"id": 15, "method": "resources/read", "params": {"uri": 5}}, 15, -32602),
        ({"id": 16, "method": "resources/read", "params": {"uri": "foldmark://x"}}, 16, -32602),
        ({"id": 17, "method": "prompts/get", "params": {"name": "x"}}, 17, -32602),
        ({"id": 18, "method": "completion/complete", "params": {"ref": {}}}, 18, -32602),
        ({"id": 99, "result": {}}, nobody, 0),
        ({"method": "notifications/cancelled", "params": {"requestId": []}}, nobody, 0),
        ({"method": "notifications/nothing"}, nobody, 0),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', nobody, 0),  # for the SDK, a notification
        ({"id": 19, "method": "resources/subscribe", "params": {"uri": "foldmark://conversations"}}, 19, -32601),
        (b"", nobody, 0),
    ]
    found = answers(raw(*OPENING, *(line for line, *_ in wrong), {"id": 1, "method": "ping"}))
    assert found.pop(1) == [{"result": {}}]
    assert found.pop(0)[0]["result"]["protocolVersion"] == "2025-06-18"
    expected: dict[Any, list[int]] = {}
    for _, id, code in wrong:
        if id is not nobody:
            expected.setdefault(id, []).append(code)
    assert {id: [each["error"]["code"] for each in errors] for id, errors in found.items()} == expected


def test_a_request_before_the_handshake(agent: foldmark.Agent) -> None:
    found = answers(raw(call(5, "slash", command="mark"), b"{", *OPENING, call(6, "slash", command="mark", args="A")))
    assert found[5][0]["error"]["code"] == -32602
    assert found[None][0]["error"]["code"] == -32700
    assert found[6][0]["result"]["content"][0]["text"].startswith("Checkpoint 'A' created.\n  event ")
    assert found.keys() == {None, 0, 5, 6}


def test_large_and_strange_texts(agent: foldmark.Agent) -> None:
    big = "x" * (4 << 20)
    found = answers(
        raw(
            *OPENING,
            call(1, "search", query=big),
            call(2, "manage_scratchpad", action="update", content=big),
            b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"manage_scratchpad","arguments":'
            b'{"action":"append","content":"\\u0000 \\u2028 \\ud83d"}}}',
            call(4, "manage_scratchpad", action="read"),
        )
    )
    assert {id: each[0]["result"]["isError"] for id, each in found.items() if id} == {
        1: False,
        2: True,
        3: False,
        4: False,
    }


class Raw:
    """A server that a test talks to line by line."""

    def __init__(self, *arguments: str, start: tuple[str, ...] = PATIENT) -> None:
        self.process = forked.Popen(
            [*start, "mcp", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.send(*OPENING)
        assert self.next()["id"] == 0

    def send(self, *messages: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(raw(*messages))
        self.process.stdin.flush()

    def next(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


def test_a_cancelled_request_ends_soon_and_is_not_answered(agent: foldmark.Agent) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    server = Raw("default")
    for id in range(1, 8):  # each would take two seconds
        server.send(call(id, "query_db", sql=endless))
    for id in range(1, 8):
        server.send({"method": "notifications/cancelled", "params": {"requestId": id}})
    server.send({"id": 9, "method": "ping"})
    assert server.next() == {"jsonrpc": "2.0", "id": 9, "result": {}}
    server.send(call(10, "recall", query="hello"))
    assert server.next()["id"] == 10
    rest, errors = server.process.communicate(timeout=LIMIT)
    assert (server.process.returncode, rest, errors) == (0, b"", b"")


def test_a_client_that_vanishes(agent: foldmark.Agent) -> None:
    server = Raw("default", start=(PROGRAM,))
    assert server.process.stdin is not None
    assert server.process.stdout is not None
    assert server.process.stderr is not None
    server.send(*(call(id, "search", query="hello") for id in range(1, 20)))
    server.process.stdout.close()
    server.process.stdin.close()
    assert server.process.wait(LIMIT) == 0
    assert b"Traceback" not in server.process.stderr.read()
    server.process.stderr.close()


def test_an_interrupt_ends_it_at_once(agent: foldmark.Agent) -> None:
    if sys.platform == "win32":
        pytest.skip("there is no such signal")
    import signal

    server = Raw("default")
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(LIMIT) == -signal.SIGINT
    server.process.communicate()


def test_prints_of_libraries_stay_out_of_the_protocol(agent: foldmark.Agent, tmp_path: Path) -> None:
    (tmp_path / "chatty.py").write_text(
        """
import os, subprocess, sys
from foldmark.mcp import resources

own = resources.prompt

def prompt(*arguments):
    print("printed")
    sys.__stdout__.write("written\\n")
    os.write(1, b"straight\\n")
    subprocess.run(["echo", "by a child"])
    return own(*arguments)

resources.prompt = prompt
from foldmark.cli.program import main
main()
"""
    )
    server = Raw("default", start=(sys.executable, str(tmp_path / "chatty.py")))
    server.send({"id": 1, "method": "prompts/get", "params": {"name": "trim"}})
    assert server.next()["id"] == 1
    rest, errors = server.process.communicate(timeout=LIMIT)
    assert (server.process.returncode, rest) == (0, b"")
    for said in (b"printed", b"written", b"straight", b"by a child"):
        assert said in errors


def test_a_person_works_on_it_meanwhile(agent: foldmark.Agent, cli: Cli) -> None:
    async def visiting() -> None:
        async with outside("default") as guest:
            assert "created" in await guest.call("slash", command="mark", args="A")
            assert cli("do", "default", "/note something new").code == 0
            assert "something new" in await guest.read("foldmark://conversations/default/context")
            assert (await guest.call("slash", command="clear", args="A")).startswith("Rewound to 'A'.\n  event ")
            async with outside("default") as other, anyio.create_task_group() as tasks:
                for number in range(4):
                    for each in (guest, other):
                        tasks.start_soon(partial(each.call, "save_memo", content=f"memo {number}", tags=[]))

    visit(visiting)
    assert len(stored(agent.log).memos(100)) == 8


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--http", "70000"], "--http must be a number from 0 to 65,535, not '70000'"),
        (["--host", "0.0.0.0"], "--host and --allow-host require --http"),
        (["a", "b"], "unexpected extra argument"),
    ],
)
def test_wrong_options(cli: Cli, arguments: list[str], told: str) -> None:
    outcome = cli("mcp", *arguments)
    assert outcome.code == 2
    assert told in outcome.err
    assert outcome.out == ""


def test_settings_that_are_wrong_are_said_at_once(program: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDMARK_SLIDING_CONTEXT_TOKENS", "many")
    outcome = program("mcp")
    assert (outcome.code, outcome.out) == (2, "")
    assert "many" in outcome.err


def test_without_the_sdk_an_error_says_so(program: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "none/mcp").mkdir(parents=True)
    (tmp_path / "none/mcp/__init__.py").write_text("raise ImportError('no mcp')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path / "none"), os.environ.get("PYTHONPATH", ""))))
    outcome = program("mcp")
    assert outcome.code == 1
    assert outcome.err == f"foldmark: the package `mcp` is not installed; {installs('mcp')}\n"
