"""Run a chat on any view, from its greeting to its end.

Agents work in the background, and MCP servers offer their tools. The chat also shows messages that other programs
record while it runs: a gateway, another chat, a command.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Self

from foldmark.chat.controller import ChatController
from foldmark.core.agents import PAGE, Change, Watch
from foldmark.core.errors import FoldmarkError
from foldmark.core.ports import Provider
from foldmark.core.wording import count, listing
from foldmark.log import Log
from foldmark.operations.effects import Asking
from foldmark.providers.retrying import LazyProvider
from foldmark.runtime.background import Background

Models = Callable[[str], Provider]
"""Creates the provider for a model name in the form of `Config.model`."""

MCP_FILE = ".mcp.json"


def converse(chat: ChatController, models: Models, lines: Iterable[str], first: Asking) -> int:
    """Chat until the input ends or a command leaves the chat. Return the exit code of the last error.

    `first` asks before the chat begins whether MCP servers may start. Ctrl-C during an answer closes the turn as
    interrupted and keeps the text so far. At the end, wait for agents that are still working. A person also sees events
    that other programs record.
    """
    log, attended = chat.agent.log, chat.view.confirm is not None
    following = Following(log, chat.changed) if attended else nullcontext()
    with _mcp_servers(chat, first), Background(log, models, chat) as chat.agents, following:
        chat.obstacle = lambda agent: _obstacle(models(agent.standing().config.model))
        chat.carry_out(chat.greet)
        if attended:  # otherwise nobody is typing
            _prepare(models(chat.agent.standing().config.model))
        for line in lines:
            chat.carry_out(partial(chat.line, line))
            if chat.left:
                break
        if not chat.broken:
            chat.carry_out(chat.settle)
    return chat.code


def _obstacle(provider: Provider) -> str | None:
    return provider.obstacle() if isinstance(provider, LazyProvider) else None


def _prepare(provider: Provider) -> None:
    """Import a provider's SDK, which takes seconds, while the person reads and types. The process does not wait for
    this import when it exits."""
    if isinstance(provider, LazyProvider):
        Thread(target=provider.prepare, name="foldmark-import", daemon=True).start()


@contextmanager
def _mcp_servers(chat: ChatController, asking: Asking) -> Iterator[None]:
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
        for wrong in servers.connect(chat.agent, asking):
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


EVERY = 0.2
"""Minimum seconds between two reads: a busy agent records many messages at once."""

LONGEST = 60.0
"""Maximum seconds of one wait for a commit."""


class Following:
    """A context manager with its own thread, in which `changed` is called with the changes that any process has
    committed since the block began, in order. Database errors are ignored because the next attempt may succeed."""

    def __init__(self, log: Log, changed: Callable[[list[Change]], object]) -> None:
        self._log, self._changed = log, changed
        self._over = Event()
        self._thread = Thread(target=self._run, name="foldmark-following", daemon=True)
        self._watch: Watch
        self._cursor: str | None = None

    def __enter__(self) -> Self:
        self._watch = self._log.store.watch()
        self._cursor = self._log.changes().cursor
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._over.set()
        self._watch.close()
        self._thread.join()

    def _run(self) -> None:
        with closing(self._watch):
            while not self._over.is_set():
                if not self._watch.wait(LONGEST):
                    continue
                with suppress(FoldmarkError):
                    self._look()
                self._over.wait(EVERY)

    def _look(self) -> None:
        while (page := self._log.changes(self._cursor, PAGE)).changes:
            self._changed(page.changes)
            self._cursor = page.cursor
