"""The particulars of Gemini's dialect: signatures, images and thinking per model, Google's errors, Code Assist."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st
from plan import Broken, Fail, Http, Reply, Say, Stalled, Use
from request_validators import gemini as violations
from server import Loopback
from talking import Heard, listen
from wire_gemini import GcaWire, GeminiWire

from foldmark.core.assembly.media import Document, Image
from foldmark.core.assembly.prompt import Prompt
from foldmark.core.assembly.view import AnsweredCall, Calls, Step, ViewMessage
from foldmark.core.errors import ContextOverflowError, ProviderError
from foldmark.core.request import (
    Edge,
    Kept,
    Manifest,
    Options,
    Piece,
    Request,
    Stopped,
    Thought,
    ToolCall,
    ToolSpec,
    Usage,
)
from foldmark.dialects.gemini.contents import encode, encode_gca, parse, parse_gca
from foldmark.dialects.gemini.stream import ResponseReader, refusal
from foldmark.installation import installs
from foldmark.providers import gemini_api, gemini_gca_api
from foldmark.providers.gemini_api import TIMEOUTS
from foldmark.providers.registry import Access
from foldmark.providers.sdk import streamed
from foldmark.wires.gemini import UNSIGNED

KEY = "AIza-secret-9c1f"
PNG = Image("image/png", "aGk=")
GIF = Image("image/gif", "R0lGOD==")
LINK = Image(url="https://example.org/a/cat.PNG?size=1")
PAGE = Image(url="https://example.org/cat")
ODD = ToolSpec(
    "look", "Looks.", {"properties": {"at": {"const": 1}}, "additionalProperties": False, "$schema": "x", "title": "T"}
)
SIGNATURE = "CiQB_-urlsafe-0/+A=="


def body_of(steps: Sequence[Step], model: str, options: Options | None = None, tools: Sequence[ToolSpec] = ()) -> Any:
    body = encode(model, Prompt("", tuple(steps)), tools, options or Options())
    assert violations(body, model=model) == []
    return body


def parts_of(steps: Sequence[Step], model: str = "gemini-3.8-flash") -> list[list[dict[str, Any]]]:
    return [content["parts"] for content in body_of(steps, model)["contents"]]


def request_of(body: dict[str, Any] | None = None, names: dict[str, str] | None = None, model: str = "") -> Request:
    body = body or body_of([ViewMessage("user", "Hi")], "gemini-3.8-flash")
    manifest = Manifest((), (), Edge(None, None, 0))
    data = msgspec.json.encode(body)
    return Request("gemini", model, "gemini", body, data, 1, manifest, names=names or {})


# Requests


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("gemini-3.8-flash", [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]),
        ("gemini-2.0-flash", [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]),
    ],
)
def test_an_image_is_sent_inline(model: str, sent: list[Any]) -> None:
    assert parts_of([ViewMessage("user", "What?", (PNG,))], model) == [[*sent, {"text": "What?"}]]


def test_an_address_is_sent_to_models_that_fetch_it_and_otherwise_named() -> None:
    fetched = {"fileData": {"mimeType": "image/png", "fileUri": LINK.url}}
    named = {"text": f"[Image: {LINK.url}]"}
    for model, sent in (("gemini-2.5-pro", fetched), ("gemini-2.0-flash", named), ("gemma-3-27b-it", named)):
        assert parts_of([ViewMessage("user", "", (LINK,))], model) == [[sent]]
    assert parts_of([ViewMessage("user", "", (PAGE,))]) == [[{"text": f"[Image: {PAGE.url}]"}]]


def test_a_gif_is_named_instead_of_sent() -> None:
    assert parts_of([ViewMessage("user", "", (GIF,))]) == [
        [{"text": "[An image of type image/gif is not shown: Gemini does not take it.]"}]
    ]


@pytest.mark.parametrize(
    ("model", "pages", "taken"),
    [
        ("gemini-1.5-flash", 1, True),
        ("gemini-3-pro-preview", 1000, True),
        ("gemini-3-pro-preview", 1001, False),
        ("gemma-3-27b-it", 1, False),
    ],
)
def test_documents_are_sent_inline_to_models_that_take_them(model: str, pages: int, taken: bool) -> None:
    document = Document("JVBERi0=", "plan.pdf", pages)
    inline = {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}}
    assert parts_of([ViewMessage("user", "Read.", (document,))], model) == [
        [inline if taken else {"text": document.note}, {"text": "Read."}]
    ]


def test_images_are_inside_results_from_gemini_3_on_and_after_them_before() -> None:
    first = AnsweredCall("c1", "look", "{}", "a picture", False, None, (PNG, LINK))
    steps: list[Step] = [
        ViewMessage("user", "Look."),
        Calls("", (first, AnsweredCall("c2", "look", "{}", "nothing", True, None))),
    ]
    inline = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    behind = {"fileData": {"mimeType": "image/png", "fileUri": LINK.url}}
    told = {"name": "look", "response": {"output": "a picture"}}
    failed = {"name": "look", "response": {"error": "nothing"}}
    assert parts_of(steps)[2] == [
        {"functionResponse": {"id": "c1", **told, "parts": [inline]}},
        {"functionResponse": {"id": "c2", **failed}},
        behind,
    ]
    assert parts_of(steps, "gemini-2.5-pro")[2] == [
        {"functionResponse": told},
        {"functionResponse": failed},
        inline,
        behind,
    ]


@pytest.mark.parametrize(
    ("model", "has"),
    [("gemini-3-pro-preview", True), ("gemini-flash-latest", True), ("gemini-2.5-flash", False), ("gemma-3", False)],
)
def test_calls_have_ids_and_signatures_if_the_model_checks_them(model: str, has: bool) -> None:
    both = (AnsweredCall("c1", "look", "{}", "A", False, None), AnsweredCall("c2", "look", "{}", "B", False, SIGNATURE))
    calls = parts_of([ViewMessage("user", "Look."), Calls("", both)], model)[1]
    assert [part["functionCall"].get("id") for part in calls] == (["c1", "c2"] if has else [None, None])
    assert [part.get("thoughtSignature") for part in calls] == [UNSIGNED if has else None, SIGNATURE]


def test_signed_parts_are_sent_back_unchanged_at_their_positions() -> None:
    thought = {"text": "Hm.", "thought": True, "thoughtSignature": SIGNATURE}
    tail = {"text": "", "thoughtSignature": "dGFpbA=="}
    step = Calls("I look.", (AnsweredCall("c1", "look", "{}", "A", False, SIGNATURE),), (tail, thought))
    assert parts_of([ViewMessage("user", "Look."), step])[1][:3] == [thought, {"text": "I look."}, tail]
    assert parts_of([ViewMessage("user", "Hi"), ViewMessage("assistant", "", (), (tail,)), ViewMessage("user", "?")])[
        1
    ] == [tail]


@pytest.mark.parametrize(
    "block",
    [
        {},
        {"type": "thinking", "thinking": "Hm.", "signature": SIGNATURE},
        {"text": "unsigned", "thought": True},
        {"text": 1, "thoughtSignature": SIGNATURE},
        {"text": "x", "thoughtSignature": "not base64!"},
        {"functionCall": {"name": "look"}, "thoughtSignature": SIGNATURE},
    ],
)
def test_other_blocks_are_not_sent(block: dict[str, Any]) -> None:
    steps = [ViewMessage("user", "Hi"), ViewMessage("assistant", "", (), (block,)), ViewMessage("user", "?")]
    assert parts_of(steps) == [[{"text": "Hi"}, {"text": "?"}]]


_OWN: dict[str, dict[str, Any]] = {
    "gemini-2.0-flash": {},
    "gemma-3-27b-it": {},
    "gemini-2.5-flash": {"off": {"thinkingBudget": 0}, "low": {"includeThoughts": True, "thinkingBudget": 1024}},
    "gemini-2.5-flash-lite": {
        "off": {"thinkingBudget": 0},
        "medium": {"includeThoughts": True, "thinkingBudget": 8192},
    },
    "gemini-2.5-pro": {"off": {"thinkingBudget": 128}, "high": {"includeThoughts": True, "thinkingBudget": 24576}},
    "gemini-3-flash-preview": {"off": {"thinkingLevel": "MINIMAL"}},
    "gemini-3-pro-preview": {"medium": {"includeThoughts": True, "thinkingLevel": "HIGH"}},
    "gemini-3.1-pro-preview": {"off": {"thinkingLevel": "LOW"}},
    "models/gemini-3.8-flash": {
        "off": {"thinkingLevel": "LOW"},
        "low": {"includeThoughts": True, "thinkingLevel": "LOW"},
    },
    "gemini-pro-latest": {"off": {"thinkingLevel": "LOW"}},
}


@pytest.mark.parametrize("model", _OWN)
@pytest.mark.parametrize("level", ["off", "low", "medium", "high"])
def test_thinking_is_requested_in_the_form_of_the_model(model: str, level: str) -> None:
    body = body_of([ViewMessage("user", "Hi")], model, Options(thinking=level))
    asked = body.get("generationConfig", {}).get("thinkingConfig", {})
    assert bool(asked) == bool(_OWN[model])
    assert asked == _OWN[model].get(level, asked)
    assert (asked.get("includeThoughts") is True) == (bool(asked) and level != "off")


def test_by_default_no_options_are_sent() -> None:
    assert list(body_of([ViewMessage("user", "Hi")], "gemini-3.8-flash")) == ["contents"]
    assert body_of([ViewMessage("user", "Hi")], "gemini-3.8-flash", Options(output=100))["generationConfig"] == {
        "maxOutputTokens": 100
    }
    wrapped = encode_gca("gemini-2.5-pro", Prompt("", (ViewMessage("user", "Hi"),)), (), Options(thinking="off"))
    assert wrapped["request"]["generationConfig"] == {"thinkingConfig": {"thinkingBudget": 128}}
    assert encode("gemini-3.8-flash", Prompt("", ())) == {"contents": []}


# Responses


def response(*parts: Any, reason: Any = "STOP", **fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": reason}], **fields}


WHOLE = response(
    {"text": "Hm. ", "thought": True},
    {"text": "", "thought": True, "thoughtSignature": SIGNATURE},
    {"text": "I "},
    {"text": "look.", "thoughtSignature": "dGFpbA=="},
    {"functionCall": {"name": "look", "args": {"at": [1]}, "id": "f1"}, "thoughtSignature": "Y2FsbA=="},
    {"functionCall": {"name": "wait"}},
    usageMetadata={
        "promptTokenCount": 90,
        "cachedContentTokenCount": 40,
        "toolUsePromptTokenCount": 7,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 3,
        "totalTokenCount": 105,
    },
)
UNDERSTOOD: tuple[Piece, ...] = (
    Kept({"text": "", "thought": True, "thoughtSignature": SIGNATURE}),
    "I ",
    "look.",
    Kept({"text": "", "thoughtSignature": "dGFpbA=="}),
    ToolCall("f1", "look", {"at": [1]}, "Y2FsbA=="),
    ToolCall("", "wait", {}),
    Usage(fresh=57, cache_read=40, output=8),
    Stopped("calls", "STOP"),
)


def test_a_whole_message_is_parsed() -> None:
    assert parse(WHOLE) == UNDERSTOOD
    assert parse_gca({"response": WHOLE, "traceId": "t"}) == UNDERSTOOD


def test_parsed_parts_are_sent_back_unchanged() -> None:
    blocks = tuple(piece.block for piece in UNDERSTOOD if isinstance(piece, Kept))
    calls = tuple(
        AnsweredCall(piece.call_id or "c2", piece.name, json.dumps(piece.args), "A", False, piece.signature)
        for piece in UNDERSTOOD
        if isinstance(piece, ToolCall)
    )
    sent = parts_of([ViewMessage("user", "Look."), Calls("I look.", calls, blocks)])[1]
    came = WHOLE["candidates"][0]["content"]["parts"]
    assert sent[0] == came[1]
    assert [part.get("thoughtSignature") for part in sent] == [SIGNATURE, None, "dGFpbA==", "Y2FsbA==", None]
    assert sent[3] == came[4]


@pytest.mark.parametrize(
    ("message", "stopped"),
    [
        (response({"text": "x"}), [Stopped("end", "STOP")]),
        (response({"text": "x"}, reason="MAX_TOKENS"), [Stopped("length", "MAX_TOKENS")]),
        *(
            (response(reason=word), [Stopped("refused", word)])
            for word in ("SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "LANGUAGE")
        ),
        (response(reason="MALFORMED_FUNCTION_CALL"), [Stopped("end", "MALFORMED_FUNCTION_CALL")]),
        (response(reason="SOMETHING_NEW"), [Stopped("end", "SOMETHING_NEW")]),
        ({"promptFeedback": {"blockReason": "JAILBREAK"}}, [Stopped("refused", "JAILBREAK")]),
        ({"usageMetadata": {"promptTokenCount": 5}}, [Stopped("end", "no candidates")]),
        ({}, []),
        (response({"text": "x"}, reason=None), []),
    ],
)
def test_the_reason_why_an_answer_ended_is_parsed(message: dict[str, Any], stopped: list[Stopped]) -> None:
    assert [piece for piece in parse(message) if isinstance(piece, Stopped)] == stopped


@pytest.mark.parametrize("count", [True, -1, 1e300, "5", None, [], 10**400])
def test_invalid_counts_are_ignored(count: Any) -> None:
    found = parse({"usageMetadata": {"promptTokenCount": count, "candidatesTokenCount": 2}})
    assert found[0] == Usage(output=2)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_PART = st.dictionaries(
    st.sampled_from(["text", "thought", "thoughtSignature", "functionCall", "inlineData"]),
    st.one_of(_JSON, st.dictionaries(st.sampled_from(["name", "args", "id"]), _JSON), st.just("c2ln")),
)
_MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "candidates": st.one_of(
            _JSON,
            st.lists(
                st.fixed_dictionaries(
                    {}, optional={"content": _JSON | st.fixed_dictionaries({"parts": st.lists(_PART | _JSON)})}
                ),
                max_size=2,
            ),
        ),
        "usageMetadata": _JSON | st.dictionaries(st.sampled_from(["promptTokenCount", "thoughtsTokenCount"]), _JSON),
        "promptFeedback": _JSON,
        "response": _JSON,
    },
)


@given(message=_MESSAGE)
def test_any_message_is_parsed_or_a_provider_error(message: dict[str, Any]) -> None:
    """The parsed pieces can be recorded and sent again."""
    try:
        found = (*parse(message), *parse_gca(message))
    except ProviderError:
        return
    kept = tuple(piece.block for piece in found if isinstance(piece, Kept))
    parts_of([ViewMessage("user", "Hi"), ViewMessage("assistant", "x", (), kept), ViewMessage("user", "?")])
    assert all(isinstance(piece.name, str) and piece.name for piece in found if isinstance(piece, ToolCall))


async def _streamed(chunks: Sequence[dict[str, Any]], request: Request) -> list[Piece]:
    async def come() -> Any:
        for chunk in chunks:
            yield chunk

    return [piece async for piece in streamed(come(), ResponseReader(request.bytes), request)]


def chunks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a message as stream chunks: one per part, and a last one with the end and the usage."""
    parts = message["candidates"][0]["content"]["parts"]
    begun = {"promptTokenCount": 90}
    chunks = [{**response(part), "usageMetadata": begun} for part in parts]
    for chunk in chunks:
        del chunk["candidates"][0]["finishReason"]
    return [*chunks, {**response(), "usageMetadata": message["usageMetadata"]}]


def test_a_stream_gives_the_same_pieces_as_the_whole_answer() -> None:
    found = asyncio.run(_streamed(chunks_of(WHOLE), request_of()))
    assert found[:3] == [Thought("Hm. "), "I ", "look."]
    wanted = [piece for piece in UNDERSTOOD if not isinstance(piece, str)]
    assert [piece for piece in found[3:] if not isinstance(piece, ToolCall)] == [
        piece for piece in wanted if not isinstance(piece, ToolCall)
    ]


def test_calls_get_ids_from_the_request_and_the_tools_own_names() -> None:
    def calls(text: str) -> list[ToolCall]:
        request = request_of(body_of([ViewMessage("user", text)], "gemini-3.8-flash"), {"wait": "mcp.clock/wait"})
        more = response({"functionCall": {"name": "wait"}}, {"functionCall": {"name": "look", "id": "f1"}})
        found = asyncio.run(_streamed([*chunks_of(WHOLE)[:-1], more], request))
        return [piece for piece in found if isinstance(piece, ToolCall)]

    first, again, other = calls("Hi"), calls("Hi"), calls("Hello")
    assert [call.name for call in first] == ["look", "mcp.clock/wait", "mcp.clock/wait", "look"]
    assert first[0].call_id == "f1"
    assert first == again
    ids = [call.call_id for call in first[1:] + other[1:]]
    assert len(set(ids)) == 6
    assert all(len(call_id) <= 40 for call_id in ids)


# Errors


@pytest.mark.parametrize(
    ("status", "error", "kind", "after"),
    [
        (400, {"message": "API key not valid. Please pass a valid API key."}, "key", None),
        (400, {"message": "API key expired. Please renew the API key."}, "key", None),
        (400, {"message": "x", "details": [{"reason": "API_KEY_INVALID"}]}, "key", None),
        (403, {"message": "Permission denied", "status": "PERMISSION_DENIED"}, "key", None),
        (429, {"message": "Quota.", "details": [{"retryDelay": "17.5s"}]}, "rate", 17.5),
        (429, {"message": "Please retry in 3.25s."}, "rate", 3.25),
        (429, {"message": "Your quota will reset after 1h2m3s."}, "rate", 3723.0),
        (429, {"message": "Quota.", "details": [{"retryDelay": "soon"}, 5, None]}, "rate", None),
        (429, {"message": "Quota.", "details": "many"}, "rate", None),
        (504, {"message": "Deadline expired.", "status": "DEADLINE_EXCEEDED"}, "busy", None),
        (404, {"message": "models/x is not found"}, "request", None),
        (400, {"message": "User location is not supported for the API use."}, "request", None),
        (413, {"message": "Too large"}, "overflow", None),
        (400, {"message": "Request payload size exceeds the limit: 20971520 bytes."}, "overflow", None),
    ],
)
def test_errors_of_google_are_explained(status: int, error: dict[str, Any], kind: str, after: float | None) -> None:
    for said in ({"error": error}, [{"error": error}]):
        found = refusal("Gemini", status, said, {}, "Check it.")
        assert (found.kind, found.retry_after) == (kind, after)
        assert error["message"].rstrip(".") in str(found) or error["message"] == "x"


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ("The input token count (3475108) exceeds the maximum number of tokens allowed (1048576).", (3475108, 1048576)),
        (
            "The input token count (1,054,016) exceeds the maximum number of tokens allowed (1,048,576)",
            (1054016, 1048576),
        ),
        ("The input token count exceeds the maximum number of tokens allowed 1048576.", (None, 1048576)),
        ("The input token count exceeds the maximum number of tokens allowed.", (None, None)),
    ],
)
def test_googles_words_for_a_long_request_are_recognized(words: str, numbers: tuple[int | None, int | None]) -> None:
    found = refusal("Gemini", 400, {"error": {"message": words}}, {}, "")
    assert isinstance(found, ContextOverflowError)
    assert (found.tokens, found.limit) == numbers


@given(said=_JSON | st.dictionaries(st.just("error"), _JSON), status=st.integers(100, 599), after=st.none() | st.text())
def test_any_error_is_explained(said: Any, status: int, after: str | None) -> None:
    found = refusal("Gemini", status, said, {} if after is None else {"retry-after": after}, "Check it.")
    assert len(str(found)) < 1500
    assert found.retry_after is None or found.retry_after >= 0


class Answering(GeminiWire):
    """A server, or a proxy before it, that answers every request with this response."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def failure(self, fail: Fail) -> Http:
        return self._http


def asked(wire: GeminiWire, answers: Sequence[Any], request: Request | None = None) -> tuple[Heard, Loopback]:
    with Loopback(wire, answers) as server:
        provider = gemini_api.connect(wire.model, Access(KEY, server.url))
        return asyncio.run(listen(provider, request or request_of())), server


@pytest.mark.parametrize(
    ("http", "kind"),
    [
        (Http(502, {"content-type": "text/html"}, "<h1>Fehler: Überlastet</h1>".encode("latin-1")), "busy"),
        (Http(302, {"location": "https://example.org/"}, b""), "answer"),
        (Http(200, {"content-type": "text/html"}, b"<h1>Welcome to the hotel</h1>"), "answer"),
        (Http(200, {"content-type": "application/json"}, b"[1, 2]"), "answer"),
        (Http(200, {"content-type": "application/json"}, b'{"error": "no"}'), "answer"),
        (Http(200, {"content-type": "application/json"}, b"[" * 100_000), "answer"),
        (Http(200, {"content-type": "application/json"}, b'{"n": ' + b"9" * 5000 + b"}"), "answer"),
        (Http(200, {}, json.dumps([{"error": {"code": 503, "message": "Over."}}], indent=2).encode()), "busy"),
        (Http(429, {"retry-after": "9"}, b"slow down"), "rate"),
    ],
)
def test_an_answer_of_another_server_is_an_error(http: Http, kind: str) -> None:
    found, _ = asked(Answering(http), [Fail("busy")])
    assert found.error is not None
    assert found.error.kind == kind
    assert found.error.retry_after == (9.0 if kind == "rate" else None)
    assert len(str(found.error)) < 1000


def test_a_server_without_events_is_read() -> None:
    chunks = json.dumps([{**chunk, "modelVersion": "é\u2028"} for chunk in chunks_of(WHOLE)], indent=2).encode()
    found, _ = asked(Answering(Http(200, {}, chunks)), [Fail("busy")])
    assert (found.error, found.text, found.stops) == (None, "I look.", ["calls"])


def test_no_generator_is_left_to_the_event_loop(caplog: pytest.LogCaptureFixture) -> None:
    """Answers that fail or are closed early must not leave generators open."""
    asked(GeminiWire(), [Broken((Say(("It be", "gan")),), event=True)])
    with Loopback(GeminiWire(), [Reply((Say(("It be", "gan")),))]) as server:

        async def leave() -> None:
            answer = gemini_api.connect(GeminiWire.model, Access(KEY, server.url)).answer(request_of())
            assert await anext(answer) == "It be"
            await answer.aclose()

        asyncio.run(leave())
    assert caplog.messages == []


def test_a_key_in_an_error_is_not_shown() -> None:
    said = json.dumps({"error": {"code": 400, "message": f"{'x' * 385}{KEY} is no key; API key not valid."}}).encode()
    found, _ = asked(Answering(Http(400, {}, said)), [Fail("key")])
    assert found.error is not None
    assert found.error.kind == "key"
    assert KEY[:8] not in str(found.error)


def test_a_silent_connection_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TIMEOUTS, "read", 0.05)
    found, _ = asked(GeminiWire(), [Stalled((Say(("It began",)),))])
    assert found.text == "It began"
    assert found.error is not None
    assert (found.error.kind, "ReadTimeout" in str(found.error)) == ("network", True)


def test_without_a_key_no_request_is_sent() -> None:
    for key in (None, "", "  "):
        with pytest.raises(ProviderError, match="GEMINI_API_KEY or GOOGLE_API_KEY") as caught:
            gemini_api.connect("gemini-3.8-flash", Access(key))
        assert caught.value.kind == "key"
    for key in ("schlüssel", "two\nlines"):
        with pytest.raises(ProviderError, match="characters") as caught:
            gemini_api.connect("gemini-3.8-flash", Access(key))
        assert key not in str(caught.value)


def test_without_the_sdk_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.genai", None)
    for module in (gemini_api, gemini_gca_api):
        with pytest.raises(ProviderError, match=re.escape(installs("gemini"))) as caught:
            module.connect("gemini-3.8-flash", Access(KEY))
        assert caught.value.kind == "sdk"


@pytest.mark.parametrize("url", ["", "nowhere", "ftp://example.org", "http://[", "http://a b/", "https://"])
def test_an_invalid_address_is_an_error_at_once(url: str) -> None:
    for module in (gemini_api, gemini_gca_api):
        with pytest.raises(ProviderError, match=r"is not the address of a server\. Set one") as caught:
            module.connect("gemini-3.8-flash", Access(KEY, url))
        assert (caught.value.kind, caught.value.passes) == ("request", False)


# The wire


def test_the_sent_bytes_are_the_encoded_ones() -> None:
    tail = {"text": "", "thoughtSignature": SIGNATURE}
    call = AnsweredCall("c1", "look", '{"at":{"deep":[null,1.5,"\\u00e9"]}}', "A", False, SIGNATURE, (PNG, LINK))
    steps: list[Step] = [
        ViewMessage("user", "Look.", (PNG,)),
        Calls("I do.", (call,), (tail,)),
        ViewMessage("user", "And?"),
    ]
    body = body_of(steps, "gemini-3.8-flash", Options(500, "low"), [ODD])
    found, server = asked(GeminiWire(), [Reply((Say(("So.",)),))], request_of(body))
    assert found.text == "So."
    assert server.requests[0].body == body
    assert server.requests[0].headers["x-goog-api-key"] == KEY
    assert server.requests[0].path == "/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse"


@pytest.mark.parametrize("model", ["models/gemini-3.8-flash", "gemini-3.8-flash?key=x", "../secrets"])
def test_a_models_name_cannot_change_the_address(model: str) -> None:
    with Loopback(GeminiWire(), [Reply(())]) as server:
        asyncio.run(listen(gemini_api.connect(model, Access(KEY, server.url)), request_of()))
    assert server.requests[0].path.endswith(":streamGenerateContent?alt=sse")
    assert server.requests[0].path.count("?") == 1


def test_counting_leaves_out_parts_that_the_endpoint_refuses() -> None:
    thought = {"text": "Hm.", "thought": True, "thoughtSignature": SIGNATURE}
    tail = {"text": "", "thoughtSignature": SIGNATURE}
    steps = [ViewMessage("user", "Hi"), ViewMessage("assistant", "", (), (tail,)), ViewMessage("user", "?")]
    for more in (
        steps,
        [ViewMessage("user", "Hi"), ViewMessage("assistant", "Yes.", (), (thought, tail)), ViewMessage("user", "?")],
    ):
        body = body_of(more, "gemini-3.8-flash", Options(thinking="low"), [ODD])
        with Loopback(GeminiWire(), tokens=77) as server:
            provider = gemini_api.connect("gemini-3.8-flash", Access(KEY, server.url))
            assert asyncio.run(provider.count(request_of(body))) == 77
        assert server.refusals == []
        wrapped = request_of(encode_gca("gemini-3.8-flash", Prompt("s", tuple(more)), [ODD], Options(thinking="low")))
        with Loopback(GcaWire(), tokens=78) as server:
            provider = gemini_gca_api.connect("gemini-3.8-flash", Access("token", server.url, "p"))
            assert asyncio.run(provider.count(wrapped)) == 78
        assert server.refusals == []


def test_an_error_inside_a_list_in_the_middle_of_an_answer_is_raised() -> None:
    class Listing(GeminiWire):
        def error_event(self) -> bytes | None:
            return b'data: [{"error": {"code": 429, "message": "Enough.", "status": "RESOURCE_EXHAUSTED"}}]\n\n'

    found, _ = asked(Listing(), [Broken((Say(("It began",)),), event=True)])
    assert found.text == "It began"
    assert found.error is not None
    assert (found.error.kind, "Enough. (RESOURCE_EXHAUSTED)" in str(found.error)) == ("rate", False)
    assert "Enough (RESOURCE_EXHAUSTED)" in str(found.error)


# Code Assist


def gca_request() -> Request:
    return request_of(encode_gca("gemini-2.5-pro", Prompt("", (ViewMessage("user", "Hi"),))))


async def _two(server: Loopback, access: Access) -> list[Heard]:
    provider = gemini_gca_api.connect("gemini-2.5-pro", access)
    return [await listen(provider, gca_request()) for _ in range(2)]


def test_code_assist_is_asked_once_for_the_project() -> None:
    with Loopback(GcaWire(), [Reply((Say(("One.",)),)), Reply((Use("", "look", {}),), "calls")]) as server:
        first, second = asyncio.run(_two(server, Access("token-1", server.url)))
    assert [first.text, second.stops] == ["One.", ["calls"]]
    assert [received.path.partition(":")[2] for received in server.requests] == [
        "loadCodeAssist",
        *["streamGenerateContent?alt=sse"] * 2,
    ]
    sent = server.requests[1].body
    assert sent["project"] == "loopback-project"
    assert {key: sent[key] for key in ("model", "request")} == gca_request().body
    assert sent == server.requests[2].body
    assert {received.headers["authorization"] for received in server.requests} == {"Bearer token-1"}
    assert not any("x-goog-api-key" in received.headers for received in server.requests)


def test_the_error_for_an_account_without_code_assist_says_so() -> None:
    class Closed(GcaWire):
        def refuse(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Http | None:
            tiers = [{"reasonMessage": "Your account is not eligible.", "tierId": "free-tier"}, None]
            return Http(200, {}, json.dumps({"ineligibleTiers": tiers}).encode())

    with Loopback(Closed(), []) as server:
        found = asyncio.run(_two(server, Access("token", server.url)))[0]
    assert found.error is not None
    assert found.error.kind == "key"
    assert "Your account is not eligible." in str(found.error)


@contextmanager
def token_office(status: int) -> Iterator[tuple[str, list[str]]]:
    """Run a server that issues tokens for signed requests, as Google's does. Yield its address and the requests."""
    wishes: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            wishes.append(self.rfile.read(int(self.headers["content-length"])).decode())
            said = {"access_token": f"token-{len(wishes)}", "expires_in": 3600, "token_type": "Bearer"}
            data = json.dumps(said if status == 200 else {"error": "invalid_grant"}).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/token", wishes
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without Google credentials; returns the configuration folder."""
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    return tmp_path


@cache
def _private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def account(folder: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key = _private_key()
    file = folder / "account.json"
    about = {
        "type": "service_account",
        "client_email": "a@example.org",
        "project_id": "p",
        "token_uri": address,
        "private_key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
    }
    file.write_text(json.dumps(about))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))


def test_a_token_comes_from_googles_default_credentials(no_account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with token_office(200) as (address, wishes), Loopback(GcaWire(), [Reply((Say(("Hi.",)),))] * 2) as server:
        account(no_account, address, monkeypatch)
        found = asyncio.run(_two(server, Access(base_url=server.url, project="p")))
    assert [each.text for each in found] == ["Hi.", "Hi."]
    assert [received.headers["authorization"] for received in server.asked] == ["Bearer token-1"] * 2
    assert len(wishes) == 1


def test_the_error_for_a_refused_account_says_so(no_account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with token_office(400) as (address, _), Loopback(GcaWire(), []) as server:
        account(no_account, address, monkeypatch)
        found = asyncio.run(_two(server, Access(base_url=server.url, project="p")))[0]
    assert found.error is not None
    assert (found.error.kind, server.requests) == ("key", [])
    assert "invalid_grant" in str(found.error)


def test_without_a_google_account_the_error_says_how_to_sign_in(no_account: Path) -> None:
    with Loopback(GcaWire(), []) as server:
        found = asyncio.run(_two(server, Access(base_url=server.url)))[0]
    assert found.error is not None
    assert (found.error.kind, server.requests) == ("key", [])
    assert "gcloud auth application-default login" in str(found.error)
