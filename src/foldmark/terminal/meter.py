"""The meter at the top: the agent, its model and activity, the size of its next request, and its cost. The bar below it
shows what fills that request, by kind, with a legend."""

from collections.abc import Sequence
from itertools import product
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
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
from foldmark.terminal.theme import COMPONENTS, SHARES, ink

WAITING = "waiting for approval"

SECONDS = 1.0
"""Seconds between two checks for an answer that another program has begun or ended."""

FREE = "free"
"""The kind of the part that is still free below the limit."""

LONGEST = 20
"""Maximum columns of a name. The names of other programs' tools are long."""

GAP = 2
"""Columns between two entries of the legend."""


class BarPiece(NamedTuple):
    """A part of the bar: its share, the columns that it fills, and its entry in the legend, or ""."""

    share: Portion
    columns: int
    label: str


def pieces(shares: Sequence[Portion], free: int, width: int) -> list[BarPiece]:
    """Return the parts of a bar of `width` columns, each as wide as its share. Until the legend fits below the bar, it
    omits what is free, and the smallest parts are merged as `other`."""
    rest, found, labels = [Portion(FREE, FREE, free)] if free else [], list[Portion](), list[str]()
    for most, named in product(range(len(shares), 0, -1), (True, False)):
        found = [*merged(shares, most), *rest]
        labels = [_label(each) if named or each.kind != FREE else "" for each in found]
        if sum(cell_len(label) + GAP for label in labels if label) - GAP <= width and len(found) <= width:
            break
    total = sum(each.tokens for each in found) or 1
    spare, done, before = max(0, width - len(found)), 0, 0
    made = []
    for each, label in zip(found, labels, strict=True):  # each has a column of its own
        done += each.tokens
        end = round(spare * done / total)
        made.append(BarPiece(each, 1 + end - before, label))
        before = end
    return made


def _label(share: Portion) -> str:
    sign = "─" if share.kind == FREE else "■"
    return f"{sign} {fitted(harmless(share.name), LONGEST)} {brief(share.tokens)}"


class Bar(Widget, can_focus=True):
    """What fills the next request, as a bar above its legend. Choosing a part shows its turns."""

    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENTS
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
        """Draw the bar, or its legend below it."""
        found, base = self.pieces, self.rich_style
        self._at = min(self._at, max(0, len(found) - 1))
        drawn = []
        for number, each in enumerate(found):
            colour = base + ink(self, _colour(each.share))
            chosen = Style(reverse=True) if self.has_focus and number == self._at else Style()
            if y == 0:
                fill = "─" * each.columns if each.share.kind == FREE else f"{'█' * (each.columns - 1)}▉"
                drawn.append(Segment(fill, colour))
            elif each.label:
                sign, _, text = each.label.partition(" ")
                drawn += [
                    Segment(sign, colour),
                    Segment(f" {text}", base + ink(self, "muted") + chosen),
                ]
                drawn.append(Segment(" " * GAP, base))
        return Strip(drawn).adjust_cell_length(self.size.width, base)

    def on_click(self, event: Click) -> None:
        """Choose the clicked part of the bar or of its legend."""
        end = 0
        for number, each in enumerate(self.pieces):
            end += each.columns if event.y == 0 else cell_len(each.label) + GAP if each.label else 0
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
        state += f" · {self._progress}" if self._progress else ""
        name, model = harmless(found.name), harmless(found.model)
        full = found.fullness
        # What a narrow terminal lacks, least important first: the cost, the model, the name, the numbers of tokens.
        for left, right in (
            ([name, model], [found.cost, full]),
            ([name, model], [full]),
            ([name], [full]),
            ([], [full]),
            ([], [found.share]),
        ):
            begin = " · ".join([*left, state])
            end = " · ".join(filter(None, right))
            if cell_len(begin) + cell_len(end) < width:
                break
        parts = [(each, "bold" if each is name else "$text-muted") for each in left]
        parts.append((state, "$text-muted" if state == IDLE else "$text-accent"))
        sizes = [(each, "bold" if each is right[-1] else "$text-muted") for each in right if each]
        dot = Content.styled(" · ", "$text-muted")
        shown, filled = (dot.join(Content.styled(*part) for part in each) for each in (parts, sizes))
        gap = " " * max(1, width - cell_len(begin) - cell_len(end))
        self.query_one(Static).update(Content.assemble(shown, gap, filled))


def _colour(share: Portion) -> str:
    return "line" if share.kind == FREE else SHARES.get(share.kind, "tool")
