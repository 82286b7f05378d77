"""All agents that one process runs, side by side [SPEC 6].

A person's turn runs in the foreground; a child to which something is delegated is started at once and runs in parallel
with its parent. Each agent is one task at a time, under a lease. Mail wakes idle agents. Otherwise nothing runs without
a request: after a crash an agent waits until a person talks to it.
"""

import asyncio
from asyncio import CancelledError, Task
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from foldmark.core import selections
from foldmark.core.assembly.layers import WAITS
from foldmark.core.codec import operation_of
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.ports import Provider, Snapshot
from foldmark.log import Agent, Log, family
from foldmark.log.family import send
from foldmark.log.listening import wait_for
from foldmark.log.log import Happening
from foldmark.operations.effects import NOBODY, Asking
from foldmark.operations.notices import happened
from foldmark.providers.retrying import LazyProvider, streams_closed
from foldmark.request.standing import end_of
from foldmark.runtime.lease import SECONDS, LeaseError, renew, take
from foldmark.runtime.loop import Shown, turn
from foldmark.runtime.unprompted import MailNotices, WindowSummaries, append_mail_notice, begin, has_something

if TYPE_CHECKING:
    from foldmark.text.attachment import Attachment

AT_ONCE = 32
"""Maximum number of agents that run at the same time in the background; any others wait."""

LOOK_SECONDS = 1.0
"""Seconds between two looks at the database for requests of other processes (interrupt, kill, mail) if nothing is
committed."""

REST_SECONDS = 0.1
"""Seconds between two checks for a commit, each of which takes microseconds."""

Begin = Callable[[Agent], bool]
"""Records something before an agent's model is asked in the background; returns True if there is something to ask."""

SILENT = Shown(lambda _: None, lambda _: None)

LEARN_SECONDS = 1.0
"""Maximum seconds to wait until another process has recorded its command that ended the turn."""


class TurnInterruptedError(FoldmarkError):
    """The turn was ended not by its caller but by `/kill`, by a person's command, or by another process."""


class ContextChangedError(TurnInterruptedError):
    """A person's command in another process ended the turn in order to change its context."""


class Audience(Protocol):
    """Receives events of agents in the background. Called in the supervisor's own thread."""

    def began(self, agent: Agent) -> None:
        """An agent has started to work in the background."""
        return

    def ended(self, agent: Agent, error: Exception | None) -> None:
        """The agent is idle again, or dead. `error` is the exception that ended its turn early, if any."""
        return

    def mail(self, agent: Agent) -> None:
        """Mail has arrived that does not wake its recipient: a person talks to it, or it was woken WAKES times."""
        return

    def committed(self) -> None:
        """Any process may have committed something."""
        return

    def asking(self, agent: Agent) -> Asking:
        """Return the callbacks with which a tool of an agent in the background reaches a person."""
        return NOBODY


class NoAudience(Audience):
    """An audience that ignores every event."""


class Supervisor:
    """Runs agents of `log`; `models` returns the provider for a model's name. An asynchronous context manager: on exit
    every turn is interrupted, recorded and closed. Tools run in `threads`.

    A fork that delegates something starts at once. `attended` is the agent that a person talks to, if any: mail does
    not wake it. If `takes_up` is True, delegations made in other processes are started as well: those in the current
    conversations made since this began if a person talks to one, otherwise all that wait.
    """

    def __init__(self, log: Log, models: Callable[[str], Provider], audience: Audience | None = None) -> None:
        self.log, self._models = log, models
        self.audience: Audience = audience or NoAudience()
        self.attended: str | None = None
        self.takes_up = True
        self._holder = log.new_id()
        self._tasks: dict[str, Task[None]] = {}
        self._hosted: dict[str, Agent] = {}
        self._started, self._leased, self._earlier = set[str](), set[str](), set[str]()
        self._changing: dict[str, int] = {}
        self._watch: Task[None] | None = None
        self._mail_notices, self._summaries = MailNotices(), WindowSummaries()
        self._room = asyncio.Semaphore(AT_ONCE)

    async def __aenter__(self) -> "Supervisor":
        self._loop = asyncio.get_running_loop()
        self.threads = ThreadPoolExecutor(2 * AT_ONCE, thread_name_prefix="foldmark-tool")
        with self.log.store.read() as moment:
            self._earlier = {each.id for each in moment.agents(unstarted=True)}
        self._commits = self.log.store.watch()
        self.log.listeners.append(self._happened)
        self._watch = asyncio.create_task(self._look())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.log.listeners.remove(self._happened)
        assert self._watch is not None
        self._watch.cancel()
        self._commits.close()
        with suppress(CancelledError):
            await self._watch
        while tasks := list(self._tasks.values()):
            for task in tasks:
                _cancel(task)
            await asyncio.wait(tasks)
        while summaries := self._summaries.tasks:
            self._summaries.interrupt()
            await asyncio.wait(summaries)
        self.threads.shutdown()  # their work has ended
        await streams_closed()

    # Turns

    async def say(
        self,
        agent: Agent,
        text: str | None,
        show: Shown = SILENT,
        asking: Asking = NOBODY,
        files: "Sequence[Attachment]" = (),
    ) -> None:
        """Run one turn of an agent to its end; `files` are attached to the text. Without a text, start a fork that
        waits, continue the open turn, or answer again in a new turn after a failed answer.

        If the agent is working in the background, wait for that first. Raises the errors of `turn`, LeaseError,
        TurnInterruptedError if somebody else ends the turn, CommandError for an agent of another log or if there is
        nothing to answer.
        """
        if not self._on:
            raise CommandError("agents are run inside of `async with foldmark.supervise(log) as agents:`")
        if agent.log is not self.log:
            raise CommandError(f"{family.label(agent)} belongs to another log; supervise that one")
        self._mail_notices.reset_wakes()
        caller = asyncio.current_task()
        assert caller is not None
        while (running := self._tasks.get(agent.id)) is not None:
            await asyncio.wait({running})
        if text is None and not has_something(agent):
            raise CommandError(f"there is nothing to answer: no turn of {family.label(agent)} is open; give a text")
        task = asyncio.create_task(self._turn(agent, text, show, asking, _always if text is not None else begin, files))
        self._enter(agent, task)
        try:
            await asyncio.shield(task)
        except CancelledError:
            await self._ended(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error from None
            if caller.cancelling():
                raise
            if (since := self._changing.get(agent.id)) is not None:
                raise ContextChangedError(f"{await self._changed(agent, since)} in another process; {_ENDED}") from None
            with self.log.store.read() as moment:
                end = end_of(moment, agent.id)
            why = f": {end.sentence}" if end is not None else "; what was received is kept"
            raise TurnInterruptedError(f"the turn of {family.label(agent)} was interrupted{why}") from None

    def cancel_all(self) -> None:
        """Cancel the turns of all agents and the background work."""
        for task in self._tasks.values():
            _cancel(task)
        self._summaries.interrupt()

    def start(self, agent: Agent) -> None:
        """Make an agent, such as a forked child that waits, answer its context in the background."""
        if agent.id not in self._tasks:
            self._started.add(agent.id)
            self._background(agent, begin)

    async def interrupt(self, agent: Agent) -> bool:
        """End the agent's open turn and wait until it is recorded. Return False if no turn was open."""
        task = self._tasks.get(agent.id)
        if task is not None:
            await self._ended(task)
        return task is not None

    async def settled(self) -> None:
        """Wait until no agent is working and all background work is done, including that of waiting forks."""
        await asyncio.sleep(0)  # lets a child that was forked just now start
        with suppress(FoldmarkError):  # the database is busy; the next look may succeed
            self._take_up()
        while tasks := [*self._tasks.values(), *self._summaries.tasks]:
            await asyncio.wait(tasks)

    @property
    def _on(self) -> bool:
        return self._watch is not None and not self._watch.done()

    @property
    def working(self) -> list[str]:
        """The uuids of the working agents."""
        return list(self._tasks)

    async def _ended(self, task: Task[None]) -> None:
        """Cancel a task and wait for its end, however often this wait is cancelled."""
        while not task.done():
            _cancel(task)
            with suppress(CancelledError):
                await asyncio.wait({task})

    async def _changed(self, agent: Agent, since: int) -> str:
        """Describe the command of another process that ended the turn; it is recorded after the turn ends."""

        def words() -> str | None:
            with self.log.store.read() as moment:
                recorded = selections.operations(moment, agent.id, after=since)
            done = [operation for event in reversed(recorded) if (operation := operation_of(event)) is not None]
            return next(filter(None, map(happened, done)), None)

        learned = await self._loop.run_in_executor(self.threads, wait_for, self.log.store, words, LEARN_SECONDS)
        return learned or "The context was changed"

    def _enter(self, agent: Agent, task: Task[None]) -> None:
        self._changing.pop(agent.id, None)
        self._tasks[agent.id], self._hosted[agent.id] = task, agent

        def left(_: Task[None]) -> None:
            if self._tasks.get(agent.id) is task:
                del self._tasks[agent.id]
            with suppress(FoldmarkError):  # the next look may succeed
                self._tell(agent)

        task.add_done_callback(left)

    async def _turn(
        self,
        agent: Agent,
        text: str | None,
        show: Shown,
        asking: Asking,
        begins: Begin,
        files: "Sequence[Attachment]" = (),
    ) -> None:
        lease = take(agent, self._holder)
        self._leased.add(agent.id)
        try:
            if not begins(agent):
                return
            model = LazyProvider(partial(self._models, agent.standing().config.model))
            await turn(agent, model, text, show, asking, lease, self.threads, files)
        finally:
            self._leased.discard(agent.id)
            lease.give_back()
        self._summaries.begin(agent, self.threads)

    # Background work

    def _background(self, agent: Agent, begin: Begin) -> None:
        self._enter(agent, asyncio.create_task(self._work(agent, begin)))

    async def _work(self, agent: Agent, begin: Begin) -> None:
        began, failed = False, None

        def begun(agent: Agent) -> bool:
            nonlocal began
            began = begin(agent)
            if began:
                self.audience.began(agent)
            return began

        async with self._room:
            try:
                await self._turn(agent, None, SILENT, self.audience.asking(agent), begun)
            except LeaseError:  # another process was faster, or took over
                pass
            except Exception as error:  # no caller awaits this task
                failed = error
                self._report(agent, error)
            except CancelledError:
                failed = TurnInterruptedError("interrupted")
                if agent.id in self._changing:
                    failed = ContextChangedError("a command in another process changes its context")
                raise
            finally:
                if began:
                    self.audience.ended(agent, failed)

    def _report(self, agent: Agent, error: Exception) -> None:
        """Report a child's failed turn to its parent, because no person is watching the child."""
        with suppress(FoldmarkError):  # one of the two is dead
            if (parent := agent.parent) is not None:
                text = str(error) if isinstance(error, FoldmarkError) else f"{type(error).__name__}: {error}"
                send(agent, parent, f"My turn ended with an error: {text}", "system")

    def _happened(self, what: Happening, agent_id: str) -> None:
        with suppress(RuntimeError):  # the loop has just closed
            self._loop.call_soon_threadsafe(self._take_note, what, agent_id)

    def _take_note(self, what: Happening, agent_id: str) -> None:
        with suppress(FoldmarkError):  # the agent is already gone, or the next look may succeed
            if what == "run" or (what == "born" and self._has_task(agent_id)):
                self.start(self.log.agent(agent_id))
            elif what == "killed":
                if (task := self._tasks.get(agent_id)) is not None:
                    _cancel(task)
            else:
                agent = self.log.agent(agent_id)
                if agent_id in self._hosted or agent_id == self.attended or agent.parent is not None:
                    self._tell(agent)

    def _tell(self, agent: Agent) -> None:
        """Announce mail received since the last notice to an idle agent, or to the person who talks to it."""
        if agent.id in self._tasks or not self._on:
            return
        match self._mail_notices.recipient(agent, attended=agent.id == self.attended):
            case "agent":
                self._background(agent, append_mail_notice)
            case "person":
                self.audience.mail(agent)
            case None:
                pass

    async def _look(self) -> None:
        """Carry out requests of other processes, and renew the leases."""
        renewed = looked = self._loop.time()
        while True:
            await asyncio.sleep(min(REST_SECONDS, LOOK_SECONDS))
            now = self._loop.time()
            if not self._commits.wait(0) and now - looked < LOOK_SECONDS:
                continue
            looked = now
            with suppress(FoldmarkError):  # the database is busy; the next look may succeed
                if now - renewed > SECONDS / 4 and self._tasks:
                    renew(self.log, self._holder)
                    renewed = now
                self._look_once()
                self.audience.committed()

    def _look_once(self) -> None:
        with self.log.store.read() as moment:
            for agent_id, task in list(self._tasks.items()):
                # Before the turn begins, the lease may still belong to a process that died.
                lease = moment.lease(agent_id) if agent_id in self._leased else None
                mine = lease is not None and lease.holder == self._holder
                if lease is not None and mine and lease.interrupt and not task.cancelling():
                    record = moment.agent(agent_id)
                    self._changing[agent_id] = record.head if record is not None else 0
                if (lease is not None and (not mine or lease.interrupt)) or end_of(moment, agent_id) is not None:
                    _cancel(task)
        if self.attended is not None and self.attended not in self._hosted:
            with suppress(CommandError):  # it was deleted
                self._hosted[self.attended] = self.log.agent(self.attended)
        for agent in list(self._hosted.values()):
            self._tell(agent)
        self._take_up()

    def _has_task(self, agent_id: str) -> bool:
        with self.log.store.read() as moment:
            record = moment.agent(agent_id)
            return record is not None and family.waits_for(moment, record) == WAITS

    def _take_up(self) -> None:
        """Start waiting delegations, made in another process or before a supervisor was running."""
        if not self.takes_up or not self._on:
            return
        without = {*self._started, *self._tasks, *(self._earlier if self.attended is not None else ())}
        with self.log.store.read() as moment:
            waiting = [each for each in moment.agents(unstarted=True) if each.id not in without]
            there = [each.id for each in waiting if family.waits_for(moment, each) == WAITS]
            ours = [each for each in there if self._at_hand(moment, selections.root_of(moment, each))]
        for agent in map(self.log.agent, ours):
            self.start(agent)

    def _at_hand(self, moment: Snapshot, conversation: str) -> bool:
        """Return True if forks of a conversation are run here."""
        if self.attended is None:
            record = moment.agent(conversation)
            return record is not None and not record.archived
        return any(selections.root_of(moment, agent) == conversation for agent in {self.attended, *self._hosted})


_ENDED = "the answer was ended for that, and the part received so far stays in the log"


def _always(_: Agent) -> bool:
    return True


def _cancel(task: Task[None]) -> None:
    """Cancel a task once: a second time would cut its cleanup short."""
    if not task.cancelling():
        task.cancel()
