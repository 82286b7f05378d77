"""Rules of Gemini's `Schema`, the part of OpenAPI 3.0 that `parameters` and `responseSchema` accept.

Sources: ai.google.dev (api/caching#Schema), the types of the `google-genai` 3.4 SDK, and the API's error messages,
quoted at their rules. `parametersJsonSchema` takes JSON Schema instead and is checked as such.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rules_common import anything, at, boolean, kind, list_of, mapping, matching, number, record, text

_TYPES = ("STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL")
_FORMATS = {
    "STRING": ("enum", "date-time"),
    "NUMBER": ("float", "double"),
    "INTEGER": ("int32", "int64"),
}
# FunctionDeclaration.parameters: "must start with a letter or an underscore … maximum length of 64"
_PROPERTY = matching(r"^[a-zA-Z_][a-zA-Z0-9_]{0,63}$")
_SIZE = number(0, whole=True)


def _type(value: Any, path: str) -> Iterator[str]:
    # The error for a list: "Proto field is not repeating, cannot start list".
    if not isinstance(value, str) or value.upper() not in _TYPES:
        yield f"{path}: must be one of {', '.join(_TYPES)}"


def _properties(value: Any, path: str) -> Iterator[str]:
    yield from mapping(value, path)
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _PROPERTY(name, path)
            yield from schema(member, at(path, str(name)))


def _any_of(value: Any, path: str) -> Iterator[str]:
    yield from list_of(schema, 1)(value, path)


def _items(value: Any, path: str) -> Iterator[str]:
    yield from schema(value, path)


# "Unknown name "additionalProperties" at 'tools[0].function_declarations[8].parameters…': Cannot find field."
# (nanbingxyz/5ire#42); the same for $schema, $ref, const, oneOf, exclusiveMinimum, propertyNames, multipleOf.
_FIELDS = record(
    {},
    {
        "type": _type,
        "format": text,
        "title": text,
        "description": text,
        "nullable": boolean,
        "enum": list_of(text, 1),
        "items": _items,
        "minItems": _SIZE,
        "maxItems": _SIZE,
        "properties": _properties,
        "required": list_of(text),
        "propertyOrdering": list_of(text),
        "minProperties": _SIZE,
        "maxProperties": _SIZE,
        "minLength": _SIZE,
        "maxLength": _SIZE,
        "pattern": text,
        "example": anything,
        "default": anything,
        "minimum": number(),
        "maximum": number(),
        "anyOf": _any_of,
    },
)


def schema(value: Any, path: str) -> Iterator[str]:
    """Check a node of a schema and everything below it."""
    yield from _FIELDS(value, path)
    if not isinstance(value, dict):
        return
    if "anyOf" in value:
        if len(value) > 1:
            # "When using any_of, it must be the only field set."
            yield f"{path}.anyOf: must be the only field"
        return
    if "type" not in value:
        # "must be specified when not using one_of, any_of or all_of fields" (danny-avila/LibreChat#6971)
        yield f"{path}.type: missing"
    elif isinstance(value["type"], str):
        yield from _by_type(value, value["type"].upper(), path)


def _by_type(value: dict[str, Any], name: str, path: str) -> Iterator[str]:
    # "properties: only allowed for OBJECT type" (anomalyco/opencode#11889), "enum: only allowed for STRING type"
    # (makenotion/notion-mcp-server#42), "items: missing field"
    for field, owner in (("properties", "OBJECT"), ("required", "OBJECT"), ("items", "ARRAY"), ("enum", "STRING")):
        if field in value and name != owner:
            yield f"{path}.{field}: only allowed for {owner} type"
    if name == "ARRAY" and "items" not in value:
        yield f"{path}.items: missing"
    if isinstance(value.get("enum"), list) and "" in value["enum"]:
        yield f"{path}.enum: cannot hold an empty string"
    if isinstance(value.get("format"), str) and value["format"] not in _FORMATS.get(name, ()):
        # "only 'enum' and 'date-time' are supported for STRING type"
        yield f"{path}.format: {value['format']!r} is not supported for {name} type"
    if name == "OBJECT":
        properties = value.get("properties")
        if not properties:
            # "properties: should be non-empty for OBJECT type" (agno-agi/agno#2112)
            yield f"{path}.properties: should be non-empty for OBJECT type"
        if isinstance(properties, dict) and isinstance(value.get("required"), list):
            for position, required in enumerate(value["required"]):
                if isinstance(required, str) and required not in properties:
                    # "required[0]: property is not defined" (probelabs/probe#569)
                    yield f"{path}.required[{position}]: property is not defined"


def parameters(value: Any, path: str) -> Iterator[str]:
    """Require: "functionDeclaration parameters schema should be of type OBJECT" (diegosouzapw/OmniRoute#3360).

    A function without parameters omits the field.
    """
    if not isinstance(value, dict):
        yield f"{path}: must be an object, not {kind(value)}"
    elif not isinstance(value.get("type"), str) or value["type"].upper() != "OBJECT":
        yield f"{path}.type: must be OBJECT"
    else:
        yield from schema(value, path)
