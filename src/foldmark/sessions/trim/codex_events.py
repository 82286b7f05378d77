"""What Codex's `event_msg` records repeat of a tool's output, for its display only [SPEC 8].

Since 0.169 it is an item, in an `item_completed`; before, an event of its own, such as `exec_command_end`.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from foldmark.sessions.trim.codex_tools import COMMAND, PATCH, of_server

_STREAMS = ("aggregated_output", "formatted_output", "stdout", "stderr")


class Copy(Struct, frozen=True):
    """Copies of one call's output: the call's id, the tool as the record itself tells it, the keys that lead from the
    payload to the object that has them, and the names that they have there."""

    call_id: str
    name: str
    path: tuple[str, ...] = ()
    members: tuple[str, ...] = _STREAMS


KINDS = ("item_completed", "exec_command_end", "patch_apply_end", "mcp_tool_call_end")
"""The events that may hold one."""


ITEMS = ("CommandExecution", "FileChange", "McpToolCall")
"""The kinds of item that may."""


def copies(payload: Mapping[str, Any]) -> Copy | None:
    """What an event repeats; None if nothing."""
    if payload.get("type") == "item_completed":
        return _of_item(payload.get("item"))
    call_id = payload.get("call_id")
    if not isinstance(call_id, str):
        return None
    match payload.get("type"):
        case "exec_command_end" if payload.get("source") != "user_shell":
            return Copy(call_id, COMMAND)
        case "patch_apply_end":
            return Copy(call_id, PATCH)
        case "mcp_tool_call_end":
            asked = payload.get("invocation")
            name = of_server(asked.get("server"), asked.get("tool")) if isinstance(asked, dict) else ""
            return Copy(call_id, name, ("result", "Ok"), ("content",))
    return None


def _of_item(item: Any) -> Copy | None:
    if not isinstance(item, dict) or not isinstance(id := item.get("id"), str):
        return None
    match item.get("type"):
        case "CommandExecution" if item.get("source") != "user_shell":  # what a person ran is no tool's output
            return Copy(id, COMMAND, ("item",))
        case "FileChange":
            return Copy(id, PATCH, ("item",))
        case "McpToolCall":
            return Copy(id, of_server(item.get("server"), item.get("tool")), ("item", "result"), ("content",))
    return None
