"""The types of items of the Responses API that call a tool, and of those with the results [SPEC 8]. Pure.

A tool that somebody else than the provider runs has its result in an item of its own: the first is a call, the second a
result. A tool that the provider runs has both in one item. Imports of rollouts, the gateway and the OpenAI Agents SDK
ask here, so that an item means the same to all of them.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec


class Called(NamedTuple):
    """What a type of call has: the member with the arguments, the type of the item with its result, and its member."""

    given: str
    result: str
    answer: str = "output"


CALLS: Mapping[str, Called] = {
    "function_call": Called("arguments", "function_call_output"),
    "custom_tool_call": Called("input", "custom_tool_call_output"),
    "local_shell_call": Called("action", "local_shell_call_output"),
    "shell_call": Called("action", "shell_call_output"),
    "apply_patch_call": Called("operation", "apply_patch_call_output"),
    "computer_call": Called("action", "computer_call_output"),
    "tool_search_call": Called("arguments", "tool_search_output", "tools"),
    "program": Called("code", "program_output"),
    "mcp_approval_request": Called("arguments", "mcp_approval_response", "approve"),
}
"""The types of calls whose result is a separate item, and what each has."""

RESULTS: Mapping[str, str] = {called.result: kind for kind, called in CALLS.items()}
"""The types of items with results, and of their calls."""

HOSTED = ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call")
"""Calls of tools that the provider runs: the result is in the same item."""


def is_paired(kind: str) -> bool:
    """Return True for a type of a call whose result is a separate item, or of such a result."""
    return kind in CALLS or kind in RESULTS


def tool_of(item: Mapping[str, Any]) -> str:
    """Return the name of a call's tool: the one that it gives, otherwise that of its type."""
    kind, name, space = item.get("type"), item.get("name"), item.get("namespace")
    if not isinstance(name, str) or not name:
        return str(kind).removesuffix("_call")
    return f"{space}__{name}" if isinstance(space, str) and space else name


def answer_text(value: Any) -> str:
    """Return what a result answers as text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
