"""The MCP inspector's command line works with `foldmark mcp`.

The test runs only if the package `@modelcontextprotocol/inspector` is installed. FOLDMARK_INSPECTOR is the path of its
`mcp-inspector`; without it, the one on the PATH is used.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

import pytest
from command_line import PROGRAM

import foldmark
from patience import LIMIT

INSPECTOR = os.environ.get("FOLDMARK_INSPECTOR") or shutil.which("mcp-inspector")

pytestmark = pytest.mark.skipif(
    not (INSPECTOR and os.path.exists(INSPECTOR) and shutil.which("node")),  # noqa: PTH110
    reason="the MCP inspector is not installed; FOLDMARK_INSPECTOR names its binary",
)


def inspected(method: str, *arguments: str) -> Any:
    assert INSPECTOR is not None
    done = subprocess.run(
        [INSPECTOR, "--cli", PROGRAM, "mcp", "default", "--method", method, *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_session_of_the_inspector(log: foldmark.Log) -> None:
    agent = log.agent("default")
    agent.append("user", "bananas are yellow")
    agent.end_turn()
    names = {tool["name"] for tool in inspected("tools/list")["tools"]}
    assert {"search", "read", "slash", "query_db", "context_meter"} <= names
    marked = inspected("tools/call", "--tool-name", "slash", "--tool-arg", "command=mark", "--tool-arg", "args=A")
    assert marked["content"][0]["text"] == "Checkpoint 'A' created."
    uri = "foldmark://conversations/default/context"
    assert "bananas" in inspected("resources/read", "--uri", uri)["contents"][0]["text"]
    got = inspected("prompts/get", "--prompt-name", "trim", "--prompt-args", "arguments=now")
    assert 'behind /trim: "now"' in got["messages"][0]["content"]["text"]
