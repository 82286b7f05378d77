"""A message of Chat Completions and a part of Gemini mean the same to every reader: Foldmark's own requests, whole and
streamed, and the gateway, in an answer and in its echo (SPEC 5.7, 8). What a client sent comes back as it was.

Two things differ on purpose. Thoughts and empty texts are no messages under `live`, where the client keeps their
signatures. The gateway leaves out no call of an answer that was cut off, since the client decides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from odd_values import odd

import foldmark
from foldmark.core.codec import well_formed
from foldmark.core.errors import ProviderError
from foldmark.core.request import Kept, Piece, ToolCall
from foldmark.dialects.gemini.contents import parse as parse_contents
from foldmark.dialects.gemini.stream import ResponseReader
from foldmark.dialects.openai.chat import parse as parse_completion
from foldmark.dialects.openai.stream import CompletionReader
from foldmark.live.clients.dialect import ClientAnswer
from foldmark.live.clients.gemini import GEMINI, GeminiClient
from foldmark.live.clients.openai_chat import CHAT, ChatClient
from foldmark.wires import chat, gemini
from foldmark.wires.lenient_json import decode
from foldmark.wires.parts import CallMessage, Part, ResultMessage, TextMessage
from sampled import sampled

Json = dict[str, Any]
LONG = "word " * 400_000
SIGNED = "c2lnbmVk"
PNG = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0x"
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
DOCUMENT = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"}}


class Meaning(NamedTuple):
    """What an answer says: its text, its calls as name and arguments, and what only its provider reads."""

    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    carried: tuple[Json, ...] = ()


def _carried(blocks: Any) -> tuple[Json, ...]:
    return tuple(block["block"] for block in blocks if block.get("type") == "carried")


def of_pieces(pieces: Any) -> Meaning:
    found: list[Piece] = list(pieces)
    return Meaning(
        "".join(each for each in found if isinstance(each, str)),
        tuple((each.name, each.args) for each in found if isinstance(each, ToolCall)),
        _carried(each.block for each in found if isinstance(each, Kept)),
    )


def of_parts(parts: list[Part | None]) -> Meaning:
    return Meaning(
        "".join(part.text for part in parts if isinstance(part, TextMessage)),
        tuple((part.name, part.args) for part in parts if isinstance(part, CallMessage)),
        _carried(block for part in parts if part is not None for block in (part.data or {}).get("blocks", ())),
    )


def of_answer(answer: ClientAnswer | None) -> Meaning:
    assert answer is not None
    return of_parts(answer.parts)


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def came(value: Any) -> Json:
    return dict(decode(encoded(value)))


# Chat Completions


def completion(message: Json, member: str = "message") -> Json:
    return {"model": "m", "choices": [{"index": 0, member: message, "finish_reason": "stop"}]}


def as_events(message: Json) -> bytes:
    return b"data: " + encoded(completion(message, "delta")) + b"\n\ndata: [DONE]\n\n"


def streamed_completion(message: Json) -> Meaning:
    reader = CompletionReader("")
    shown = [each for each in reader.add(came(completion(message, "delta"))) if isinstance(each, str)]
    return of_pieces([*shown, *reader.pieces()])


CHAT_READERS: dict[str, Callable[[Json], Meaning]] = {
    "whole": lambda message: of_pieces(parse_completion(came(completion(message)))),
    "streamed": streamed_completion,
    "live": lambda message: of_answer(CHAT.answer(encoded(completion(message)), streamed=False)),
    "live stream": lambda message: of_answer(CHAT.answer(as_events(message), streamed=True)),
    "echo": lambda message: of_parts(CHAT.parts(CHAT.read(encoded({"role": "assistant", **message})))),
}


def called(arguments: Any, name: str = "look") -> Json:
    return {
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}],
    }


ANSWERS: dict[str, tuple[Json, Meaning]] = {
    "text": ({"content": "yes"}, Meaning("yes")),
    "huge": ({"content": LONG}, Meaning(LONG)),
    "texts": ({"content": [{"type": "text", "text": "ye"}, {"type": "output_text", "text": "s"}]}, Meaning("yes")),
    "refusal": ({"content": None, "refusal": "No."}, Meaning("No.")),
    "refusal in the content": ({"content": [{"type": "refusal", "refusal": "No."}]}, Meaning("No.")),
    "thinking in the content": (
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                {"type": "text", "text": "So."},
            ]
        },
        Meaning("So."),
    ),
    "unknown with a text": (
        {"content": [{"type": "hologram", "text": "?"}, {"type": "text", "text": "So."}]},
        Meaning("So."),
    ),
    "thinking": ({"content": "So.", "reasoning_content": "Hm."}, Meaning("So.")),
    "call": (called('{"q": 1}'), Meaning("", (("look", {"q": 1}),))),
    "text and call": ({**called("{}"), "content": "So."}, Meaning("So.", (("look", {}),))),
    "no arguments": (called(""), Meaning("", (("look", {}),))),
    "no arguments at all": (called(None), Meaning("", (("look", {}),))),
    "arguments as an object": (called({"q": 1}), Meaning("", (("look", {"q": 1}),))),
    "broken arguments": (called('{"q":'), Meaning("", (("look", '{"q":'),))),
    "arguments of no object": (called("[1]"), Meaning("", (("look", [1]),))),
    "big numbers": (called('{"n": 1208925819614629174706176}'), Meaning("", (("look", {"n": 2**80}),))),
    "lone surrogates": ({"content": "a\ud800"}, Meaning("a\ufffd")),
    "lone surrogates in arguments": (called('{"q": "\\ud800"}'), Meaning("", (("look", {"q": "\ufffd"}),))),
    "custom call": (
        {"content": None, "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "SELECT"}}]},
        Meaning("", (("sql", {"input": "SELECT"}),)),
    ),
    "no content": ({"content": [7, None, {}, {"type": None}, {"type": "text", "text": 7}]}, Meaning()),
}


@pytest.mark.parametrize("reader", CHAT_READERS)
@pytest.mark.parametrize("name", ANSWERS)
def test_every_reader_of_chat_completions_finds_the_same(name: str, reader: str) -> None:
    message, wanted = ANSWERS[name]
    assert CHAT_READERS[reader](message) == wanted


CHAT_PARTS: dict[str, tuple[Json, Json | None]] = {
    "image": ({"type": "image_url", "image_url": {"url": PNG}}, IMAGE),
    "image at an address": (
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
    ),
    "document": ({"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}, {**DOCUMENT, "title": "a.pdf"}),
    "photo": ({"type": "image_url", "image_url": {"url": "data:image/heic;base64,aGk="}}, None),
    "damaged image": ({"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}, None),
    "stored file": ({"type": "file", "file": {"file_id": "f1"}}, None),
    "sound": ({"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}, None),
    "film": ({"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}, None),
    "future": ({"type": "hologram", "text": 7, "x": [{"y": None}]}, None),
    "unknown with a text": ({"type": "hologram", "text": "?"}, None),
    "no type": ({"image_url": 7}, None),
}


def test_a_part_of_a_user_or_a_result_comes_back_as_it_was() -> None:
    for part, block in CHAT_PARTS.values():
        wanted = block or {"type": "carried", "of": "openai", "block": part}
        for role in ("user", "tool"):
            sent: Json = {"role": role, "content": [{"type": "text", "text": "See."}, part]}
            sent |= {"tool_call_id": "c1"} if role == "tool" else {}
            found = [each for each in CHAT.parts(CHAT.read(encoded(sent))) if each is not None]
            assert found[-1].data == {"blocks": [wanted]}, part
            assert made_again(found, lambda events: json.loads(CHAT.messages_of(events)[-1]))["content"][-1] == part


def made_again(parts: list[Part], made: Callable[[Any], Any]) -> Any:
    """Record parts, and return what is made of their events."""
    with foldmark.open(":memory:", settings={}) as log:
        agent = log.agent("a")
        for part in parts:
            if isinstance(part, CallMessage):
                agent.append_tool_call(part.name, part.args, call_id=part.call_id, data=part.data)
            elif isinstance(part, ResultMessage):
                agent.append_tool_call("look", {}, call_id=part.call_id)
                agent.append_tool_result(part.call_id, part.text, data=part.data)
            else:
                agent.append(part.kind, part.text, data=part.data, verbatim=True)
        return made(agent.events(0, 100)[-len(parts) :])


@pytest.mark.parametrize("name", [name for name, (_, wanted) in ANSWERS.items() if wanted != Meaning()])
def test_an_answer_of_chat_completions_that_is_made_again_says_the_same(name: str) -> None:
    message, wanted = ANSWERS[name]
    parts = [part for part in CHAT.parts(CHAT.read(encoded({"role": "assistant", **message}))) if part is not None]
    made = made_again(parts, CHAT.messages_of)
    assert of_parts([part for each in made for part in CHAT.parts(CHAT.read(each))]) == wanted


# Gemini


def response(*parts: Any) -> Json:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP"}]}


def streamed_response(parts: list[Any]) -> Meaning:
    reader = ResponseReader(b"")
    shown = [each for part in parts for each in reader.add(came(response(part))) if isinstance(each, str)]
    return of_pieces([*shown, *reader.pieces()])


GEMINI_READERS: dict[str, Callable[[list[Any]], Meaning]] = {
    "whole": lambda parts: of_pieces(parse_contents(came(response(*parts)))),
    "streamed": streamed_response,
    "live": lambda parts: of_answer(GEMINI.answer(encoded(response(*parts)), streamed=False)),
    "live stream": lambda parts: of_answer(
        GEMINI.answer(b"".join(b"data: " + encoded(response(part)) + b"\r\n\r\n" for part in parts), streamed=True)
    ),
    "echo": lambda parts: of_parts(GEMINI.parts(GEMINI.read(encoded({"role": "model", "parts": parts})))),
}

CODE = {"executableCode": {"language": "PYTHON", "code": "1 + 1"}}
OUTPUT = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}, "thoughtSignature": SIGNED}
CONTENTS: dict[str, tuple[list[Any], Meaning]] = {
    "text": ([{"text": "yes"}], Meaning("yes")),
    "huge": ([{"text": LONG}], Meaning(LONG)),
    "signed text": ([{"text": "yes", "thoughtSignature": SIGNED}], Meaning("yes")),
    "thought": ([{"text": "Hm.", "thought": True, "thoughtSignature": SIGNED}, {"text": "So."}], Meaning("So.")),
    "signature alone": ([{"text": "So."}, {"text": "", "thoughtSignature": SIGNED}], Meaning("So.")),
    "call": (
        [{"functionCall": {"id": "c1", "name": "look", "args": {"q": 1}}, "thoughtSignature": SIGNED}],
        Meaning("", (("look", {"q": 1}),)),
    ),
    "call without arguments": ([{"functionCall": {"name": "look"}}], Meaning("", (("look", {}),))),
    "arguments of no object": ([{"functionCall": {"name": "look", "args": []}}], Meaning("", (("look", []),))),
    "arguments that are false": ([{"functionCall": {"name": "look", "args": 0}}], Meaning("", (("look", 0),))),
    "code that Google ran": ([CODE, OUTPUT, {"text": "So."}], Meaning("So.", (), (CODE, OUTPUT))),
    "future": ([{"teleport": {"to": "Oslo"}}], Meaning("", (), ({"teleport": {"to": "Oslo"}},))),
    "picture": ([{"inlineData": {"mimeType": "image/png", "data": "aGk="}}, {"text": "So."}], Meaning("So.")),
    "damaged": ([7, None, {}, {"text": 7}, {"teleport": 7}, {"functionCall": 7}, {"text": "So."}], Meaning("So.")),
    "damaged signature": ([{"teleport": {}, "thoughtSignature": "?"}, {"text": "So."}], Meaning("So.")),
    "lone surrogates": ([{"text": "a\ud800"}], Meaning("a\ufffd")),
}


@pytest.mark.parametrize("reader", GEMINI_READERS)
@pytest.mark.parametrize("name", CONTENTS)
def test_every_reader_of_gemini_finds_the_same(name: str, reader: str) -> None:
    parts, wanted = CONTENTS[name]
    assert GEMINI_READERS[reader](parts) == wanted


def inline(media: Any, data: Any, **more: Any) -> Json:
    return {"inlineData": {"mimeType": media, "data": data, **more}}


GEMINI_PARTS: dict[str, tuple[Json, Json | None]] = {
    "image": (inline("image/png", "iVBORw0KGgo="), IMAGE),
    "document": (inline("application/pdf", "JVBERi0x"), DOCUMENT),
    "named document": (inline("application/pdf", "JVBERi0x", displayName="a.pdf"), None),
    "photo": (inline("image/heic", "aGk="), None),
    "sound": (inline("audio/wav", "aGk="), None),
    "film": (inline("video/mp4", "aGk="), None),
    "damaged image": (inline("image/png", "?"), None),
    "no image": (inline(["image/png"], {}), None),
    "file": ({"fileData": {"mimeType": "image/png", "fileUri": "https://example.com/files/1"}}, None),
    "future": ({"teleport": {"to": "Oslo"}, "x": [{"y": None}]}, None),
    "damaged": ({"inlineData": 7, "text": 7}, None),
}


@pytest.mark.parametrize("name", GEMINI_PARTS)
def test_a_part_of_a_users_content_or_of_a_response_comes_back_as_it_was(name: str) -> None:
    part, block = GEMINI_PARTS[name]
    wanted = block or {"type": "carried", "of": "gemini", "block": part}
    answer = {"functionResponse": {"name": "look", "response": {"output": "So."}, "id": "c1", "parts": [part]}}
    for sent in (part, answer):
        (found,) = GEMINI.parts(GEMINI.read(encoded({"role": "user", "parts": [sent]})))
        assert found is not None
        assert (found.data or {}).get("blocks") == [wanted]
        made = made_again([found], lambda events: json.loads(GEMINI.messages_of(events)[-1]))
        assert made == {"role": "user", "parts": [sent]}


@pytest.mark.parametrize("name", [name for name, (_, wanted) in CONTENTS.items() if wanted != Meaning()])
def test_an_answer_of_gemini_that_is_made_again_says_the_same(name: str) -> None:
    parts, wanted = CONTENTS[name]
    found = [part for part in GEMINI.parts(GEMINI.read(encoded({"role": "model", "parts": parts}))) if part is not None]
    (made,) = made_again(found, GEMINI.messages_of)
    calls = tuple((name, args if isinstance(args, dict) else {"value": args}) for name, args in wanted.calls)
    assert of_parts(GEMINI.parts(GEMINI.read(made))) == wanted._replace(calls=calls)


# Any JSON

_MEMBERS = (
    *("type", "text", "refusal", "content", "id", "function", "custom", "name", "arguments", "input", "image_url"),
    *("url", "file", "file_data", "filename", "reasoning_content", "reasoning_details", "annotations", "tool_calls"),
    *("functionCall", "functionResponse", "args", "response", "parts", "inlineData", "fileData", "mimeType", "data"),
    *("thought", "thoughtSignature", "executableCode", "displayName", "output", "error"),
)
_VALUES = (
    *("", " ", "c1", "{}", '{"a":1}', "[1]", "{", "nan", PNG, PDF, "\ud800", "text", "refusal", "custom", "image/png"),
    *(None, True, False, 0, 2**80, 0.5, 1e300, SIGNED, "aGk="),
)


def _some(chance: Random, members: Sequence[str] = _MEMBERS) -> Json:
    return {chance.choice(members): odd(chance, _MEMBERS, _VALUES, 1) for _ in range(chance.randrange(1, 5))}


@pytest.mark.parametrize("seed", sampled(range(10_000), 300))
def test_readers_of_gemini_agree_on_any_json(seed: int) -> None:
    chance = Random(seed)
    parts = [_some(chance) for _ in range(3)]
    echo = GEMINI_READERS["echo"](parts)
    try:
        whole = GEMINI_READERS["whole"](parts)
    except ProviderError:
        assert "" in [name for name, _ in echo.calls]
        return
    assert whole == echo
    given = GEMINI.read(encoded({"role": "user", "parts": parts}))
    found = [part for part in GEMINI.parts(given) if part is not None]
    assert json.dumps([[part.text, part.data] for part in found if not isinstance(part, CallMessage)])
    if found:
        made_again(found[:1], GEMINI.messages_of)


@pytest.mark.parametrize("seed", sampled(range(10_000), 300))
def test_readers_of_chat_completions_agree_on_any_json(seed: int) -> None:
    chance = Random(seed)
    members = [name for name in _MEMBERS if name not in (chat.FUNCTION, chat.CUSTOM)]  # a part is no call
    content = chance.choice([None, "So.", [_some(chance, members) for _ in range(3)]])
    calls = [{"id": f"c{at}", **_some(chance)} for at in range(chance.randrange(3))]
    message: Json = {
        "content": content,
        "tool_calls": calls,
        "refusal": None if calls else chance.choice([None, "", "No."]),
    }
    whole, echo = CHAT_READERS["whole"](message), CHAT_READERS["echo"]({**message, "tool_calls": _calls(calls)})
    assert whole.text.split() == echo.text.split()  # under `live`, a blank part says nothing
    assert whole.calls == echo.calls
    for role in ("user", "tool"):
        sent = CHAT.read(encoded({"role": role, "content": content, "tool_call_id": "c1"}))
        found = [part for part in CHAT.parts(sent) if part is not None]
        if found:
            made_again(found[:1], CHAT.messages_of)


def _calls(calls: list[Json]) -> list[Json]:
    """Return those that are calls: the blocks of an echo are parts and calls in one list."""
    return [call for call in calls if chat.is_call(well_formed(call))]


DAMAGED = [
    {},
    {"error": {"message": "No."}},
    [],
    7,
    {"choices": 7},
    {"choices": [None]},
    {"choices": [{}]},
    {"choices": [{"message": 7}]},
    {"choices": [{"message": {"content": 7, "tool_calls": 7, "refusal": {}}, "finish_reason": 7}]},
    {"candidates": 7},
    {"candidates": [7]},
    {"candidates": [{"content": 7, "finishReason": {}}]},
    {"candidates": [{"content": {"parts": {"text": "x"}}}]},
]


@pytest.mark.parametrize("body", DAMAGED, ids=json.dumps)
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("wire", [CHAT, GEMINI], ids=["chat", "gemini"])
def test_a_damaged_answer_says_nothing(wire: ChatClient | GeminiClient, body: Any, streamed: bool) -> None:
    raw = encoded(body)
    answer = wire.answer(b"data: " + raw + b"\n\n" if streamed else raw, streamed=streamed)
    assert answer is None or of_answer(answer) == Meaning()


# One place


@pytest.mark.parametrize(
    ("names", "there", "others"),
    [
        (
            ("functionCall", "functionResponse", "thoughtSignature", "fileData", "inlineData"),
            "wires/gemini.py",
            ["core/assembly/caching.py", "core/assembly/media.py"],
        ),
        (("tool_calls", "tool_call_id"), "wires/chat.py", []),
    ],
)
def test_no_other_module_names_a_part(names: tuple[str, ...], there: str, others: list[str]) -> None:
    source = Path(foldmark.__file__).parent
    quoted = [f'"{name}"'.encode() for name in names]
    knowing = [path for path in sorted(source.rglob("*.py")) if any(map(path.read_bytes().count, quoted))]
    assert [path.relative_to(source).as_posix() for path in knowing] == sorted([*others, there])


def test_a_signature_that_stands_for_none_is_none() -> None:
    assert gemini.signature_of({"thoughtSignature": gemini.UNSIGNED}) is None
