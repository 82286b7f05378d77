"""The schema of an MCP tool's arguments: whether every provider accepts it, and the form to send.

One schema that a provider refuses fails every request, so doubtful tools are left out with a message.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from foldmark.core.errors import CommandError

MOST_BYTES = 16 * 1024
MOST_BRACES = 500
"""Approximate maximum number of objects in a schema: checking one with thousands takes a second."""
DEEPEST = 32
"""Maximum depth of nesting."""

_NOT_AT_THE_TOP = ("$schema", "oneOf", "anyOf", "allOf", "enum", "not")
"""Anthropic and OpenAI refuse them at the top; the server checks the arguments anyway."""
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Anthropic: "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"."""
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Members whose own members are schemas by name."""


def parameters(schema: Any) -> dict[str, Any]:
    """Return the schema as it is sent. Raises CommandError, as in "its schema is ..."."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise CommandError("its schema is not one of an object")
    if not _shallow(schema, DEEPEST):
        raise CommandError(f"its schema is nested more than {DEEPEST} levels deep")
    try:
        text = msgspec.json.encode(schema)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        raise CommandError("its schema is not JSON that others read") from None
    if len(text) > MOST_BYTES:
        raise CommandError(f"its schema has {len(text):,} bytes, more than {MOST_BYTES:,}")
    if text.count(b"{") > MOST_BRACES:
        raise CommandError(f"its schema has more than {MOST_BRACES} parts")
    found: dict[str, Any] = msgspec.json.decode(text)
    for key in _NOT_AT_THE_TOP:
        found.pop(key, None)
    _check(found)
    return found


def _check(schema: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator, SchemaError  # type: ignore[import-untyped]

    try:
        # Without formats: the server validates patterns.
        Draft202012Validator.check_schema(schema, format_checker=None)
    except SchemaError as error:
        place = ".".join(map(str, error.absolute_path))
        raise CommandError(f"its schema is not one of draft 2020-12{f', at {place[:80]}' if place else ''}") from None
    for name in schema.get("properties", {}):
        if not _PROPERTY.fullmatch(name):
            raise CommandError(f"its parameter {name[:40]!r} has a name that not every model takes")
    for part in _parts(schema):
        target = part.get("$ref", part.get("$dynamicRef", "#"))
        if not target.startswith("#") or ("$id" in part and part is not schema):
            raise CommandError(f"its schema refers to another one, {target[:80]!r}")
        if target.startswith("#/") and not _is_there(schema, target):
            raise CommandError(f"its schema refers to {target[:80]!r}, which is not there")


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield all schemas inside a valid one, itself included."""
    if isinstance(schema, list):
        for each in schema:
            yield from _parts(each)
    if not isinstance(schema, dict):
        return
    yield schema
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, dict):
            for each in value.values():
                yield from _parts(each)
        elif key not in ("enum", "const", "default", "examples"):
            yield from _parts(value)


def _is_there(schema: Any, pointer: str) -> bool:
    for step in pointer[2:].split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, list) and key.isascii() and key.isdigit() and len(key) < 6:
            schema = schema[int(key)] if int(key) < len(schema) else None
        else:
            schema = schema.get(key) if isinstance(schema, dict) else None
        if schema is None:
            return False
    return True


def _shallow(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_shallow(each, levels - 1) for each in inner if isinstance(each, dict | list))
