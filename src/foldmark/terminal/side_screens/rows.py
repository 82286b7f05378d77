"""The list of turns: lines with a cursor, ticks and folds, drawn one by one as they come into view."""

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
from foldmark.chat.display.turns import Line, More, Section, TurnRow
from foldmark.core.wording import count
from foldmark.cost.messages import OUT, SENT, Place
from foldmark.rendering import harmless
from foldmark.terminal.columns import WIDEST, fitted
from foldmark.terminal.theme import COMPONENTS, ink

WIDE = 96
"""Minimum width, in columns, at which each row has a bar."""

BLOCKS = " ▏▎▍▌▋▊▉█"


class RowList(ScrollView, can_focus=True):
    """Turns and results with ticks, below the headings of their sections."""

    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENTS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "fold(False)", show=False, tooltip="fold a turn or a section"),
        Binding("up,k", "move(-1)", show=False, tooltip="the row above"),
        Binding("down,j", "move(1)", show=False, tooltip="the row below"),
        Binding("pageup", "page(-1)", show=False, tooltip="a screen up"),
        Binding("pagedown", "page(1)", show=False, tooltip="a screen down"),
        Binding("home", "move(-1000000000)", show=False, tooltip="the first row"),
        Binding("end", "move(1000000000)", show=False, tooltip="the last row"),
    ]

    class Ticked(Message):
        """The ticks have changed."""

    class Opened(Message):
        """A turn or a result was opened."""

        def __init__(self, row: TurnRow) -> None:
            super().__init__()
            self.row = row

    class Folded(Message):
        """Asks to fold or unfold a turn or a section, or for more of a section's turns."""

        def __init__(self, what: int | Place, *, unfold: bool, more: bool = False) -> None:
            super().__init__()
            self.what, self.unfold, self.more = what, unfold, more

    def __init__(self) -> None:
        super().__init__()
        self.lines: Sequence[Line] = ()
        self.ticked: set[int] = set()
        self._opened: frozenset[int | Place] = frozenset()
        self._tokens, self._largest, self._at, self._digits = 1, 1, 0, 1
        self._apart = False

    @property
    def rows(self) -> list[TurnRow]:
        """The turns and results that are shown."""
        return [line for line in self.lines if isinstance(line, TurnRow)]

    def show(self, lines: Sequence[Line], tokens: int, opened: frozenset[int | Place], *, apart: bool = False) -> None:
        """Show the lines of a list, whose request has `tokens` tokens. The cursor stays on its line. `opened` are the
        sections and turns that are not folded. Results that are listed `apart` from their turns name their turns."""
        before = self._key(self.current)
        self._apart, self.lines, self._opened, self._tokens = apart, lines, opened, max(1, tokens)
        rows = self.rows
        self._largest = max((row.tokens for row in rows), default=1) or 1
        self._digits = max((len(str(row.turn)) for row in rows), default=1)
        self.virtual_size = Size(self.size.width, len(lines))
        first = next((at for at, line in enumerate(lines) if isinstance(line, TurnRow)), 0)
        place = next((at for at, line in enumerate(lines) if self._key(line) == before), self._at if before else first)
        self._move_to(place)

    def _key(self, line: Line | None) -> object:
        return line.id if isinstance(line, TurnRow) else None if line is None else (type(line), line.place)

    @property
    def current(self) -> Line | None:
        """The line at the cursor, or None."""
        return self.lines[self._at] if self._at < len(self.lines) else None

    @property
    def current_row(self) -> TurnRow | None:
        """The turn or the result at the cursor, or None."""
        line = self.current
        return line if isinstance(line, TurnRow) else None

    def _move_to(self, place: int) -> None:
        self._at = max(0, min(place, len(self.lines) - 1))
        height = self.size.height
        if self._at < self.scroll_y:
            self.scroll_to(y=self._at, animate=False, immediate=True)
        elif height and self._at >= self.scroll_y + height:
            self.scroll_to(y=self._at - height + 1, animate=False, immediate=True)
        self.refresh()

    # Drawing

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        at, width = int(self.scroll_y) + y, self.scrollable_content_region.width
        if at >= len(self.lines):
            return Strip.blank(width, self.rich_style)
        line = self.lines[at]
        match line:
            case TurnRow():
                parts = self._row(line, min(width, WIDEST))
            case Section():
                parts = self._section(line)
            case More():
                parts = [(f"      … {count(line.older, 'older message')}; Enter lists more", "muted")]
        base = self.rich_style
        if at == self._at and self.has_focus:
            text = "".join(text for text, _ in parts)
            strip = Strip([Segment(f"▌{text[1:]}", base + ink(self, "accent") + Style(bold=True))])
        else:
            strip = Strip([Segment(text, base + ink(self, style)) for text, style in parts])
        return strip.adjust_cell_length(width, base)

    def _section(self, section: Section) -> list[tuple[str, str]]:
        """Return `▸ Before the window · 48 messages, 21K · not sent`."""
        sign = "▾" if section.place in self._opened else "▸"
        name = section.place[0].upper() + section.place[1:]
        size = f" · {count(section.size.messages, 'message')}, {brief(section.size.tokens)}"
        about = "" if section.place == SENT else " · not sent"
        return [(f" {sign} {name}", "strong"), (size + about, "muted")]

    def _row(self, row: TurnRow, width: int) -> list[tuple[str, str]]:
        """Return `  [x] ▸ 18  Run the whole test suite       14.2K ██████ 23%   6 calls`."""
        tick = "   " if row.place == OUT else "[x]" if row.id in self.ticked else "[ ]"
        fold = " " if row.tool or not row.results else "▾" if row.id in self._opened else "▸"
        number = "" if row.tool else str(row.id)
        share = f"{100 * row.tokens // self._tokens or '<1'}%" if row.sent else "—"
        size, bar = f"{brief(row.tokens):>6}", ""
        if width >= WIDE:
            eighths = round(80 * row.tokens / self._largest) if row.sent else 0
            bar = f"  {'█' * (eighths // 8)}{BLOCKS[eighths % 8] if eighths % 8 else ''}".ljust(12)
        about = (
            row.back
            or "evicted" * row.evicted
            or "shortened" * row.shortened
            or (count(row.calls, "call") if row.calls else "")
        )
        end = f"  {share:>4}  {about:<13}"
        begin = f" {tick} {fold} {number:>{self._digits}}  "
        room = max(10, width - sum(map(cell_len, (begin, size, bar, end))) - 1)
        pin = " 📌" if row.pinned else ""
        turn = f" (turn {row.turn})" if self._apart and row.tool else ""
        name = harmless(f"└ {row.title}{turn}" if row.tool and not self._apart else row.title + turn or "(no text)")
        name = fitted(name, room - cell_len(pin))
        faint = not row.sent or row.evicted
        return [
            (begin, "accent" if row.id in self.ticked else "muted"),
            (f"{set_cell_size(name + pin, room)} ", "muted" if faint or (row.tool and not self._apart) else "plain"),
            (size, "muted" if faint else "plain"),
            (bar, "accent"),
            (end, "muted"),
        ]

    # Keys

    def on_click(self, event: Click) -> None:
        """Put the cursor on the clicked line. A click on its tick toggles it; a click on the current line opens it."""
        at = int(self.scroll_y) + event.y
        if at < len(self.lines):
            again = at == self._at
            self._move_to(at)
            if event.x < 5 and self.current_row is not None:
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
        """Tick or untick the turn or the result, and move to the next line."""
        row = self.current_row
        if row is not None and row.place != OUT:
            self.ticked ^= {row.id}
            self.post_message(self.Ticked())
        self._move_to(self._at + 1)

    def action_open(self) -> None:
        """Open a turn or a result, fold or unfold a section, or list more of it."""
        match self.current:
            case TurnRow() as row:
                self.post_message(self.Opened(row))
            case Section(place=place):
                self.post_message(self.Folded(place, unfold=place not in self._opened))
            case More(place=place):
                self.post_message(self.Folded(place, unfold=True, more=True))
            case None:
                pass

    def action_fold(self, unfold: bool) -> None:
        """Fold or unfold the turn or the section at the cursor. From a result, fold its turn."""
        match self.current:
            case TurnRow() as row if not row.tool or not unfold:
                if not unfold:
                    at = next((at for at, each in enumerate(self.lines) if self._key(each) == row.turn), self._at)
                    self._move_to(at)
                self.post_message(self.Folded(row.turn, unfold=unfold))
            case Section(place=place):
                self.post_message(self.Folded(place, unfold=unfold))
            case _:
                pass
