"""The list of turns: rows with a cursor and ticks, drawn one by one as they come into view."""

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from foldmark.chat.display.operated import brief
from foldmark.chat.display.turns import TurnRow
from foldmark.core.wording import count
from foldmark.rendering import harmless
from foldmark.terminal.theme import component_style

WIDE = 96
"""Minimum width, in columns, at which each row has a bar."""

BLOCKS = " ▏▎▍▌▋▊▉█"


class RowList(ScrollView, can_focus=True):
    """Rows with ticks; the last line loads `older` messages."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--cursor", "rows--muted"}
    DEFAULT_CSS = """
    RowList { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }
    RowList > .rows--cursor { color: $text-accent; text-style: bold; }
    RowList > .rows--muted { color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "tick", "tick"),
        Binding("enter", "open", "open", tooltip="show the messages of the turn"),
        Binding("up,k", "move(-1)", show=False, tooltip="the row above"),
        Binding("down,j", "move(1)", show=False, tooltip="the row below"),
        Binding("pageup", "page(-1)", show=False, tooltip="a screen up"),
        Binding("pagedown", "page(1)", show=False, tooltip="a screen down"),
        Binding("home", "move(-1000000000)", show=False, tooltip="the first row"),
        Binding("end", "move(1000000000)", show=False, tooltip="the last row"),
    ]

    class Ticked(Message):
        """The ticks have changed."""

    class RowOpened(Message):
        """A row was opened. `row` is None for the line of older messages."""

        def __init__(self, row: TurnRow | None) -> None:
            super().__init__()
            self.row = row

    def __init__(self) -> None:
        super().__init__()
        self.rows: Sequence[TurnRow] = ()
        self.ticked: set[int] = set()
        self._older, self._tokens, self._largest, self._at, self._digits = 0, 1, 1, 0, 1
        self._apart = False

    def show(self, rows: Sequence[TurnRow], tokens: int, older: int, *, apart: bool = False) -> None:
        """Show these rows of a request with `tokens` tokens. The cursor stays on its row. Results that are listed
        `apart` from their turns name their turns."""
        before = self.current
        self._apart = apart
        self.rows, self._older, self._tokens = rows, older, max(1, tokens)
        self._largest = max((row.tokens for row in rows), default=1) or 1
        self._digits = max((len(str(row.turn)) for row in rows), default=1)
        self.virtual_size = Size(self.size.width, self._lines)
        place = next((at for at, row in enumerate(rows) if before is not None and row.id == before.id), self._at)
        self._move_to(place)

    @property
    def _lines(self) -> int:
        return len(self.rows) + bool(self._older)

    @property
    def current(self) -> TurnRow | None:
        """The row at the cursor, or None."""
        return self.rows[self._at] if self._at < len(self.rows) else None

    def _move_to(self, place: int) -> None:
        self._at = max(0, min(place, self._lines - 1))
        height = self.size.height
        if self._at < self.scroll_y:
            self.scroll_to(y=self._at, animate=False, immediate=True)
        elif height and self._at >= self.scroll_y + height:
            self.scroll_to(y=self._at - height + 1, animate=False, immediate=True)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        at, width = int(self.scroll_y) + y, self.scrollable_content_region.width
        if at >= self._lines:
            return Strip.blank(width, self.rich_style)
        row = self.rows[at] if at < len(self.rows) else None
        text = self._line(row, width) if row else f"      … {count(self._older, 'older message')}; Enter lists more"
        style = self.rich_style
        if at == self._at and self.has_focus:
            text, style = f"▌{text[1:]}", style + component_style(self, "rows--cursor")
        elif row is None or not row.sent or row.evicted:
            style = style + component_style(self, "rows--muted")
        return Strip([Segment(text, style)]).adjust_cell_length(width, Style.null())

    def _line(self, row: TurnRow, width: int) -> str:
        """Return `  [x]  18  Run the whole test suite       14.2K ██████ 23%   6 calls`."""
        tick = "[x]" if row.id in self.ticked else "[ ]"
        number = "" if row.tool else str(row.id)
        share = f"{100 * row.tokens // self._tokens or '<1'}%" if row.sent else "—"
        end = f"{brief(row.tokens):>6}"
        if width >= WIDE:
            eighths = round(80 * row.tokens / self._largest) if row.sent else 0
            end += f"  {'█' * (eighths // 8)}{BLOCKS[eighths % 8] if eighths % 8 else ''}".ljust(12)
        about = "evicted" if row.evicted else "" if row.tool else "before window" if not row.sent else ""
        about = about or (count(row.calls, "call") if row.calls else "")
        end += f"  {share:>4}  {about:<13}"
        begin = f" {tick} {number:>{self._digits}}  "
        room = max(10, width - cell_len(begin) - cell_len(end) - 1)
        pin = " 📌" if row.pinned else ""
        turn = f" (turn {row.turn})" if self._apart else ""
        name = harmless(f"└ {row.title}{turn}" if row.tool else row.title or "(no text)")
        left = room - cell_len(pin)
        name = name if cell_len(name) <= left else f"{set_cell_size(name, left - 1)}…"
        return f"{begin}{set_cell_size(name + pin, room)} {end}"

    def on_click(self, event: Click) -> None:
        """Put the cursor on the clicked row. A click on its tick toggles it; a click on the current row opens it."""
        at = int(self.scroll_y) + event.y
        if at < self._lines:
            again = at == self._at
            self._move_to(at)
            if event.x < 5:
                self.action_tick()
            elif again:
                self.action_open()

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self._move_to(self._at + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by `by` screens."""
        self._move_to(self._at + by * max(1, self.size.height - 1))

    def action_tick(self) -> None:
        """Tick or untick the row, and move to the next one."""
        if (row := self.current) is not None:
            self.ticked ^= {row.id}
            self._move_to(self._at + 1)
            self.post_message(self.Ticked())

    def action_open(self) -> None:
        """Open the row."""
        if self._lines:
            self.post_message(self.RowOpened(self.current))
