"""What a model may call [SPEC 4.1]: each tool once, as the model is shown it and as it runs.

`slash.py` is the door to the commands, `evict.py` takes results out, `filter_context.py` is the model's part of a
planning conversation, `scratchpad.py`, `memos.py` and `recall.py` what it keeps and finds again, `query_db.py` its SQL
over its own log; `working/` the files of a folder and a shell, `mcp/` the tools of other programs' servers.
`approval.py` says what a person has to agree to.
"""

from collections.abc import Mapping
from typing import Any

from foldmark.core.errors import CommandError
from foldmark.core.wording import listing
from foldmark.log import Agent
from foldmark.log.asking import NOBODY, Asking
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
    """Run a tool as the model would, and return what it is told. Raises CommandError for what it did wrong."""
    tool = TOOLS.get(name)
    if tool is None:
        raise CommandError(f"there is no tool '{str(name)[:40]}'; there is: {listing(TOOLS)}")
    return tool(agent, args, asking)


__all__ = ["TOOLS", "Tool", "call_tool"]
