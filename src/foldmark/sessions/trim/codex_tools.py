"""The tools of Codex, and which of Claude Code's they stand for: people ask for `Read, Bash, Grep, Glob` [S4]."""

from collections.abc import Mapping
from typing import Any

from foldmark.sessions.trim.names import Targets

COMMAND, PATCH = "exec_command", "apply_patch"
"""What runs a command and what changes files, where a record does not name a tool."""

OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
"""The types of response items that hold what a tool returned."""

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
