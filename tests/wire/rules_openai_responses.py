"""Rules of OpenAI's Responses API for bodies with `input`, slightly stricter where Foldmark demands more.

Sources: those of `rules_openai`. Stricter than the API: a call's output before the next message (the API wants it
anywhere after the call), system and developer items only at the beginning, no empty text, a user item or a tool's
output at the end. Out of scope, thus unknown: every built-in tool but web search, stored prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rules_common import (
    Check,
    anything,
    boolean,
    filled,
    json_value,
    kind,
    list_of,
    mapping,
    matching,
    nullable,
    number,
    one_of,
    record,
    rows,
    tagged,
    text,
)
from rules_openai import (
    EFFORT,
    FILE,
    FUNCTION_NAME,
    IMAGE_DETAIL,
    IMAGE_URL,
    MARK,
    SHARED,
    breakpoints,
    effort,
    files,
    options,
    parameters,
    strict_schema,
    thinks,
)

# "Invalid 'input[2].call_id': string too long. Expected a string with maximum length 64"
CALL_ID = matching(r"^(?s:.){1,64}$")
TYPE = {"type": anything}
STATUS = nullable(one_of("in_progress", "completed", "incomplete"))
_INPUT_PARTS = tagged(
    {
        "input_text": record({**TYPE, "text": filled}, MARK),
        "input_image": record(TYPE, {"image_url": IMAGE_URL, "file_id": filled, "detail": IMAGE_DETAIL, **MARK}),
        "input_file": record(TYPE, {**FILE, **dict.fromkeys(("file_id", "file_url"), filled), **MARK}),
    }
)
# "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'." (jeremychone/rust-genai#119)
_OUTPUT_PARTS = tagged(
    {
        "output_text": record({**TYPE, "text": filled}, {"annotations": list_of(mapping), "logprobs": anything}),
        "refusal": record({**TYPE, "refusal": filled}),
    }
)
# "Labels an `assistant` message as intermediate commentary or the final answer"
_PHASE = nullable(one_of("commentary", "final_answer"))
_ROLE = one_of("user", "assistant", "system", "developer")


def _message(more: Mapping[str, Check]) -> Check:
    def message(value: Any, path: str) -> Iterator[str]:
        parts = _OUTPUT_PARTS if value.get("role") == "assistant" else _INPUT_PARTS

        def content(inner: Any, where: str) -> Iterator[str]:
            yield from (list_of(parts, 1) if isinstance(inner, list) else filled)(inner, where)

        yield from record(
            {"role": _ROLE, "content": content},
            {"type": one_of("message"), "id": filled, "status": STATUS, "phase": _PHASE, **more},
        )(value, path)

    return message


def _nothing(value: Any, path: str) -> Iterator[str]:
    """Require an empty array: "Invalid 'input[N].content': array too long. Expected an array with maximum length 0" """
    yield from list_of(mapping)(value, path)
    if isinstance(value, list) and value:
        yield f"{path}: must be empty"


def output(value: Any, path: str) -> Iterator[str]:
    yield from (list_of(_INPUT_PARTS, 1) if isinstance(value, list) else text)(value, path)


def items(more: Mapping[str, Check]) -> dict[str, Check]:
    """Return the checks of input items by type; `more` are further members that any item may have."""
    return {
        "message": _message(more),
        # "Invalid 'input[1].id': … Expected an ID that begins with 'fc'."
        "function_call": record(
            {**TYPE, "call_id": CALL_ID, "name": FUNCTION_NAME, "arguments": text},
            {"id": matching(r"^fc.*$"), "status": STATUS, **more},
        ),
        "function_call_output": record(
            {**TYPE, "call_id": CALL_ID, "output": output}, {"id": nullable(filled), "status": STATUS, **more}
        ),
        # "Missing required parameter: 'input[N].summary'"; the id is optional: the Agents SDK has a setting for it
        # (`reasoning_item_id_policy`)
        "reasoning": record(
            {**TYPE, "summary": list_of(tagged({"summary_text": record({**TYPE, "text": text})}))},
            {
                "id": matching(r"^rs.*$"),
                "content": nullable(_nothing),
                "encrypted_content": nullable(filled),
                "status": STATUS,
                **more,
            },
        ),
        # The API made these items itself, and only the API can check their content.
        "compaction": record({**TYPE, "encrypted_content": filled}, {"id": filled, "created_by": filled, **more}),
        "web_search_call": record({**TYPE, "id": matching(r"^ws.*$")}, {"status": STATUS, "action": mapping, **more}),
        "file_search_call": record(
            {**TYPE, "id": filled, "queries": list_of(text)}, {"status": STATUS, "results": nullable(list_of(mapping))}
        ),
        "code_interpreter_call": record(
            {**TYPE, "id": filled, "container_id": filled, "code": nullable(text)},
            {"status": STATUS, "outputs": nullable(list_of(mapping))},
        ),
        "image_generation_call": record({**TYPE, "id": filled, "result": nullable(filled)}, {"status": STATUS}),
        "mcp_call": record(
            {**TYPE, "id": filled, "name": filled, "arguments": text, "server_label": filled},
            {"status": STATUS, "output": nullable(text), "error": anything},
        ),
    }


def item_of(known: Mapping[str, Check]) -> Check:
    """Accept one of these items."""

    def item(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{path}: must be an object, not {kind(value)}"
            return
        type_ = type_of(value)
        if type_ not in known:
            yield f"{path}.type: must be one of {', '.join(known)}"
        else:
            yield from known[type_](value, path)

    return item


def type_of(item: dict[str, Any]) -> str:
    """Return the type of an item; a message may omit it."""
    return str(item.get("type", "message" if "role" in item else None))


def _namespace(value: Any, path: str) -> Iterator[str]:
    yield from record({"type": filled, "name": FUNCTION_NAME, "tools": list_of(tool, 1)}, {"description": text})(
        value, path
    )


# As Codex 0.169 sends them.
_OTHER_TOOLS = {
    "custom": record({"type": filled, "name": FUNCTION_NAME}, {"description": text, "format": mapping}),
    "namespace": _namespace,
    "web_search": record({"type": filled}, {"external_web_access": boolean, "filters": mapping}),
}


def tool(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict) and str(value.get("type")) in _OTHER_TOOLS:
        yield from _OTHER_TOOLS[value["type"]](value, path)
        return
    yield from record(
        {"type": one_of("function"), "name": FUNCTION_NAME},
        {"description": nullable(filled), "parameters": nullable(parameters), "strict": nullable(boolean)},
    )(value, path)
    if isinstance(value, dict) and value.get("strict") is True:
        yield from strict_schema(value.get("parameters"), f"{path}.parameters")


def _choice(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from record({"type": one_of("function"), "name": FUNCTION_NAME})(value, path)
    else:
        yield from one_of("none", "auto", "required")(value, path)


_INCLUDED = one_of(
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
)
_SUMMARY = nullable(one_of("auto", "concise", "detailed"))


def body_of(known: Mapping[str, Check]) -> Check:
    """Accept a body whose input is a text or a list of these items."""
    listed = list_of(item_of(known), 1)

    def given(value: Any, path: str) -> Iterator[str]:
        yield from (listed if isinstance(value, list) else filled)(value, path)

    return record({"model": filled, "input": given}, _MEMBERS)


_MEMBERS = {
    **SHARED,
    "background": nullable(boolean),
    "client_metadata": mapping,
    "context_management": nullable(list_of(mapping)),
    "conversation": anything,
    "include": nullable(list_of(_INCLUDED)),
    "instructions": nullable(filled),
    # "integer below minimum value. Expected a value >= 16"
    "max_output_tokens": nullable(number(16, whole=True)),
    "max_tool_calls": nullable(number(1, whole=True)),
    "previous_response_id": nullable(filled),
    "reasoning": nullable(record({}, {"effort": EFFORT, "summary": _SUMMARY, "context": anything})),
    "text": mapping,
    "tool_choice": _choice,
    "tools": list_of(tool),
    "truncation": nullable(one_of("auto", "disabled")),
}
_BODY = body_of(items({}))


def openai_responses(body: dict[str, Any]) -> list[str]:
    """Return the violations of a Responses API body, empty if the API would accept it."""
    found = [*json_value(body), *_BODY(body, "")]
    if isinstance(body, dict):
        given = rows(body.get("input"))
        tools = [(f"tools[{i}].name", tool.get("name")) for i, tool in rows(body.get("tools"))]
        choice = body.get("tool_choice")
        wanted = choice.get("name") if isinstance(choice, dict) else None
        continued = body.get("previous_response_id") is not None or body.get("conversation") is not None
        found += [*_order(given), *_pairing(given, continued), *options(body, tools, wanted), *thinking(body, given)]
        found += breakpoints(body, [part for item in given for part in parts_of(*item)])
    return found


def parts_of(index: int, item: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the content parts of an item, each with its path."""
    field = "output" if type_of(item).endswith("_output") else "content"
    return [(f"input[{index}].{field}[{position}]", part) for position, part in rows(item.get(field))]


def thinking(body: dict[str, Any], items: list[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    reasoning, include = body.get("reasoning"), body.get("include")
    yield from effort(body, reasoning.get("effort") if isinstance(reasoning, dict) else None, "reasoning.effort")
    wanted = isinstance(include, list) and "reasoning.encrypted_content" in include
    if wanted and not thinks(str(body.get("model"))):
        # "Encrypted content is not supported with this model."
        yield "include: encrypted content is not supported with this model"
    for index, item in items:
        if type_of(item) == "reasoning" and body.get("store") is False and item.get("encrypted_content") is None:
            # "Item with id 'rs_…' not found. Items are not persisted when `store` is set to false." (vercel/ai#7543)
            yield f"input[{index}]: nothing is stored, so the encrypted content must be here"
    for index, item in items:
        for path, part in parts_of(index, item):
            if part.get("type") == "input_image" and part.get("image_url") is None and part.get("file_id") is None:
                yield f"{path}: an image without image_url or file_id"
        yield from files(body, parts_of(index, item))


def _order(items: list[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    begun = False
    for place, (index, item) in enumerate(items):
        role = item.get("role") if type_of(item) == "message" else None
        if role not in ("system", "developer"):
            begun = True
        elif begun:
            yield f"input[{index}].role: {role} messages must stand in front"
        if type_of(item) == "reasoning" and not is_made(items[place + 1][1] if place + 1 < len(items) else {}):
            # "Item 'rs_…' of type 'reasoning' was provided without its required following item."
            yield f"input[{index}]: reasoning without the item that followed it"
    if items:
        index, item = items[-1]
        if type_of(item) != "function_call_output" and item.get("role") != "user":
            yield f"input[{index}]: the last item must be the user's or a tool's output"


def is_made(item: dict[str, Any]) -> bool:
    """Return True if a model makes such an item, such as a call of one of our tools or of the API's own."""
    type_ = type_of(item)
    return type_ == "reasoning" or type_.endswith("_call") or item.get("role") == "assistant"


def _pairing(items: list[tuple[int, dict[str, Any]]], continued: bool) -> Iterator[str]:
    """Require one output for each call, after it and before the next message.

    "No tool output found for function call call_…" (bytedance/trae-agent#245); "No tool call found for function call
    output with call_id …" (vercel/ai#8216). With a `previous_response_id` the call may be stored.
    """
    open_calls: dict[str, int] = {}
    answered: set[str] = set()
    called: set[str] = set()
    for index, item in items:
        type_, call = type_of(item), item.get("call_id")
        if type_ == "message":
            yield from _unanswered(open_calls)
            open_calls = {}
        elif type_ == "function_call" and isinstance(call, str):
            if call in called:
                yield f"input[{index}].call_id: {call!r} is used twice"
            called.add(call)
            open_calls[call] = index
        elif type_ == "function_call_output" and isinstance(call, str):
            if call in answered:
                yield f"input[{index}]: {call!r} is answered twice"
            elif call not in open_calls and not (continued and call not in called):
                yield f"input[{index}]: output for {call!r} answers no function_call before it"
            answered.add(call)
            open_calls.pop(call, None)
    yield from _unanswered(open_calls)


def _unanswered(open_calls: dict[str, int]) -> Iterator[str]:
    for call, index in open_calls.items():
        yield f"input[{index}]: no function_call_output answers {call!r} before the next message"
