"""The meter at the top: the agent, its model and activity, the size of its context, and its cost. The bar below it
shows the kinds of content in the context, each with its name and tokens."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from foldmark.chat.display.meter import ANSWERING, ENDED, IDLE, MeterReading, meter, state_of
from foldmark.chat.display.operated import brief
from foldmark.cost.filling import Portion, merged
from foldmark.cost.spending import Spending
from foldmark.log import Agent
from foldmark.rendering import harmless
from foldmark.terminal.columns import fitted
from foldmark.terminal.screens import read_in_thread

WAITING = "waiting for approval"

SECONDS = 1.0
"""Seconds between two checks for an answer that another program has begun or ended."""

FREE = "free"
"""The kind of the part that is still free below the limit."""

LONGEST = 20
"""Maximum columns of a name. The names of other programs' tools are long."""


class BarPiece(NamedTuple):
    """A part of the bar: its share, and the text that fills its columns."""

    share: Portion
    text: str


def pieces(shares: Sequence[Portion], free: int, width: int) -> list[BarPiece]:
    """Return the parts of a bar of `width` columns: each as wide as its share, but wide enough for its name. The
    smallest parts are merged as `other` until names take at most five sixths of the width, so that the shares are
    visible."""
    rest, found, least = [Portion(FREE, FREE, free)] if free else [], list[Portion](), list[int]()
    for most in range(len(shares), 0, -1):
        found = [*merged(shares, most), *rest]
        least = [cell_len(_label(each)) + 1 for each in found]
        if 6 * sum(least) <= 5 * width:
            break
    total = sum(each.tokens for each in found) or 1
    wanted = [max(0, each.tokens * width / total - own) for each, own in zip(found, least, strict=True)]
    spare, more = max(0, width - sum(least)), sum(wanted) or 1
    ends = [round(spare * sum(wanted[: number + 1]) / more) for number in range(len(found))]
    widths = [own + end - before for own, end, before in zip(least, ends, [0, *ends], strict=False)]
    return [BarPiece(each, set_cell_size(f"▏{_label(each)}", own)) for each, own in zip(found, widths, strict=True)]


def _label(share: Portion) -> str:
    return f"{fitted(harmless(share.name), LONGEST)} {brief(share.tokens)}"


class Bar(Widget, can_focus=True):
    """The content of the context. Choosing a part shows its turns."""

    DEFAULT_CSS = """
    Bar { height: 1; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "part", show=False),
        Binding("right", "move(1)", "part", show=False),
        Binding("enter", "choose", "its turns"),
    ]

    class Chosen(Message):
        """Asks for the turns of a share."""

        def __init__(self, share: Portion) -> None:
            super().__init__()
            self.share = share

    def __init__(self) -> None:
        super().__init__()
        self._shares: tuple[Portion, ...] = ()
        self._free = self._at = 0

    def fill(self, shares: Sequence[Portion], free: int) -> None:
        """Show these shares and the number of `free` tokens."""
        self._shares, self._free = tuple(shares), free
        self.refresh()

    @property
    def pieces(self) -> list[BarPiece]:
        """The parts as they are shown."""
        return pieces(self._shares, self._free, self.size.width)

    def render_line(self, y: int) -> Strip:
        """Draw the bar."""
        found, style = self.pieces, self.rich_style
        self._at = min(self._at, max(0, len(found) - 1))
        chosen = Style(reverse=True) if self.has_focus else Style()
        drawn = [
            Segment(each.text, style + chosen if number == self._at else style + Style(dim=each.share.kind == FREE))
            for number, each in enumerate(found)
        ]
        return Strip(drawn).adjust_cell_length(self.size.width, style)

    def on_click(self, event: Click) -> None:
        """Choose the clicked part."""
        end = 0
        for number, each in enumerate(self.pieces):
            end += cell_len(each.text)
            if event.x < end:
                self._at = number
                self.action_choose()
                break

    def action_move(self, by: int) -> None:
        """Mark the part `by` places to the right."""
        self._at = max(0, min(self._at + by, len(self.pieces) - 1))
        self.refresh()

    def action_choose(self) -> None:
        """Show the turns of the marked part."""
        if self.pieces and (share := self.pieces[self._at].share).kind != FREE:
            self.post_message(self.Chosen(share))


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
        """Check every `SECONDS` seconds for answers of other programs."""
        self.set_interval(SECONDS, self._look)

    def attend(self, agent: Agent) -> None:
        """Show the agent again: its log may have changed."""
        self._agent, self._progress = agent, ""
        before = self._spending.get(agent.id)
        read_in_thread(self, lambda: meter(agent, before), self._show, failed=self._fail)

    def show_own(self, *, answering: bool | None = None, waiting: bool | None = None) -> None:
        """Show whether an answer streams or a tool waits for approval in this application. None leaves a value
        unchanged."""
        self._answering = self._answering if answering is None else answering
        self._waiting = self._waiting if waiting is None else waiting
        self._draw()

    def show_progress(self, done: int, total: int) -> None:
        """Show the progress of long work, which has ended when both numbers are equal."""
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
            # An error here is left to the next command to report.
            read_in_thread(self, lambda: state_of(agent), self._show_state, failed=lambda _: None, group="state")

    def _show_state(self, state: str) -> None:
        before = self._reading
        if before is None or self._agent is None or before.state in (ENDED, state):
            return
        self._reading = before._replace(state=state)
        self._draw()
        if state == IDLE:  # show the messages of the other program
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
