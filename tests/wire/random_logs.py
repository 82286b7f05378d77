"""Random messages of one agent, as hostile as a log may hold them."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from foldmark.core.events import Event
from foldmark.core.turns import place

DIALECTS = (None, "anthropic", "openai", "gemini", "gemini_gca")

texts = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=30),
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
actions = st.one_of(
    st.tuples(st.just("user"), texts, st.booleans()),
    st.tuples(st.just("assistant"), texts, st.booleans()),
    st.tuples(st.just("summary"), texts, st.booleans()),
    st.tuples(st.just("tool"), texts, st.sampled_from(DIALECTS)),
    st.tuples(st.just("tool_call"), contents_of_calls, st.tuples(ids, names, st.sampled_from(DIALECTS))),
    st.tuples(st.just("tool_result"), texts, st.tuples(st.integers(0, 5), st.booleans(), st.sampled_from(DIALECTS))),
    st.tuples(st.just("end"), st.just(""), st.booleans()),
)


@st.composite
def logs(draw: st.DrawFn, most: int = 25) -> list[Event]:
    """Messages with ids and turns as a store gives them; results answer one of the newest calls, or none."""
    events: list[Event] = []
    calls: list[Event] = []
    turn: int | None = None
    for id, (kind, content, more) in enumerate(draw(st.lists(actions, max_size=most)), start=draw(st.integers(1, 50))):
        if kind == "end":
            turn = None
            continue
        mine, turn = place(kind, id, turn)
        data: dict[str, Any] | None = None
        dialect: str | None = None
        answers = None
        if kind == "tool_call":
            call_id, name, dialect = more
            data = {"call_id": call_id, "name": name}
        elif kind == "tool_result":
            back, failed, dialect = more
            asked = calls[-back] if 0 < back <= len(calls) else None
            answers = asked.id if asked else None
            data = {"call_id": asked.call_id if asked else "nobody", "is_error": failed}
        elif kind == "tool":
            dialect = more
        interrupted = kind == "assistant" and more
        event = Event(id, "a", mine, kind, content, data, dialect, "human", 1, "", interrupted, answers)
        events.append(event)
        if kind == "tool_call":
            calls.append(event)
    return events


def message(id: int, kind: str, content: str = "text", turn: int | None = 1, **more: Any) -> Event:
    """One message for an example; `call_id`, `name`, `failed` and `signature` go into its data."""
    keys = {"call_id": "call_id", "name": "name", "failed": "is_error", "signature": "thought_signature"}
    data = {keys[key]: more.pop(key) for key in list(more) if key in keys}
    event = Event(id, "a", turn, kind, content, data or None, None, "human", 1, "", False)
    return msgspec.structs.replace(event, **more)


def call(id: int, call_id: str = "c1", args: str = "{}", turn: int | None = 1, **more: Any) -> Event:
    return message(id, "tool_call", args, turn, call_id=call_id, **{"name": "read_file", **more})


def result(id: int, answers: int | None, text: str = "done", turn: int | None = 1, **more: Any) -> Event:
    return message(id, "tool_result", text, turn, **{"call_id": "c1", "answers": answers, **more})


def strings(value: Any) -> list[str]:
    """All strings of a JSON value, in order; keys are not among them."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [found for item in inner for found in strings(item)]
