"""The conversation at other moments: a slider over its operations, the context or request at that moment, and the
changes."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from foldmark.chat.display.moments import HERE, SECOND, MomentList, Past, after, before, past, timeline, way_back
from foldmark.log import Agent
from foldmark.rendering import Wrapping, harmless
from foldmark.terminal.dialogs import Question
from foldmark.terminal.screens import ContextScreen, GoTo, KeyLine, Submit, read_in_thread

Move = Callable[[Agent, MomentList, int], int]
"""A function that returns the moment to go to from a given one."""

MOVES: dict[str, Move] = {
    "back": before,
    "on": after,
    "operation_back": lambda _, line, at: line.operation_before(at),
    "operation_on": lambda _, line, at: line.operation_after(at),
    "first": lambda _, line, at: line.first,
    "newest": lambda agent, line, at: before(agent, line, line.newest + 1),
}


class TimeScreen(ContextScreen):
    """The timeline of an agent. It begins at the newest message or operation."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move('back')", "back", tooltip="the message or operation before"),
        Binding("right", "move('on')", "on", tooltip="the next message or operation"),
        Binding("pageup,shift+left", "move('operation_back')", "operation", tooltip="the operation before"),
        Binding("pagedown,shift+right", "move('operation_on')", show=False, tooltip="the next operation"),
        Binding("home", "move('first')", show=False, tooltip="the first event"),
        Binding("end", "move('newest')", show=False, tooltip="now"),
        Binding("g", "ask", "go to", tooltip="go to an event by its id"),
        Binding("d", "second", "diff", tooltip="compare with this moment; again: with the one before each"),
        Binding("tab", "turn_over", "request", tooltip="the request of the moment, or its context"),
        Binding("enter", "choose", "choose", tooltip="take an operation back; show a message in the conversation"),
        Binding("up", "scroll('past', -3)", show=False, tooltip="scroll the context"),
        Binding("down", "scroll('past', 3)", show=False, tooltip="scroll the context"),
        Binding("shift+up", "scroll('changes', -3)", show=False, tooltip="scroll what changed"),
        Binding("shift+down", "scroll('changes', 3)", show=False, tooltip="scroll what changed"),
    ]

    def __init__(self, agent: Agent, submit: Submit) -> None:
        super().__init__(agent, submit)
        self._moves: deque[Move] = deque()
        self._line: MomentList | None = None
        self._at = 0
        self._second: int | None = None
        self._request = False
        self._found = Past("", "", "")

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Static(markup=False, id="line")
        yield Static(markup=False, id="head")
        with Horizontal():
            for name in ("past", "changes"):
                with VerticalScroll(id=name, can_focus=False):
                    yield Static(markup=False)

    async def on_mount(self) -> None:
        """Read the timeline."""
        self._read()

    def attend(self, agent: Agent) -> None:
        """Show the agent as it now is in the log."""
        if agent != self.agent:
            self._at, self._second = 0, None
        super().attend(agent)

    def renew(self) -> None:
        """Read the timeline again."""
        self._line = None
        self._read()

    def _read(self) -> None:
        read_in_thread(self, partial(self._moved, self.agent), self._show)

    def _moved(self, agent: Agent) -> tuple[MomentList, Past | None]:
        """Apply the pending moves and return the resulting moment; called in a thread."""
        line = self._line or timeline(agent)
        if not self._at:
            self._moves.append(MOVES["newest"])
        while self._moves:
            self._at = self._moves.popleft()(agent, line, self._at)
        at = self._at
        replaced = get_current_worker().is_cancelled
        found = past(agent, line, at, self._second, request=self._request) if at and not replaced else None
        return line, found

    def _show(self, moved: tuple[MomentList, Past | None]) -> None:
        self._line, found = moved
        self._draw()
        self._found = found or Past("No event yet.", "", "")
        self.query_one("#head", Static).update(harmless(self._found.head))
        self._fill()
        place = self.query_one("#past", VerticalScroll)
        place.anchor(not self._request)  # keep the end in view while the layout settles
        if self._request:
            place.scroll_home(animate=False)

    def _fill(self) -> None:
        """Show both texts. A continued line keeps its indentation."""
        for name, text in (("past", self._found.shown), ("changes", self._found.changed)):
            side = self.query_one(f"#{name}", VerticalScroll)
            wrapping = Wrapping(side.scrollable_content_region.width)
            side.query_one(Static).update(wrapping.feed(harmless(text)) + wrapping.flush())

    def _draw(self) -> None:
        if self._line is not None:
            compared = "" if self._second is None else f" {SECOND} {self._second}"
            where = f"{HERE} event {self._at} of {self._line.newest}{compared}"
            width = max(10, self.size.width - len(where) - 6)
            self.query_one("#line", Static).update(f"◂{self._line.line(self._at, self._second, width)}▸ {where}")

    def on_resize(self) -> None:
        """Fit the timeline and the texts to the new width."""
        self._draw()
        self.call_after_refresh(self._fill)

    # Keys

    def action_move(self, name: str) -> None:
        """Go to another moment."""
        self._moves.append(MOVES[name])
        self._read()

    def action_ask(self) -> None:
        """Ask for an event id and go there."""

        def go(event_id: int | None) -> None:
            if event_id is not None:
                self._moves.append(lambda agent, line, _: before(agent, line, min(event_id, line.newest) + 1))
                self._read()

        self.app.push_screen(EventDialog(), go)

    def action_second(self) -> None:
        """Compare each moment with this one. A second call returns to comparing each with the one before it."""
        self._second = self._at or None if self._second is None else None
        self._read()

    def action_turn_over(self) -> None:
        """Switch between the request of the moment and its context."""
        self._request = not self._request
        self._read()

    def action_scroll(self, name: str, lines: int) -> None:
        """Scroll one of the two panes."""
        side = self.query_one(f"#{name}", VerticalScroll)
        side.release_anchor()
        side.scroll_relative(y=lines, animate=False)

    def action_choose(self) -> None:
        """Offer to restore an operation, or show a message in the conversation."""
        if self._line is None or not self._at:
            return
        if self._at in self._line.operations:
            read_in_thread(
                self, partial(way_back, self.agent, self._line.operations[self._at]), self._offer, group="offer"
            )
        else:
            self.leave_for(GoTo(self.agent.id, self._at))

    def _offer(self, way: tuple[str, str]) -> None:
        question, command = way
        self.app.push_screen(Question(question), lambda agreed: self.submit(command) if agreed else None)


class EventDialog(ModalScreen[int]):
    """Asks for the id of an event."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "back")]

    def compose(self) -> ComposeResult:
        """Lay out the dialog."""
        with Vertical():
            yield Static("Go to event", markup=False)
            yield Input(type="integer", placeholder="id", max_length=18)
        yield KeyLine()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Go to the event."""
        self.dismiss(int(message.value) if message.value.isdecimal() else None)
