"""Map Codex's tools to the Claude Code names that people ask for: `Read, Bash, Grep, Glob` [S4].

What an `event_msg` record repeats of a tool's output is for the display only. Since Codex 0.169 it is an item, in an
`item_completed`; before, an event of its own, such as `exec_command_end`.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from foldmark.sessions.trim.kind import Targets

COMMAND, PATCH = "exec_command", "apply_patch"
"""What runs a command and what changes files, where a record does not name a tool."""

OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
"""The types of response items that hold what a tool returned."""

_STREAMS = ("aggregated_output", "formatted_output", "stdout", "stderr")

_STANDS_FOR = {
    "shell": "Bash",
    "container.exec": "Bash",
    "local_shell": "Bash",
    "shell_command": "Bash",
    COMMAND: "Bash",
    "write_stdin": "Bash",
    "unified_exec": "Bash",
    "exec": "Bash",
    "wait": "Bash",
    "read_file": "Read",
    "view_image": "Read",
    "grep_files": "Grep",
    "list_dir": "Glob",
}


class CodexTargets(Targets):
    """The tools whose results are to be cut, by Codex's name or by that of the tool that they stand for."""

    def __contains__(self, name: str) -> bool:
        other = _STANDS_FOR.get(name)
        return super().__contains__(name) or (other is not None and super().__contains__(other))


def called(payload: Mapping[str, Any]) -> tuple[str, str] | None:
    """Call id and tool of a response item, if it is a call."""
    call_id, name, namespace = payload.get("call_id"), payload.get("name"), payload.get("namespace")
    if payload.get("type") == "local_shell_call":
        call_id, name = call_id or payload.get("id"), "local_shell"
    if not isinstance(call_id, str) or not isinstance(name, str):
        return None
    return call_id, f"{namespace}__{name}" if isinstance(namespace, str) and namespace else name


def of_server(server: Any, tool: Any) -> str:
    """The name of an MCP server's tool."""
    return f"mcp__{server}__{tool}"


class Copy(Struct, frozen=True):
    """Copies of one call's output: the call's id, the tool as the record itself tells it, the keys that lead from the
    payload to the object that has them, and the names that they have there."""

    call_id: str
    name: str
    path: tuple[str, ...] = ()
    members: tuple[str, ...] = _STREAMS


def copies(payload: Mapping[str, Any]) -> Copy | None:
    """Return the tool output that an event repeats, or None."""
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
