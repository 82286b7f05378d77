"""The search: hits while a person types, the text around a hit, and a jump to its place.

The input line accepts the arguments of `/recall`. The filter keys write their filters into the line.
"""

from collections.abc import Callable
from functools import partial
from typing import ClassVar
from weakref import WeakKeyDictionary

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from foldmark.chat.display.find import (
    Found,
    FoundHit,
    find,
    key_filters,
    next_filter,
    opening,
    surroundings,
)
from foldmark.core.errors import CommandError
from foldmark.core.search import Excerpt, PassageMessage, passage_lines
from foldmark.core.wording import one_line
from foldmark.log import Agent, Log
from foldmark.rendering import harmless
from foldmark.terminal.screens import ContextScreen, GoTo, GoToImported, Submit, moves, read_in_thread

PAUSE = 0.15
"""Seconds without a key before a search begins."""

AROUND, MOST_AROUND, BESIDE = 3, 200, 2000
"""Messages on each side of a hit, at first and at most, and the maximum characters of each."""

HINT = "words, “phrases”, beginnings as in migrat*, and the filters of /recall: --role user --since 2026-01-31 …"

_SEARCHED: WeakKeyDictionary[Log, str] = WeakKeyDictionary()
"""The latest search line of each log."""


class FindScreen(ContextScreen):
    """Search: everything that was ever said, with hits while a person types."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "open", tooltip="go to the place, or show the text around it", priority=True),
        Binding("ctrl+r", "cycle('role')", "role", tooltip="filter: who said it", priority=True),
        Binding("ctrl+t", "cycle('time')", "time", tooltip="filter: since when", priority=True),
        Binding("ctrl+o", "cycle('agent')", "this agent", tooltip="filter: this agent alone", priority=True),
        Binding("ctrl+s", "cycle('place')", "where", tooltip="filter: in a context, out, archived", priority=True),
        *moves("hit"),
    ]

    def __init__(self, agent: Agent, submit: Submit) -> None:
        super().__init__(agent, submit)
        self._hits: tuple[FoundHit, ...] = ()
        self._searched: str | None = None

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Input(_SEARCHED.get(self.agent.log, ""), placeholder=HINT, compact=True, select_on_focus=False)
        yield Static(id="about", classes="muted cut", markup=False)
        yield OptionList(compact=True, markup=False, classes="cut")

    async def on_mount(self) -> None:
        """Repeat the latest search."""
        self.query_one(OptionList).can_focus = False
        self.query_one(Input).focus()
        self._search()

    def renew(self) -> None:
        """Search again: messages may have left the context."""
        self._searched = None
        if self.is_mounted:
            self._search()

    # Searching

    def on_input_changed(self) -> None:
        """Search once the person pauses."""
        self._search(PAUSE)

    def _search(self, pause: float = 0.0) -> None:
        """Search for the current line, unless the person types on. On an error, the previous hits stay: an option may
        be incomplete so far."""
        line = _SEARCHED[self.agent.log] = self.query_one(Input).value
        if line != self._searched:
            self._searched = line
            read = partial(find, self.agent, line) if line.strip() else lambda: Found((), "")
            read_in_thread(self, read, self._show, failed=self._tell, pause=pause)

    def _show(self, found: Found) -> None:
        hits = self.query_one(OptionList)
        self._hits = found.hits
        hits.clear_options()
        hits.add_options([Option(_shown(hit)) for hit in found.hits])
        hits.highlighted = 0 if found.hits else None
        self._tell(found.about)

    def _tell(self, text: str) -> None:
        self.query_one("#about", Static).update(harmless(text))

    # Keys

    def action_cycle(self, name: str) -> None:
        """Write the next value of a filter into the line."""
        line = self.query_one(Input)
        try:
            value = next_filter(line.value, key_filters(self.agent)[name])
        except CommandError as error:
            self._tell(str(error))
            return
        line.value = value
        line.cursor_position = len(value)

    def on_option_list_option_selected(self) -> None:
        """Open the hit that was clicked."""
        self.action_open()

    def action_open(self) -> None:
        """Go to the place of a hit. For a hit outside this family, first show the text around it."""
        at = self.query_one(OptionList).highlighted
        if at is None:
            return
        hit = self._hits[at]
        if hit.place in ("own", "family"):
            self._go(hit)
        else:
            self.app.push_screen(SurroundingsScreen(self.agent, self.submit, hit, self._go))

    def _go(self, hit: FoundHit) -> None:
        if (command := opening(hit)) is not None:
            self.submit(command)
        if hit.result.event_id is not None:
            self.leave_for(GoTo(hit.result.id, hit.result.event_id))
        else:
            self.leave_for(GoToImported(hit) if hit.place == "session" else None)


class SurroundingsScreen(ContextScreen):
    """Text around a hit of another conversation, of a session, or a memo."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "open", "open", tooltip="open the conversation or the session"),
        Binding("m", "more", "more", tooltip="more messages on each side"),
    ]

    def __init__(self, agent: Agent, submit: Submit, hit: FoundHit, go: Callable[[FoundHit], None]) -> None:
        super().__init__(agent, submit)
        self._hit, self._go, self._reach = hit, go, AROUND

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Static(id="head", classes="muted", markup=False)
        yield VerticalScroll()

    async def on_mount(self) -> None:
        """Read the text around the hit."""
        self._read()

    def _read(self) -> None:
        read_in_thread(
            self, partial(surroundings, self.agent.log, self._hit, self._reach), self._show, failed=self._tell
        )

    def _tell(self, text: str) -> None:
        self.query_one("#head", Static).update(harmless(text))

    def _show(self, found: Excerpt) -> None:
        self._tell(one_line(found.head))
        place = self.query_one(VerticalScroll)
        place.remove_children()
        lines = [_Line(line) for line in found.lines]
        place.mount_all(lines)
        place.focus()
        asked = next((each for each in lines if each.line.asked), lines[0])
        self.call_after_refresh(lambda: place.scroll_to_widget(asked, animate=False))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False if the action has nothing to do."""
        if action == "open":
            return self._hit.place != "memo"
        return action != "more" or (self._hit.place != "memo" and self._reach < MOST_AROUND)

    def action_open(self) -> None:
        """Open the conversation or the session."""
        self.app.pop_screen()
        self._go(self._hit)

    def action_more(self) -> None:
        """Show more messages."""
        self._reach = min(2 * self._reach, MOST_AROUND)
        self._read()


class _Line(Static):
    """A message of the surroundings."""

    def __init__(self, line: PassageMessage) -> None:
        text = "\n".join(list(passage_lines(line, None if line.asked else BESIDE))[1:])
        super().__init__(harmless(text), markup=False, classes="asked" if line.asked else "beside")
        self.line = line


def _shown(hit: FoundHit) -> Content:
    """Return a hit as two lines: author, time and place, then the snippet."""
    parts: list[str | tuple[str, str]] = [(harmless(hit.about), "$text-muted"), "\n    "]
    snippet, at = hit.result.snippet, 0
    for start, end in hit.result.highlights:
        parts += [_plain(snippet[at:start]), (_plain(snippet[start:end]), "bold $accent")]
        at = end
    return Content.assemble(*parts, _plain(snippet[at:]))


def _plain(text: str) -> str:
    return harmless(one_line(text))
