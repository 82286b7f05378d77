"""Anthropic's Messages API: a prompt in its wire format."""

from collections.abc import Sequence
from typing import Any

import msgspec

from foldmark.core.prompt import Prompt
from foldmark.core.request import PLAIN, Options, ToolSpec
from foldmark.core.view import Calls, Used
from foldmark.core.wire import tool_name

MAX_TOKENS = 4096
"""Tokens of an answer at most, which the API demands to be said."""

_NOT_AT_THE_TOP = ("oneOf", "allOf", "anyOf")


def encode(model: str, prompt: Prompt, tools: Sequence[ToolSpec] = (), options: Options = PLAIN) -> dict[str, Any]:
    """The body of a request to /v1/messages; messages of one role in a row become one."""
    messages: list[dict[str, Any]] = []
    called = False
    for step in prompt.steps:
        if isinstance(step, Calls):
            called = True
            _add(messages, "assistant", [*_text(step.text), *(_use(call) for call in step.calls)])
            _add(messages, "user", [_result(call) for call in step.calls])
        else:
            _add(messages, step.role, _text(step.text))
    body: dict[str, Any] = {"model": model, "max_tokens": MAX_TOKENS}
    if prompt.system:
        body["system"] = prompt.system
    if tools or called:
        # The API has refused messages with tool blocks where no `tools` were given; an empty list satisfies it.
        body["tools"] = [_tool(tool) for tool in tools]
    body["messages"] = messages
    return body


def _add(messages: list[dict[str, Any]], role: str, blocks: list[dict[str, Any]]) -> None:
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"].extend(blocks)
    else:
        messages.append({"role": role, "content": blocks})


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []


def _use(call: Used) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.call_id, "name": call.name, "input": msgspec.json.decode(call.arguments)}


def _result(call: Used) -> dict[str, Any]:
    failed = {"is_error": True} if call.failed else {}
    return {"type": "tool_result", "tool_use_id": call.call_id, "content": call.result, **failed}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    about: dict[str, Any] = {"name": tool_name(tool.name)}
    if tool.description.strip():
        about["description"] = tool.description
    schema = {key: value for key, value in tool.parameters.items() if key not in _NOT_AT_THE_TOP}
    about["input_schema"] = {"type": "object", **schema}
    return about
