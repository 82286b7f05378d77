"""OpenAI's Chat Completions, as most agents speak them to OpenAI and to other servers [SPEC 5.7]. Pure.

The system prompt is the first item of the list of messages. Clients change it from request to request, so it is no part
of the conversation. A tool message answers one call, and those of an answer follow it directly: here they are one
message, whose blocks are these items. The blocks of any other message are the parts of its content and its calls."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec
from msgspec import Raw

from foldmark.core.assembly.eviction import CLIENT_OPENING
from foldmark.core.events import Event
from foldmark.core.request import Request
from foldmark.dialects.openai.chat import parse
from foldmark.dialects.openai.stream import CompletionReader
from foldmark.live.clients import answers, queued_blocks
from foldmark.live.clients.checking import check_directly_answered
from foldmark.live.clients.dialect import (
    ClientAnswer,
    ClientBody,
    ClientRequest,
    RequestHead,
    TypedPrompt,
    contents_in,
    meaning_key,
)
from foldmark.live.clients.joined_texts import JoiningClient
from foldmark.live.clients.openai import LONG_CACHES
from foldmark.live.clients.weaving import CompletionWeaver, Weaver
from foldmark.overlay.pieces import ClientMessage, SentMessage, decoded, items_of
from foldmark.text.queued import received
from foldmark.wires import chat
from foldmark.wires.lenient_json import as_text, objects_in
from foldmark.wires.parts import Part

Item = Mapping[str, Any]

_SYSTEM = ("system", "developer")

_MARKS = ("cache_control", "prompt_cache_breakpoint")
"""Members that mark the end of a cached beginning; clients move them from request to request."""


class _Body(ClientBody):
    model: str = ""
    stream: bool | None = None
    tools: list[Raw] | None = None
    response_format: dict[str, Any] | None = None


class ChatClient(JoiningClient):
    """Requests and answers of `/chat/completions`."""

    name = dialect = provider = "openai"
    path = re.compile(r"(?:/[^?]*)?/chat/completions")
    long_caches = LONG_CACHES
    body = _Body
    opening = b'{"role":"user","content":"%s"}' % CLIENT_OPENING.encode()
    credentials = (
        "authorization",
        "api-key",
        "openai-organization",
        "openai-project",
        "http-referer",
        "x-title",
        "user-agent",
    )
    groups = True

    def head(self, target: str, headers: Mapping[str, str], body: _Body) -> RequestHead:
        formed = "json" in str((body.response_format or {}).get("type"))
        return RequestHead(body.model, bool(body.stream), bool(body.tools), aside=formed and not body.tools)

    def leading(self, items: Sequence[bytes]) -> int:
        found = next((at for at, item in enumerate(items) if decoded(item).get("role") not in _SYSTEM), len(items))
        first, second = map(decoded, items[found : found + 2]) if len(items) > found + 1 else ({}, {})
        introduced = self.agent.introduces(*(chat.text_of(each.get("content")) for each in (first, second)))
        return found + 2 if introduced else found

    def grouped(self, items: Sequence[bytes]) -> Iterator[int]:
        for tools, run in groupby(decoded(item).get("role") == "tool" for item in items):
            many = len(list(run))
            yield from [many] if tools else [1] * many

    def read(self, raw: bytes) -> ClientMessage:
        items = items_of(raw)
        role, blocks = _role(items), _blocks(items)
        found = list(map(decoded, blocks))
        if role == "assistant":
            calls = tuple(chat.read_call(each).call_id for each in found if chat.is_call(each))
            return ClientMessage(role, blocks, meaning_key(role, chat.meaning(found)), calls)
        results = tuple(call for each in found if (call := self.result_of(each)) is not None)
        kept = [{name: value for name, value in each.items() if name not in _MARKS} for each in found]
        return ClientMessage(role, blocks, meaning_key(role, kept), (), results)

    def blocks(self, raw: bytes) -> tuple[bytes, ...]:
        return _blocks(items_of(raw))

    def as_divided(self, raw: bytes, blocks: Iterable[bytes]) -> bytes:
        items = items_of(raw)
        if _role(items) == "tool":
            # Results that became texts of a user go after the others, which must directly follow their calls.
            ordered: list[bytes] = sorted(blocks, key=lambda item: chat.call_of(decoded(item)) is None)
            return b",".join(ordered)
        return _with_blocks(items[0], list(blocks))

    def parts(self, message: ClientMessage) -> list[Part | None]:
        found = list(map(decoded, message.blocks))
        readers = {"assistant": chat.answered, "user": self._given, "tool": self._result}
        read = readers.get(message.role)
        return [None if read is None else read(block) for block in found]

    def prompts(self, message: ClientMessage) -> list[TypedPrompt]:
        if message.role != "user":
            return []
        texts = enumerate(as_text(decoded(block).get("text")) for block in message.blocks)
        behind = [
            TypedPrompt(at, own.strip(), queued=True) for at, text in texts if (own := received(text)) is not None
        ]
        return behind or super().prompts(message)

    def result_of(self, block: Item) -> str | None:
        return chat.call_of(block)

    def placeholder(self, block: Item, text: str) -> bytes:
        return msgspec.json.encode({**block, "content": text})

    def notice(self, block: Item, text: str) -> bytes:
        return msgspec.json.encode({"role": "user", "content": text})

    def is_thinking(self, block: Item) -> bool:
        return False  # it is a member of its message, and stays or leaves with it

    def joined(self, found: Sequence[SentMessage]) -> list[SentMessage]:
        # Some servers refuse two messages in a row from one side.
        joined: list[SentMessage] = []
        for each in found:
            before = joined[-1] if joined and each.alone else None
            raw = None if before is None else _merged(before.raw, each.raw)
            if before is None or raw is None:
                joined.append(each)
            else:
                joined[-1] = SentMessage(raw, self.read(raw), before.alone)
        return joined

    def check(self, messages: Sequence[ClientMessage]) -> None:
        check_directly_answered(messages)

    def messages_of(self, events: Iterable[Event]) -> list[bytes]:
        items: list[dict[str, Any]] = []
        for event in events:
            before = items[-1] if items else {}
            if event.kind == "tool_call" and before.get("role") == "assistant":
                before.setdefault(chat.CALLS, []).append(chat.call_for(event))
            else:
                items += chat.messages_for(event)
        return self.messages_in(list(map(msgspec.json.encode, items)))

    def answer(self, body: bytes, *, streamed: bool) -> ClientAnswer | None:
        found = answers.answer_in(body, CompletionReader(""), CompletionReader.completion, parse, streamed=streamed)
        choices = [] if found is None else objects_in(found.body.get("choices"))
        if found is None or not choices:  # an error can come as an answer
            return None
        try:
            message = self.read(msgspec.json.encode({"role": "assistant", **choices[0]["message"]}))
        except msgspec.MsgspecError:
            return None
        if "" in message.calls:
            return None  # the client invents ids, and repeats the answer with them
        parts = self.parts(message)
        answers.put_first(parts, chat.kept_of(choices[0]["message"]))
        model = as_text(found.body.get("model"))
        return ClientAnswer(message.key, parts, model, found.usage, found.stopped, message.blocks)

    def reply(self, text: str, request: ClientRequest) -> tuple[str, bytes]:
        return answers.written_completion(text, "chatcmpl-foldmark", request.head.model, stream=request.head.stream)

    def weaver(self, text: str, request: ClientRequest, *, streamed: bool) -> Weaver:
        return CompletionWeaver(text, streamed=streamed)

    def question(self, asked: Request, request: ClientRequest) -> tuple[str, bytes]:
        return request.target, msgspec.json.encode({**asked.body, "model": request.head.model, "stream": True})

    def _given(self, part: Item) -> Part | None:
        """Return what a part of a user's message says; None for a text that the client wrote."""
        text = chat.text_in(part) or ""
        if (prompt := received(text)) is not None:
            return queued_blocks.queued_message(prompt)
        return None if text and self.agent.is_injected(text) else chat.given(part)

    def _result(self, item: Item) -> Part | None:
        text = {"type": "text", "text": chat.text_of(item.get("content"))}
        return self._given(text) if chat.call_of(item) is None else chat.read_result(item)


CHAT = ChatClient()


def _role(items: Sequence[bytes]) -> str:
    roles = [as_text(decoded(item).get("role")) for item in items]
    role = "tool" if "tool" in roles else roles[0] if roles else ""
    return "system" if role in _SYSTEM else role


def _blocks(items: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return the blocks of a message: several items, or a tool message, are the blocks themselves."""
    if len(items) != 1 or _role(items) == "tool":
        return tuple(items)
    members = msgspec.json.decode(items[0], type=dict[str, Raw])
    refusal = bytes(members.get("refusal", b"null"))
    refused = [] if refusal in (b"null", b'""') else [b'{"type":"refusal","refusal":' + refusal + b"}"]
    calls = bytes(members.get(chat.CALLS, b"null"))
    called = [] if calls == b"null" else msgspec.json.decode(calls, type=list[Raw])
    return (*_contents(bytes(members.get("content", b"null"))), *refused, *map(bytes, called))


def _contents(content: bytes) -> tuple[bytes, ...]:
    return () if content in (b"null", b'""') else contents_in(content)


def _with_blocks(item: bytes, blocks: Sequence[bytes]) -> bytes:
    """Return a message with these blocks instead of its own. Its other members stay, such as its thinking."""
    members = msgspec.json.decode(item, type=dict[str, Raw])
    calls = [block for block in blocks if chat.is_call(decoded(block))]
    said = [block for block in blocks if not chat.is_call(decoded(block))]
    if "refusal" in members and said and decoded(said[-1]).get("type") == "refusal":
        members["refusal"] = Raw(bytes(msgspec.json.decode(said.pop(), type=dict[str, Raw])["refusal"]))
    else:
        members.pop("refusal", None)
    texts = [msgspec.json.decode(block, type=dict[str, Raw]).get("text") for block in said]
    # An answer that had a text of Foldmark's own is one text again.
    plainly = bytes(members.get("content", b"null"))[:1] == b'"' or _role([item]) == "assistant"
    if plainly and len(said) == 1 and decoded(said[0]).keys() == {"type", "text"} and texts[0] is not None:
        members["content"] = texts[0]
    else:
        members["content"] = Raw(b"[" + b",".join(said) + b"]" if said else b"null")
    members.pop(chat.CALLS, None)
    if calls:
        members[chat.CALLS] = Raw(b"[" + b",".join(calls) + b"]")
    return msgspec.json.encode(members)


def _merged(before: bytes, after: bytes) -> bytes | None:
    """Return two messages of a user or of a model as one; None if they cannot be merged."""
    first, second = items_of(before), items_of(after)
    roles = _role(first), _role(second)
    if len(first) != 1 or len(second) != 1 or roles not in (("user", "user"), ("assistant", "assistant")):
        return None
    plainly = {name for name, value in decoded(first[0]).items() if value} <= {"role", "content"}
    contents = [msgspec.json.decode(each[0], type=dict[str, Raw]).get("content", b"null") for each in (first, second)]
    if not plainly or b"null" in map(bytes, contents):
        return None
    members = msgspec.json.decode(second[0], type=dict[str, Raw])
    texts = [decoded(each[0])["content"] for each in (first, second)]
    if all(isinstance(text, str) for text in texts):
        members["content"] = Raw(msgspec.json.encode("\n\n".join(texts)))
    else:
        members["content"] = Raw(b"[" + b",".join(part for each in contents for part in _contents(bytes(each))) + b"]")
    return msgspec.json.encode(members)
