"""OpenAI's Responses API, as Codex speaks it [SPEC 5.7]. Pure.

This API has a list of items instead of messages. Here a message is a run of adjacent items from a model (thinking,
text, calls), or a run of outputs, or one item from anybody else. The blocks of a run are its items; the blocks of an
item from the user or the developer are its parts. Thinking stays or leaves together with the item that follows it: the
API refuses one without the other.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec
from msgspec import Raw

from foldmark.core.assembly.eviction import CLIENT_OPENING
from foldmark.core.events import Event
from foldmark.core.request import Request
from foldmark.dialects.openai.responses import parse
from foldmark.dialects.openai.stream import ResponseReader
from foldmark.live.clients import answers
from foldmark.live.clients.dialect import (
    ClientAnswer,
    ClientBody,
    ClientDialect,
    ClientRequest,
    RequestHead,
    TypedPrompt,
    contents_in,
    meaning_key,
)
from foldmark.live.clients.weaving import ResponseWeaver, Weaver
from foldmark.overlay.pieces import ClientMessage, SentMessage, decoded, items_of, key_of
from foldmark.text import queued
from foldmark.wires import responses
from foldmark.wires.lenient_json import as_text, objects_in
from foldmark.wires.parts import Part, TextMessage
from foldmark.wires.responses import call_of, is_made, is_output, kind_of

_REPLY = "msg_foldmark_"
"""Prefix of the ids of Foldmark's own answers; Codex sends the id again with the answer."""

LONG_CACHES = ((b'"24h"', re.compile(rb'"prompt_cache_retention"\s*:\s*"24h"'), 86400.0),)
"""As `ClientDialect.long_caches`."""


class _Body(ClientBody):
    messages: Raw = msgspec.field(name="input")
    model: str = ""
    stream: bool = False
    tools: list[Raw] | None = None
    instructions: str | None = None


class ResponsesClient(ClientDialect):
    """Requests and answers of `/responses`."""

    name = provider = "openai_responses"
    dialect = "openai"
    path = re.compile(r"(?:/v1)?/responses")
    body = _Body
    opening = msgspec.json.encode(responses.asked(CLIENT_OPENING))
    credentials = (
        "authorization",
        "chatgpt-account-id",
        "openai-organization",
        "openai-project",
        "openai-beta",
        "originator",
        "user-agent",
        "version",
        "x-openai-internal-codex-responses-lite",
    )
    groups = steers = True
    long_caches = LONG_CACHES
    passing = responses.PASSING

    def head(self, target: str, headers: Mapping[str, str], body: _Body) -> RequestHead:
        # For newer models, the tools are an item.
        tools = bool(body.tools) or "x-openai-internal-codex-responses-lite" in headers
        return RequestHead(body.model, body.stream, tools, system=body.instructions or "")

    def grouped(self, items: Sequence[bytes]) -> Iterator[int]:
        for kind, run in groupby(map(_group, items)):
            many = len(list(run))
            yield from [many] if kind is not None else [1] * many

    def read(self, raw: bytes) -> ClientMessage:
        items = items_of(raw)
        found = list(map(decoded, items))
        role = _role(found)
        if _is_spoken(found):
            blocks = _contents_of(items[0])
            return ClientMessage(role, blocks, key_of(role, blocks))
        calls = tuple(call for each in found if is_made(each) and (call := call_of(each)) is not None)
        results = tuple(call for each in found if (call := self.result_of(each)) is not None)
        thinks = any(map(self.is_thinking, found))
        return ClientMessage(role, tuple(items), _key(role, found), calls, results, thinks)

    def blocks(self, raw: bytes) -> tuple[bytes, ...]:
        items = items_of(raw)
        return _contents_of(items[0]) if _is_spoken(list(map(decoded, items))) else tuple(items)

    def rewritten(self, raw: bytes, blocks: Iterable[bytes]) -> bytes:
        items = items_of(raw)
        if _is_spoken(list(map(decoded, items))):
            return _with_contents(items[0], list(blocks))
        if all(map(is_output, map(decoded, items))):
            # Outputs that became user texts go after the other outputs, which must directly follow their calls.
            ordered: list[bytes] = sorted(blocks, key=lambda item: kind_of(decoded(item)) == responses.MESSAGE)
            return b",".join(ordered)
        return b",".join(blocks)

    def parts(self, message: ClientMessage) -> list[Part | None]:
        found = list(map(decoded, message.blocks))
        if message.role == "system":
            return [None for _ in found]
        if message.role == "user":
            return [None if self._is_injected(block) else _part_of_user(block) for block in found]
        return list(map(responses.recorded, found))

    def prompts(self, message: ClientMessage) -> list[TypedPrompt]:
        texts = [decoded(block).get("text") for block in message.blocks] if message.role == "user" else []
        typed = [(at, text.strip()) for at, text in enumerate(texts) if isinstance(text, str)]
        return [TypedPrompt(at, text) for at, text in typed if text and not self.agent.is_injected(text)]

    def separated(self, sent: Sequence[SentMessage], is_command: Callable[[str], bool]) -> list[SentMessage]:
        # After Esc, Codex joins the prompts that wait.
        made = list(sent)
        for at in range(1, len(made)):
            message, before = made[at].message, self.parts(made[at - 1].message)
            if message.role != "user" or len(message.blocks) != 1 or not any(map(self.is_interruption, before)):
                continue
            block = decoded(message.blocks[0])
            texts = queued.separated(str(block.get("text", "")), is_command)
            if len(texts) > 1:
                raw = self.rewritten(made[at].raw, (msgspec.json.encode({**block, "text": text}) for text in texts))
                made[at] = SentMessage(raw, self.read(raw))
        return made

    def _is_injected(self, block: Mapping[str, Any]) -> bool:
        text = as_text(block.get("text"))
        return self.agent.is_injected(text) and not self.agent.is_interruption(text)

    def opens(self, part: TextMessage) -> bool:
        return not self.agent.is_addition(part.text)

    def is_own(self, block: bytes) -> bool:
        return str(decoded(block).get("id")).startswith(_REPLY)

    def result_of(self, block: Mapping[str, Any]) -> str | None:
        return call_of(block) if is_output(block) else None

    def placeholder(self, block: Mapping[str, Any], text: str) -> bytes:
        if "output" in block:
            return msgspec.json.encode({**block, "output": text})
        return msgspec.json.encode({**block, "tools": []})  # the result of a search for tools

    def notice(self, block: Mapping[str, Any], text: str) -> bytes:
        return msgspec.json.encode(responses.asked(text))

    def is_thinking(self, block: Mapping[str, Any]) -> bool:
        return responses.is_thinking(block)

    def kept(self, blocks: Sequence[bytes], shown: Sequence[bool]) -> list[bool]:
        stays, found = list(shown), [self.is_thinking(decoded(block)) for block in blocks]
        for place in range(len(stays) - 2, -1, -1):
            if found[place]:
                stays[place] = stays[place + 1]
        return stays

    def messages_of(self, events: Iterable[Event]) -> list[bytes]:
        items = [msgspec.json.encode(item) for event in events for item in responses.items_for(event)]
        return self.messages_in(items)

    def answer(self, body: bytes, *, streamed: bool) -> ClientAnswer | None:
        found = answers.answer_in(body, ResponseReader(""), ResponseReader.response, parse, streamed=streamed)
        if found is None:
            return None
        items, model = objects_in(found.body["output"]), str(found.body.get("model", ""))
        parts, blocks = list(map(responses.recorded, items)), map(msgspec.json.encode, items)
        key = _key("assistant", items)
        return ClientAnswer(key, parts, model, found.usage, found.stopped, tuple(blocks))

    def continued(self, before: ClientMessage, answer: ClientAnswer) -> str | None:
        if before.role != "assistant":
            return None
        return self.answer_key((*before.blocks, *answer.blocks))

    def answer_key(self, blocks: Iterable[bytes]) -> str:
        return _key("assistant", map(decoded, blocks))

    def reply(self, text: str, request: ClientRequest) -> tuple[str, bytes]:
        return answers.written_response(text, self._id(text, request), request.head.model, stream=request.head.stream)

    def weaver(self, text: str, request: ClientRequest, *, streamed: bool) -> Weaver:
        return ResponseWeaver(text, self._id(text, request), streamed=streamed)

    def _id(self, text: str, request: ClientRequest) -> str:
        return _REPLY + key_of("answer", [text.encode("utf-8", "replace"), str(len(request.sent)).encode()])[:12]

    def question(self, asked: Request, request: ClientRequest) -> tuple[str, bytes]:
        # As Codex does: the system prompt is a developer message, and everything is streamed.
        own = asked.body.get("instructions")
        system = [responses.asked(own, "developer")] if own else []
        rest = {name: value for name, value in asked.body.items() if name != "instructions"}
        body = {**rest, "model": request.head.model, "stream": True, "store": False}
        body["input"] = [*system, *asked.body["input"]]
        if request.head.system:
            body["instructions"] = request.head.system
        return request.target, msgspec.json.encode(body)


OPENAI = ResponsesClient()


def _group(item: bytes) -> str | None:
    """Return the kind of run that an item can join; None if it is always separate."""
    found = decoded(item)
    return "made" if is_made(found) else "outputs" if is_output(found) else None


def _role(items: Sequence[Mapping[str, Any]]) -> str:
    if any(map(is_made, items)):
        return "assistant"
    if any(map(is_output, items)):
        return "tool"
    role = responses.speaker(items[0])
    return kind_of(items[0]) if role == "assistant" else role


def _is_spoken(items: Sequence[Mapping[str, Any]]) -> bool:
    """Return True for a message from a user or the developer, whose blocks are its parts."""
    return len(items) == 1 and kind_of(items[0]) == responses.MESSAGE and not is_made(items[0])


def _contents_of(item: bytes) -> tuple[bytes, ...]:
    """Return the parts of a message from a user or the developer as JSON."""
    content = bytes(msgspec.json.decode(item, type=dict[str, Raw]).get("content", b"[]"))
    return contents_in(content, responses.INPUT_TEXT)


def _with_contents(item: bytes, parts: Sequence[bytes]) -> bytes:
    """Return a message from a user with these parts instead of its own."""
    members = msgspec.json.decode(item, type=dict[str, Raw])
    if len(parts) != len(_contents_of(item)):
        members.pop(responses.PASSING[-1], None)  # it has an entry for each part
    members["content"] = Raw(b"[" + b",".join(parts) + b"]")
    return msgspec.json.encode(members)


def _part_of_user(part: Mapping[str, Any]) -> Part:
    """Return the content of a part of a user's message."""
    found = responses.read({"role": "user", "content": [part]}).parts
    return found[0] if len(found) == 1 else TextMessage("user", "", {"blocks": [responses.carried(part)]})


def _key(role: str, items: Iterable[Mapping[str, Any]]) -> str:
    """Return the key of a message with these items, which is the same for an answer and its echo."""
    return meaning_key(role, [meaning for item in items if (meaning := responses.meaning(item))])
