"""The tools of a model [SPEC 4.1]: each defined once, with its specification and its function.

`tool.py` defines a tool and asks a person for permission. With the tools of `context.py`, a model changes its own
context; with those of `knowledge.py`, it stores and finds knowledge. `query_db.py` runs SQL over the model's own log.
`working/` holds the tools for files and the shell, `mcp/` the tools of MCP servers.
"""

from foldmark.tools.context import EVICT, FILTER_CONTEXT, SLASH
from foldmark.tools.knowledge import MANAGE_SCRATCHPAD, RECALL, RETRIEVE_MEMOS, SAVE_MEMO
from foldmark.tools.query_db import DESCRIBE_DB, QUERY_DB
from foldmark.tools.tool import Tool
from foldmark.tools.working.bash import BASH
from foldmark.tools.working.files import LIST_FILES, READ_FILE
from foldmark.tools.working.grep import GREP

_CONTEXT = (SLASH, FILTER_CONTEXT, EVICT)
_KNOWLEDGE = (QUERY_DB, DESCRIBE_DB, MANAGE_SCRATCHPAD, SAVE_MEMO, RETRIEVE_MEMOS, RECALL)
_WORKING = (READ_FILE, LIST_FILES, GREP, BASH)

TOOLS: dict[str, Tool] = {tool.spec.name: tool for tool in (*_CONTEXT, *_KNOWLEDGE, *_WORKING)}

__all__ = ["TOOLS", "Tool"]
