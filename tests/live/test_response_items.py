"""The paths and items of the Responses API: each item can be rebuilt from its record (SPEC 5.7)."""

from typing import Any

import pytest
from codex_client import ADDED

import foldmark
from foldmark.live.clients.openai import OPENAI
from foldmark.wires import responses
from foldmark.wires.parts import CallMessage, ResultMessage, TextMessage

ITEMS: list[dict[str, Any]] = [
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hm."}],
        "phase": "commentary",
    },
    {"type": "function_call", "name": "Read", "arguments": '{"n":1}', "call_id": "c"},
    {"type": "function_call", "name": "spawn", "namespace": "agents", "arguments": "{}", "call_id": "c"},
    {"type": "custom_tool_call", "name": "exec", "input": "text(1)", "call_id": "c"},
    {"type": "local_shell_call", "status": "completed", "action": {"type": "exec", "command": ["ls"]}, "call_id": "c"},
    {"type": "tool_search_call", "execution": "client", "arguments": {"query": "x"}, "call_id": "c"},
    {"type": "function_call_output", "output": "A text.", "call_id": "c"},
    {"type": "custom_tool_call_output", "output": "A text.", "call_id": "c"},
    {"type": "tool_search_output", "execution": "client", "tools": [{"name": "Read"}], "call_id": "c"},
    {"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}},
    {"type": "compaction", "encrypted_content": "opaque"},
    {"type": "agent_message", "author": "a", "content": [{"type": "input_text", "text": "Done."}]},
]


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item["type"])
def test_what_is_recorded_of_an_item_makes_it_again(item: dict[str, Any]) -> None:
    part = responses.recorded({"id": "i", ADDED: {"turn_id": "t"}, **item})
    with foldmark.open(":memory:", settings={}) as log:
        agent = log.agent("a")
        if isinstance(part, CallMessage):
            agent.append_tool_call(part.name, part.args, call_id=part.call_id, dialect="openai", data=part.data)
        elif isinstance(part, ResultMessage):
            agent.append_tool_call("Read", {}, call_id=part.call_id, dialect="openai")
            agent.append_tool_result(part.call_id, part.text, dialect="openai", data=part.data)
        else:
            assert isinstance(part, TextMessage)
            agent.append(part.kind, part.text, data=part.data, dialect="openai", verbatim=True)
        (made,) = responses.items_for(agent.events(0, 10)[-1])
    assert {name: value for name, value in made.items() if name not in ("id", ADDED)} == {
        name: value for name, value in item.items() if name != "id"
    }


@pytest.mark.parametrize("path", ["/responses", "/v1/responses"])
def test_the_paths_that_answer(path: str) -> None:
    assert OPENAI.reads(path)
    assert not OPENAI.reads(f"{path}/compact")
