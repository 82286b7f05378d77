"""Where a chat is shown: what the controller asks of a view, and of a turn on it."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from foldmark.chat.approvals import Approval
from foldmark.core.ports import Progress
from foldmark.core.request import Edge
from foldmark.log import Agent, Result
from foldmark.operations.effects import Decision, EditText
from foldmark.runtime.loop import Shown


class TurnView(Protocol):
    """How one turn is shown while it runs; its callbacks are called in other threads. `blank`: nothing was shown."""

    blank: bool

    def shown(self) -> Shown:
        """Return the callbacks that show the turn."""

    def operated(self, result: Result) -> None:
        """Show the receipt of an operation of the model in place of the call's result."""

    def interrupted(self, *, kept: bool) -> None:
        """Show that the turn was cut short; `kept` says whether anything of it was recorded."""


class View(Protocol):
    """Where a chat is shown and asks its questions: the line mode, or another terminal application.

    `notify` and `approve` are called in any thread, everything else in the controller's. `confirm` asks the question of
    a command, None if nobody is there. `waiting` are the lines that wait for the end of the turn, oldest first: the
    controller sets it, and the view may add and take away lines.
    """

    confirm: Callable[[str], bool] | None
    waiting: deque[str]

    def show(self, text: str, *, error: bool = False) -> None:
        """Show a line of its own."""

    def show_result(self, result: Result) -> None:
        """Show the result of a command."""

    def show_typed(self, line: str) -> None:
        """Show a line that was typed earlier and is carried out now."""

    def give_back(self, line: str) -> None:
        """Give a line back that is not sent: it was typed before the offer that is open now was shown."""

    def show_turns(self, agent: Agent, edge: Edge) -> None:
        """Show the newest turns again, with the window's edge."""

    def show_edge(self, agent: Agent, edge: Edge) -> None:
        """Show where the window begins, after it has moved."""

    def show_fullness(self, text: str) -> None:
        """Show how full the context is."""

    def show_prompt(self, agent: Agent, offer: str) -> None:
        """Name the agent and the open offer in the prompt."""

    def begin_turn(self) -> TurnView:
        """Begin to show a turn; notices wait until its end."""

    def end_turn(self) -> None:
        """End that, and show the notices that waited."""

    def edit(self, edit: EditText) -> str | None:
        """Have a text edited and return the command that records it; None if nothing was changed."""

    def lines(self) -> list[str]:
        """Return the lines that were typed since the last look."""

    def wait(
        self, begin: "Callable[[], Future[Any]]", interrupted: Callable[[], object], look: Callable[[], object]
    ) -> "Future[Any]":
        """Call `begin`, wait for the future that it returns, and return that future. In the meantime show what other
        threads hand over, call `look` regularly, and call `interrupted` for Ctrl-C, also if it comes during `begin`."""

    def drain(self) -> None:
        """Show what other threads have handed over."""

    def progress(self) -> Progress | None:
        """Return a callback that shows how far reading has come; None if nobody watches."""

    def notify(self, text: str) -> None:
        """Show a notice, above the prompt or after the turn."""

    def approve(self, approval: Approval) -> Decision:
        """Ask whether a tool may do something."""
