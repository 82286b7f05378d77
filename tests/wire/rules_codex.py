"""Rules of OpenAI's Responses API for whole bodies of Codex 0.169.

Sources: those of `rules_openai_responses`, and the types of the `openai` 3.54 SDK. Unlike Foldmark's own bodies,
Codex's hold custom tools, namespaces, and tools as an item; developer messages may be anywhere; a tool choice needs no
tools; an output may be anywhere after its call; a call of the local shell is answered like that of a function. No id is
there twice. Stricter than the API: `content_item_kinds` has an entry for each part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rules_common import (
    anything,
    json_value,
    list_of,
    mapping,
    matching,
    nullable,
    one_of,
    record,
    rows,
    text,
    unique_names,
)
from rules_openai import FUNCTION_NAME, breakpoints
from rules_openai_responses import CALL_ID, STATUS, TYPE, body_of, items, output, parts_of, thinking, tool, type_of

_PASSED = "internal_chat_message_metadata_passthrough"
_MORE = {_PASSED: mapping}
_ID = nullable(matching(r"^\S+$"))
_EXECUTION = one_of("server", "client")
_SHARED = items(_MORE)


def _function_call(value: Any, path: str) -> Iterator[str]:
    """Check a function call; the function may belong to a namespace."""
    yield from _SHARED["function_call"]({name: each for name, each in value.items() if name != "namespace"}, path)
    if "namespace" in value:
        yield from FUNCTION_NAME(value["namespace"], f"{path}.namespace")


_ITEMS = {
    **_SHARED,
    "function_call": _function_call,
    "custom_tool_call": record(
        {**TYPE, "call_id": CALL_ID, "name": FUNCTION_NAME, "input": text},
        {"id": matching(r"^ctc.*$"), "status": STATUS, "namespace": FUNCTION_NAME, **_MORE},
    ),
    "custom_tool_call_output": record({**TYPE, "call_id": CALL_ID, "output": output}, {"id": _ID, **_MORE}),
    "tool_search_call": record(
        {**TYPE, "arguments": anything},
        {"id": _ID, "call_id": nullable(CALL_ID), "execution": _EXECUTION, "status": STATUS, **_MORE},
    ),
    "tool_search_output": record(
        {**TYPE, "tools": list_of(mapping)},
        {"id": _ID, "call_id": nullable(CALL_ID), "execution": _EXECUTION, "status": STATUS, **_MORE},
    ),
    "local_shell_call": record(
        {**TYPE, "call_id": CALL_ID, "action": mapping, "status": STATUS}, {"id": matching(r"^lsh.*$"), **_MORE}
    ),
    "local_shell_call_output": record(
        {**TYPE, "id": matching(r"^\S+$"), "output": text}, {"call_id": CALL_ID, "status": STATUS, **_MORE}
    ),
    "additional_tools": record({**TYPE, "role": one_of("developer"), "tools": list_of(tool, 1)}, {"id": _ID}),
    "compaction_trigger": record(TYPE, {"id": _ID}),
}
_BODY = body_of(_ITEMS)
_OUTPUTS = {
    "function_call_output": ("function_call", "local_shell_call"),
    "local_shell_call_output": ("local_shell_call",),
    "custom_tool_call_output": ("custom_tool_call",),
    "tool_search_output": ("tool_search_call",),
}
_CALLS = {kind for kinds in _OUTPUTS.values() for kind in kinds}


def codex(body: dict[str, Any]) -> list[str]:
    """Return the violations of a body of Codex, empty if the API would accept it."""
    found = [*json_value(body), *_BODY(body, "")]
    if isinstance(body, dict):
        given = rows(body.get("input"))
        tools = [*rows(body.get("tools")), *(each for _, item in given for each in rows(item.get("tools")))]
        found += unique_names([(f"tools[{at}].name", each.get("name")) for at, each in tools if "name" in each])
        found += [*_paired(given), *_once(given), *_placed(given), *_described(given), *thinking(body, given)]
        found += breakpoints(body, [part for item in given for part in parts_of(*item)])
    return found


def _paired(given: list[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    """Require one output of the same kind after each call. Searches that the API runs itself have none."""
    waiting: dict[tuple[str, object], int] = {}
    seen: set[tuple[str, object]] = set()
    for index, item in given:
        type_, call = type_of(item), item.get("call_id")
        if type_ in _CALLS and call is not None:
            if (type_, call) in seen:
                yield f"input[{index}].call_id: {call!r} is used twice"
            seen.add((type_, call))
            waiting[type_, call] = index
        elif type_ in _OUTPUTS and call is not None:
            answered = next((kind for kind in _OUTPUTS[type_] if (kind, call) in waiting), None)
            if answered is None:
                # "No tool call found for custom tool call output with call_id …"
                yield f"input[{index}]: output for {call!r} answers no {_OUTPUTS[type_][0]} before it"
            else:
                del waiting[answered, call]
    for (type_, call), index in waiting.items():
        # "No tool output found for custom tool call …"
        yield f"input[{index}]: no output answers the {type_} {call!r}"


def _once(given: list[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    """Check the ids: "Duplicate item found with id rs_…. Remove duplicate items from your input and try again." """
    met: set[str] = set()
    for index, item in given:
        id = item.get("id")
        if isinstance(id, str) and id in met and type_of(item) != "message":
            yield f"input[{index}].id: {id!r} is there twice"
        met |= {id} if isinstance(id, str) else set()


def _placed(given: list[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    """Check the trigger's place: "Compacts the current context. Must be the final input item." """
    for index, item in given[:-1]:
        if type_of(item) == "compaction_trigger":
            yield f"input[{index}]: compaction_trigger must be the last item"


def _described(given: list[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    for index, item in given:
        passed, content = item.get(_PASSED), item.get("content")
        kinds = passed.get("content_item_kinds") if isinstance(passed, dict) else None
        if kinds is not None and isinstance(content, list) and len(kinds) != len(content):
            yield f"input[{index}].{_PASSED}.content_item_kinds: has {len(kinds)} entries for {len(content)} parts"
