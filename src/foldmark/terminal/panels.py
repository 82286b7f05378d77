"""Panels: to the right of the chat in a wide terminal, on their own screen in a narrow one."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from foldmark.log import Agent
from foldmark.terminal.prompt import InputPrompt
from foldmark.terminal.screens import ContextScreen, Submit, read_in_thread

WIDE = 100
"""Minimum width, in columns, at which a panel is shown next to the chat."""


class Panel(Vertical):
    """A panel: `read` reads its value, in a thread, and `show` draws it."""

    read: ClassVar["staticmethod[[Agent], Any]"]

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "back")]

    LETTERS: ClassVar[tuple[str, ...]] = ()
    """The actions of keys that are letters. Beside the chat, letters are typed at the prompt."""

    def __init__(self, agent: Agent, submit: Submit) -> None:
        super().__init__()
        self.agent, self.submit = agent, submit

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False for the action of a letter beside the chat."""
        return action not in self.LETTERS or isinstance(self.screen, ContextScreen)

    def on_mount(self) -> None:
        """Take the focus and read for the first time."""
        self.take_keys()
        self.renew()

    def take_keys(self) -> None:
        """Focus the list. A panel that was closed while it opened has none."""
        for options in self.query(OptionList):
            self.screen.set_focus(options)

    def attend(self, agent: Agent) -> None:
        """Show the agent again: its log may have changed."""
        self.agent = agent
        self.renew()

    def renew(self) -> None:
        """Read the log and show it again."""
        # If the conversation was deleted, the chat reports it.
        read_in_thread(self, partial(self.read, self.agent), self.show, failed=lambda _: None)

    def show(self, found: Any) -> None:
        """Draw the value."""
        raise NotImplementedError

    def action_leave(self) -> None:
        """Close the panel; if it fills a screen of its own, close that screen."""
        if isinstance(self.screen, ContextScreen):
            self.screen.dismiss()
        else:
            self.screen.query_one(InputPrompt).focus()
            self.remove()


class PanelScreen(ContextScreen):
    """A panel on its own screen."""

    def __init__(self, panel: type[Panel], agent: Agent, submit: Submit) -> None:
        super().__init__(agent, submit)
        self.panel = panel

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield self.panel(self.agent, self.submit)

    def renew(self) -> None:
        """Show the agent again."""
        self.query_one(Panel).attend(self.agent)


def fill(options: OptionList, rows: Sequence[Option]) -> None:
    """Fill a list with rows. The row with the highlighted id stays highlighted; if it is gone, a nearby row is
    highlighted."""
    at = options.highlighted
    before = None if at is None else options.get_option_at_index(at).id
    options.clear_options()
    options.add_options(rows)
    ids = [row.id for row in rows]
    chosen = [index for index, row in enumerate(rows) if not row.disabled]
    if before in ids:
        options.highlighted = ids.index(before)
    elif chosen:
        options.highlighted = min(chosen, key=lambda index: abs(index - (at or 0)))
