"""The JSON Schema of a tool's arguments, made from their type."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from foldmark.tools import TOOLS
from foldmark.tools.tool import about, schema


class Everything(Struct, rename={"first": "firstLine"}):
    path: Annotated[str, about("A file")]
    first: Annotated[int, Meta(ge=1, description="The first line")] = 1
    mode: Literal["short", "long"] = "short"
    ids: list[int] = []
    tags: Annotated[list[str] | str, about("As a list")] = ""
    whole: bool | None = None
    unit: Annotated[str | None, about("", enum=["bytes", "lines"])] = None


def test_each_argument_has_its_type_its_choices_and_its_description() -> None:
    assert schema(Everything) == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "A file"},
            "firstLine": {"type": "integer", "description": "The first line"},
            "mode": {"type": "string", "enum": ["short", "long"]},
            "ids": {"type": "array", "items": {"type": "integer"}},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "As a list"},
            "whole": {"type": "boolean"},
            "unit": {"type": "string", "enum": ["bytes", "lines"]},
        },
        "required": ["path"],
    }


def test_a_model_has_to_give_an_argument_that_is_named_as_required() -> None:
    assert schema(Everything, "tags")["required"] == ["path", "tags"]


def test_a_description_of_any_of_several_types_replaces_the_type() -> None:
    class Either(Struct):
        query: Annotated[str | list[str], about("One or several", anyOf=[{"type": "string"}, {"type": "array"}])]

    found = schema(Either)["properties"]["query"]
    assert found == {"anyOf": [{"type": "string"}, {"type": "array"}], "description": "One or several"}


def test_the_schema_of_a_tool_names_the_arguments_of_its_type() -> None:
    for tool in TOOLS.values():
        assert list(tool.spec.parameters["properties"]) == list(tool.arguments.__struct_encode_fields__)
