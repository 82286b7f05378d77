"""Gemini's generateContent, as Gemini CLI and other programs speak it [SPEC 5.7]. Pure.

Requests outside the conversation (routing, compression, web search, loop detection) ask for JSON, or, by Gemini CLI,
offer no functions.

Calls are paired with their responses by id. Servers of Gemini 2.5 give no ids: the client then invents ids that the
answer did not have, so such calls are numbered within their message.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any
from urllib.parse import parse_qs

import msgspec
from msgspec import Raw, Struct

from foldmark.core.assembly.eviction import CLIENT_OPENING
from foldmark.core.events import Event
from foldmark.core.request import Request
from foldmark.dialects.gemini.contents import first_candidate, parse, parts_of
from foldmark.live.clients import answers
from foldmark.live.clients.checking import check_directly_answered, check_sides
from foldmark.live.clients.dialect import ClientAnswer, ClientBody, ClientRequest, RequestHead, TypedPrompt, meaning_key
from foldmark.live.clients.joined_texts import JoiningClient
from foldmark.live.clients.roles import RoleClient, RoleMessage
from foldmark.live.clients.weaving import ContentsWeaver, Weaver
from foldmark.overlay.pieces import ClientMessage, decoded
from foldmark.wires import gemini
from foldmark.wires.gemini import CALL, RESPONSE
from foldmark.wires.parts import Part

_Part = Mapping[str, Any]

_STREAMS = "streamGenerateContent"
_PATH = re.compile(rf"(?P<models>/v1(?:beta|alpha)?/models/)(?P<model>[^/:]+):(?P<method>{_STREAMS}|generateContent)")

_REFERENCED = "--- Content from referenced files ---"
"""The text that Gemini CLI puts behind a prompt before the files that it names."""

_INVISIBLE = re.compile("<!--.*?-->|[\u200b-\u200f\ufeff]", re.DOTALL)
"""The text that Gemini CLI leaves out of an answer when it writes its session."""


class _Tool(Struct, rename="camel"):
    function_declarations: list[Raw] = msgspec.field(default_factory=list)


class _Generation(Struct, rename="camel"):
    response_mime_type: str = ""
    response_schema: Any = None
    response_json_schema: Any = None


class _Body(ClientBody):
    messages: Raw = msgspec.field(name="contents")
    tools: list[_Tool] = msgspec.field(default_factory=list)
    system: Any = msgspec.field(name="systemInstruction", default=None)
    generation: _Generation = msgspec.field(name="generationConfig", default_factory=_Generation)


class _Message(RoleMessage, kw_only=True):
    content: list[Raw] = msgspec.field(name="parts")
    role: str = "user"


class GeminiClient(JoiningClient, RoleClient):
    """Requests and answers of `/v1beta/models/MODEL:generateContent` and `:streamGenerateContent`."""

    name = dialect = provider = "gemini"
    path = _PATH
    body, message = _Body, _Message
    member, model = b"parts", "model"
    opening = b'{"role":"user","parts":[{"text":"%s"}]}' % CLIENT_OPENING.encode()
    credentials = ("x-goog-api-key", "authorization", "x-goog-user-project", "user-agent")

    def head(self, target: str, headers: Mapping[str, str], body: _Body) -> RequestHead:
        found = _PATH.match(target)
        functions, wanted = any(tool.function_declarations for tool in body.tools), body.generation
        schemas = (wanted.response_schema, wanted.response_json_schema)
        formed = schemas != (None, None) or "json" in wanted.response_mime_type
        return RequestHead(
            "" if found is None else found["model"],
            found is not None and found["method"] == _STREAMS,
            functions,
            aside=formed,
            system=body.system,
        )

    def read(self, raw: bytes) -> ClientMessage:
        role, blocks = self.split(raw)
        found = [decoded(block) for block in blocks]
        if role == self.model:
            thinks = any(map(self.is_thinking, found))
            return ClientMessage("assistant", blocks, _answer_key(found), _ids(found, CALL), (), thinks)
        results = _ids(found, RESPONSE)
        # The client's injected text changes from run to run, and the client shortens old responses.
        kept = [block for block in found if block and RESPONSE not in block and not self._is_injected(block)]
        key = meaning_key("user", [*(["response", call_id] for call_id in results), *kept])
        return ClientMessage("user", blocks, key, (), results)

    def blocks_of(self, content: list[Raw]) -> tuple[bytes, ...]:
        # When Gemini CLI 0.61 resumes a session, it repeats each response of a message: repeated ones are left out.
        blocks = tuple(map(bytes, content))
        if sum(RESPONSE.encode() in block for block in blocks) < 2:
            return blocks
        kept, known = list[bytes](), set[tuple[str, str]]()
        for block in blocks:
            if (response := gemini.held(decoded(block), RESPONSE)) and response.get("id"):
                named = str(response.get("name")), str(response["id"])
                if named in known:
                    continue
                known.add(named)
            kept.append(block)
        return tuple(kept)

    def parts(self, message: ClientMessage) -> list[Part | None]:
        found = [decoded(block) for block in message.blocks]
        if message.role == "assistant":
            return _answered(found)
        named = _named(found, RESPONSE)
        return [None if self._is_injected(part) else gemini.given(part, call_id) for part, call_id in named]

    def prompt(self, message: ClientMessage) -> TypedPrompt | None:
        texts = [str(decoded(block).get("text", "")).strip() for block in message.blocks]
        at = texts.index(_REFERENCED) - 1 if _REFERENCED in texts[1:] and message.role == "user" else -1
        return TypedPrompt(at, texts[at]) if at >= 0 else super().prompt(message)

    def as_divided(self, raw: bytes, blocks: Iterable[bytes]) -> bytes:
        return RoleClient.rewritten(self, raw, blocks)

    def result_of(self, block: Mapping[str, Any]) -> str | None:
        found = gemini.held(block, RESPONSE)
        return None if found is None else _id_of(found, 0)

    def placeholder(self, block: Mapping[str, Any], text: str) -> bytes:
        response = {name: value for name, value in block[RESPONSE].items() if name != "parts"}
        return msgspec.json.encode({RESPONSE: {**response, "response": {"output": text}}})

    def notice(self, block: Mapping[str, Any], text: str) -> bytes:
        return msgspec.json.encode({"text": text})

    def is_thinking(self, block: Mapping[str, Any]) -> bool:
        return gemini.is_thinking(block)

    def check(self, messages: Sequence[ClientMessage]) -> None:
        check_directly_answered(messages)
        check_sides(messages)

    def blocks_for(self, event: Event, before: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return gemini.parts_for(event, first=not before or CALL not in before[-1])

    def answer(self, body: bytes, *, streamed: bool) -> ClientAnswer | None:
        found = answers.read_answer(lambda: answers.contents_in(body), parse)
        made = [] if found is None else parts_of(first_candidate(found.body))
        if found is None or not (found.stopped or any(CALL in part for part in made)):
            return None
        # Thoughts are not sent again; they are kept with the part that follows them.
        sent = [part for part in made if not self.is_thinking(part)]
        parts = _answered(sent)
        thoughts = [part for part in made if self.is_thinking(part)]
        answers.put_first(parts, thoughts)
        model = str(found.body.get("modelVersion", ""))
        own = tuple(map(msgspec.json.encode, sent))
        return ClientAnswer(_answer_key(sent), parts, model, found.usage, found.stopped, own)

    def reply(self, text: str, request: ClientRequest) -> tuple[str, bytes]:
        head = request.head
        events = "sse" in parse_qs(request.target.partition("?")[2]).get("alt", [])
        return answers.written_contents(text, head.model, stream=head.stream, events=events)

    def weaver(self, text: str, request: ClientRequest, *, streamed: bool) -> Weaver:
        return ContentsWeaver(text, streamed=streamed)

    def question(self, asked: Request, request: ClientRequest) -> tuple[str, bytes]:
        path, _, query = request.target.partition("?")
        found = _PATH.fullmatch(path)
        assert found is not None
        key = "".join(f"&key={each}" for each in re.findall(r"(?:^|&)key=([^&]*)", query))
        return f"{found['models']}{found['model']}:{_STREAMS}?alt=sse{key}", msgspec.json.encode(asked.body)

    def _is_injected(self, block: Mapping[str, Any]) -> bool:
        text = block.get("text")
        return isinstance(text, str) and self.agent.is_injected(text)


GEMINI = GeminiClient()


def _named(found: Iterable[_Part], kind: str) -> Iterator[tuple[_Part, str]]:
    """Yield each part with the id of its call or response, empty for another part."""
    places = count()
    for part in found:
        named = gemini.held(part, kind)
        yield part, "" if named is None else _id_of(named, next(places))


def _ids(found: Iterable[_Part], kind: str) -> tuple[str, ...]:
    return tuple(call_id for _, call_id in _named(found, kind) if call_id)


def _answered(found: Iterable[_Part]) -> list[Part | None]:
    return [gemini.answered(part, call_id) for part, call_id in _named(found, CALL)]


def _id_of(found: Mapping[str, Any], place: int) -> str:
    """Return the id of a call or a response; its name and place in the message if the provider gave none. Gemini CLI
    puts the name before the id, and leaves it there in requests outside the conversation."""
    name, own = str(found.get("name", "")), found.get("id")
    if isinstance(own, str):
        own = own.removeprefix(f"{name}__")
    if not isinstance(own, str) or not own or re.fullmatch(rf"synth_.*|{re.escape(name)}_\d{{13}}_\d+", own):
        return f"{name}#{place}"
    return own


def _answer_key(blocks: Sequence[_Part]) -> str:
    """Return the key of an answer: its text and its calls, without ids and signatures, which a client may invent."""
    text, calls = gemini.meaning(blocks)
    return meaning_key("assistant", [_INVISIBLE.sub("", text).strip(), calls])
