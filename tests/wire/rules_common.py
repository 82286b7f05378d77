"""The building blocks of every provider's rules: checks of types, fields, JSON and JSON Schema.

A check is a function of a value and its path and yields violations, one string each: `path: what is wrong`.
The empty path is the body itself. A check of the wrong type stops there, so that one mistake is one violation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

Check: TypeAlias = Callable[[Any, str], Iterator[str]]

_JSON_TYPES = ("null", "boolean", "object", "array", "number", "string", "integer")
_SUBSCHEMAS = ("items", "additionalProperties", "not", "contains", "propertyNames")


def at(path: str, step: str | int) -> str:
    """Return the path of a member, such as `messages[3].content`. It is printable for any name."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    if not step.isprintable() or not re.fullmatch(r"[^\s.:'\[\]]+", step):
        return f"{path}[{step!r}]"
    return f"{path}.{step}" if path else step


def kind(value: object) -> str:
    """Return JSON's name for the type of the value."""
    names: dict[type, str] = {
        dict: "an object",
        list: "an array",
        str: "a string",
        bool: "a boolean",
        type(None): "null",
    }
    return names.get(type(value), "a number" if isinstance(value, int | float) else f"a {type(value).__name__}")


def text(value: Any, path: str) -> Iterator[str]:
    """Accept any string, including the empty one."""
    if not isinstance(value, str):
        yield f"{path}: must be a string, not {kind(value)}"


def filled(value: Any, path: str) -> Iterator[str]:
    """Accept a string that does not consist of white space only."""
    if not isinstance(value, str):
        yield f"{path}: must be a string, not {kind(value)}"
    elif not value.strip():
        yield f"{path}: text is empty" if not value else f"{path}: text is only white space"


def matching(pattern: str) -> Check:
    """Accept a string that matches the whole pattern; `$` does not let a final newline pass."""

    def check(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, str):
            yield f"{path}: must be a string, not {kind(value)}"
        elif not re.fullmatch(pattern, value):
            yield f"{path}: {value[:80]!r} does not match {pattern}"

    return check


def number(minimum: float = -math.inf, maximum: float = math.inf, *, whole: bool = False) -> Check:
    """Accept a number (`whole`: an integer) between the bounds, both included. A boolean is no number."""

    def check(value: Any, path: str) -> Iterator[str]:
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            yield f"{path}: must be {'an integer' if whole else 'a number'}, not {kind(value)}"
        elif not minimum <= value <= maximum:
            yield f"{path}: must be between {minimum} and {maximum}"

    return check


def boolean(value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f"{path}: must be a boolean, not {kind(value)}"


def mapping(value: Any, path: str) -> Iterator[str]:
    """Accept any object."""
    if not isinstance(value, dict):
        yield f"{path}: must be an object, not {kind(value)}"


def anything(value: Any, path: str) -> Iterator[str]:
    yield from ()


def one_of(*allowed: str) -> Check:
    def check(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, str) or value not in allowed:
            yield f"{path}: must be one of {', '.join(allowed)}"

    return check


def nullable(inner: Check) -> Check:
    def check(value: Any, path: str) -> Iterator[str]:
        if value is not None:
            yield from inner(value, path)

    return check


def list_of(inner: Check, minimum: int = 0) -> Check:
    """Accept an array of at least `minimum` items that each pass the inner check."""

    def check(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield f"{path}: must be an array, not {kind(value)}"
        elif len(value) < minimum:
            yield f"{path}: must not be empty"
        else:
            for position, item in enumerate(value):
                yield from inner(item, at(path, position))

    return check


def record(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """Accept an object with every required field, any of the optional ones and no others."""
    known = {**required, **(optional or {})}

    def check(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{path or 'body'}: must be an object, not {kind(value)}"
            return
        for name in required:
            if name not in value:
                yield f"{at(path, name)}: missing"
        for name, member in value.items():
            if name in known:
                yield from known[name](member, at(path, name))
            else:
                yield f"{at(path, str(name))}: unknown field"

    return check


def tagged(shapes: Mapping[str, Check]) -> Check:
    """Accept an object with the shape that its `type` names."""

    def check(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{path}: must be an object, not {kind(value)}"
        elif not isinstance(value.get("type"), str) or value["type"] not in shapes:
            yield f"{path}.type: must be one of {', '.join(shapes)}"
        else:
            yield from shapes[value["type"]](value, path)

    return check


def rows(value: object) -> list[tuple[int, dict[str, Any]]]:
    """Return the objects of an array with their positions. The shape checks report all other values."""
    if not isinstance(value, list):
        return []
    return [(position, item) for position, item in enumerate(value) if isinstance(item, dict)]


def json_value(body: object) -> Iterator[str]:
    """Check RFC 8259 and UTF-8: string keys, finite numbers, no lone surrogates, only JSON types.

    Source: "The request body is not valid JSON: no low surrogate in string" (anthropics/claude-code#3277).
    """
    waiting: list[tuple[str, object]] = [("", body)]
    while waiting:
        path, value = waiting.pop()
        where = path or "body"
        if isinstance(value, str):
            if _lone_surrogate(value):
                yield f"{where}: lone surrogate"
        elif isinstance(value, float):
            if not math.isfinite(value):
                yield f"{where}: {value} is not JSON"
        elif isinstance(value, dict):
            for key, member in value.items():
                if not isinstance(key, str):
                    yield f"{where}: key {key!r} is not a string"
                elif _lone_surrogate(key):
                    yield f"{where}: lone surrogate in a key"
                else:
                    waiting.append((at(path, key), member))
        elif isinstance(value, list):
            waiting.extend((at(path, position), member) for position, member in enumerate(value))
        elif value is not None and not isinstance(value, int):
            yield f"{where}: {kind(value)} is not JSON"


def _lone_surrogate(value: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in value)


def unique_names(names: list[tuple[str, object]]) -> Iterator[str]:
    """Reject duplicate names.

    Anthropic: "Tool names must be unique"; Gemini: "Duplicate function declaration found"; OpenAI: Foldmark's demand.
    """
    seen: set[str] = set()
    for path, name in names:
        if isinstance(name, str):
            if name in seen:
                yield f"{path}: tool name {name!r} is used twice"
            seen.add(name)


def json_schema(value: Any, path: str) -> Iterator[str]:
    """Check a JSON Schema of draft 2020-12: the keywords that tools use have the types that the draft defines."""
    if isinstance(value, bool):
        return
    if not isinstance(value, dict):
        yield f"{path}: must be a schema, not {kind(value)}"
        return
    names = value["type"] if isinstance(value.get("type"), list) else [value.get("type", "object")]
    if not names or any(name not in _JSON_TYPES for name in names):
        yield f"{path}.type: is no type of JSON Schema"
    if "required" in value:
        yield from list_of(text)(value["required"], at(path, "required"))
    if "enum" in value:
        yield from list_of(anything, 1)(value["enum"], at(path, "enum"))
    if "description" in value:
        yield from text(value["description"], at(path, "description"))
    for keyword in ("properties", "$defs", "patternProperties"):
        if keyword in value:
            yield from mapping(value[keyword], at(path, keyword))
            if isinstance(value[keyword], dict):
                for name, member in value[keyword].items():
                    yield from json_schema(member, at(at(path, keyword), str(name)))
    for keyword in _SUBSCHEMAS:
        if keyword in value:
            yield from json_schema(value[keyword], at(path, keyword))
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in value:
            yield from list_of(json_schema, 1)(value[keyword], at(path, keyword))


def object_schema(value: Any, path: str) -> Iterator[str]:
    """Check the schema of a tool's arguments: an object at the top level."""
    if not isinstance(value, dict):
        yield f"{path}: must be an object, not {kind(value)}"
    elif value.get("type") != "object":
        yield f"{path}.type: must be 'object'"
    else:
        yield from json_schema(value, path)
