"""The tools of a model [SPEC 4.1]: each defined once, with its specification and its function.

`slash.py` runs commands, `evict.py` evicts results, `filter_context.py` is the model's part of a planning conversation,
`scratchpad.py`, `memos.py` and `recall.py` store and find knowledge, `query_db.py` runs SQL over the model's own log;
`working/` has the files of a folder and a shell, `mcp/` the tools of MCP servers. `approval.py` asks a person for
permission.
"""

from collections.abc import Mapping
from typing import Any

from foldmark.core.errors import CommandError
from foldmark.core.wording import listing
from foldmark.log import Agent
from foldmark.operations.effects import NOBODY, Asking
from foldmark.tools.evict import EVICT
from foldmark.tools.filter_context import FILTER_CONTEXT
from foldmark.tools.memos import RETRIEVE_MEMOS, SAVE_MEMO
from foldmark.tools.query_db import DESCRIBE_DB, QUERY_DB
from foldmark.tools.recall import RECALL
from foldmark.tools.scratchpad import MANAGE_SCRATCHPAD
from foldmark.tools.slash import SLASH
from foldmark.tools.tool import Tool
from foldmark.tools.working.bash import BASH
from foldmark.tools.working.files import LIST_FILES, READ_FILE
from foldmark.tools.working.grep import GREP

TOOLS: dict[str, Tool] = {
    tool.spec.name: tool
    for tool in (
        SLASH,
        FILTER_CONTEXT,
        EVICT,
        QUERY_DB,
        DESCRIBE_DB,
        MANAGE_SCRATCHPAD,
        SAVE_MEMO,
        RETRIEVE_MEMOS,
        RECALL,
        READ_FILE,
        LIST_FILES,
        GREP,
        BASH,
    )
}


def call_tool(agent: Agent, name: str, args: Mapping[str, Any], asking: Asking = NOBODY) -> str:
    """Run a tool as the model would, and return its result. Raises CommandError for wrong arguments."""
    tool = TOOLS.get(name)
    if tool is None:
        raise CommandError(f"there is no tool '{str(name)[:40]}'; there is: {listing(TOOLS)}")
    return tool(agent, args, asking)


__all__ = ["TOOLS", "Tool", "call_tool"]
