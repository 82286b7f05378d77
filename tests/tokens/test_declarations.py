"""Tool schemas as OpenAI counts them."""

from typing import Any

import pytest

from foldmark.tokens.openai import declarations

WEATHER = {
    "name": "get_weather",
    "description": "Get the weather in a place.\nOnly today's.",
    "parameters": {
        "type": "object",
        "properties": {
            "place": {"type": "string", "description": "City and country"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "days": {"type": "array", "items": {"type": "integer"}},
            "at": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": ["number", "null"]}}},
            "anything": {},
        },
        "required": ["place"],
    },
}

EXPECTED = """\
namespace functions {

// Get the weather in a place.
// Only today's.
type get_weather = (_: {
// City and country
place: string,
unit?: "celsius" | "fahrenheit",
days?: number[],
at?: {
lat?: number,
lon?: number | null,
},
anything?: any,
}) => any;

type now = () => any;

} // namespace functions"""


def test_functions_become_typescript() -> None:
    tools = [{"type": "function", "function": WEATHER}, {"type": "function", "function": {"name": "now"}}]
    assert declarations(tools) == EXPECTED


def test_both_apis_make_the_same_declarations() -> None:
    responses = [{"type": "function", **WEATHER}, {"type": "function", "name": "now", "parameters": {}}]
    assert declarations(responses) == EXPECTED


def test_unions_and_constants_become_typescript() -> None:
    schema = {"properties": {"x": {"anyOf": [{"type": "string"}, {"const": 3}, {"type": "string"}]}}}
    assert "x?: string | 3," in declarations([{"name": "f", "parameters": schema}])


@pytest.mark.parametrize(
    "tools",
    [
        [],
        [None, 3, "x", [], {}],
        [{"type": "function", "function": 3}],
        [{"type": "web_search"}],
        [{"name": 3}],
    ],
)
def test_tools_that_are_not_functions_are_ignored(tools: Any) -> None:
    assert declarations(tools) == ""


@pytest.mark.parametrize(
    "parameters",
    [
        3,
        {"properties": 3},
        {"properties": {"a": 3, "b": {"type": 3}, "c": {"type": []}, "d": {"enum": "x"}, "e": {"items": 3}}},
        {"properties": {"a": {"type": "array"}}, "required": 3},
        {"properties": {"a": {"description": 3, "enum": [None, {"x": 1}]}}},
    ],
)
def test_odd_schemas_still_become_a_declaration(parameters: Any) -> None:
    assert declarations([{"name": "f", "parameters": parameters}]).startswith("namespace functions {\n\ntype f = (")


def test_an_endless_schema_is_cut() -> None:
    endless: dict[str, Any] = {"type": "array"}
    for _ in range(500):
        endless = {"type": "array", "items": endless}
    assert "any[]" in declarations([{"name": "f", "parameters": {"properties": {"x": endless}}}])
