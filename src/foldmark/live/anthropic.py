"""Requests of Anthropic's Messages API, as Claude Code and other programs send them [SPEC 5.7]. Pure.

A body is never written anew: it is cut where its messages stand, and what is kept of them keeps its bytes. Messages are
compared by keys that leave out what changes from request to request without changing the message: cache marks, and a
text on its own instead of a list with one text block. An answer and its echo have one key, whatever order of members
and form of numbers the client writes.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from foldmark.core.events import Event
from foldmark.sessions import lenient_json
from foldmark.sessions.claude.blocks import read_message
from foldmark.sessions.conversion.content import THOUGHTS, call_block, message_blocks, result_block
from foldmark.sessions.messages import Part, TextMessage

MESSAGES = "/v1/messages"
"""The path of the endpoint that answers."""

_MARK = re.compile(rb'\s*,\s*"cache_control"\s*:\s*\{[^{}]*\}|"cache_control"\s*:\s*\{[^{}]*\}\s*,\s*')
_REMEMBERED = 8
_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_INJECTED = re.compile(
    r"\s*<(system-reminder|local-command-(caveat|stdout|stderr)|command-(name|message|args)|bash-(input|stdout|stderr))>"
)
_INTERRUPTED = "[Request interrupted by user"


class _Body(Struct):
    messages: Raw
    model: str = ""
    stream: bool = False
    tools: list[Raw] = []
    system: str | list[dict[str, Any]] = ""
    metadata: dict[str, Any] = {}


class _Message(Struct):
    role: str
    content: Raw


class Prompt(NamedTuple):
    """A prompt: the number of its block in the message, and its text."""

    block: int
    text: str


class Message(Struct, frozen=True, gc=False):
    """A message without its cache marks: its role, its blocks as JSON, and its key.

    `calls` and `results` are the ids of the tool calls that it makes and answers; `thinks` is True if it holds
    thinking.
    """

    role: str
    blocks: tuple[bytes, ...]
    key: str
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    thinks: bool = False

    @property
    def parts(self) -> list[Part | None]:
        """What each block says, as the log records it; None for a block that the client injected, or that says
        nothing."""
        return [_part(self.role, block) for block in self.blocks]

    @property
    def prompt(self) -> Prompt | None:
        """What the person typed last, in a user's message; None where anything else follows but what the client
        injected. Prompts that were not answered stand in front of it, as blocks of the same message."""
        for at in range(len(self.blocks) - 1, -1, -1):
            block = _decoded(self.blocks[at])
            text = block.get("text") if self.role == "user" and block.get("type") == "text" else None
            if not isinstance(text, str):
                return None
            if not _INJECTED.match(text):
                return Prompt(at, text.strip())
        return None


class Sent(NamedTuple):
    """A message with its bytes in the body, cache marks included."""

    raw: bytes
    message: Message


class ClientRequest(Struct, frozen=True):
    """A request: its body, where its list of messages begins and ends there, and the messages.

    `session` and `agent` are the client's ids of its session and of a sub-agent in it, empty where it names none;
    `system` is its system prompt as it came.
    """

    body: bytes
    begin: int
    end: int
    sent: tuple[Sent, ...]
    model: str
    stream: bool
    tools: bool
    session: str = ""
    agent: str = ""
    system: str | list[dict[str, Any]] = ""

    def with_messages(self, messages: Iterable[bytes]) -> bytes:
        """Return the body with these messages instead of its own."""
        return b"".join((self.body[: self.begin], b"[", b",".join(messages), b"]", self.body[self.end :]))


class Reader:
    """Reads requests. A client sends its transcript again and again: what a request shares with one of the newest ones
    is not decoded once more."""

    def __init__(self) -> None:
        self._newest: list[ClientRequest] = []

    def read(self, headers: Mapping[str, str], body: bytes) -> ClientRequest:
        """Read a request. Raises ValueError (msgspec's errors among them) for a body of another shape."""
        begin, at, sent = max((_shared(each, body) for each in self._newest), key=_place, default=(0, 0, ()))
        # The rest is a body of its own: what stands in front of the messages, and the messages that are left.
        rest = body[: begin + 1] + body[at:] if sent else body
        whole, text = _read_body(rest)
        messages = bytes(whole.messages)
        own = text.index(messages)
        new, place = list[Sent](), own + 1
        for each in map(bytes, msgspec.json.decode(messages, type=list[Raw])):
            place = text.index(each, place)
            raw = rest[place : place + len(each)]
            new.append(Sent(raw, read(unmarked(raw))))
            place += len(each)
        begin, end = own, own + len(messages) + (at - begin - 1 if sent else 0)
        session, agent = headers.get("x-claude-code-session-id", ""), headers.get("x-claude-code-agent-id", "")
        request = ClientRequest(
            body,
            begin,
            end,
            (*sent, *new),
            whole.model,
            whole.stream,
            bool(whole.tools),
            session or _session(whole.metadata),
            agent,
            whole.system,
        )
        self._newest = [request, *(each for each in self._newest if each.sent[:1] != request.sent[:1])][:_REMEMBERED]
        return request


def _read_body(body: bytes) -> tuple[_Body, bytes]:
    """Read a body; return it also as it was read, which has the same length."""
    try:
        return msgspec.json.decode(body, type=_Body), body
    except msgspec.DecodeError:
        text = _without_surrogates(body)
        return msgspec.json.decode(text, type=_Body), text


def _without_surrogates(text: bytes) -> bytes:
    """Return JSON with U+FFFD, as an escape of the same length, in place of lone surrogates."""
    return _SURROGATE.sub(rb"\\ufffd", text)


def _shared(before: ClientRequest, body: bytes) -> tuple[int, int, tuple[Sent, ...]]:
    """Return where the messages of a body begin, where those end that it shares with the request before, and these."""
    at = before.begin + 1
    if body[:at] != before.body[:at]:
        return 0, 0, ()
    shared = 0
    for each in before.sent:
        after = at + len(each.raw)
        # Without a comma it is the last one; the message itself may go on, as a number does.
        if not body.startswith(each.raw, at) or body[after : after + 1] != b",":
            break
        at, shared = after + 1, shared + 1
    return before.begin, at, before.sent[:shared]


def _place(found: tuple[int, int, tuple[Sent, ...]]) -> int:
    return found[1]


def _session(metadata: Mapping[str, Any]) -> str:
    """Return the session's id in the JSON text that Claude Code sends as `metadata.user_id`."""
    try:
        about = msgspec.json.decode(str(metadata.get("user_id", "")))
    except msgspec.MsgspecError:
        return ""
    found = about.get("session_id") if isinstance(about, dict) else None
    return found if isinstance(found, str) else ""


def unmarked(raw: bytes) -> bytes:
    """Return a message without its cache marks."""
    return _MARK.sub(b"", raw) if b'"cache_control"' in raw else raw


def read(bare: bytes) -> Message:
    """Read a message without cache marks. Raises msgspec.MsgspecError."""
    try:
        message = msgspec.json.decode(bare, type=_Message)
    except msgspec.DecodeError:
        bare = _without_surrogates(bare)
        message = msgspec.json.decode(bare, type=_Message)
    blocks = blocks_of(bytes(message.content))
    found = [_decoded(block) for block in blocks] if message.role in ("assistant", "user") else []
    calls = tuple(str(each.get("id")) for each in found if each.get("type") == "tool_use")
    results = tuple(str(each.get("tool_use_id")) for each in found if each.get("type") == "tool_result")
    thinks = any(each.get("type") in THOUGHTS for each in found)
    key = answer_key(found) if message.role == "assistant" else key_of(message.role, blocks)
    return Message(message.role, blocks, key, calls, results, thinks)


def blocks_of(content: bytes) -> tuple[bytes, ...]:
    """Return the blocks of a message's content as JSON."""
    if content[:1] == b'"':
        return (b'{"type":"text","text":' + content + b"}",)
    return tuple(map(bytes, msgspec.json.decode(content, type=list[Raw])))


def raw_blocks(raw: bytes) -> tuple[bytes, ...]:
    """Return the blocks of a message with their cache marks."""
    try:
        return blocks_of(bytes(msgspec.json.decode(raw, type=_Message).content))
    except msgspec.DecodeError:
        return blocks_of(bytes(msgspec.json.decode(_without_surrogates(raw), type=_Message).content))


def written(role: str, blocks: Iterable[bytes]) -> bytes:
    """Return a message with these blocks."""
    return b'{"role":"' + role.encode() + b'","content":[' + b",".join(blocks) + b"]}"


def result_placeholder(block: bytes, text: str) -> bytes:
    """Return a tool result with `text` instead of what it says; it keeps its cache mark."""
    found = _decoded(block)
    return msgspec.json.encode({**found, "content": text})


def noticed(block: bytes, gone: Container[str], notice: Callable[[str], str]) -> bytes:
    """Return a block as it is, or the notice about a result whose call is `gone`; empty where there is none."""
    found = _decoded(block)
    if found.get("type") != "tool_result" or found.get("tool_use_id") not in gone:
        return block
    text = notice(str(found.get("tool_use_id")))
    mark = {"cache_control": found["cache_control"]} if "cache_control" in found else {}
    return msgspec.json.encode({"type": "text", "text": text, **mark}) if text else b""


def without_thinking(blocks: Iterable[bytes]) -> list[bytes]:
    """Return the blocks but those of thinking."""
    return [block for block in blocks if _decoded(block).get("type") not in THOUGHTS]


def mark_of(raw: bytes) -> bytes | None:
    """Return the newest cache mark of a message, `"cache_control":{…}`; None if it has none."""
    found = _MARK.findall(raw) if b'"cache_control"' in raw else []
    return found[-1].strip(b", \n\t") if found else None


def marked(raw: bytes, mark: bytes) -> bytes | None:
    """Return a message with a cache mark on its last block; None if that one cannot carry it, or has one."""
    message = msgspec.json.decode(raw, type=_Message)
    blocks = list(blocks_of(bytes(message.content)))
    kind = _decoded(blocks[-1]).get("type") if blocks else None
    if kind in (None, *THOUGHTS) or b'"cache_control"' in blocks[-1] or message.role not in ("user", "assistant"):
        return None
    blocks[-1] = blocks[-1][:-1] + b"," + mark + b"}"
    return written(message.role, blocks)


def messages_of(events: Iterable[Event]) -> list[bytes]:
    """Return events that the client no longer sends as messages of their own. Thinking is left out: it was bound to
    what stood before it then."""
    found: list[tuple[str, list[dict[str, Any]]]] = []
    for event in events:
        if event.kind == "tool_call":
            role, blocks = "assistant", [call_block(event, event.call_id or "")]
        elif event.kind == "tool_result":
            role, blocks = "user", [result_block(event, event.call_id or "")]
        else:
            role = "assistant" if event.kind in ("assistant", "summary") else "user"
            blocks = [block for block in message_blocks(event) if block.get("type") not in THOUGHTS]
        if blocks and found and found[-1][0] == role:
            found[-1][1].extend(blocks)
        elif blocks:
            found.append((role, blocks))
    return [written(role, map(msgspec.json.encode, blocks)) for role, blocks in found]


def is_interruption(part: Part | None) -> bool:
    """Return True if a text is what Claude Code says in place of an answer that a person interrupted."""
    return isinstance(part, TextMessage) and part.kind == "user" and part.text.startswith(_INTERRUPTED)


def _part(role: str, block: bytes) -> Part | None:
    return told(role, _decoded(block), None) if role in ("user", "assistant") else None


def told(role: str, block: Any, response: Any) -> Part | None:
    """Return what a block says; `response` is the id of the answer that it is part of. None if it says nothing."""
    text = block.get("text") if isinstance(block, dict) and role == "user" else None
    if isinstance(text, str) and _INJECTED.match(text):
        return None
    read = read_message({"type": role, "message": {"content": [block], "id": response}})
    return read.parts[0] if len(read.parts) == 1 else None


def answer_key(blocks: Sequence[Any]) -> str:
    """Return the key of an answer with these blocks."""
    meanings = [_meaning(block) for block in blocks if isinstance(block, dict)]
    return key_of("assistant", [msgspec.json.encode([each for each in meanings if each], order="sorted")])


def _meaning(block: Mapping[str, Any]) -> list[Any]:
    kind = block.get("type")
    if kind == "text":
        text = str(block.get("text", "")).strip()
        return [kind, text] if text else []
    if kind == "tool_use":
        return [kind, block.get("id"), block.get("name"), _plain(block.get("input"))]
    if kind in THOUGHTS:
        return [kind, block.get(THOUGHTS[kind][-1])]
    return [kind, _plain({name: value for name, value in block.items() if name != "cache_control"})]


def _plain(value: Any) -> Any:
    """Return a value with whole numbers as JavaScript writes them."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def key_of(role: str, blocks: Iterable[bytes]) -> str:
    """Return the key of a message with these blocks."""
    return blake2b(role.encode() + b"\0" + b"\n".join(blocks), digest_size=16).hexdigest()


def _decoded(block: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(block)
    except msgspec.DecodeError:  # a lone surrogate, or a number that is too big
        found = lenient_json.decode(block)
    return found if isinstance(found, dict) else {}
