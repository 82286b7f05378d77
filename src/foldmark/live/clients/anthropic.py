"""Anthropic's Messages API, as Claude Code and other programs speak it [SPEC 5.7]. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from foldmark.core.events import Event
from foldmark.core.request import Request
from foldmark.dialects.anthropic import thinking
from foldmark.live.clients import anthropic_answers
from foldmark.live.clients.dialect import (
    ClientAnswer,
    ClientBody,
    ClientDialect,
    ClientMessage,
    ClientRequest,
    RequestHead,
    SentMessage,
    TypedPrompt,
    decoded,
    key_of,
    plain,
    without_surrogates,
)
from foldmark.sessions.claude.blocks import read_message
from foldmark.sessions.conversion.content import THOUGHTS, call_block, message_blocks, result_block
from foldmark.sessions.messages import Part, TextMessage

MESSAGES = "/v1/messages"
"""The path of the endpoint that answers."""

_MARK = re.compile(rb'\s*,\s*"cache_control"\s*:\s*\{[^{}]*\}|"cache_control"\s*:\s*\{[^{}]*\}\s*,\s*')
_INJECTED = re.compile(
    r"\s*<(system-reminder|local-command-(caveat|stdout|stderr)|command-(name|message|args)|bash-(input|stdout|stderr))>"
)
_INTERRUPTED = "[Request interrupted by user"


class _Body(ClientBody):
    model: str = ""
    stream: bool = False
    tools: list[Raw] = msgspec.field(default_factory=list)
    system: str | list[dict[str, Any]] = ""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class _Message(Struct):
    role: str
    content: Raw


class AnthropicClient(ClientDialect):
    """Requests and answers of `/v1/messages`."""

    name = "anthropic"
    body = _Body
    opening = b'{"role":"user","content":[{"type":"text","text":"[Earlier messages were left out.]"}]}'
    credentials = ("x-api-key", "authorization", "anthropic-version", "anthropic-beta", "user-agent")

    def reads(self, path: str) -> bool:
        return path == MESSAGES

    def head(self, target: str, headers: Mapping[str, str], body: _Body) -> RequestHead:
        return RequestHead(
            body.model,
            body.stream,
            bool(body.tools),
            headers.get("x-claude-code-session-id", "") or _session(body.metadata),
            headers.get("x-claude-code-agent-id", ""),
            system=body.system,
        )

    def read(self, raw: bytes) -> ClientMessage:
        bare = _MARK.sub(b"", raw) if b'"cache_control"' in raw else raw
        message = _decode(bare)
        blocks = _blocks_of(bytes(message.content))
        found = [decoded(block) for block in blocks] if message.role in ("assistant", "user") else []
        calls = tuple(str(each.get("id")) for each in found if each.get("type") == "tool_use")
        results = tuple(call for each in found if (call := self.result_of(each)) is not None)
        thinks = any(map(self.is_thinking, found))
        key = _answer_key(found) if message.role == "assistant" else key_of(message.role, blocks)
        return ClientMessage(message.role, blocks, key, calls, results, thinks)

    def blocks(self, raw: bytes) -> tuple[bytes, ...]:
        return _blocks_of(bytes(_decode(raw).content))

    def rewritten(self, raw: bytes, blocks: Iterable[bytes]) -> bytes:
        return _written(_decode(raw).role, blocks)

    def parts(self, message: ClientMessage) -> list[Part | None]:
        if message.role not in ("user", "assistant"):
            return [None for _ in message.blocks]
        return [_part(message.role, decoded(block), None) for block in message.blocks]

    def prompt(self, message: ClientMessage) -> TypedPrompt | None:
        # Prompts that were not answered stand in front of the last one, as blocks of the same message.
        for at in range(len(message.blocks) - 1, -1, -1):
            block = decoded(message.blocks[at])
            text = block.get("text") if message.role == "user" and block.get("type") == "text" else None
            if not isinstance(text, str):
                return None
            if not _INJECTED.match(text):
                return TypedPrompt(at, text.strip())
        return None

    def announces(self, block: bytes) -> bool:
        return str(decoded(block).get("text", "")).startswith("<command-message>fm</command-message>")

    def is_interruption(self, part: Part | None) -> bool:
        return isinstance(part, TextMessage) and part.kind == "user" and part.text.startswith(_INTERRUPTED)

    def result_of(self, block: Mapping[str, Any]) -> str | None:
        return str(block.get("tool_use_id")) if block.get("type") == "tool_result" else None

    def placeholder(self, block: Mapping[str, Any], text: str) -> bytes:
        return msgspec.json.encode({**block, "content": text})

    def notice(self, block: Mapping[str, Any], text: str) -> bytes:
        mark = {"cache_control": block["cache_control"]} if "cache_control" in block else {}
        return msgspec.json.encode({"type": "text", "text": text, **mark})

    def is_thinking(self, block: Mapping[str, Any]) -> bool:
        return block.get("type") in THOUGHTS

    def binds(self, model: str) -> bool:
        return thinking.binds(model)

    def mark_of(self, raw: bytes) -> bytes | None:
        found = _MARK.findall(raw) if b'"cache_control"' in raw else []
        return found[-1].strip(b", \n\t") if found else None

    def marked(self, raw: bytes, mark: bytes) -> bytes | None:
        message = msgspec.json.decode(raw, type=_Message)
        blocks = list(_blocks_of(bytes(message.content)))
        kind = decoded(blocks[-1]).get("type") if blocks else None
        if kind in (None, *THOUGHTS) or b'"cache_control"' in blocks[-1] or message.role not in ("user", "assistant"):
            return None
        blocks[-1] = blocks[-1][:-1] + b"," + mark + b"}"
        return _written(message.role, blocks)

    def joined(self, found: Iterable[SentMessage]) -> list[bytes]:
        # Roles alternate. A message of the role system does not part neighbours of one role: it stays behind the user's
        # message that it was added to.
        joined: list[bytes] = []
        before, last = "", 0
        for raw, message in found:
            if message.role == "system":
                joined.append(raw)
            elif message.role == before:
                joined[last] = _written(before, (*self.blocks(joined[last]), *self.blocks(raw)))
            else:
                before, last = message.role, len(joined)
                joined.append(raw)
        return joined

    def messages_of(self, events: Iterable[Event]) -> list[bytes]:
        # Thinking is left out: it was bound to what stood before it then.
        found: list[tuple[str, list[dict[str, Any]]]] = []
        for event in events:
            if event.kind == "tool_call":
                role, blocks = "assistant", [call_block(event, event.call_id or "")]
            elif event.kind == "tool_result":
                role, blocks = "user", [result_block(event, event.call_id or "")]
            else:
                role = "assistant" if event.kind in ("assistant", "summary") else "user"
                blocks = [block for block in message_blocks(event) if not self.is_thinking(block)]
            if blocks and found and found[-1][0] == role:
                found[-1][1].extend(blocks)
            elif blocks:
                found.append((role, blocks))
        return [_written(role, map(msgspec.json.encode, blocks)) for role, blocks in found]

    def answer(self, body: bytes, *, streamed: bool) -> ClientAnswer | None:
        found = anthropic_answers.read_answer(body, streamed=streamed)
        if found is None:
            return None
        content = found.content
        parts = [_part("assistant", block, found.id) for block in content]
        return ClientAnswer(_answer_key(content), parts, found.model, found.usage, found.stopped)

    def reply(self, text: str, request: ClientRequest) -> tuple[str, bytes]:
        id = "msg_foldmark_" + key_of("answer", [text.encode("utf-8", "replace")])[:12]
        return anthropic_answers.written_answer(text, id, request.head.model, stream=request.head.stream)

    def reply_key(self, text: str) -> str:
        return _answer_key([{"type": "text", "text": text}])

    def question(self, asked: Request, request: ClientRequest) -> tuple[str, bytes]:
        # The client's system prompt comes first: some credentials are good for nothing else.
        own = asked.body.get("system") or []
        texts = [
            [{"type": "text", "text": each}] if isinstance(each, str) else each for each in (request.head.system, own)
        ]
        system = [
            {name: block[name] for name in ("type", "text")} for each in texts for block in each if block.get("text")
        ]
        rest = {name: value for name, value in asked.body.items() if name != "system"}
        body = {**rest, "model": request.head.model, "stream": True, **({"system": system} if system else {})}
        return MESSAGES, msgspec.json.encode(body)


ANTHROPIC = AnthropicClient()


def _session(metadata: Mapping[str, Any]) -> str:
    """Return the session's id in the JSON text that Claude Code sends as `metadata.user_id`."""
    try:
        about = msgspec.json.decode(str(metadata.get("user_id", "")))
    except msgspec.MsgspecError:
        return ""
    found = about.get("session_id") if isinstance(about, dict) else None
    return found if isinstance(found, str) else ""


def _decode(raw: bytes) -> _Message:
    try:
        return msgspec.json.decode(raw, type=_Message)
    except msgspec.DecodeError:
        return msgspec.json.decode(without_surrogates(raw), type=_Message)


def _blocks_of(content: bytes) -> tuple[bytes, ...]:
    """Return the blocks of a message's content as JSON."""
    if content[:1] == b'"':
        return (b'{"type":"text","text":' + content + b"}",)
    return tuple(map(bytes, msgspec.json.decode(content, type=list[Raw])))


def _written(role: str, blocks: Iterable[bytes]) -> bytes:
    """Return a message with these blocks."""
    return b'{"role":"' + role.encode() + b'","content":[' + b",".join(blocks) + b"]}"


def _part(role: str, block: Any, response: Any) -> Part | None:
    """Return what a block says; `response` is the id of the answer that it is part of. None if it says nothing."""
    text = block.get("text") if isinstance(block, dict) and role == "user" else None
    if isinstance(text, str) and _INJECTED.match(text):
        return None
    read = read_message({"type": role, "message": {"content": [block], "id": response}})
    return read.parts[0] if len(read.parts) == 1 else None


def _answer_key(blocks: Sequence[Any]) -> str:
    """Return the key of an answer: the same whatever order of members and form of numbers a client writes."""
    meanings = [_meaning(block) for block in blocks if isinstance(block, dict)]
    return key_of("assistant", [msgspec.json.encode([each for each in meanings if each], order="sorted")])


def _meaning(block: Mapping[str, Any]) -> list[Any]:
    kind = block.get("type")
    if kind == "text":
        text = str(block.get("text", "")).strip()
        return [kind, text] if text else []
    if kind == "tool_use":
        return [kind, block.get("id"), block.get("name"), plain(block.get("input"))]
    if kind in THOUGHTS:
        return [kind, block.get(THOUGHTS[kind][-1])]
    return [kind, plain({name: value for name, value in block.items() if name != "cache_control"})]
