"""A body for Chat Completions as one for the Responses API, for which alone OpenAI counts tokens."""

from typing import Any


def countable(chat: dict[str, Any]) -> dict[str, Any]:
    """The body of a request to /v1/responses/input_tokens with the same content."""
    items: list[dict[str, Any]] = []
    instructions: list[str] = []
    for message in chat["messages"]:
        content = message.get("content")
        parts = [_part(part) for part in content] if isinstance(content, list) else content
        match message["role"]:
            case "system":
                instructions.append(content if isinstance(content, str) else "".join(part["text"] for part in content))
            case "tool":
                items.append({"type": "function_call_output", "call_id": message["tool_call_id"], "output": parts})
            case "assistant":
                items += [{"role": "assistant", "content": content}] if content else []
                items += [_call(call) for call in message.get("tool_calls", ())]
            case role:
                items.append({"role": role, "content": parts})
    body: dict[str, Any] = {"model": chat["model"], "input": items}
    if instructions:
        body["instructions"] = "\n\n".join(instructions)
    if "tools" in chat:
        body["tools"] = [{"type": "function", **tool["function"], "strict": False} for tool in chat["tools"]]
    if "reasoning_effort" in chat:
        body["reasoning"] = {"effort": chat["reasoning_effort"]}
    return body


def _call(call: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call["id"], **call["function"]}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return {"type": "input_text", "text": part["text"]}
    if part["type"] == "file":
        return {"type": "input_file", **part["file"]}
    return {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}
