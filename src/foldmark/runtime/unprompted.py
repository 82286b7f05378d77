"""Work that no person asked for: a child's first message, mail notices, window summaries [SPEC 5.1, 6]."""

import asyncio
from asyncio import Task
from collections import Counter
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Literal

from foldmark.core import selections
from foldmark.core.assembly.layers import WAITS, birth_message, mail_notice
from foldmark.core.codec import operation_of
from foldmark.core.errors import FoldmarkError
from foldmark.core.events import Fork
from foldmark.log import Agent, family
from foldmark.log.live_session import client_session
from foldmark.request.layers import fork_text
from foldmark.request.planning import planning
from foldmark.request.standing import end_of
from foldmark.runtime.loop import in_thread
from foldmark.sending.interruption import CURRENT, Interruption
from foldmark.sending.status import waits

WAKES = 20
"""Maximum number of times that mail wakes an agent before a person speaks again: agents that thank each other would
never stop."""


def append_birth(agent: Agent) -> bool:
    """Append the birth message to a child without messages; return True if the child has something to answer.

    A person who forks has given the task as a user message. If that is not the newest message that the child sees, or
    if a model forked (the fork leaves out its words), the birth message tells the child its identity and its task.
    """
    with agent.reading() as (moment, at):
        parent = at.record.parent
        if parent is None or family.waits_for(moment, at.record) is None:
            return False
        event = selections.event(moment, at.record.fork_event)
        operation = operation_of(event) if event is not None else None
        if event is None or not isinstance(operation, Fork):
            return False
        newest = next(moment.select(at.visible, newest_first=True), None)
        if event.actor == "human" and newest is not None and newest.kind == "user":
            return True
        words = fork_text(moment, event) if event.actor == "model" else None
    words_text = words.content if words is not None else ""
    text = birth_message(agent.id, parent, operation.mark, words_text, operation.turn)
    agent.append("user", text, actor="system", data={"birth": True})
    return True


def has_something(agent: Agent) -> bool:
    """Return True if there is something to answer without a new text: the task of a fork that has not begun, an open
    turn, or a turn whose answer failed."""
    with agent.reading() as (moment, at):
        unbegun = family.waits_for(moment, at.record) is not None
    return unbegun or waits(agent)


def begin(agent: Agent) -> bool:
    """Prepare an agent to answer its context, and return True if there is something to answer."""
    return append_birth(agent) or waits(agent)


class MailNotices:
    """The mail announced so far, by agent."""

    def __init__(self) -> None:
        self._announced: dict[str, int] = {}
        self._woken: Counter[str] = Counter()

    def reset_wakes(self) -> None:
        """Reset the count of wakes, because a person has asked for something."""
        self._woken.clear()

    def recipient(self, agent: Agent, *, attended: bool) -> Literal["agent", "person"] | None:
        """Return the recipient of a notice of an idle agent's new mail, which then counts as announced; None if there
        is no new mail.

        The agent is notified, which wakes it. If a person talks to it or it was woken too often, the person is notified
        instead. An agent that a coding agent runs is not notified.
        """
        with agent.reading() as (moment, at):
            mail = selections.unread(moment, agent.id)
            if not mail or mail[-1].id <= self._announced.get(agent.id, 0) or end_of(moment, agent.id) is not None:
                return None
            if planning(moment, at) is not None:  # mail waits until planning ends; a later look finds it
                return None
        self._announced[agent.id] = mail[-1].id
        if not attended and client_session(agent) is not None:
            return None
        self._woken[agent.id] += 1
        return "person" if attended or self._woken[agent.id] > WAKES else "agent"


def append_mail_notice(agent: Agent) -> bool:
    """Append a notice of new mail to an agent's log, after the task of a fork that waits to be run; return False if
    there is no longer any mail."""
    with agent.reading() as (moment, at):
        mail, has_task = selections.unread(moment, agent.id), family.waits_for(moment, at.record) == WAITS
    if mail:
        if has_task:
            append_birth(agent)
        senders = list(dict.fromkeys(each.sender for each in mail))
        agent.append("user", mail_notice(senders), actor="system")
    return bool(mail)


class WindowSummaries:
    """The window summaries in progress, at most one for each agent."""

    def __init__(self) -> None:
        self._under_way: dict[str, tuple[Interruption, Task[None]]] = {}

    def begin(self, agent: Agent, threads: Executor) -> None:
        """Have the agent's model summarize the turns that the window has passed, if the setting is on and a summary is
        due."""
        if not agent.standing().config.window_summary or agent.id in self._under_way:
            return
        interruption = Interruption()
        task = asyncio.create_task(_summarize(agent, interruption, threads))
        self._under_way[agent.id] = interruption, task
        task.add_done_callback(lambda _: self._under_way.pop(agent.id))

    @property
    def tasks(self) -> list[Task[None]]:
        """The tasks in progress."""
        return [task for _, task in self._under_way.values()]

    def interrupt(self) -> None:
        """Cancel all summaries."""
        for interruption, _ in self._under_way.values():
            interruption.happen()


async def _summarize(agent: Agent, interruption: Interruption, threads: Executor) -> None:
    CURRENT.set(interruption)
    await in_thread(threads, partial(_make_summary, agent))


def _make_summary(agent: Agent) -> None:
    from foldmark.sending.questions import make_window_summary, window_summary_due

    with suppress(FoldmarkError):  # tried again after the next turn
        if (wanted := window_summary_due(agent)) is not None:
            make_window_summary(agent, wanted)
