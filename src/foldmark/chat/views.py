"""The interfaces through which the controller displays a chat: a view, and a turn shown on it."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from foldmark.chat.approvals import Approval
from foldmark.core.ports import Progress
from foldmark.core.request import Edge
from foldmark.log import Agent, Result
from foldmark.operations.effects import Decision, EditText
from foldmark.runtime.loop import Shown


class TurnView(Protocol):
    """The display of one turn while it runs; its callbacks are called in other threads. `blank` is True until something
    is shown."""

    blank: bool

    def shown(self) -> Shown:
        """Return the callbacks that show the turn."""

    def operated(self, result: Result) -> None:
        """Show the receipt of an operation that the model made, instead of the call's result."""

    def interrupted(self, *, kept: bool) -> None:
        """Report that the turn was interrupted; `kept` is True if any part of it was recorded."""


class ChatView(Protocol):
    """The display of a chat, which also asks its questions: line mode or another terminal application.

    `notify`, `approve` and `follow` may be called in any thread, all other methods only in the controller's. `confirm`
    asks a command's yes-or-no question; None if no person can answer. `waiting` holds the lines that wait for the end
    of the turn, oldest first: the controller sets it, and the view may add and remove lines.
    """

    confirm: Callable[[str], bool] | None
    waiting: deque[str]

    def show(self, text: str, *, error: bool = False) -> None:
        """Show a text on its own line."""

    def show_result(self, result: Result) -> None:
        """Show the result of a command."""

    def show_output(self, text: str) -> None:
        """Show the output of a person's shell command, which was just recorded with it as a message."""

    def show_typed(self, line: str) -> None:
        """Show a line that was typed earlier and runs now."""

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

    def edit(self, edit: EditText) -> str | None:
        """Let the person edit a text, and return the command that records it; None if nothing was changed."""

    def lines(self) -> list[str]:
        """Return the lines typed since the last call."""

    def wait(
        self, begin: "Callable[[], Future[Any]]", interrupted: Callable[[], object], look: Callable[[], object]
    ) -> "Future[Any]":
        """Call `begin`, wait for the future that it returns, and return that future. During the wait, show output that
        other threads queue, call `look` regularly, and call `interrupted` on Ctrl-C, even if it arrives during
        `begin`."""

    def drain(self) -> None:
        """Show output that other threads have queued."""

    def progress(self) -> Progress | None:
        """Return a callback that shows the progress of reading; None if no person is watching."""

    def notify(self, text: str) -> None:
        """Show a notice, above the prompt or after the turn."""

    def approve(self, approval: Approval) -> Decision:
        """Ask the person whether a tool may do something."""

    def follow(self, agent: Agent, events: Sequence[int]) -> None:
        """Show the new events of the agent, recorded by any program; `events` are their ids."""
