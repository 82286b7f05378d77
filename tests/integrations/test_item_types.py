"""An item of the Responses API means the same in an import, under `live` and in the OpenAI Agents SDK (SPEC 8)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foldmark.dialects.openai.items import CALLS, HOSTED, RESULTS
from foldmark.formats.codex.records import read_item
from foldmark.integrations.openai_agents import items as sdk
from foldmark.live.clients import openai_items
from foldmark.wires.parts import CallMessage, Part, ResultMessage, TextMessage


def made(kind: str) -> dict[str, Any]:
    """Return an item of this type, as the provider or its client makes it."""
    if kind in CALLS:
        given = {"function_call": json.dumps({"q": 1}), "custom_tool_call": "q"}.get(kind, {"q": 1})
        named = {"name": "look"} if kind in ("function_call", "custom_tool_call") else {}
        return {"type": kind, "call_id": "c1", **named, CALLS[kind].given: given}
    if kind in RESULTS:
        answer = CALLS[RESULTS[kind]].answer
        return {"type": kind, "call_id": "c1", answer: "A text." if answer == "output" else [{"name": "t"}]}
    return {"type": kind, "id": "h1", "action": {"type": "search"}}


def read_by_import(item: dict[str, Any]) -> tuple[Part, ...]:
    return read_item({"type": "response_item", "payload": item}).parts


@pytest.mark.parametrize("kind", [*CALLS, *RESULTS])
def test_a_call_and_its_result_are_the_same_to_every_reader(kind: str) -> None:
    item = made(kind)
    (imported,), live, read = read_by_import(item), openai_items.part_of_item(item), sdk.read(item)
    assert type(imported) is type(live) is (CallMessage if kind in CALLS else ResultMessage)
    assert read.kind == ("tool_call" if kind in CALLS else "tool_result")
    if isinstance(imported, CallMessage) and isinstance(live, CallMessage):
        assert (imported.call_id, imported.name, imported.args) == (live.call_id, live.name, live.args)
        assert (imported.call_id, imported.name) == (read.call_id, read.name)
    if isinstance(imported, ResultMessage) and isinstance(live, ResultMessage):
        assert (imported.call_id, imported.text) == (live.call_id, live.text)
        if kind != "mcp_approval_response":  # the SDK shows the answer in words
            assert (read.call_id, read.text) == (imported.call_id, imported.text)


@pytest.mark.parametrize("kind", HOSTED)
def test_a_tool_that_the_provider_ran_is_one_item_to_every_reader(kind: str) -> None:
    """It goes back to the provider as a whole. The SDK shows its call and result, and keeps the item beside them."""
    item = made(kind)
    (imported,), live, read = read_by_import(item), openai_items.part_of_item(item), sdk.read(item)
    assert isinstance(imported, TextMessage)
    assert isinstance(live, TextMessage)
    held = [(part.data or {})["blocks"][0]["block"] for part in (imported, live)]
    assert [{key: each for key, each in block.items() if key != "id"} for block in held] == [
        {key: each for key, each in item.items() if key != "id"}
    ] * 2
    assert (read.kind, read.outcome is not None) == ("tool_call", True)
