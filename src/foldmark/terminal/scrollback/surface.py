"""Scrollable lines with a cursor, drawn one by one, without a widget for each entry."""

from bisect import bisect_right
from collections.abc import Mapping
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Offset, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from foldmark.terminal.scrollback.drawing import Item, Key
from foldmark.terminal.theme import COMPONENTS, INKS, ink, selected_style


class Surface(ScrollView, can_focus=True):
    """Items one below the other. The view stays at the end unless the person has scrolled away."""

    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENTS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "up", show=False),
        Binding("down", "move(1)", "down", show=False),
        Binding("shift+up", "extend(-1)", show=False, tooltip="select upwards; Ctrl-C copies, as after dragging"),
        Binding("shift+down", "extend(1)", show=False, tooltip="select downwards; Ctrl-C copies, as after dragging"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.following = True
        self.indent = 0
        self._items: list[Item] = []
        self._tops: list[int] = []
        self._cursor: Key | None = None
        self._selected_from = 0

    def styles_by_name(self) -> Mapping[str, Style]:
        """Return the styles of the theme, for `Drawing`."""
        return {name: ink(self, name) for name in INKS}

    def action_open(self) -> None:
        """Open the item at the cursor."""

    def show(self, items: list[Item], width: int) -> None:
        """Show these items without moving the lines on the screen."""
        top = self._top()
        self._items, self._tops, height = items, [], 0
        for item in items:
            self._tops.append(height)
            height += len(item.strips)
        self.virtual_size = Size(width, height)
        if self.following:
            self.scroll_end(animate=False, immediate=True, x_axis=False)
        elif top is not None:
            self._scroll_back(*top)
        self.refresh()

    def _top(self) -> tuple[Key, int] | None:
        """Return the key of the item at the top of the screen, and the number of its lines above the top."""
        if not self._items:
            return None
        at = max(0, bisect_right(self._tops, self.scroll_offset.y) - 1)
        return self._items[at].key, self.scroll_offset.y - self._tops[at]

    def _scroll_back(self, key: Key, above: int) -> None:
        at = self._at(key)
        if at is None:  # the item is gone or folded
            later = [place for place, item in enumerate(self._items) if item.key[0] >= key[0]]
            at = later[0] if later else len(self._items) - 1
        if at >= 0:
            self.scroll_to(y=self._tops[at] + above, animate=False, immediate=True)

    def _at(self, key: Key | None) -> int | None:
        return next((place for place, item in enumerate(self._items) if item.key == key), None)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        width, base = self.scrollable_content_region.width, self.rich_style
        line = self.scroll_offset.y + y
        at = bisect_right(self._tops, line) - 1
        strips = self._items[at].strips if at >= 0 else []
        within = line - self._tops[at] if at >= 0 else 0
        if within >= len(strips):
            return Strip.blank(width, base)
        strip = strips[within]
        if self.has_focus and self._items[at].key == self._cursor and strip.cell_length:
            bar = Segment("▌", ink(self, "accent"))
            strip = Strip([bar, *strip.crop(1)])
        if (selection := self.text_selection) is not None and (span := selection.get_span(line)) is not None:
            text = Text.assemble(*((segment.text, segment.style or "") for segment in strip))
            text.stylize(selected_style(self), span[0], len(text) if span[1] == -1 else span[1])
            strip = Strip(text.render(self.app.console, end=""))
        return strip.crop_extend(0, width, None).apply_style(base).apply_offsets(0, line)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, without the signs and spaces before its lines."""
        text = selection.extract("\n".join(strip.text for item in self._items for strip in item.strips))
        first, *rest = text.split("\n")
        begin = 0 if selection.start is None else selection.start.x
        lines = [first[max(0, self.indent - begin) :], *(line[self.indent :] for line in rest)]
        return "\n".join(line.rstrip() for line in lines), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Redraw the selection."""
        self.refresh()

    def set_cursor(self, key: Key) -> None:
        self._cursor = key
        if (at := self._at(key)) is not None:
            top, end = self._tops[at], self._tops[at] + len(self._items[at].strips)
            if top < self.scroll_y or end - top > self.size.height:
                self.scroll_to(y=top, animate=False, immediate=True)
            elif end > self.scroll_y + self.size.height:
                self.scroll_to(y=end - self.size.height, animate=False, immediate=True)
        self.refresh()

    @property
    def current(self) -> Item | None:
        """The item at the cursor."""
        at = self._at(self._cursor)
        return None if at is None else self._items[at]

    def on_focus(self) -> None:
        """Put the cursor on the newest item on the screen if it is on no item yet."""
        if self.current is None and self._items:
            end = bisect_right(self._tops, self.scroll_offset.y + self.size.height - 1) - 1
            self.set_cursor(self._items[max(0, end)].key)

    def on_click(self, event: Click) -> None:
        """Put the cursor on the clicked item. If it is already there, open the item."""
        at = bisect_right(self._tops, self.scroll_offset.y + event.y) - 1
        if at >= 0 and self.text_selection is None:
            if self._items[at].key == self._cursor:
                self.action_open()
            else:
                self.set_cursor(self._items[at].key)

    def action_extend(self, by: int) -> None:
        """Move the cursor by `by` items, and select the items from where the selection began."""
        here = self._at(self._cursor)
        if here is None:
            return
        if self.text_selection is None:
            self._selected_from = here
        self.action_move(by)
        there = self._at(self._cursor)
        assert there is not None
        first, last = sorted((self._selected_from, there))
        end = self._tops[last] + len(self._items[last].strips) - 1
        self.screen.selections = {self: Selection(Offset(0, self._tops[first]), Offset(self.size.width, end))}

    def action_move(self, by: int) -> None:
        """Move the cursor by `by` items."""
        at = self._at(self._cursor)
        if self._items:
            to = len(self._items) - 1 if at is None else min(max(0, at + by), len(self._items) - 1)
            self.set_cursor(self._items[to].key)
