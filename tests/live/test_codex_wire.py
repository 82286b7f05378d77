"""The provider that Codex is tested against: requests that it accepts, and requests that it refuses, with reasons."""

import copy
import json
from typing import Any

import pytest
from body_edits import Edit, again, drop, insert, put
from codex_client import answered
from codex_wire import CodexWire
from plan import Part, Reply, Say, Think, Use

PASSED = "internal_chat_message_metadata_passthrough"
HEADERS = {"authorization": "Bearer sk"}
BEGUN: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Begin."}], PASSED: {}},
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
]
ANSWER = (
    Think("To read.", "signed-1"),
    Say(("Reading.",)),
    Use("c1", "agents.spawn", {}),
    Think("The other one.", "signed-2"),
    Use("c2", "exec", {"input": "text(1)"}),
)
OUTPUTS: list[dict[str, Any]] = [
    {"type": "function_call_output", "call_id": "c1", "output": "One."},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "Two."}]},
]
FOLLOWING = "Item '{}' of type 'reasoning' was provided without its required following item."
REQUIRED = "Item '{}' of type '{}' was provided without its required 'reasoning' item: '{}'."


def body(*items: Any) -> dict[str, Any]:
    given = {"model": "gpt-5.1", "stream": True, "store": False, "include": ["reasoning.encrypted_content"]}
    return {**given, "tool_choice": "auto", "parallel_tool_calls": True, "input": copy.deepcopy(list(items))}


def answer(wire: CodexWire, *parts: Part) -> list[dict[str, Any]]:
    """Return the items of an answer, as a client sends them back."""
    events = [json.loads(event.partition(b"data: ")[2]) for event in wire.stream(Reply(parts), body(*BEGUN))]
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


def refusal(wire: CodexWire, asked: dict[str, Any]) -> str:
    refused = wire.refuse("/v1/responses", HEADERS, asked)
    return "" if refused is None else str(json.loads(refused.body)["error"]["message"])


def test_what_it_accepts() -> None:
    wire = CodexWire()
    made = answer(wire, *ANSWER)
    assert [item["type"] for item in made] == [
        *("reasoning", "message", "function_call", "reasoning", "custom_tool_call")
    ]
    assert refusal(wire, body(*BEGUN, *made, *OUTPUTS)) == ""
    assert refusal(wire, body(*BEGUN, *made, *OUTPUTS, *answer(wire, Say(("Done.",))), BEGUN[0])) == ""
    assert refusal(wire, body(*BEGUN, {"type": "compaction_trigger"})) == ""
    assert refusal(wire, body(*BEGUN[:1], *answer(wire, Say(("COMPACTED",))), BEGUN[0])) == ""


def test_an_answer_that_broke_off() -> None:
    """Codex asks for the rest with the partial answer as the last item. Only such an answer may be last."""
    wire = CodexWire()
    parts = (Say(("Half",)), Think("Hm.", "signed"))
    events = [json.loads(event.partition(b"data: ")[2]) for event in wire.unfinished(parts, body(*BEGUN))]
    made = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert refusal(wire, body(*BEGUN, *made)) == ""
    assert refusal(wire, body(*BEGUN, *answer(wire, Say(("Done.",))))) == "input[2]: the last item asks nothing"


BAD: list[tuple[Edit, str]] = [
    (put("tools", value=[{"type": "function", "name": "a"}] * 2), "tools[1].name: tool name 'a' is used twice"),
    (put("input", 1, "role", value="tool"), "input[1].role: must be one of user, assistant, system, developer"),
    (put("input", 1, "content", 0, "text", value=""), "input[1].content[0].text: text is empty"),
    (put("input", 1, "words", value=1), "input[1].words: unknown field"),
    (put("input", 4, "namespace", value=""), "input[4].namespace: '' does not match ^[a-zA-Z0-9_-]{1,64}$"),
    (put("input", 6, "input", value={}), "input[6].input: must be a string, not an object"),
    (
        put("input", 0, PASSED, value={"content_item_kinds": []}),
        f"input[0].{PASSED}.content_item_kinds: has 0 entries for 1 parts",
    ),
    (drop("input", 8), "input[6]: no output answers the custom_tool_call 'c2'"),
    (drop("input", 7), "input[4]: no output answers the function_call 'c1'"),
    (again("input", 7), "input[8]: output for 'c1' answers no function_call before it"),
    (drop("input", 2), REQUIRED.format("msg_1_1", "message", "rs_1_0")),
    (drop("input", 3), FOLLOWING.format("rs_1_0")),
    (drop("input", 5), REQUIRED.format("ctc_1_4", "custom_tool_call", "rs_1_3")),
    (insert("input", 7, value={"type": "compaction_trigger"}), "input[7]: compaction_trigger must be the last item"),
]


@pytest.mark.parametrize(("edit", "reason"), BAD, ids=lambda each: each if isinstance(each, str) else "")
def test_what_it_refuses(edit: Edit, reason: str) -> None:
    wire = CodexWire()
    asked = body(*BEGUN, *answer(wire, *ANSWER), *OUTPUTS)
    assert refusal(wire, edit(asked)) == reason


def test_calls_of_the_local_shell_and_searches_for_tools() -> None:
    wire = CodexWire()
    made = answer(wire, Use("c1", "local_shell", {}), Use("c2", "tool_search", {}))
    outputs = list(map(answered, made))
    assert [item["type"] for item in outputs] == ["function_call_output", "tool_search_output"]
    assert refusal(wire, body(*BEGUN, *made, *outputs)) == ""
    assert "no output answers the local_shell_call 'c1'" in refusal(wire, body(*BEGUN, *made, outputs[1]))
    assert "no output answers the tool_search_call 'c2'" in refusal(wire, body(*BEGUN, *made, outputs[0]))
    assert "'lsh_1_0' is there twice" in refusal(wire, body(*BEGUN, made[0], *made, *outputs))


@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
def test_an_output_answers_a_call_of_its_own_kind(kind: str) -> None:
    wire = CodexWire()
    asked = body(*BEGUN, *answer(wire, *ANSWER), *({**output, "type": kind} for output in OUTPUTS))
    assert "answers no" in refusal(wire, asked)
    assert "no output answers" in refusal(wire, asked)
