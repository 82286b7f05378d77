"""The common parts of the screens other than the chat: the agent shown, reading in a thread, and the line of keys.

A screen lists its keys in `BINDINGS`, with descriptions of one or two words; a `tooltip` says more. They define the
line at the bottom and the screen of all keys. A key with `show=False` appears only on the latter.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, Static, TextArea
from textual.widgets._footer import FooterKey
from textual.worker import Worker, get_current_worker

from foldmark.core.errors import FoldmarkError
from foldmark.log import Agent
from foldmark.rendering import harmless

if TYPE_CHECKING:
    from foldmark.chat.display.find import FoundHit

_T = TypeVar("_T")

Submit = Callable[[str], None]
"""Accepts a command line as if it had been typed in the chat."""


def read_in_thread(
    node: DOMNode,
    read: Callable[[], _T],
    show: Callable[[_T], object],
    *,
    failed: Callable[[str], object] | None = None,
    group: str = "read",
    pause: float = 0.0,
) -> None:
    """Call `read` in the thread of all readings, then call `show` with its value in the application's thread.

    A newer reading of the same node and group replaces an older one, whose value is not shown. Within `pause` seconds,
    the older one does not even begin. A FoldmarkError goes to `failed` as text; without `failed` it appears as a
    notification.
    """

    async def run() -> None:
        worker = get_current_worker()
        await asyncio.sleep(pause)
        outcome: Callable[[], object]
        try:
            outcome = partial(show, await asyncio.to_thread(read))
        except FoldmarkError as error:
            outcome = partial(failed or partial(notify_error, node), str(error))

        def finish() -> None:
            # Another reading may have begun, or the node may have left the screen, since the reading ended.
            if not worker.is_cancelled and node.is_attached:
                outcome()

        node.call_later(finish)

    # An unexpected error in another screen must not end the chat.
    _: Worker[None] = node.run_worker(run, exclusive=True, group=group, exit_on_error=False)


def notify_error(node: DOMNode, text: str) -> None:
    """Show an error above any screen."""
    node.app.notify(harmless(text), severity="error", markup=False)


class GoTo(Message):
    """Asks the chat to show an event of an agent in the transcript."""

    def __init__(self, agent_id: str, event_id: int) -> None:
        super().__init__()
        self.agent_id, self.event_id = agent_id, event_id


class GoToImported(Message):
    """Asks the chat to show a hit of an archived session once that session has been imported."""

    def __init__(self, hit: "FoundHit") -> None:
        super().__init__()
        self.hit = hit


def moves(what: str) -> list[Binding]:
    """Return the keys that move in the list of a screen while its line has the focus; a row of the list is a `what`."""
    keys = {"down": "cursor_down", "up": "cursor_up", "pagedown": "page_down", "pageup": "page_up"}
    return [
        Binding(key, f"app.move('{action}')", show=False, tooltip=f"another {what}", priority=True)
        for key, action in keys.items()
    ]


LAST = ("f2", "f3", "f4", "f5", "f6", "ctrl+p", "f8", "escape", "ctrl+c", "f1")
"""Keys that follow a screen's own keys, in this order."""


class KeyLine(Footer):
    """The line of keys: as many as fit, and always the key that lists them all."""

    def __init__(self) -> None:
        super().__init__(compact=True)
        self._composed: object = None

    async def recompose(self) -> None:
        """Compose the keys again if they have changed. Textual calls this after each change of focus."""
        if not self.children or self._composed != self._basis():
            await super().recompose()

    def _basis(self) -> tuple[object, ...]:
        """Return the data from which the keys are composed."""
        return self.app.size.width, [key[1:] for key in self.screen.active_bindings.values() if key.binding.show]

    def compose(self) -> ComposeResult:
        """Return the keys, the screen's own first. If they do not fit, omit `^C`, then the screen's last keys."""
        self._composed = self._basis()
        keys = sorted(
            (key for key in super().compose() if isinstance(key, FooterKey)),
            key=lambda key: LAST.index(key.key) if key.key in LAST else -1,
        )
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


class ContextScreen(Screen[None]):
    """A screen beside the chat, which shows something of an agent.

    `attend` is called after each submitted command has run. The screen gets a `KeyLine` without composing one; Esc
    leaves the screen.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "back")]

    def __init__(self, agent: Agent, submit: Submit) -> None:
        super().__init__()
        self.agent, self.submit = agent, submit

    async def on_mount(self) -> None:
        """Add the line of keys. Textual also calls the `on_mount` of a subclass."""
        await self.mount(KeyLine())

    def attend(self, agent: Agent) -> None:
        """Show the agent again: its log may have changed."""
        self.agent = agent
        self.renew()

    def renew(self) -> None:
        """Read the log and show it again."""

    def leave_for(self, place: GoTo | GoToImported | None) -> None:
        """Return to the chat and show a place in its transcript."""
        if place is not None:
            self.app.screen_stack[0].post_message(place)
        self.dismiss()


class TextScreen(ContextScreen):
    """A long text that is read from the log. The cursor goes to the first line that begins with `begin`."""

    def __init__(
        self, agent: Agent, submit: Submit, read: Callable[[], str], *, heading: str = "", begin: str = ""
    ) -> None:
        super().__init__(agent, submit)
        self._read, self._heading, self._begin = read, heading, begin

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        if self._heading:
            yield Static(harmless(self._heading), markup=False, classes="heading")
            yield TextArea(read_only=True)
        else:
            yield TextArea(read_only=True, show_cursor=False, compact=True)

    async def on_mount(self) -> None:
        """Read the text."""
        read_in_thread(self, self._read, self._show, failed=self._show)

    def _show(self, text: str) -> None:
        area = self.query_one(TextArea)
        area.text = text = harmless(text)
        found = (at for at, line in enumerate(text.split("\n")) if line.startswith(self._begin))
        area.move_cursor((next(found, 0), 0), center=False)
        area.focus()
