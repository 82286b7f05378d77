"""A supervisor in a separate thread, for a program whose main thread waits for a person."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING

from foldmark.core.ports import Provider
from foldmark.log import Agent, Log
from foldmark.operations.effects import NOBODY, Asking
from foldmark.runtime.loop import Shown
from foldmark.runtime.supervisor import SILENT, Audience, Supervisor

if TYPE_CHECKING:
    from foldmark.text.attachment import Attachment


class Background:
    """A supervisor in a thread. A context manager: on exit every turn is interrupted, recorded and closed."""

    def __init__(self, log: Log, models: Callable[[str], Provider], audience: Audience | None = None) -> None:
        self._supervisor = Supervisor(log, models, audience)
        self._supervisor.takes_up = False  # until it is known to whom the person talks
        self._begun: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = Thread(target=self._run, name="foldmark-agents")

    def __enter__(self) -> "Background":
        self._thread.start()
        self._loop = self._begun.result()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def say(
        self,
        agent: Agent,
        text: str | None,
        show: Shown = SILENT,
        asking: Asking = NOBODY,
        files: "Sequence[Attachment]" = (),
    ) -> "Future[None]":
        """Start a turn and return its future, which raises the errors of `Supervisor.say`. `show` is called in the
        supervisor's thread, tools and their questions in others."""
        return asyncio.run_coroutine_threadsafe(self._supervisor.say(agent, text, show, asking, files), self._loop)

    def cancel(self, agent: Agent) -> None:
        """Cancel the agent's turn, if it has one, even if `say` has only just started it."""

        async def cancel() -> None:
            self._supervisor.cancel(agent)

        # A coroutine runs after the first step of `say`, which enters the turn; a plain callback might run before it.
        asyncio.run_coroutine_threadsafe(cancel(), self._loop)

    def cancel_all(self) -> None:
        """Cancel the turns of all agents."""
        self._loop.call_soon_threadsafe(self._supervisor.cancel_all)

    def interrupt(self, agent: Agent) -> "Future[bool]":
        """End the agent's turn and return a future that is done once that is recorded: True if there was a turn."""
        return asyncio.run_coroutine_threadsafe(self._supervisor.interrupt(agent), self._loop)

    def settled(self) -> "Future[None]":
        """Return a future that is done when no agent is working any more."""
        return asyncio.run_coroutine_threadsafe(self._supervisor.settled(), self._loop)

    def attend(self, agent: Agent, *, takes_up: bool = True) -> None:
        """Record that a person talks to this agent from now on. Without `takes_up`, delegations of other processes are
        not started."""
        self._supervisor.attended, self._supervisor.takes_up = agent.id, takes_up

    @property
    def working(self) -> list[str]:
        """The uuids of the working agents, including children that were just forked."""

        async def there() -> list[str]:
            return self._supervisor.working

        return asyncio.run_coroutine_threadsafe(there(), self._loop).result()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            if self._begun.done():
                raise
            self._begun.set_exception(error)

    async def _main(self) -> None:
        self._over = asyncio.Event()
        async with self._supervisor:
            self._begun.set_result(asyncio.get_running_loop())
            await self._over.wait()
