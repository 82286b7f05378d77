"""Gemini's generateContent, directly and through Code Assist: a prompt in its wire format."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from foldmark.core.prompt import Prompt
from foldmark.core.request import PLAIN, Options, ToolSpec
from foldmark.core.view import Calls, Used
from foldmark.core.wire import tool_name

UNSIGNED = "skip_thought_signature_validator"
"""What Google documents for a call that carries no thought signature, as one from elsewhere; Gemini 3 demands some."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")


def encode(model: str, prompt: Prompt, tools: Sequence[ToolSpec] = (), options: Options = PLAIN) -> dict[str, Any]:
    """The body of a request to models/{model}:generateContent; contents of one role in a row become one.

    Calls carry no ids: results stand in the order of their calls.
    """
    contents: list[dict[str, Any]] = []
    signs = _signs(model)
    for step in prompt.steps:
        if isinstance(step, Calls):
            calls = [_call(call, demanded=signs and index == 0) for index, call in enumerate(step.calls)]
            _add(contents, "model", [*_text(step.text), *calls])
            _add(contents, "user", [_result(call) for call in step.calls])
        else:
            _add(contents, "user" if step.role == "user" else "model", _text(step.text))
    body: dict[str, Any] = {}
    if prompt.system:
        body["systemInstruction"] = {"parts": _text(prompt.system)}
    if tools:
        body["tools"] = [{"functionDeclarations": [_tool(tool) for tool in tools]}]
    body["contents"] = contents
    return body


def encode_gca(model: str, prompt: Prompt, tools: Sequence[ToolSpec] = (), options: Options = PLAIN) -> dict[str, Any]:
    """The same, wrapped as Code Assist takes it; whoever sends it adds the project."""
    return {"model": model, "request": encode(model, prompt, tools, options)}


def _add(contents: list[dict[str, Any]], role: str, parts: list[dict[str, Any]]) -> None:
    if contents and contents[-1]["role"] == role:
        contents[-1]["parts"].extend(parts)
    else:
        contents.append({"role": role, "parts": parts})


def _text(text: str) -> list[dict[str, Any]]:
    return [{"text": text}] if text else []


def _call(call: Used, *, demanded: bool) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"name": call.name, "args": msgspec.json.decode(call.arguments)}}
    if call.signature is not None and _BASE64.fullmatch(call.signature):
        part["thoughtSignature"] = call.signature
    elif demanded:
        part["thoughtSignature"] = UNSIGNED
    return part


def _result(call: Used) -> dict[str, Any]:
    return {"functionResponse": {"name": call.name, "response": {"error" if call.failed else "output": call.result}}}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    about: dict[str, Any] = {"name": tool_name(tool.name)}
    if tool.description.strip():
        about["description"] = tool.description
    if tool.parameters.get("properties"):
        about["parametersJsonSchema"] = {"type": "object", **tool.parameters}
    return about


def _signs(model: str) -> bool:
    """Whether the model demands a thought signature on the first call of an answer: Gemini 3 and later."""
    version = re.search(r"gemini-(\d{1,6})", model)
    return version is not None and int(version[1]) >= 3
