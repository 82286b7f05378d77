"""What the screens beside the chat share: the agent that they show, a line for what a person does, and their keys.

A screen lists its keys in `BINDINGS`, with descriptions of one or two words; a `tooltip` says more. From these come the
line at the bottom and the screen of all keys. A key with `show=False` stands only in the latter.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from foldmark.log import Agent

if TYPE_CHECKING:
    from foldmark.chat.display.find import FoundHit


class GoTo(Message):
    """A person wants to see an event of an agent in the transcript; the application takes it."""

    def __init__(self, agent_id: str, event_id: int) -> None:
        super().__init__()
        self.agent_id, self.event_id = agent_id, event_id


class GoToImported(Message):
    """A person wants to see a hit in an archived session once its import has ended; the application takes it."""

    def __init__(self, hit: "FoundHit") -> None:
        super().__init__()
        self.hit = hit


LAST = ("f2", "f3", "f4", "f5", "f6", "f8", "escape", "ctrl+c", "f1")
"""Keys that are shown behind a screen's own, in this order."""


class KeyLine(Footer):
    """The keys that work here, in the last line: as many as fit, and always the one that lists all."""

    DEFAULT_CSS = "KeyLine { padding: 0 1; }"

    def __init__(self) -> None:
        super().__init__(compact=True)

    def compose(self) -> ComposeResult:
        """Lay out the screen's own keys first. Where all do not fit, `^C` goes, then the last of its own."""
        keys = sorted((key for key in super().compose() if isinstance(key, FooterKey)), key=_place)
        room = self.app.size.width - 2
        while sum(cell_len(f"{key.key_display} {key.description} ") for key in keys) > room + 1:
            own = [key for key in keys if key.key not in ("escape", "f1")]
            if not own:
                break
            keys.remove(next((key for key in own if key.key == "ctrl+c"), own[-1]))
        return keys

    def on_resize(self) -> None:
        """Lay out the keys again."""
        self.refresh(recompose=True)


def _place(key: FooterKey) -> int:
    return LAST.index(key.key) if key.key in LAST else -1


class ContextScreen(Screen[None]):
    """A screen beside the chat: it shows something of an agent.

    `submit` takes a command line, as if it was typed in the chat; what it changes comes back with `attend`. The screen
    has a `KeyLine` without composing one; Esc leaves it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "back")]

    def __init__(self, agent: Agent, submit: Callable[[str], None]) -> None:
        super().__init__()
        self.agent, self.submit = agent, submit

    async def on_mount(self) -> None:
        """Show the keys; a subclass may have an `on_mount` of its own, which is called as well."""
        await self.mount(KeyLine())

    def attend(self, agent: Agent) -> None:
        """Show the agent as the log has it now: something may have changed."""
        self.agent = agent
        self.renew()

    def renew(self) -> None:
        """Read from the log and show again."""
