"""Random messages of one agent, as hostile as a log can contain."""

from __future__ import annotations

from typing import Any

import msgspec
import request_validators
from hypothesis import strategies as st

from foldmark.core.events import Event
from foldmark.core.request import ToolSpec
from foldmark.core.turns import place
from foldmark.providers.registry import BUILT_IN, dialect_of
from sampled import DEEP

DIALECTS = (None, "anthropic", "openai", "gemini", "gemini_gca")

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    st.sampled_from(
        [
            "",
            " ",
            "\n\t",
            "\u2028",
            "\0",
            "[TRUNCATED]",
            "👩‍👩‍👧‍👦" * 5,
            "e\u0301" * 40,
            "x" * 700,
            '{"a": "\\u00e9"}' * 40,
        ]
    ),
)
ids = st.sampled_from(["c1", "c1", "c2", "call:3", "", "é", "c" * 41, "toolu_01"])
names = st.sampled_from(["read_file", "2nd", "", "mcp.server/tool", "n" * 70, "schön", "slash"])
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=5,
)
contents_of_calls = st.one_of(
    st.dictionaries(texts, values, max_size=3).map(lambda value: msgspec.json.encode(value).decode()),
    values.map(lambda value: msgspec.json.encode(value).decode()),
    st.sampled_from(
        ["", "{", "not json", "[" * 200 + "]" * 200, '{"a":' * 90 + "1" + "}" * 90, '{"n": 1e999}', '"\\ud800"']
    ),
)
PNG, JPEG, GIF, WEBP = ("image/png", "image/jpeg", "image/gif", "image/webp")


def image(media: str = PNG, data: str = "iVBORw0KGgo=") -> dict[str, Any]:
    """Return an image block as a message holds it."""
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}


def image_at(url: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "url", "url": url}}


PDF = "JVBERi0xLjQKMSAwIG9iago8PC9UeXBlIC9QYWdlPj4KZW5kb2JqCg=="  # one page


def document(data: str = PDF, **more: Any) -> dict[str, Any]:
    """Return a document block as a message holds it."""
    return {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}, **more}


DOCUMENTS = [document(), document(title="A\nreport.pdf", pages=3), document(pages=1001), document(pages="7", title=7)]

IMAGES = [
    *(image(media) for media in (PNG, JPEG, GIF, WEBP)),
    *(image_at(f"https://example.org/{path}") for path in ("a.png", "a.gif", "a%20b.JPG?x=1#y", "", "a.svg")),
]
NO_IMAGES: list[Any] = [
    image(data="not base64"),
    image(data="iVBORw0KGg"),
    image(data="é==="),
    image(data=""),
    image("image/svg+xml"),
    image("IMAGE/PNG"),
    {"type": "image"},
    {"type": "image", "source": "iVBORw0KGgo="},
    {"type": "image", "source": {"type": "base64", "media_type": ["image/png"], "data": 7}},
    {"type": "image", "source": {"type": "file", "file_id": "f1"}},
    *(
        image_at(url)
        for url in ("http://example.org/a.png", "https://example.org/a b.png", "https://", "file:///a.png")
    ),
    image_at("https://" + "a" * 2001),
    {"type": "document", "source": {"type": "text", "data": "x"}},
    {"type": "document", "source": {"type": "base64", "media_type": "text/html", "data": PDF}},
    {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}},
    *(document(data) for data in ("", "JVBERi0", "JVBERi0=\n", "PGh0bWw+")),
]
"""Values that look like images or documents but cannot be sent."""

THINKING: dict[str, Any] = {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"}
REDACTED: dict[str, Any] = {"type": "redacted_thinking", "data": "b3BhcXVl"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ZW5j"}
SIGNED = {"text": "", "thoughtSignature": "c2ln"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
CITED = {"type": "text", "citations": [{"type": "char_location"}]}
KEPT: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        *(THINKING, REDACTED, *({**THINKING, "after": place} for place in (0, 1, 3, 10**9))),
        *(
            {"type": "carried", "of": "anthropic", "block": each, "after": place}
            for each in (SEARCH, FOUND)
            for place in (0, 2)
        ),
        *(SEARCH, FOUND, {"type": "container", "container": {"id": "container_1"}}),
        *({**CITED, "after": place, "length": length} for place in (0, 2, 10**9) for length in (0, 1, 10**9)),
        {"type": "tool_use", "id": "c1", "caller": {"type": "direct"}},
    ],
    "openai": [
        REASONING,
        {**REASONING, "summary": [{"type": "summary_text", "text": "I looked."}]},
        {"type": "phase", "phase": "commentary"},
        {"type": "phase", "phase": "final_answer"},
        *({"type": "message", "phase": "commentary", "after": place, "length": 2} for place in (0, 1, 10**9)),
        {"type": "message", "annotations": [{"type": "url_citation"}], "length": 10**9},
        {"type": "carried", "of": "openai_responses", "block": {"type": "web_search_call", "id": "ws_1"}, "after": 1},
        {"type": "reasoning_content", "text": "Let me see."},
        {"type": "reasoning_content", "text": "Let me see.", "field": "reasoning"},
        {"type": "reasoning_details", "details": [{"type": "reasoning.text", "text": "Let me see."}]},
    ],
    "gemini": [SIGNED, {"text": "Let me see.", "thought": True, "thoughtSignature": "c2ln"}],
}
"""Blocks that providers want back, by dialect."""

NO_KEPT: list[Any] = [
    *(None, 7, "thinking", [THINKING], {}, {"type": None}, {"type": ["thinking"]}, {"type": "server_tool_use"}),
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": "cut off"},
    {"type": "carried"},
    *(
        {"type": "carried", "of": of, "block": {"type": ["text"]}}
        for of in ("anthropic", "openai_responses", "x", None)
    ),
    {"type": "carried", "of": "anthropic", "block": {"type": "thinking", "thinking": "x"}},
    *({**CITED, "after": place, "length": place} for place in (-1, True, "3", None)),
    {"type": "container", "container": {"id": 7, "expires_at": "soon"}},
    {"type": "message", "phase": 7, "annotations": "x", "length": 1},
    {"type": "tool_use", "id": ["c1"]},
    {"type": "thinking", "thinking": "No signature."},
    {"type": "thinking", "thinking": 1, "signature": 2},
    *({**THINKING, "after": place} for place in (-1, True, "3", 1.5, None)),
    {"type": "redacted_thinking", "data": None},
    {"type": "reasoning", "encrypted_content": ""},
    {"type": "reasoning", "encrypted_content": 7, "summary": "x"},
    {"type": "reasoning_content", "text": ""},
    {"type": "reasoning_content", "text": "Odd.", "field": "content"},
    {"type": "reasoning_details", "details": "x"},
    {"type": "phase", "phase": None},
    {"text": "", "thoughtSignature": "not base64!"},
    {"text": None, "thoughtSignature": "c2ln"},
    {"text": "A thought.", "thought": True},
    {**THINKING, "signature": ""},
    {**REDACTED, "data": ""},
    {**REASONING, "encrypted_content": " "},
    {**REASONING, "summary": [{"type": "other"}, 7]},
    {**REASONING, "summary": [{"type": "summary_text", "text": 7}]},
    {"type": "phase", "phase": "other"},
    {"type": "reasoning_details", "details": [7]},
    {"type": "reasoning_details", "details": []},
]
"""Values that look like kept blocks, but are none or cannot be sent."""

block = st.one_of(
    st.sampled_from([*IMAGES, *DOCUMENTS]),
    st.sampled_from([each for blocks in KEPT.values() for each in blocks]),
    st.sampled_from(NO_IMAGES),
    st.sampled_from(NO_KEPT),
)
many_blocks = st.lists(block, min_size=1, max_size=4)
blocks = st.one_of(st.none(), many_blocks, st.sampled_from(["x", {}, 7, [], [[]]]))
"""The value of `data["blocks"]`, if there is one: every kind in every kind of message, lists and other values."""
answered = st.sampled_from([*KEPT, "gemini_gca"]).flatmap(
    lambda dialect: st.tuples(st.just(dialect), st.lists(st.sampled_from(_kept(dialect)), min_size=1, max_size=3))
)
"""A dialect, and blocks that its provider could send."""
signatures = st.sampled_from([None, None, "c2ln", "not base64!", 7, ""])


def _kept(dialect: str) -> list[dict[str, Any]]:
    return KEPT["gemini" if dialect == "gemini_gca" else dialect]


dialects = st.sampled_from(DIALECTS)
asked = st.tuples(ids, names, dialects, signatures)
actions = st.one_of(
    st.tuples(st.just("user"), texts, st.tuples(st.sampled_from(["human", "human", "system"]), blocks)),
    st.tuples(st.just("client"), texts, st.tuples(st.just("system"), blocks)),
    st.tuples(st.just("assistant"), texts, st.tuples(st.booleans(), st.tuples(dialects, blocks))),
    st.tuples(st.just("assistant"), texts, st.tuples(st.booleans(), answered)),
    st.tuples(st.just("summary"), texts, blocks),
    st.tuples(st.just("tool"), texts, st.tuples(dialects, blocks)),
    st.tuples(st.just("tool_call"), contents_of_calls, asked),
    st.tuples(st.just("tool_result"), texts, st.tuples(st.integers(0, 5), st.booleans(), dialects, blocks)),
    st.tuples(st.just("end"), st.just(""), st.none()),
    st.tuples(st.just("end and user"), texts, st.none()),
)


@st.composite
def logs(draw: st.DrawFn, most: int = 25) -> list[Event]:
    """Draw messages with ids and turns as a store assigns them; a result answers one of the newest calls, or none."""
    events: list[Event] = []
    calls: list[Event] = []
    turn: int | None = None
    for id, (kind, content, more) in enumerate(draw(st.lists(actions, max_size=most)), start=draw(st.integers(1, 50))):
        if kind.startswith("end"):
            turn = None
            if kind == "end":
                continue
            kind, more = "user", ("human", None)
        mine, turn = place(kind, id, turn)
        data: dict[str, Any] = {}
        actor, dialect, blocks, answers, interrupted = "human", None, None, None, False
        if kind in ("user", "client"):
            actor, blocks = more
        elif kind == "assistant":
            interrupted, (dialect, blocks) = more
        elif kind == "summary":
            blocks = more
        elif kind == "tool":
            dialect, blocks = more
        elif kind == "tool_call":
            call_id, name, dialect, signature = more
            data = {"call_id": call_id, "name": name}
            data |= {} if signature is None else {"thought_signature": signature}
        else:
            back, failed, dialect, blocks = more
            wanted = calls[-back] if 0 < back <= len(calls) else None
            answers = wanted.id if wanted else None
            data = {"call_id": wanted.call_id if wanted else "nobody", "is_error": failed}
        data |= {} if blocks is None else {"blocks": blocks}
        event = Event(id, "a", mine, kind, content, data or None, dialect, actor, 1, "", interrupted, answers)
        events.append(event)
        if kind == "tool_call":
            calls.append(event)
    return events


# Targets of requests

MODELS = {
    "anthropic": (
        *("claude-3-5-haiku-20241022", "claude-sonnet-4-5", "claude-opus-4-8", "claude-sonnet-5-5"),
        *("claude-fable-5", "claude-opus-5-5", "claude-x"),
    ),
    "openai": ("gpt-4o", "gpt-5", "gpt-5.6", "o3"),
    "openai_responses": ("gpt-4o", "gpt-5", "gpt-5.6", "o3"),
    "gemini": ("gemini-2.0-flash", "gemini-2.5-flash", "gemini-2.5-pro", "gemini-3-pro-preview", "gemini-3.8-flash"),
    "gemini_gca": ("gemini-2.5-pro", "gemini-3-pro-preview"),
    "openrouter": ("deepseek/deepseek-v4-pro", "anthropic/claude-sonnet-4.5"),
    "ollama": ("qwen3",),
    "vllm": ("deepseek-v4-pro",),
    "offline": ("offline",),
}
"""Provider -> models of several generations."""
SPEAKERS = list(MODELS) if DEEP else list({BUILT_IN[name].dialect: name for name in reversed(BUILT_IN)}.values())
"""The providers that a property of the dialects is shown for: the first of each dialect, or all in a deep run."""
TARGETS = [(provider, model) for provider, models in MODELS.items() for model in models]

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
READ = ToolSpec("read_file", "Reads a file.", SCHEMA)
ODD_TOOLS = (
    ToolSpec("mcp.server/list", " ", {"type": "object"}),
    ToolSpec("9 lives", "", {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]}),
    ToolSpec("", "Has no name.", SCHEMA),
    ToolSpec("n" * 200, "Has too much of one.", SCHEMA),
    ToolSpec("schön", "Schön.", {"type": "object", "properties": {}, "additionalProperties": False}),
)
tool_lists = st.sampled_from([(), (READ,), (READ, *ODD_TOOLS)])


def models_of(provider: str) -> list[str]:
    """Return the models that a speaker stands for: its own, and by default those of all that speak its dialect."""
    same = [name for name in MODELS if BUILT_IN[name].dialect == BUILT_IN[provider].dialect]
    return [model for name in ([provider] if DEEP else same) for model in MODELS[name]]


def violations(provider: str, model: str, body: dict[str, Any]) -> list[str]:
    """Return the violations for which the provider would refuse a request to this model."""
    if provider == "gemini":
        return request_validators.gemini(body, model=model)
    name = provider if provider in request_validators.VALIDATORS else dialect_of(provider).recorded
    return request_validators.VALIDATORS[name](body)


def texts_of(body: dict[str, Any]) -> list[str]:
    """Return all strings of a body. The texts of one message are joined, because a thought may interrupt a text."""
    return [text for each in body.values() for text in _texts(each)]


def _texts(value: Any) -> list[str]:
    if isinstance(value, list) and any(isinstance(each, dict) and each.get("type") == "text" for each in value):
        others = [text for each in value if each.get("type") != "text" for text in strings(each)]
        return ["".join(each["text"] for each in value if each.get("type") == "text"), *others]
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [found for item in inner for found in _texts(item)]


# Messages for examples


def message(id: int, kind: str, content: str = "text", turn: int | None = 1, **more: Any) -> Event:
    """Return a message for an example; `call_id`, `name`, `failed`, `signature` and `blocks` go into its data."""
    keys = {
        "call_id": "call_id",
        "name": "name",
        "failed": "is_error",
        "signature": "thought_signature",
        "blocks": "blocks",
    }
    data = {keys[key]: more.pop(key) for key in list(more) if key in keys}
    event = Event(id, "a", turn, kind, content, data or None, None, "human", 1, "", False)
    return msgspec.structs.replace(event, **more)


def call(id: int, call_id: str = "c1", args: str = "{}", turn: int | None = 1, **more: Any) -> Event:
    return message(id, "tool_call", args, turn, call_id=call_id, **{"name": "read_file", **more})


def result(id: int, answers: int | None, text: str = "done", turn: int | None = 1, **more: Any) -> Event:
    return message(id, "tool_result", text, turn, **{"call_id": "c1", "answers": answers, **more})


def strings(value: Any) -> list[str]:
    """Return all strings of a JSON value in order, without the keys."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [found for item in inner for found in strings(item)]
