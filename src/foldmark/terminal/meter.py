"""The meter at the top: agent, model, what it does, how full the context is, with what, and what it has cost."""

from rich.cells import cell_len, set_cell_size
from textual import work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static
from textual.worker import get_current_worker

from foldmark.chat.display.meter import ANSWERING, ENDED, IDLE, MeterReading, meter, state_of
from foldmark.core.errors import FoldmarkError
from foldmark.cost.spending import Spending
from foldmark.log import Agent
from foldmark.rendering import harmless
from foldmark.terminal.bar import Bar

WAITING = "waiting for approval"

SECONDS = 1.0
"""How often it looks whether another program has begun or ended an answer."""


class Meter(Vertical):
    """How full the agent's context is."""

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
        """Look for other programs' answers now and then."""
        self.set_interval(SECONDS, self._look)

    def attend(self, agent: Agent) -> None:
        """Show the agent as the log has it now."""
        self._agent, self._progress = agent, ""
        self._read(agent)

    def show_own(self, *, answering: bool | None = None, waiting: bool | None = None) -> None:
        """Show whether an answer streams, or a tool waits for approval, in this application."""
        self._answering = self._answering if answering is None else answering
        self._waiting = self._waiting if waiting is None else waiting
        self._draw()

    def show_progress(self, done: int, total: int) -> None:
        """Show how far long work has come."""
        self._progress = f"{100 * done // total}% read" if done < total else ""
        self._draw()

    def on_resize(self) -> None:
        """Draw again."""
        self._draw()

    @work(thread=True, exclusive=True, group="meter")
    def _read(self, agent: Agent) -> None:
        worker = get_current_worker()
        reading, wrong = None, ""
        try:
            reading = meter(agent, self._spending.get(agent.id))
        except FoldmarkError as error:
            wrong = str(error)
        if not worker.is_cancelled:
            self.call_later(self._show, reading, wrong)

    def _show(self, reading: MeterReading | None, wrong: str) -> None:
        self._reading, self._wrong = reading, wrong
        if reading is not None and self._agent is not None:
            self._spending[self._agent.id] = reading.spending
            self.query_one(Bar).fill(reading.shares, reading.free)
        self._draw()

    def _look(self) -> None:
        if self._agent is not None and self._reading is not None:
            self._read_state(self._agent)

    @work(thread=True, exclusive=True, group="state")
    def _read_state(self, agent: Agent) -> None:
        worker = get_current_worker()
        try:
            state = state_of(agent)
        except FoldmarkError:  # the next command shows it
            return
        if not worker.is_cancelled:
            self.call_later(self._show_state, state)

    def _show_state(self, state: str) -> None:
        before = self._reading
        if before is None or self._agent is None or before.state in (ENDED, state):
            return
        self._reading = before._replace(state=state)
        self._draw()
        if state == IDLE:  # what the other program has added is shown
            self._read(self._agent)

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
