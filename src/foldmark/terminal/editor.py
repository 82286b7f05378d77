"""The editor of the prompt: a text area in which Enter submits the text. Until then, labels stand for long pastes."""

import re
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.document._document import Document
from textual.events import Key, Paste
from textual.geometry import Offset, Size
from textual.widgets import TextArea
from textual.widgets.text_area import Location, Selection

from foldmark.core.wording import count
from foldmark.rendering import harmless

NEW_LINE = frozenset({"shift+enter", "alt+enter", "ctrl+enter", "ctrl+j", "shift+\r", "alt+\r"})
"""Keys that begin a new line. Without kitty's keyboard protocol, as in tmux, a terminal sends the same code for
Shift+Enter as for Enter; Alt+Enter and Ctrl+J work everywhere."""

MOST_SHOWN = 200_000
"""Maximum number of characters of a paste that can be shown in place of its label. Laying out more takes seconds."""

LINES, CHARACTERS = 10, 1000
"""Lines and characters above which a pasted text is folded into a label."""


class PasteLabel(NamedTuple):
    """A label in a line: its position, and the text that it stands for."""

    first: int
    last: int
    text: str


class Pastes:
    """The long pasted texts of one line."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def folded(self, text: str) -> str:
        """Return the replacement for a pasted text in the line: a label if the text is long, otherwise the text without
        terminal control sequences."""
        text = re.sub("\r\n?", "\n", text)
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= LINES and len(text) <= CHARACTERS:
            return harmless(text)
        size = count(lines, "line") if lines > LINES else count(len(text), "character")
        number = sum(label.startswith(f"[pasted {size}") for label in self._texts) + 1
        label = f"[pasted {size}]" if number == 1 else f"[pasted {size}, {number}]"
        self._texts[label] = text
        return label

    def labels(self, line: str) -> list[PasteLabel]:
        """Return the labels in a line, in order."""
        if not self._texts:
            return []
        pattern = "|".join(map(re.escape, self._texts))
        return [PasteLabel(*found.span(), self._texts[found[0]]) for found in re.finditer(pattern, line)]

    def whole(self, line: str) -> str:
        """Return the line with every label replaced by its text."""
        parts, at = [], 0
        for label in self.labels(line):
            parts += [line[at : label.first], label.text]
            at = label.last
        return "".join((*parts, line[at:]))

    def refolded(self, text: str) -> str:
        """Return a line that was edited in full, with labels restored for the pasted texts that it still contains."""
        for label, pasted in self._texts.items():
            text = text.replace(pasted, label, 1)
        return self.folded(text) if len(text) > CHARACTERS * LINES else harmless(text)


class Editor(TextArea):
    """The text being typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+o", "unfold", "unfold", show=False, tooltip="show a long paste in place of its label")
    ]

    def __init__(self, entered: Callable[[], None], edge: Callable[[int], None]) -> None:
        """`entered` is called for Enter; `edge` is called with -1 for Up in the first line and with 1 for Down in the
        last."""
        super().__init__(highlight_cursor_line=False)
        self.match_cursor_bracket = False
        self.pastes = Pastes()
        self._entered, self._edge = entered, edge

    @property
    def whole(self) -> str:
        """The text with the pastes in place of their labels."""
        return self.pastes.whole(self.text)

    @property
    def index(self) -> int:
        """The position of the cursor in the text, in characters."""
        return self._plain.get_index_from_location(self.cursor_location)

    @property
    def _plain(self) -> Document:
        assert isinstance(self.document, Document)
        return self.document

    def put(self, text: str) -> None:
        """Replace the text, as an edit that can be undone. The cursor goes to its end."""
        self.put_in(text, 0, len(self.text))

    def put_in(self, text: str, first: int, last: int) -> None:
        """Replace the characters from `first` up to `last`, and put the cursor after them."""
        place = self._plain.get_location_from_index
        result = self.replace(harmless(text), place(first), place(last), maintain_selection_offset=False)
        self.move_cursor(result.end_location)

    def begin(self) -> None:
        """Begin a new text, without the undo history of the old one."""
        self.load_text("")
        self.pastes = Pastes()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height of the text, at most a third of the screen."""
        return min(super().get_content_height(container, viewport, width), viewport.height // 3)

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        """Scroll to the cursor. During an undo, it may be beyond the new end of the text, where Textual would fail."""
        if self.cursor_location[0] >= self.wrapped_document.document.line_count:
            return Offset()
        return super().scroll_cursor_visible(center, animate)

    async def _on_key(self, event: Key) -> None:
        if await self._takes(event):
            event.stop()
            event.prevent_default()
        else:
            await super()._on_key(event)

    async def _takes(self, event: Key) -> bool:
        """Handle a key of the prompt; return False for any other key, which the text area handles."""
        if event.character == "?" and not self.text:
            await self.app.run_action("open('keys')")
        elif event.key == "enter" or event.key in NEW_LINE:
            self._enter(event.key)
        else:
            return not event.is_printable and await self._act(event.key)
        return True

    def _enter(self, key: str) -> None:
        """Submit the text. A key of `NEW_LINE` begins a new line instead, and so does Enter after a backslash, which is
        replaced."""
        line = self.document[self.cursor_location[0]]
        goes_on = self.cursor_at_end_of_line and (len(line) - len(line.rstrip("\\"))) % 2
        if key == "enter" and not goes_on:
            self._entered()
            return
        start, end = self.selection
        if key == "enter":
            start = (end[0], end[1] - 1)
        self._replace_via_keyboard("\n", start, end)

    async def _act(self, key: str) -> bool:
        """Run the binding of a key, here or in the prompt around the editor. Textual would run it after the other keys
        of the same input, which would reorder fast typing."""
        for node in takewhile(lambda node: node is not self.screen, self.ancestors_with_self):
            for binding in node._bindings.key_to_bindings.get(key, ()):
                if await self.app.run_action(binding.action, node):
                    return True
        return False

    async def _on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        if result := self._replace_via_keyboard(self.pastes.folded(event.text), *self.selection):
            self.move_cursor(result.end_location)
            self.focus()

    # Labels, each deleted as a whole

    def _labels(self) -> Iterator[tuple[PasteLabel, Location, Location]]:
        place = self._plain.get_location_from_index
        for label in self.pastes.labels(self.text):
            yield label, place(label.first), place(label.last)

    def action_unfold(self) -> None:
        """Show a paste in place of its label: the last one before the cursor, or else the first one."""
        labels = list(self._labels())
        before = [each for each in labels if each[1] <= self.cursor_location]
        for label, first, last in before[-1:] or labels[:1]:
            if len(label.text) > MOST_SHOWN:
                self.app.notify("The paste is too long to show here; Ctrl+G opens it in your editor.")
                return
            result = self.replace(harmless(label.text), first, last, maintain_selection_offset=False)
            self.move_cursor(result.end_location)

    def action_delete_left(self) -> None:
        """Delete a character, or the label before the cursor."""
        self._select_label(1)
        super().action_delete_left()

    def action_delete_right(self) -> None:
        """Delete a character, or the label after the cursor."""
        self._select_label(0)
        super().action_delete_right()

    def _select_label(self, end: int) -> None:
        if self.selection.is_empty:
            for _, *place in self._labels():
                if place[end] == self.cursor_location:
                    self.selection = Selection(*place)

    # History

    def action_cursor_up(self, select: bool = False) -> None:
        """Go up a line; from the first line, go back in the history."""
        if select or not self.navigator.is_first_wrapped_line(self.cursor_location):
            super().action_cursor_up(select)
        else:
            self._edge(-1)

    def action_cursor_down(self, select: bool = False) -> None:
        """Go down a line; from the last line, go forward in the history."""
        if select or not self.navigator.is_last_wrapped_line(self.cursor_location):
            super().action_cursor_down(select)
        else:
            self._edge(1)
