"""The line-mode chat: reads lines from a terminal or a pipe, carries out commands, streams answers.

Agents run in a thread of their own (`foldmark.runtime.background`); everything that is shown or asked, and every
command, is the main thread's. While an answer streams the keyboard is looked at: what is typed waits for the end of the
turn, but for commands that only show something or are about the answer.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec.structs import replace

from foldmark.chat.foreground import Foreground
from foldmark.chat.keyboard import ScriptedLines, Typed
from foldmark.chat.notices import Notices
from foldmark.chat.person import decides, edit_command, show_text
from foldmark.chat.screen import Screen
from foldmark.chat.servers import mcp_servers
from foldmark.chat.state_note import state_note
from foldmark.chat.transcript import last_turns, moved_to
from foldmark.commands import REGISTRY
from foldmark.core.errors import CommandError, ConflictError, FoldmarkError, ProviderError, StoreError
from foldmark.core.ports import Provider
from foldmark.core.request import Request
from foldmark.core.segments import END, Segment
from foldmark.core.wording import count, is_full
from foldmark.cost.requests import newest_turn
from foldmark.editing.offers import question
from foldmark.log import Agent, Result, family
from foldmark.log.family import running
from foldmark.operations.effects import Asking, AskModel, EditText, LeaveChat, SwitchAgent, WaitForAgents
from foldmark.rendering import fitted, harmless, result_text
from foldmark.request.planning import planning
from foldmark.request.standing import state_of
from foldmark.runtime.background import Background
from foldmark.runtime.lease import interrupt, settled
from foldmark.runtime.supervisor import ContextChangedError, Supervisor, TurnInterruptedError
from foldmark.sending.status import assumed, fullness, unanswered_text

FULL = "⚠️  Context full. Use /clear to continue."

Models = Callable[[str], Provider]
"""Makes the provider of a model's name, as `Config.model` has it."""


def chat(agent: Agent, models: Models, lines: Iterable[str], ask: Callable[[str], bool] | None = None) -> int:
    """Talk until the lines end or a command says to leave; returns the exit code of the last thing that went wrong.

    `ask` puts a question that a command has to the person; None if nobody is there. Ctrl-C during an answer closes the
    turn as interrupted and keeps what had been said. Agents that still work at the end are waited for.
    """
    keyboard = lines if isinstance(lines, Typed | ScriptedLines) else ScriptedLines(lines)
    talk = _ChatSession(agent, keyboard, ask)
    approving = Asking(approve=decides) if ask else Asking()
    with mcp_servers(agent, approving), Background(agent.log, models, talk.notices) as talk.agents:
        talk.carry_out(talk.greet)
        talk.asks()
        for line in keyboard:
            talk.carry_out(partial(talk.line, line))
            talk.asks()
            if talk.left:
                break
        if not talk.broken:
            talk.carry_out(talk.settle)
    return talk.code


def _said(agent: Agent, before: int) -> bool:
    """Whether a person has said something to the agent since event `before`."""
    with agent.log.store.read() as moment:
        since = moment.messages((Segment(agent.id, before + 1, END),))
        return any(event.kind == "user" and event.actor == "human" for event in since)


def answer(agent: Agent, models: Models, asking: Asking, *, shown: bool) -> None:
    """Let the model answer in the turn that is open, once and without a chat around it. Raises FoldmarkError."""
    screen = Screen()

    def put(show: Callable[[], object]) -> None:
        if shown:
            show()

    async def one() -> None:
        async with Supervisor(agent.log, models) as supervisor:
            supervisor.attended, supervisor.takes_up = agent.id, False  # it ends with this answer
            await supervisor.say(agent, None, screen.shown(put), replace(asking, operated=screen.operated(put)))

    try:
        asyncio.run(one())
    finally:
        screen.end_line()


class _ChatSession:
    """Where a chat stands: the agent that is talked to, what waits to be said, and whether it is over."""

    agents: Background

    def __init__(self, agent: Agent, keyboard: Typed | ScriptedLines, ask: Callable[[str], bool] | None) -> None:
        self._keyboard = keyboard
        self.left, self.code, self.broken = False, 0, False
        self._fails = False
        self._front = Foreground()
        self.notices = Notices(
            agent, self._front, keyboard, ask, lambda: self._screen.end_line(), lambda line: self._waiting.append(line)
        )
        self._running: Future[None] | None = None
        self._waiting: deque[str] = deque()
        self._edge: int | None = None
        self._assumed: str | None = None
        self._screen = Screen()

    @property
    def agent(self) -> Agent:
        """Whom the person talks to."""
        return self.notices.agent

    def carry_out(self, step: Callable[[], None]) -> None:
        """Do one thing, and then whatever was typed meanwhile; what goes wrong is told."""
        self._told(step)
        while self._waiting and not self.left:
            self._told(partial(self._waited, self._waiting.popleft()))

    def _told(self, step: Callable[[], None]) -> None:
        try:
            step()
        except FoldmarkError as error:
            self.code = error.exit_code
            told = f"foldmark: {self.agent.log.secrets.hidden(str(error))}"
            print(fitted(told, sys.stderr), file=sys.stderr)
            if self._fails:
                print("(/retry asks again)", flush=True)
                self._fails = False
            if isinstance(error, ConflictError):
                self.agent.context()
            elif isinstance(error, StoreError):
                self.left = self.broken = True
        except KeyboardInterrupt:
            print("\n(interrupted)")

    def greet(self) -> None:
        """Say where one is, what was said last and how full the context is."""
        agent = self.agent
        self.agents.attend(agent)
        self._keyboard.agent = "" if agent.parent is None else agent.id[:8]
        context = agent.context()
        what = f"{count(len(context.messages), 'message')} in the context" if context.messages else "nothing said yet"
        model, label = agent.standing().config.model, family.label(agent)
        print(fitted(harmless(f"{label[0].upper()}{label[1:]}, {what}; model: {model}. /help lists the commands.")))
        if (lease := running(agent)) is not None:
            print(f"It is being answered at the moment, {lease.state}.")
        elif agent.open_turn is not None:
            print("The last turn was cut off; what was recorded of it is kept.")
        request = agent.request()
        edge = request.manifest.edge
        self._edge = edge.first
        if shown := last_turns(agent, edge):
            print(shown)
        self._meter(request)

    def _meter(self, request: Request) -> None:
        """How full the context is; where the model's window is a guess, that is said once."""
        print(fitted(fullness(self.agent, request)), flush=True)
        told = assumed(self.agent)
        if told not in (None, self._assumed):
            print(fitted(harmless(f"({told})")), flush=True)
        self._assumed = told

    def line(self, line: str) -> None:
        """Carry out a command, or say something; then what others have handed over."""
        self._line(line)
        self._front.drain()

    def asks(self) -> None:
        """Put the offer that is open into the prompt."""
        self._keyboard.asked = ""
        with suppress(FoldmarkError):  # it was told already
            if not self.broken:
                with self.agent.reading() as (moment, at):
                    self._keyboard.asked = question(moment, at)

    def settle(self) -> None:
        """Wait for the agents that still work; Ctrl-C ends them."""
        self._front.drain()
        if working := len(self.agents.working):
            print(f"({count(working, 'agent')} still at work; Ctrl-C ends that)", flush=True)
        self._until(self.agents.settled())  # summaries of what the window cut, too

    def _waited(self, line: str) -> None:
        """What was typed while something else streamed, shown where it is carried out."""
        print(f"{self._keyboard.prompt}{harmless(line)}", flush=True)
        self._line(line)

    def _line(self, line: str) -> None:
        if line.lstrip().startswith("/"):
            self._command(line)
        elif line.strip():
            self._say(line)

    # Commands

    def _command(self, line: str) -> None:
        if REGISTRY.interrupts(line):
            running = self._running is not None
            self._interrupt()
            if running and not self._plans():
                return  # what streamed was all that there was to end
        self.agent.context()
        result = self.agent.do(line, asking=self.notices.asking(self.agent))
        if isinstance(result.effect, WaitForAgents):
            self._until(self.agents.settled())
            settled(map(self.agent.log.agent, result.effect.agents))
        if text := result_text(result):
            self._screen.end_line()
            show_text(text)
        if self._running is None:
            self._after(result)

    def _interrupt(self) -> None:
        """End the agent's turn, here or in another process: what a command changes is what it stands on [SPEC 3]."""
        if not self._until(self.agents.interrupt(self.agent)):
            interrupt(self.agent)

    def _after(self, result: Result) -> None:
        """What a command leaves to the interface."""
        match result.effect:
            case EditText() as edit:
                if command := edit_command(edit):
                    print(result_text(self.agent.do(command, asking=self.notices.asking(self.agent))))
            case SwitchAgent(agent):
                self.notices.agent = self.agent.log.agent(agent)
                self.greet()
            case AskModel():
                self._say(None)
            case LeaveChat():
                self.left = True

    # What is said

    def _say(self, text: str | None) -> None:
        """Have a text answered; without one, or if the text is what an answer that failed was about, what stands there
        already."""
        self.agent.context()  # takes note of what others have appended
        with self.agent.reading() as (moment, at):
            if text is not None and at.record.open_turn is None and text == unanswered_text(moment, at):
                text = None
        # What makes room again has to be agreed: a planning conversation goes on, with nothing else in its requests.
        if not self._plans() and self._is_full():
            print(fitted(FULL))
        else:
            self._answered(text)

    def _plans(self) -> bool:
        with self.agent.reading() as (moment, at):
            return planning(moment, at) is not None

    def _is_full(self) -> bool:
        try:
            return is_full(self.agent.request().tokens, self.agent.window)
        except CommandError:
            return False  # the turn will say it, once the text is recorded

    def _answered(self, text: str | None) -> None:
        self._screen = screen = Screen()
        agent = self.agent
        if agent.id in self.agents.working:
            print(f"({family.label(agent)} is at work; this waits for the end of its turn)", flush=True)
        before = agent.standing().newest
        self.notices.streams = True
        asking = replace(self.notices.asking(agent), operated=screen.operated(self._front.put))
        self._running = self.agents.say(agent, text, screen.shown(self._front.put), asking)
        try:
            self._until(self._running)
            if screen.blank:
                with agent.reading() as (moment, at):
                    state = state_of(moment, at)
                wrote = state is not None and state.id > before
                print("(a state block only; /state shows it)" if wrote else "(the model answered nothing)")
        except ContextChangedError as error:
            screen.line(f"({harmless(str(error))})")
        except (CancelledError, asyncio.CancelledError, TurnInterruptedError):
            screen.interrupted(kept=text is None or _said(agent, before))
        except ProviderError:
            self._fails = True
            raise
        finally:
            self._running = None
            screen.end_line()
            self.notices.streamed()
        if note := state_note(agent, before):
            print(note)
        agent.context()
        request = agent.request()
        edge = request.manifest.edge
        if edge.before and edge.first != self._edge:
            print(moved_to(agent, edge))
        self._edge = edge.first
        self._meter(request)
        kept = newest_turn(agent)
        if kept is not None and kept.missed:
            print(fitted(harmless(f"({kept.text})")), flush=True)

    def _until(self, end: "Future[Any]") -> Any:
        """Wait for something in the supervisor's thread, and do meanwhile what it hands over. Raises what that does."""
        if end is self._running:
            self._front.until(end, self._cancel, self._look)
        else:
            self._front.until(end, self.agents.cancel_all, lambda: None)
        return end.result()

    def _cancel(self) -> None:
        """Ctrl-C ends the turn, and what was typed ahead goes with it."""
        self._waiting.clear()
        self.agents.cancel(self.agent)

    def _look(self) -> None:
        """Take up what is typed while an answer streams: what shows something, or is about the answer, at once."""
        for line in self._keyboard.ahead():
            if line.lstrip().startswith("/") and REGISTRY.at_once(line):
                self._told(partial(self._command, line))
            elif line.strip() and not self.notices.strays(line):
                self._waiting.append(line)
