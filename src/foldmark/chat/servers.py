"""The MCP servers of the folder that a chat runs in: started when the person agrees, their tools the model's."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foldmark.core.wording import count, listing
from foldmark.log import Agent
from foldmark.operations.effects import Asking
from foldmark.rendering import harmless

FILE = ".mcp.json"


@contextmanager
def mcp_servers(agent: Agent, asking: Asking) -> Iterator[None]:
    """While the block runs, the tools of the folder's servers are among the log's; without its file nothing happens."""
    folder = _working()
    if folder is None or not (folder / FILE).exists():
        yield
        return
    from foldmark.tools.mcp.client import Servers  # 1 s for whoever has servers

    with Servers(folder, agent.log.secrets) as servers:
        for wrong in servers.connect(agent, asking):
            print(f"foldmark: {harmless(wrong)}", file=sys.stderr)
        names = [tool.spec.name for tool in servers.tools]
        for tool in servers.tools:
            agent.log.add_tool(tool)
        if names:
            print(harmless(f"{FILE}: {count(len(names), 'tool')}: {listing(names)}"))
        try:
            yield
        finally:
            for name in names:
                agent.log.remove_tool(name)


def _working() -> Path | None:
    """The working folder; None if it was removed."""
    try:
        return Path.cwd()
    except OSError:
        return None
