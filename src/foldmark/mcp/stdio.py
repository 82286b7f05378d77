"""The server over standard input and output, by the SDK's transport. Added here: each request gets an answer."""

import json
import sys
from typing import Any

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from foldmark.core.codec import well_formed

LINGER = 5.0
"""Maximum seconds that requests may take after the last line is read."""


async def serve(server: Server[Any]) -> None:
    """Serve one client until it closes standard input or disconnects. Until then, all other code prints to standard
    error."""
    async with stdio_server() as (read, written):
        answers = Answers(written)
        try:
            await server.run(MessageLines(read, answers), answers, server.create_initialization_options())
        finally:
            sys.stdout.flush()  # text that other code has printed


class Answers(ObjectSendStream[SessionMessage]):
    """The server's output. It knows the requests without an answer."""

    def __init__(self, written: Any) -> None:
        self._written = written
        self._open: set[Any] = set()
        self._all_sent = anyio.Event()

    def expect(self, message: types.JSONRPCMessage) -> None:
        """Record that a message was read."""
        if isinstance(message, types.JSONRPCRequest):
            self._open.add(message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._ended((message.params or {}).get("requestId"))

    async def send(self, item: SessionMessage) -> None:
        await self._written.send(item)
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            self._ended(item.message.id)

    def _ended(self, id: Any) -> None:
        self._open = {each for each in self._open if each != id}
        if not self._open:
            self._all_sent.set()

    async def finish(self) -> None:
        """Wait until all requests are answered, at most LINGER seconds."""
        with anyio.move_on_after(LINGER):
            while self._open:
                self._all_sent = anyio.Event()
                await self._all_sent.wait()

    async def aclose(self) -> None:
        await self._written.aclose()


class MessageLines(ObjectReceiveStream[SessionMessage]):
    """The messages of the client. The SDK drops a line that it cannot read, and with its end the open requests."""

    def __init__(self, read: Any, answers: Answers) -> None:
        self._read, self._answers = read, answers

    async def receive(self) -> SessionMessage:
        while True:
            try:
                found = await self._read.receive()
            except anyio.EndOfStream:
                await self._answers.finish()
                raise
            if isinstance(found, ValidationError):
                found = _repaired(found)
            if isinstance(found, SessionMessage):
                self._answers.expect(found.message)
                return found
            if found is not None:
                await self._answers.send(SessionMessage(found))

    async def aclose(self) -> None:
        await self._read.aclose()


def _repaired(error: ValidationError) -> SessionMessage | types.JSONRPCError | None:
    """Return the message of a line that the SDK refused, or the error that answers it; None for an empty line."""
    *_, why = error.errors()
    value = why["input"]
    if why["type"] == "json_invalid":
        line = value.removeprefix("\ufeff").strip()  # some clients on Windows begin with it
        if not line:
            return None
        try:
            value = well_formed(json.loads(line))  # JavaScript may send half of a character
            return SessionMessage(types.jsonrpc_message_adapter.validate_python(value, by_name=False))
        except ValidationError:
            pass
        except (ValueError, RecursionError) as invalid:
            return _refusal(None, types.PARSE_ERROR, f"this line is not JSON: {invalid}")
    return _refusal(value, types.INVALID_REQUEST, "this is not a request, notification or response of JSON-RPC 2.0")


def _refusal(value: Any, code: int, message: str) -> types.JSONRPCError:
    id = value.get("id") if isinstance(value, dict) else None
    known = id if type(id) in (str, int) else None
    return types.JSONRPCError(jsonrpc="2.0", id=known, error=types.ErrorData(code=code, message=message))
