"""Standard input of the MCP server: every invalid line is answered, every other one is passed on."""

from __future__ import annotations

import io
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.types import INVALID_REQUEST, PARSE_ERROR, JSONRPCError, JSONRPCRequest, jsonrpc_message_adapter

from foldmark.mcp import stdio
from foldmark.mcp.stdio import MessageLines, Pending
from patience import LIMIT

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


def read(raw: bytes) -> tuple[list[str], list[JSONRPCError]]:
    """Return the lines that are passed on and the errors for the others."""
    pending, refused = Pending(), list[JSONRPCError]()
    reading = MessageLines(io.BytesIO(raw), pending)
    reading.refuse = refused.append
    passed = []
    while line := _next(reading, pending):
        passed.append(line)
    return passed, refused


def _next(reading: MessageLines, pending: Pending) -> str:
    line = reading.readline()
    if line and isinstance(message := jsonrpc_message_adapter.validate_json(line), JSONRPCRequest):
        pending.ended(message.id)
    return line


@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"{", PARSE_ERROR, None),
        (b"\xff\xfe", PARSE_ERROR, None),
        (b"[" * 100_000, PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":' + b"[" * 500 + b"]" * 500 + b"}}", INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}\x00', PARSE_ERROR, None),
        (b"null", INVALID_REQUEST, None),
        (b"[]", INVALID_REQUEST, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID_REQUEST, None),
        (b'"ping"', INVALID_REQUEST, None),
        (b"{}", INVALID_REQUEST, None),
        (b'{"jsonrpc":"1.0","id":3,"method":"ping"}', INVALID_REQUEST, 3),
        (b'{"jsonrpc":"2.0","id":"four","method":5}', INVALID_REQUEST, "four"),
        (b'{"jsonrpc":"2.0","id":6,"method":"ping","params":[1]}', INVALID_REQUEST, 6),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":5.5,"method":"ping"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","\\u0069d":[1],"method":"ping"}', INVALID_REQUEST, None),
    ],
)
def test_what_is_wrong_is_answered(line: bytes, code: int, id: object) -> None:
    passed, refused = read(line + b"\n" + PING)
    assert [(each.error.code, each.id) for each in refused] == [(code, id)]
    assert passed == [PING.decode()]


@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b" \t\n", b"", b"\n\n\n"])
def test_empty_lines_are_nothing(blank: bytes) -> None:
    assert read(blank + PING + blank) == ([PING.decode()], [])


@pytest.mark.parametrize("before", [b"", b"\n", b" \r\n"])
def test_a_byte_order_mark_before_a_message_is_skipped(before: bytes) -> None:
    """Windows programs write one when they open the pipe, and again when they reopen it."""
    mark = b"\xef\xbb\xbf"
    assert read(mark + before + PING + mark + PING) == ([PING.decode()] * 2, [])


def test_half_a_character_does_not_block_forever() -> None:
    (line,), refused = read(
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"half \\ud83d of","b":"\\ud83d\\ude00"}}\n'
    )
    assert refused == []
    assert json.loads(line)["params"] == {"a": "half \ufffd of", "b": "😀"}


def test_bytes_that_are_no_text_are_replaced() -> None:
    (line,), refused = read(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xff"}}\n')
    assert refused == []
    assert json.loads(line)["params"] == {"a": "\ufffd"}


def test_a_line_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "LONGEST", 1000)
    passed, refused = read(b'"' + b"a" * 5000 + b"\n" + PING + b"b" * 1001)
    assert passed == [PING.decode()]
    assert [each.error.message for each in refused] == ["a message has at most 1,000 bytes"] * 2


@given(st.lists(st.binary(max_size=60) | st.sampled_from([PING[:-1], b'{"id":1}', b'{"jsonrpc":"2.0"']), max_size=8))
def test_any_bytes(parts: list[bytes]) -> None:
    raw = b"\n".join(parts)
    passed, refused = read(raw)
    assert len(passed) + len(refused) == sum(bool(line.strip()) for line in raw.split(b"\n"))
    for line in passed:
        jsonrpc_message_adapter.validate_json(line)


def test_the_end_waits_for_answers_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    pending = Pending()
    reading = MessageLines(io.BytesIO(PING), pending)
    assert reading.readline() == PING.decode()
    ended = threading.Event()

    def read_on() -> None:
        assert reading.readline() == ""
        ended.set()

    thread = threading.Thread(target=read_on)
    thread.start()
    assert not ended.wait(0.1)
    pending.ended(1)
    assert ended.wait(LIMIT)
    thread.join()
    pending.begun(2)
    monkeypatch.setattr(stdio, "LINGER", 0.05)
    assert reading.readline() == ""
