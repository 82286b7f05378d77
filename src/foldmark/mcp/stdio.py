"""The server over standard input and output: the output carries only the protocol, and each request gets an answer."""

import codecs
import json
import sys
from collections.abc import Callable
from threading import Condition
from typing import Any, BinaryIO, TextIO, cast

import anyio
from anyio import from_thread
from anyio.abc import ObjectSendStream
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from foldmark.core.codec import well_formed

LONGEST = 32 << 20
"""Maximum bytes of a line."""

LINGER = 5.0
"""Maximum seconds that requests may take after the last line is read."""

LISTEN = "subscriptions/listen"

_NO_MESSAGE = "this is not a request, notification or response of JSON-RPC 2.0"
_NO_ID = "the id of a request must be a text or an integer"


class Pending:
    """The requests without an answer."""

    def __init__(self) -> None:
        self._ids: set[types.RequestId | None] = set()
        self._changed = Condition()

    def begun(self, id: types.RequestId) -> None:
        """Record that a request was read."""
        with self._changed:
            self._ids.add(id)

    def ended(self, id: types.RequestId | None) -> None:
        """Record that a request was answered or cancelled."""
        with self._changed:
            self._ids -= {id}
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until all requests are answered, at most `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: not self._ids, seconds)


class MessageLines:
    """The lines that the SDK reads, in its own thread. `refuse` answers an invalid line."""

    refuse: Callable[[types.JSONRPCError], None]

    def __init__(self, raw: BinaryIO, pending: Pending) -> None:
        self._raw, self._pending = raw, pending

    def readline(self) -> str:
        """Return the next line that is a message. At the end, wait for pending requests and return an empty line."""
        while line := self._raw.readline(LONGEST + 1):
            if len(line) > LONGEST:
                while line and not line.endswith(b"\n"):
                    line = self._raw.readline(LONGEST)
                self.refuse(_error(None, types.INVALID_REQUEST, f"a message has at most {LONGEST:,} bytes"))
                continue
            line = line.removeprefix(codecs.BOM_UTF8)  # some clients on Windows begin with it
            if line.strip():
                found = self._checked(line.decode("utf-8", "replace"))
                if isinstance(found, str):
                    return found
                self.refuse(found)
        self._pending.wait(LINGER)
        return ""

    def _checked(self, line: str) -> str | types.JSONRPCError:
        """Return the line, corrected if necessary, or the error that answers it."""
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            try:
                value = well_formed(json.loads(line, parse_constant=_refuse))
                line = json.dumps(value)
            except (ValueError, RecursionError) as error:
                return _error(None, types.PARSE_ERROR, f"this line is not JSON: {error}")
            try:
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValidationError:
                return _error(_id(value), types.INVALID_REQUEST, _NO_MESSAGE)
        if isinstance(message, types.JSONRPCNotification):
            if "id" in json.loads(line):
                return _error(None, types.INVALID_REQUEST, _NO_ID)
            if message.method == "notifications/cancelled":
                self._pending.ended(_id(message.params, "requestId"))
        # A subscription is answered only when it ends.
        if isinstance(message, types.JSONRPCRequest) and message.method != LISTEN:
            self._pending.begun(message.id)
        return line


def _id(value: Any, name: str = "id") -> types.RequestId | None:
    """Return the request id in a value; None if it has none."""
    id = value.get(name) if isinstance(value, dict) else None
    return id if type(id) in (str, int) else None


def _error(id: types.RequestId | None, code: int, message: str) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=id, error=types.ErrorData(code=code, message=message))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON value")


async def serve(server: Server[Any]) -> None:
    """Serve one client until it closes standard input or disconnects."""
    pending = Pending()
    lines = MessageLines(sys.stdin.buffer, pending)
    read = anyio.wrap_file(cast(TextIO, lines))
    # The SDK takes over the real standard output; until it ends, all other code prints to standard error.
    async with stdio_server(stdin=read) as (messages, written):
        answers = _Answers(written, pending)

        def refuse(error: types.JSONRPCError) -> None:  # in the thread that reads
            from_thread.run(answers.send, SessionMessage(error))

        lines.refuse = refuse
        try:
            await server.run(messages, answers, server.create_initialization_options())
        finally:
            sys.stdout.flush()  # text that other code has printed


class _Answers(ObjectSendStream[SessionMessage]):
    """The server's output. It records which requests were answered."""

    def __init__(self, to: Any, pending: Pending) -> None:
        self._to, self._pending = to, pending

    async def send(self, item: SessionMessage) -> None:
        await self._to.send(item)
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            self._pending.ended(item.message.id)

    async def aclose(self) -> None:
        await self._to.aclose()
