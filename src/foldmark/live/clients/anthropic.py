"""Anthropic's Messages API, as Claude Code and other programs speak it [SPEC 5.7]. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from foldmark.core.assembly.caching import LIFETIMES
from foldmark.core.assembly.eviction import CLIENT_OPENING
from foldmark.core.events import Event
from foldmark.core.request import Request
from foldmark.dialects.anthropic import thinking
from foldmark.dialects.anthropic.messages import parse
from foldmark.dialects.anthropic.stream import MessageReader
from foldmark.live.clients import answers, queued_blocks
from foldmark.live.clients.checking import check_sides
from foldmark.live.clients.dialect import (
    ClientAnswer,
    ClientBody,
    ClientRequest,
    RequestHead,
    TypedPrompt,
    contents_in,
    meaning_key,
)
from foldmark.live.clients.roles import RoleClient, RoleMessage
from foldmark.live.clients.weaving import MessageWeaver, Weaver
from foldmark.overlay.pieces import ClientMessage, MisplacedError, decoded, key_of
from foldmark.wires.anthropic import (
    RESULT,
    THINKING,
    USE,
    blocks_for,
    is_thinking,
    meaning,
    read_answer,
    read_user,
)
from foldmark.wires.lenient_json import filled_text
from foldmark.wires.parts import Part, TextMessage

_MARK = re.compile(rb'\s*,\s*"cache_control"\s*:\s*\{[^{}]*\}|"cache_control"\s*:\s*\{[^{}]*\}\s*,\s*')


class _Body(ClientBody):
    model: str = ""
    stream: bool = False
    tools: list[Raw] = msgspec.field(default_factory=list)
    system: str | list[dict[str, Any]] = ""


class _Message(RoleMessage):
    content: Raw


class AnthropicClient(RoleClient):
    """Requests and answers of `/v1/messages`, or `/messages`."""

    name = dialect = provider = "anthropic"
    path = re.compile(r"(?:/v1)?/messages")  # clients whose base URL includes the version ask without
    body, message = _Body, _Message
    long_caches = ((b'"1h"', re.compile(rb'"cache_control"\s*:\s*\{[^{}]*"ttl"\s*:\s*"1h"'), LIFETIMES["1h"]),)
    member, model = b"content", "assistant"
    opening = b'{"role":"user","content":[{"type":"text","text":"%s"}]}' % CLIENT_OPENING.encode()
    credentials = ("x-api-key", "authorization", "anthropic-version", "anthropic-beta", "user-agent")

    def head(self, target: str, headers: Mapping[str, str], body: _Body) -> RequestHead:
        return RequestHead(body.model, body.stream, bool(body.tools), system=body.system)

    def read(self, raw: bytes) -> ClientMessage:
        bare = _MARK.sub(b"", raw) if b'"cache_control"' in raw else raw
        role, blocks = self.split(bare)
        found = [decoded(block) for block in blocks] if role in ("assistant", "user") else []
        calls = tuple(str(each.get("id")) for each in found if each.get("type") == USE)
        results = tuple(call for each in found if (call := self.result_of(each)) is not None)
        thinks = any(map(self.is_thinking, found))
        key = meaning_key(role, meaning(found)) if role == "assistant" else key_of(role, blocks)
        return ClientMessage(role, queued_blocks.divided(role, blocks), key, calls, results, thinks)

    def blocks(self, raw: bytes) -> tuple[bytes, ...]:
        return queued_blocks.divided(*self.split(raw))

    def written(self, role: str, blocks: Iterable[bytes]) -> bytes:
        return super().written(role, queued_blocks.united(role, blocks))

    def blocks_of(self, content: Raw) -> tuple[bytes, ...]:
        return contents_in(bytes(content))

    def parts(self, message: ClientMessage) -> list[Part | None]:
        return [self._part(message.role, decoded(block), None) for block in message.blocks]

    def told(self, message: ClientMessage) -> list[TextMessage | None]:
        # Claude Code puts a line feed behind a text that another one follows in the same message.
        found, last = super().told(message), len(message.blocks) - 1
        return [
            each if each is None or at == last else replace(each, text=each.text.removesuffix("\n"))
            for at, each in enumerate(found)
        ]

    def prompts(self, message: ClientMessage) -> list[TypedPrompt]:
        found = [
            TypedPrompt(at, part.text.strip(), queued_blocks.is_queued(part))
            for at, part in enumerate(self.parts(message) if message.role in ("user", "system") else ())
            if isinstance(part, TextMessage) and not self.is_interruption(part)
        ]
        return [each for each in found if each.text]

    def opens(self, part: TextMessage) -> bool:
        return not queued_blocks.is_queued(part)

    def result_of(self, block: Mapping[str, Any]) -> str | None:
        return str(block.get("tool_use_id")) if block.get("type") == RESULT else None

    def placeholder(self, block: Mapping[str, Any], text: str) -> bytes:
        return msgspec.json.encode({**block, "content": text})

    def notice(self, block: Mapping[str, Any], text: str) -> bytes:
        mark = {"cache_control": block["cache_control"]} if "cache_control" in block else {}
        return msgspec.json.encode({"type": "text", "text": text, **mark})

    def is_thinking(self, block: Mapping[str, Any]) -> bool:
        return is_thinking(block)

    def kept(self, blocks: Sequence[bytes], shown: Sequence[bool]) -> list[bool]:
        stays, with_result, found = list(shown), True, list(map(decoded, blocks))
        for place, block in enumerate(found):
            if block.get("type") == RESULT:
                with_result = stays[place]
            elif block.get("type") == queued_blocks.REST:
                stays[place] = with_result
        for place in range(len(stays) - 1, -1, -1):  # thinking may not end a message
            if stays[place] and not self.is_thinking(found[place]):
                break
            stays[place] = False
        return stays

    def binds(self, model: str) -> bool:
        return thinking.binds(model)

    def check(self, messages: Sequence[ClientMessage]) -> None:
        super().check(messages)
        before = ""
        for message in messages:
            if message.role == "system" and message.blocks and before not in ("user", "system"):
                raise MisplacedError(f"a system message follows {before or 'nothing'}")
            if before == "system" and message.role not in ("assistant", "system"):
                raise MisplacedError(f"a system message precedes one of role {message.role}")
            before = message.role if message.blocks or message.role != "system" else before
        check_sides(messages)

    def check_blocks(self, message: ClientMessage) -> None:
        if message.role == "system":
            return
        super().check_blocks(message)
        blocks = [block for block in map(decoded, message.blocks) if block.get("type") != queued_blocks.REST]
        answers = [self.result_of(block) is not None for block in blocks]
        if answers != sorted(answers, reverse=True):
            raise MisplacedError("a result of a tool behind another block")
        if any(block.get("type") == "text" and not block.get("text") for block in blocks):
            raise MisplacedError("an empty text")

    def mark_of(self, raw: bytes) -> bytes | None:
        found = _MARK.findall(raw) if b'"cache_control"' in raw else []
        return found[-1].strip(b", \n\t") if found else None

    def marked(self, raw: bytes, mark: bytes) -> bytes | None:
        role, blocks = self.split(raw)
        last = blocks[-1] if blocks else b"{}"
        kind = decoded(last).get("type")
        if kind in (None, *THINKING) or b'"cache_control"' in last or role not in ("user", "assistant"):
            return None
        return self.written(role, (*blocks[:-1], last[:-1] + b"," + mark + b"}"))

    def blocks_for(self, event: Event, before: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return blocks_for(event)

    def answer(self, body: bytes, *, streamed: bool) -> ClientAnswer | None:
        found = answers.answer_in(body, MessageReader({}), MessageReader.message, parse, streamed=streamed)
        if found is None:
            return None
        message, content = found.body, found.body["content"]
        parts = [self._part("assistant", block, message.get("id")) for block in content]
        model, blocks = str(message.get("model", "")), tuple(map(msgspec.json.encode, content))
        return ClientAnswer(
            meaning_key("assistant", meaning(content)), parts, model, found.usage, found.stopped, blocks
        )

    def answer_key(self, blocks: Iterable[bytes]) -> str:
        return meaning_key("assistant", meaning(map(decoded, blocks)))

    def without_own(self, block: bytes) -> bytes:
        return _without_reminders(block) if b'"tool_result"' in block else block

    def key_without(self, message: ClientMessage, blocks: Iterable[bytes]) -> str:
        return self.read(self.written(message.role, blocks)).key

    def reply(self, text: str, request: ClientRequest) -> tuple[str, bytes]:
        id = "msg_foldmark_" + key_of("answer", [text.encode("utf-8", "replace")])[:12]
        return answers.written_message(text, id, request.head.model, stream=request.head.stream)

    def weaver(self, text: str, request: ClientRequest, *, streamed: bool) -> Weaver:
        return MessageWeaver(text, streamed=streamed)

    def question(self, asked: Request, request: ClientRequest) -> tuple[str, bytes]:
        # The client's system prompt comes first: some credentials are not accepted without it.
        own = asked.body.get("system") or []
        texts = [
            [{"type": "text", "text": each}] if isinstance(each, str) else each for each in (request.head.system, own)
        ]
        system = [
            {name: block[name] for name in ("type", "text")} for each in texts for block in each if block.get("text")
        ]
        rest = {name: value for name, value in asked.body.items() if name != "system"}
        body = {**rest, "model": request.head.model, "stream": True, **({"system": system} if system else {})}
        return request.target.partition("?")[0], msgspec.json.encode(body)

    def _part(self, role: str, block: Any, response: Any) -> Part | None:
        """Return the content of a block; None if it has none. `response` is the id of the answer that it is part of."""
        if role in ("user", "system") and isinstance(block, dict):
            if (prompt := queued_blocks.prompt_of(block)) is not None:
                return queued_blocks.queued_message(prompt)
            text = block.get("text")
            if isinstance(text, str) and self.agent.is_injected(text):
                return None
        if role not in ("user", "assistant"):
            return None
        answered = role == "assistant"
        read = read_answer([block], filled_text(response)) if answered else read_user([block], self.agent.is_injected)
        return read.parts[0] if len(read.parts) == 1 else None


ANTHROPIC = AnthropicClient()

_TAG, _END = rb"\n\n<system-reminder>", b"</system-reminder>"


def _without_reminders(block: bytes) -> bytes:
    """Return a result without the reminders that Claude Code has put at the end of its text."""
    end = begin = block.rfind(_END + b'"') + len(_END)
    while (tag := block.rfind(_TAG, 0, begin)) >= 0 and block.find(_END, tag, begin) == begin - len(_END):
        begin = tag
    return block[:begin] + block[end:] if begin < end else block
