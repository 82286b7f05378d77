"""Tool schemas as the TypeScript declarations that OpenAI turns them into before it counts them [S3].

The form is the one that OpenAI publishes for its open models: a namespace of function types, descriptions as comments,
optional properties with a question mark. What a schema says beyond that (formats, limits, patterns) does not show.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

DEEPEST = 32
"""Levels of nesting in a schema; what lies deeper is `any`."""

_PLAIN = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}


def declarations(tools: Iterable[Any]) -> str:
    """The declarations of the tools of a Chat Completions or a Responses body, empty for none.

    What is not a function is passed over.
    """
    functions = [function for function in map(_function, tools) if function]
    if not functions:
        return ""
    lines = ["namespace functions {", ""]
    for function in functions:
        lines += [*_comment(function.get("description")), *_type(function), ""]
    return "\n".join([*lines, "} // namespace functions"])


def _function(tool: Any) -> Mapping[str, Any]:
    """What describes the function: Chat Completions put it one level deeper."""
    about = tool.get("function", tool) if isinstance(tool, Mapping) else {}
    return about if isinstance(about, Mapping) and isinstance(about.get("name"), str) else {}


def _type(function: Mapping[str, Any]) -> list[str]:
    properties = _properties(function.get("parameters"), 0)
    name = function["name"]
    return [f"type {name} = (_: {{", *properties, "}) => any;"] if properties else [f"type {name} = () => any;"]


def _properties(schema: Any, depth: int) -> list[str]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return []
    wanted = schema.get("required")
    required = wanted if isinstance(wanted, list) else ()
    lines = []
    for name, about in properties.items():
        described = about.get("description") if isinstance(about, Mapping) else None
        mark = "" if name in required else "?"
        lines += [*_comment(described), f"{name}{mark}: {_typed(about, depth + 1)},"]
    return lines


def _typed(schema: Any, depth: int) -> str:
    """The type that a schema stands for."""
    if not isinstance(schema, Mapping) or depth > DEEPEST:
        return "any"
    for key in ("enum", "anyOf", "oneOf"):
        several = schema.get(key)
        if isinstance(several, list) and several:
            found = [_literal(each) if key == "enum" else _typed(each, depth + 1) for each in several]
            return " | ".join(dict.fromkeys(found))
    if "const" in schema:
        return _literal(schema["const"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(dict.fromkeys(_typed({**schema, "type": each}, depth + 1) for each in kind)) or "any"
    if kind == "array":
        return f"{_typed(schema.get('items'), depth + 1)}[]"
    if kind == "object":
        properties = _properties(schema, depth)
        return "\n".join(["{", *properties, "}"]) if properties else "object"
    return _PLAIN.get(kind, "any") if isinstance(kind, str) else "any"


def _literal(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _comment(text: Any) -> list[str]:
    return [f"// {line}" for line in text.strip().splitlines()] if isinstance(text, str) else []
