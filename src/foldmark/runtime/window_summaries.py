"""Make window summaries in the background while everything else goes on [SPEC 5.1]."""

import asyncio
from asyncio import Task
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial

from foldmark.core.errors import FoldmarkError
from foldmark.log import Agent
from foldmark.runtime.loop import in_thread
from foldmark.sending.interruption import CURRENT, Interruption


class WindowSummaries:
    """The summaries under way, one at a time for each agent, in threads of `threads`."""

    def __init__(self) -> None:
        self._under_way: dict[str, tuple[Interruption, Task[None]]] = {}

    def begin(self, agent: Agent, threads: Executor) -> None:
        """Have the agent's model sum up what the window has passed, if the setting asks for it and a summary is due."""
        if not agent.standing().config.window_summary or agent.id in self._under_way:
            return
        interruption = Interruption()
        task = asyncio.create_task(_made(agent, interruption, threads))
        self._under_way[agent.id] = interruption, task
        task.add_done_callback(lambda _: self._under_way.pop(agent.id))

    @property
    def tasks(self) -> list[Task[None]]:
        """The tasks under way."""
        return [task for _, task in self._under_way.values()]

    def interrupt(self) -> None:
        """Cancel all summaries."""
        for interruption, _ in self._under_way.values():
            interruption.happen()


async def _made(agent: Agent, interruption: Interruption, threads: Executor) -> None:
    CURRENT.set(interruption)
    await in_thread(threads, partial(_make, agent))


def _make(agent: Agent) -> None:
    from foldmark.sending.questions import due, make

    with suppress(FoldmarkError):  # it is tried again after the next turn
        if (wanted := due(agent)) is not None:
            make(agent, wanted)
