"""OpenAI's Responses API: a prompt in its wire format."""

from collections.abc import Sequence
from typing import Any

from foldmark.core.prompt import Prompt
from foldmark.core.request import PLAIN, Options, ToolSpec
from foldmark.core.view import Calls
from foldmark.core.wire import tool_name


def encode(model: str, prompt: Prompt, tools: Sequence[ToolSpec] = (), options: Options = PLAIN) -> dict[str, Any]:
    """The body of a request to /v1/responses; nothing is stored there."""
    items: list[dict[str, Any]] = []
    for step in prompt.steps:
        if isinstance(step, Calls):
            if step.text:
                items.append({"role": "assistant", "content": step.text})
            items += [
                {"type": "function_call", "call_id": c.call_id, "name": c.name, "arguments": c.arguments}
                for c in step.calls
            ]
            items += [{"type": "function_call_output", "call_id": c.call_id, "output": c.result} for c in step.calls]
        elif step.text:
            items.append({"role": step.role, "content": step.text})
    body: dict[str, Any] = {"model": model, "store": False}
    if prompt.system:
        body["instructions"] = prompt.system
    if tools:
        body["tools"] = [_tool(tool) for tool in tools]
    body["input"] = items
    return body


def _tool(tool: ToolSpec) -> dict[str, Any]:
    about: dict[str, Any] = {"type": "function", "name": tool_name(tool.name)}
    if tool.description.strip():
        about["description"] = tool.description
    about["parameters"] = {"type": "object", "properties": {}, **tool.parameters}
    about["strict"] = False
    return about
