"""Run a chat on any view, from its greeting to its end.

Agents work beside it, and MCP servers offer their tools. The chat also shows messages that other programs record while
it runs: a gateway, another chat, a command.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from threading import Thread

from foldmark.chat.controller import ChatController
from foldmark.core.ports import Provider
from foldmark.core.wording import count, listing
from foldmark.providers.retrying import LazyProvider
from foldmark.runtime.loop import in_thread
from foldmark.runtime.supervisor import Supervisor

Models = Callable[[str], Provider]
"""Creates the provider for a model name in the form of `Config.model`."""

MCP_FILE = ".mcp.json"


async def converse(chat: ChatController, models: Models) -> int:
    """Chat until the input ends or a command leaves the chat. Return the exit code of the last error.

    Ctrl-C during an answer closes the turn as interrupted and keeps the text so far. At the end, wait for agents that
    are still working. A person also sees events that other programs record.
    """
    chat.begin_work()
    agents = chat.agents = Supervisor(chat.agent.log, models, chat)
    agents.takes_up = False  # until it is known to whom the person talks
    attended = chat.view.confirm is not None
    async with _mcp_servers(chat), agents:
        chat.obstacle = lambda agent: _obstacle(models(agent.standing().config.model))
        await chat.carry_out(chat.greet)
        if attended:  # otherwise nobody is typing
            _prepare(models(chat.agent.standing().config.model))
        await chat.talk()
    return chat.code


def _obstacle(provider: Provider) -> str | None:
    return provider.obstacle() if isinstance(provider, LazyProvider) else None


def _prepare(provider: Provider) -> None:
    """Import a provider's SDK, which takes seconds, while the person reads and types. The process does not wait for
    this import when it exits."""
    if isinstance(provider, LazyProvider):
        Thread(target=provider.prepare, name="foldmark-import", daemon=True).start()


@asynccontextmanager
async def _mcp_servers(chat: ChatController) -> AsyncIterator[None]:
    """Run the MCP servers of the working folder's `.mcp.json` during the block, with the person's approval, and add
    their tools to the log's."""
    try:
        folder = Path.cwd()
    except OSError:  # the folder was removed
        folder = None
    if folder is None or not (folder / MCP_FILE).exists():
        yield
        return
    from foldmark.tools.mcp.client import Servers  # takes 1 s

    log = chat.agent.log
    with Servers(folder, log.secrets) as servers:
        connect = partial(servers.connect, chat.agent, chat.asking(chat.agent))
        for wrong in await in_thread(chat.view.executor, connect):
            chat.view.show(f"foldmark: {wrong}", error=True)
        names = [tool.spec.name for tool in servers.tools]
        for tool in servers.tools:
            log.add_tool(tool)
        if names:
            chat.view.show(f"{MCP_FILE}: {count(len(names), 'tool')}: {listing(names)}")
        try:
            yield
        finally:
            for name in names:
                log.remove_tool(name)
