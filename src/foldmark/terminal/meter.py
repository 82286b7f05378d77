"""The meter at the top: the agent, its model and activity, the size and content of its context, and its cost."""

from rich.cells import cell_len, set_cell_size
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from foldmark.chat.display.meter import ANSWERING, ENDED, IDLE, MeterReading, meter, state_of
from foldmark.cost.spending import Spending
from foldmark.log import Agent
from foldmark.rendering import harmless
from foldmark.terminal.bar import Bar
from foldmark.terminal.screens import read_in_thread

WAITING = "waiting for approval"

SECONDS = 1.0
"""Seconds between two checks whether another program has begun or ended an answer."""


class Meter(Vertical):
    """The meter of an agent, with the bar below it."""

    DEFAULT_CSS = """
    Meter { height: auto; }
    Meter Static { height: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._answering = self._waiting = False
        self._agent: Agent | None = None
        self._reading: MeterReading | None = None
        self._spending: dict[str, Spending] = {}
        self._wrong = self._progress = ""

    def compose(self) -> ComposeResult:
        """Lay out the meter."""
        yield Static(markup=False)
        yield Bar()

    def on_mount(self) -> None:
        """Check for answers of other programs every `SECONDS` seconds."""
        self.set_interval(SECONDS, self._look)

    def attend(self, agent: Agent) -> None:
        """Show the agent again: its log may have changed."""
        self._agent, self._progress = agent, ""
        before = self._spending.get(agent.id)
        read_in_thread(self, lambda: meter(agent, before), self._show, failed=self._fail)

    def show_own(self, *, answering: bool | None = None, waiting: bool | None = None) -> None:
        """Show whether an answer streams, or a tool waits for approval, in this application. None changes nothing."""
        self._answering = self._answering if answering is None else answering
        self._waiting = self._waiting if waiting is None else waiting
        self._draw()

    def show_progress(self, done: int, total: int) -> None:
        """Show the progress of long work; it has ended when both numbers are equal."""
        self._progress = f"{100 * done // total}% read" if done < total else ""
        self._draw()

    def on_resize(self) -> None:
        """Fit the line to the new width."""
        self._draw()

    def _show(self, reading: MeterReading) -> None:
        self._reading, self._wrong = reading, ""
        if self._agent is not None:
            self._spending[self._agent.id] = reading.spending
        self.query_one(Bar).fill(reading.shares, reading.free)
        self._draw()

    def _fail(self, error: str) -> None:
        self._reading, self._wrong = None, error
        self._draw()

    def _look(self) -> None:
        if (agent := self._agent) is not None and self._reading is not None:
            # The next command reports an error.
            read_in_thread(self, lambda: state_of(agent), self._show_state, failed=lambda _: None, group="state")

    def _show_state(self, state: str) -> None:
        before = self._reading
        if before is None or self._agent is None or before.state in (ENDED, state):
            return
        self._reading = before._replace(state=state)
        self._draw()
        if state == IDLE:  # show what the other program has added
            self.attend(self._agent)

    def _draw(self) -> None:
        found, width = self._reading, self.size.width
        if found is None or self._wrong:
            self.query_one(Static).update(harmless(self._wrong))
            return
        state = WAITING if self._waiting else ANSWERING if self._answering else found.state
        left = harmless(f"{found.name} · {found.model} · {state}")
        left += f" · {self._progress}" if self._progress else ""
        right = " · ".join(filter(None, (found.fullness, found.cost)))
        room = max(0, width - cell_len(right) - 1)
        self.query_one(Static).update(f"{set_cell_size(left, room)} {right}")
