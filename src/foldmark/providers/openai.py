"""OpenAI's Chat Completions: a prompt in its wire format. The offline model reads the same."""

from collections.abc import Sequence
from typing import Any

from foldmark.core.prompt import Prompt
from foldmark.core.request import PLAIN, Options, ToolSpec
from foldmark.core.view import Calls
from foldmark.core.wire import tool_name


def encode(model: str, prompt: Prompt, tools: Sequence[ToolSpec] = (), options: Options = PLAIN) -> dict[str, Any]:
    """The body of a request to /v1/chat/completions."""
    messages: list[dict[str, Any]] = []
    if prompt.system:
        messages.append({"role": "system", "content": prompt.system})
    for step in prompt.steps:
        if isinstance(step, Calls):
            messages.extend(_calls(step))
        else:
            messages.append({"role": step.role, "content": step.text})
    body: dict[str, Any] = {"model": model}
    if tools:
        body["tools"] = [_tool(tool) for tool in tools]
    body["messages"] = messages
    return body


def _calls(step: Calls) -> list[dict[str, Any]]:
    calls = [
        {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in step.calls
    ]
    results = [{"role": "tool", "tool_call_id": call.call_id, "content": call.result} for call in step.calls]
    return [{"role": "assistant", "content": step.text or None, "tool_calls": calls}, *results]


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool_name(tool.name)}
    if tool.description.strip():
        function["description"] = tool.description
    function["parameters"] = {"type": "object", "properties": {}, **tool.parameters}
    return {"type": "function", "function": function}
