"""The chat's view in the application, between the chat's thread and Textual's.

Output is passed as an action that the application runs in its thread. A question is passed as a future that the
application answers; an interrupted turn withdraws its question.
"""

from asyncio import Event
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TypeVar

from foldmark.chat.approvals import Approval
from foldmark.chat.views import Put, TurnView, awaited
from foldmark.core.ports import Progress
from foldmark.core.request import Edge
from foldmark.core.wording import count
from foldmark.editing.answering import question
from foldmark.log import Agent, Result
from foldmark.operations.effects import Decision
from foldmark.runtime.loop import Shown
from foldmark.terminal.chat import ChatScreen
from foldmark.terminal.dialogs import Question, ask

_T = TypeVar("_T")


class TerminalView:
    """The controller's view, on the screen `chat`. `put` queues an action for the application's thread, in order,
    without waiting; `call` queues one for the chat's loop.

    `idle` is True while the controller waits for a line, `leaving` once the chat is to end. `line` is the line that was
    carried out last.
    """

    executor = None
    waiting: deque[str]
    woken: Event

    def __init__(self, chat: ChatScreen, put: Put, call: Put) -> None:
        self.confirm: Callable[[str], bool] | None = self._agrees
        self.idle = self.leaving = False
        self.line = ""
        self._chat, self._put, self._call = chat, put, call

    # In the application's thread

    def submit(self, line: str) -> None:
        """Accept a line that was typed, or that a screen made from a person's action."""
        waits, self.idle = not self.idle, False
        self.waiting.append(line)
        self._wake()
        if waits:
            self._show_waiting()

    def take_back(self) -> str | None:
        """Remove and return the newest line that waits; None if none waits."""
        with suppress(IndexError):  # the controller has just read it
            line = self.waiting.pop()
            self._show_waiting()
            return line
        return None

    @property
    def typed(self) -> list[str]:
        """The lines that may not be recorded: the one that was carried out last, those that wait, and the prompt's."""
        return [each for each in (self.line, *self.waiting, self._chat.prompt.editor.whole) if each]

    def leave(self) -> None:
        """End the chat after the submitted lines."""
        self.leaving = True
        self._wake()
        self._show_waiting()

    def drop(self) -> None:
        """Drop the lines that wait."""
        if dropped := len(self.waiting):
            self.waiting.clear()
            self._show_waiting()
            self.show(f"({count(dropped, 'waiting line')} dropped; ↑ brings back what you typed)")

    def _wake(self) -> None:
        self._call(self.woken.set)

    def _show_waiting(self) -> None:
        self._put(lambda: self._chat.prompt.show_waiting([*self.waiting], leaving=self.leaving))

    # In the chat's thread and those of tools

    async def next_line(self) -> str | None:
        """Wait for a line."""
        while not self.waiting:
            self.woken.clear()
            if self.leaving:
                self.idle = False
                return None
            self.idle = True
            await self.woken.wait()
        self.idle = False
        return self.waiting.popleft()

    def show(self, text: str, *, error: bool = False) -> None:
        """Show a text on its own line."""
        self._put(partial(self._chat.add_line, text, error=error))

    def show_result(self, result: Result) -> None:
        """Show the result of a command."""
        self._put(partial(self._chat.add_result, result, typed=True))

    def show_output(self, text: str) -> None:
        """Do nothing: the transcript shows the message."""

    def show_typed(self, line: str, *, waited: bool) -> None:
        """Show a line that runs now."""
        self.line = line
        self._show_waiting()
        self._put(lambda: self._chat.transcript.add_typed(line))

    def give_back(self, line: str) -> None:
        """Return a line to the prompt."""
        self._show_waiting()
        self._put(partial(self._chat.give_back, line))

    def show_context(self, agent: Agent, edge: Edge, fullness: str, *, turns: bool) -> None:
        """Do nothing: the edge of the window and the meter are always visible, and `show_prompt` shows the agent."""

    def show_prompt(self, agent: Agent, offer: str) -> None:
        """Show the agent again: its log may have changed."""
        self._put(partial(self._chat.attend, agent, offer))

    def begin_turn(self) -> TurnView:
        """Begin an answer."""
        self._put(partial(self._chat.show_answering, True))
        stream = self._chat.transcript.stream
        shows = Shown(
            lambda text: stream(lambda answer: answer.add_text(text)),
            lambda call: stream(lambda answer: answer.add_call(call)),
            lambda piece: stream(lambda answer: answer.add_piece(piece)),
            lambda call, text: stream(lambda answer: answer.add_returned(call, text)),
            self._chat.add_result,
        )
        return TurnView(self._put, shows, self._chat.add_line)

    def end_turn(self) -> None:
        """End the answer."""
        self._put(partial(self._chat.show_answering, False))

    def edit(self, text: str) -> str:
        """Let the person edit a text in `$EDITOR`."""

        def ask(edited: "Future[str]") -> None:
            try:
                edited.set_result(self._chat.edit_text(text))
            except Exception as error:
                edited.set_exception(error)

        return self._ask(ask, text)

    def progress(self) -> Progress | None:
        """Return a callback that shows the progress of reading."""
        return lambda done, total: self._put(lambda: self._chat.meter.show_progress(done, total))

    def notify(self, text: str) -> None:
        """Show a notice."""
        self.show(text)

    def follow(self, agent: Agent, events: Sequence[int]) -> None:
        """Show the agent as it now is in the log."""
        with agent.reading() as (moment, at):
            offer = question(moment, at)
        self._put(partial(self._chat.follow, agent, offer))

    def approve(self, approval: Approval) -> Decision:
        """Ask whether a tool may do something."""
        return self._ask(lambda answer: self._chat.approval.announce(approval, answer), "no")

    def _agrees(self, question: str) -> bool:
        return self._ask(lambda answer: ask(self._chat.app, Question(question), answer), False)

    def _ask(self, ask: "Callable[[Future[_T]], None]", otherwise: _T) -> _T:
        """Return the answer, or `otherwise` if the turn is interrupted before there is one."""
        answer: Future[_T] = Future()
        self._put(partial(ask, answer))
        return awaited(answer, otherwise, answer.cancel)
