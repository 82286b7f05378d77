"""The interfaces through which the controller displays a chat: a view, and a turn shown on it."""

from asyncio import Event
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Executor, Future
from functools import partial
from typing import Any, Protocol, TypeVar

from foldmark.chat.approvals import Approval
from foldmark.core.ports import Progress
from foldmark.core.request import Edge, Piece, Stopped, ToolCall
from foldmark.log import Agent, Result
from foldmark.operations.effects import Decision
from foldmark.runtime.loop import Shown
from foldmark.sending.interruption import CURRENT

_T = TypeVar("_T")

STOPPED = {"length": "the answer was cut off: it reached the model's output limit", "refused": "the model refused"}
"""Messages for the stop reasons that a person should know about."""

Put = Callable[[Callable[[], object]], None]
"""Queues an action for the thread that owns the terminal, without waiting; called in any thread."""


def awaited(answer: "Future[_T]", otherwise: _T, cancel: Callable[[], object]) -> _T:
    """Wait for the answer to a question. If the turn is interrupted before there is one, call `cancel`, which cancels
    the question, and return `otherwise`."""
    with CURRENT.get().ended_by(cancel):
        try:
            return answer.result()
        except CancelledError:
            return otherwise


class TurnView:
    """The display of one turn while it runs. Its callbacks come from other threads; `shows`, and `interruption` for the
    line about one, are called in that of the terminal. `blank` is True until the model has answered something."""

    def __init__(self, put: Put, shows: Shown, interruption: Callable[[str], object]) -> None:
        self.blank = True
        self._put, self._shows, self._interruption = put, shows, interruption
        self._receipted = False

    def shown(self) -> Shown:
        """Return the callbacks that show the turn."""
        shows = self._shows
        text, call, other, result = (
            partial(self._take, each) for each in (shows.text, shows.call, shows.other, shows.result)
        )
        return Shown(text, call, other, self._take_returned, result)

    def operated(self, result: Result) -> None:
        """Show the receipt of an operation that the model made, instead of the call's result."""
        self._receipted = True
        self._put(partial(self._shows.result, result))

    def interrupted(self, *, kept: bool) -> None:
        """Report that the turn was interrupted; `kept` is True if any part of it was recorded."""
        outcome = "the text so far is kept" if kept else "nothing was sent"
        self._put(partial(self._interruption, f"(interrupted; {outcome})"))

    def _take(self, show: Callable[[Any], object], what: str | ToolCall | Piece | Result) -> None:
        match what:
            case str():
                says = bool(what.strip("\n"))
            case Stopped():
                says = what.why in STOPPED
            case _:
                says = isinstance(what, ToolCall | Result)
        self.blank = self.blank and not says
        self._put(partial(show, what))

    def _take_returned(self, call: ToolCall, text: str) -> None:
        if not self._receipted:
            self._put(partial(self._shows.returned, call, text))
        self._receipted = False


class ChatView(Protocol):
    """The display of a chat, which also asks its questions: line mode or another terminal application.

    Methods are called in any thread; only `confirm`, `approve` and `edit` wait for the person, and no other waits for
    the terminal. `confirm` asks a command's yes-or-no question; None if no person can answer. `executor` runs work that
    may ask, by default the threads of the tools. `waiting` holds the lines typed while something runs, oldest first,
    and `woken` says that one has come: the controller sets both, and the view may add and remove lines.
    """

    confirm: Callable[[str], bool] | None
    waiting: deque[str]
    woken: Event

    @property
    def executor(self) -> Executor | None:
        """Where commands run."""

    async def next_line(self) -> str | None:
        """Return the next line that a person gives while nothing runs; None at the end of the input."""

    def show(self, text: str, *, error: bool = False) -> None:
        """Show a text on its own line."""

    def show_result(self, result: Result) -> None:
        """Show the result of a command."""

    def show_output(self, text: str) -> None:
        """Show the output of a person's shell command, which was just recorded with it as a message."""

    def show_typed(self, line: str, *, waited: bool) -> None:
        """Show a line that runs now; it was typed just now, or it has `waited`."""

    def give_back(self, line: str) -> None:
        """Give back a line that is not sent: it was typed before the open offer was shown, the person did not agree to
        send it, a file that it mentions cannot be attached, or the conversation takes no message now."""

    def show_context(self, agent: Agent, edge: Edge, fullness: str, *, turns: bool) -> None:
        """Show how full the context is and, if the window has moved, where it begins. With `turns`, show the newest
        turns again."""

    def show_prompt(self, agent: Agent, offer: str) -> None:
        """Show the agent and its open offer in the prompt."""

    def begin_turn(self) -> TurnView:
        """Start the display of a turn; notices wait until its end."""

    def end_turn(self) -> None:
        """End the display of the turn, and show the notices that waited."""

    def edit(self, text: str) -> str:
        """Let the person edit a text, and return the result. Raises FoldmarkError without a terminal."""

    def progress(self) -> Progress | None:
        """Return a callback that shows the progress of reading; None if no person is watching."""

    def notify(self, text: str) -> None:
        """Show a notice, above the prompt or after the turn."""

    def approve(self, approval: Approval) -> Decision:
        """Ask the person whether a tool may do something."""

    def follow(self, agent: Agent, events: Sequence[int]) -> None:
        """Show the new events of the agent, recorded by any program; `events` are their ids."""
