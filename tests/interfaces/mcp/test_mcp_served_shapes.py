"""The descriptions of tools for clients: titles, hints, and schemas for JSON answers (SPEC 4.1)."""

from __future__ import annotations

from typing import Any

import pytest
from guest import ERAS, Guest, inside, visit, yes
from jsonschema import Draft202012Validator, ValidationError
from mcp.types import CallToolResult, Tool

import foldmark
from foldmark.mcp.tools import FILTERED, ROWS, TOOLS
from planning_talk import IN_CHAT

READING = {"search", "read", "context_meter", "query_db", "describe_db", "retrieve_memos", "recall"}
NOT_RESTORABLE = {"slash", "manage_scratchpad"}
JSON = {"query_db": ROWS, "filter_context": FILTERED}


async def tools(guest: Guest) -> dict[str, Tool]:
    return {tool.name: tool for tool in (await guest.client.list_tools()).tools}


async def result(guest: Guest, tool: str, **arguments: Any) -> CallToolResult:
    found = await guest.client.call_tool(tool, arguments)
    assert isinstance(found, CallToolResult)
    return found


@pytest.mark.parametrize("era", ERAS)
def test_every_tool_has_a_title_and_hints(db: str, log: foldmark.Log, era: str) -> None:
    log.agent("default").append("user", "hello")

    async def visiting() -> None:
        async with inside(db, era=era) as guest:
            listed = await tools(guest)
        assert listed.keys() == TOOLS.keys()
        assert len({tool.title for tool in listed.values()}) == len(listed)
        for name, tool in listed.items():
            hints = tool.annotations
            assert hints is not None
            assert tool.title
            assert (hints.title, hints.open_world_hint) == (tool.title, False)
            assert hints.read_only_hint is (name in READING)
            assert hints.destructive_hint is (name in NOT_RESTORABLE)
            assert hints.idempotent_hint is (name in READING)
            assert tool.output_schema == JSON.get(name)

    visit(visiting)
    for schema in JSON.values():
        Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("era", ERAS)
def test_answers_that_are_json_are_structured(db: str, log: foldmark.Log, era: str) -> None:
    """The client also checks them against the schema."""
    agent = log.agent("default")
    for text in ("hello", "bananas are yellow"):
        agent.append("user", text)
        agent.end_turn()
    agent.do("/forget bananas", asking=IN_CHAT)
    agent.end_turn()

    async def visiting() -> None:
        async with inside(db, era=era, answer=yes()) as guest:
            await tools(guest)
            rows = await result(guest, "query_db", sql="SELECT id, content FROM messages WHERE id = 1")
            assert rows.structured_content == {"row_count": 1, "rows": [{"id": 1, "content": "hello"}]}
            none = await result(guest, "query_db", sql="SELECT 1 AS one WHERE 0")
            assert none.structured_content == {"row_count": 0, "rows": []}
            wrong = await result(guest, "query_db", sql="DROP TABLE messages")
            assert (wrong.is_error, wrong.structured_content) == (True, None)
            preview = (await result(guest, "filter_context", action="preview")).structured_content
            assert [each["preview"] for each in preview["matching_messages"]] == ["bananas are yellow"]
            applied = (await result(guest, "filter_context", action="apply")).structured_content
            assert (applied["messages_filtered"], applied["context_after"]) == (1, 1)
            found = (await result(guest, "search", query="hello", response_format="json")).structured_content
            assert [each["snippet"] for each in found["results"]] == ["hello"]
            assert (await result(guest, "search", query="hello")).structured_content is None
            assert (await result(guest, "recall", query="hello")).structured_content is None

    visit(visiting)


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        (ROWS, {"rows": []}),
        (ROWS, {"row_count": 1, "rows": [1]}),
        (FILTERED, {}),
        (FILTERED, {"filter_event_id": 1}),
        (FILTERED, {"message_count": 1, "token_estimate": 1, "matching_messages": [{"id": "1"}]}),
    ],
)
def test_the_schemas_refuse(schema: dict[str, Any], answer: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Draft202012Validator(schema).validate(answer)
