"""Standard input of the MCP server: every invalid line is answered, every other one is passed on."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from foldmark.mcp import stdio
from foldmark.mcp.stdio import Answers, MessageLines
from patience import LIMIT

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


def read(raw: bytes) -> tuple[list[Any], list[JSONRPCError]]:
    """Return the messages that the server gets over the SDK's transport, and the errors that answer other lines."""
    passed, printed = list[Any](), io.StringIO()
    lines = anyio.wrap_file(io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8", errors="replace"))

    async def main() -> None:
        async with stdio_server(lines, anyio.wrap_file(printed)) as (found, written):
            answers = Answers(written)
            async with answers, MessageLines(found, answers) as reading:
                async for each in reading:
                    passed.append(each.message.model_dump(exclude_unset=True))
                    if isinstance(each.message, JSONRPCRequest):
                        await answers.send(answer(each.message.id))

    anyio.run(main)
    errors = [line for line in printed.getvalue().splitlines() if "error" in json.loads(line)]
    return passed, [JSONRPCError.model_validate_json(line) for line in errors]


def answer(id: Any) -> SessionMessage:
    return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=id, result={}))


def ping(**params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "ping", **({"params": params} if params else {})}


@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"{", PARSE_ERROR, None),
        (b"\xff\xfe", PARSE_ERROR, None),
        (b"[" * 100_000, PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}\x00', PARSE_ERROR, None),
        (b"null", INVALID_REQUEST, None),
        (b"[]", INVALID_REQUEST, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID_REQUEST, None),
        (b'"ping"', INVALID_REQUEST, None),
        (b"{}", INVALID_REQUEST, None),
        (b'{"jsonrpc":"1.0","id":3,"method":"ping"}', INVALID_REQUEST, 3),
        (b'{"jsonrpc":"1.0","id":3,"method":"half \\ud83d"}', INVALID_REQUEST, 3),
        (b'{"jsonrpc":"2.0","id":"four","method":5}', INVALID_REQUEST, "four"),
        (b'{"jsonrpc":"2.0","id":6,"method":"ping","params":[1]}', INVALID_REQUEST, 6),
        (b'{"jsonrpc":"2.0","\\u0069d":[1],"method":5}', INVALID_REQUEST, None),
    ],
)
def test_what_is_wrong_is_answered(line: bytes, code: int, id: object) -> None:
    passed, refused = read(line + b"\n" + PING)
    assert [(each.error.code, each.id) for each in refused] == [(code, id)]
    assert passed == [ping()]


@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b" \t\n", b"", b"\n\n\n"])
def test_empty_lines_are_nothing(blank: bytes) -> None:
    assert read(blank + PING + blank) == ([ping()], [])


@pytest.mark.parametrize("before", [b"", b"\n", b" \r\n"])
def test_a_byte_order_mark_before_a_message_is_skipped(before: bytes) -> None:
    """Windows programs write one when they open the pipe, and again when they reopen it."""
    mark = b"\xef\xbb\xbf"
    assert read(mark + before + PING + mark + PING) == ([ping()] * 2, [])


def test_half_a_character_does_not_block_forever() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"half \\ud83d of","b":"\\ud83d\\ude00"}}\n'
    assert read(line) == ([ping(a="half \ufffd of", b="😀")], [])


def test_deep_params_are_passed_on() -> None:
    deep = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * 500 + b"]" * 500 + b"}}\n"
    assert read(deep) == ([json.loads(deep)], [])


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert read(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xff"}}\n') == ([ping(a="\ufffd")], [])


@given(st.lists(st.binary(max_size=60) | st.sampled_from([PING[:-1], b'{"id":1}', b'{"jsonrpc":"2.0"']), max_size=8))
def test_any_bytes(parts: list[bytes]) -> None:
    raw = b"\n".join(parts)
    passed, refused = read(raw)
    lines = re.split("\r\n|\r|\n", raw.decode("utf-8", "replace"))
    assert len(passed) + len(refused) == sum(bool(line.removeprefix("\ufeff").strip()) for line in lines)


def cancelled(id: Any) -> SessionMessage:
    return SessionMessage(
        JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": id})
    )


@pytest.mark.parametrize("ends", ["answered", "cancelled", "forgotten"])
def test_the_end_waits_for_answers_but_not_for_ever(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "LINGER", 0.05 if ends == "forgotten" else 600)

    async def main() -> None:
        client, found = anyio.create_memory_object_stream[SessionMessage](9)
        written, read = anyio.create_memory_object_stream[SessionMessage](9)
        answers, ended = Answers(written), anyio.Event()
        lines = MessageLines(found, answers)
        for id in (1, "two"):
            client.send_nowait(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=id, method="ping")))
            await lines.receive()
        if ends == "cancelled":
            client.send_nowait(cancelled("two"))
            await lines.receive()
        client.close()

        async def read_on() -> None:
            with pytest.raises(anyio.EndOfStream):
                await lines.receive()
            ended.set()

        async with written, read, found, anyio.create_task_group() as tasks:
            tasks.start_soon(read_on)
            if ends != "forgotten":
                await anyio.wait_all_tasks_blocked()
                assert not ended.is_set()
                await answers.send(answer(1))
            if ends == "answered":
                await anyio.wait_all_tasks_blocked()
                assert not ended.is_set()
                await answers.send(answer("two"))
            with anyio.fail_after(LIMIT):
                await ended.wait()

    anyio.run(main)
