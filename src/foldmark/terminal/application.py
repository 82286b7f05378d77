"""The application: the screen of the chat and its keys. The chat itself runs in the background."""

import asyncio
import os
import select
import signal
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, partial
from importlib import import_module
from typing import ClassVar

import click
from textual.app import App
from textual.binding import Binding, BindingType
from textual.events import Event, Key, Paste, Resize
from textual.reactive import Initialize, Reactive
from textual.screen import Screen
from textual.theme import Theme
from textual.widgets import Input, OptionList, TextArea

from foldmark.chat.controller import ChatController
from foldmark.chat.conversation import Models, converse
from foldmark.core.wording import count
from foldmark.log import Agent
from foldmark.rendering import harmless
from foldmark.runtime.background import Background
from foldmark.terminal import output, pasting
from foldmark.terminal.chat import ChatScreen
from foldmark.terminal.dialogs import ApprovalDialog
from foldmark.terminal.panels import WIDE, Panel, PanelScreen
from foldmark.terminal.theme import DARK, LIGHT, THEMES, named
from foldmark.terminal.view import TerminalView

SCREENS = {
    "turns": "turns:TurnsScreen",
    "conversations": "conversations:ConversationsScreen",
    "agents": "overview:AgentsPanel",
    "state": "overview:StatePanel",
    "time": "time:TimeScreen",
    "find": "find:FindScreen",
    "keys": "keys:KeysScreen",
}
"""Panels, and screens other than the chat, each imported when it is opened."""


def run(agent: Agent, models: Models, opening: str = "", chosen: Callable[[Agent], object] | None = None) -> int:
    """Chat in the application until the person leaves. `opening` is shown first. Return the exit code of the last
    error. With `chosen`, the person chooses a conversation first, and `chosen` is called with it; until then, `agent`
    is the current one."""
    output.install()
    pasting.install()
    application = ChatApplication(agent, models, opening, chosen)
    try:
        application.run()
    finally:
        code = application.end()
    if text := application.farewell:
        click.echo(harmless(text), err=bool(application.controller.broken))
    return code


def _first_theme(app: "ChatApplication") -> str:
    return named(app._preferred, os.environ).name


class ChatApplication(App[None]):
    """The chat on a full screen, until it has `ended`."""

    CSS_PATH = "application.tcss"
    ENABLE_COMMAND_PALETTE = False
    TITLE = "Foldmark"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+c",
            "interrupt",
            "stop",
            tooltip="copy the selected text, else stop (/copy copies an answer)",
            priority=True,
        ),
        Binding("ctrl+q", "leave", "leave", show=False, priority=True),
        Binding("f1", "open('keys')", "keys", tooltip="all keys"),
        Binding("question_mark", "open('keys')", show=False, tooltip="all keys, while nothing is typed"),
        Binding("f8", "answer", "answer", tooltip="answer a tool that asks for approval", priority=True),
        Binding("f7", "bring_in", "import", show=False, tooltip="import what is new in the session", priority=True),
        Binding("f9", "change_theme", "light or dark", show=False),
    ]

    theme: Reactive[str] = Reactive(Initialize(_first_theme))
    """Set from the start: a theme that is set later makes Textual style and lay out everything again."""

    def __init__(
        self, agent: Agent, models: Models, opening: str = "", chosen: Callable[[Agent], object] | None = None
    ) -> None:
        self._preferred = agent.log.given.theme
        super().__init__()
        self._chosen, self._choice = chosen, ""
        self.ended = False
        self.chat = ChatScreen(agent, self.submit, lambda: self._view.take_back())
        self._models = models
        self._view = TerminalView(self.chat, self._put, self._call)
        self.controller = ChatController(agent, self._view, opening)
        self._actions: deque[Callable[[], object]] = deque()
        self._background: Background[int] | None = None
        self._leaving = False
        self._ended_by = 0

    @cached_property  # Textual asks for it with each style of each widget
    def available_themes(self) -> dict[str, Theme]:
        """Foldmark's own themes by name: their contrast is tested."""
        return THEMES

    def get_default_screen(self) -> Screen[None]:
        """Return the screen of the chat."""
        return self.chat

    @property
    def farewell(self) -> str:
        """The text to print once the screen is gone. After an error of the database, it is the error with what the
        person typed last, which may be recorded nowhere."""
        if wrong := self.controller.broken:
            return "\n".join((wrong, *(["You had typed:", *typed] if (typed := self._view.typed) else ())))
        return self.controller.farewell

    @property
    def idle(self) -> bool:
        """True while the chat waits for a line, and no turn or command runs."""
        return self._view.idle

    def on_mount(self) -> None:
        """Handle signals, and let all screens read in one thread."""
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1, thread_name_prefix="foldmark-screen"))
        if sys.platform != "win32":
            for number in (signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                    loop.add_signal_handler(number, self._end_by, number)
            if not self.is_headless:
                self.set_interval(1.0, self._look_at_terminal)

    def on_chat_screen_ready(self) -> None:
        """Begin the chat once its screen is complete. If the person has to choose a conversation first, ask them."""
        if self._chosen is None:
            self._begin()
        else:
            from foldmark.terminal.side_screens.conversations import ConversationsScreen

            screen = ConversationsScreen(self.chat.agent, self._choose, opened=False)
            self.push_screen(screen, lambda _: None if self._choice else self._finish())

    def _choose(self, line: str) -> None:
        """Begin the chat in the conversation to which a command goes."""
        self._choice = line
        self._begin()

    @property
    def _choosing(self) -> bool:
        return self._chosen is not None and not self._choice

    def _look_at_terminal(self) -> None:
        """End the chat if the terminal has hung up. A program that was started with SIGHUP ignored, as by nohup, gets
        no signal then, and Textual reads the end of its input again and again."""
        poll = select.poll()
        poll.register(0, 0)  # POLLHUP is always reported
        if any(event & select.POLLHUP for _, event in poll.poll(0)):
            self._end_by(signal.SIGHUP)

    def _end_by(self, number: int) -> None:
        self._ended_by = number
        if self._background is None:
            self._finish()
        else:
            self._interrupt()
            self._background.cancel()

    def _interrupt(self) -> None:
        self._view.drop()
        self._call(self.controller.interrupt)

    def end(self) -> int:
        """Wait for the end of the chat, and return its exit code. If it is still running, its turn is interrupted and
        recorded. Raises the error that broke it, if any."""
        code = 0
        if self._background is not None:
            if not self._background.ended:
                self._interrupt()
                self._background.cancel()
            with suppress(asyncio.CancelledError):
                code = self._background.result()
        return 128 + self._ended_by if self._ended_by else code

    # The chat, in its own thread

    def _begin(self) -> None:
        self._background = Background(self._converse(), partial(self._put, self._finish))

    async def _converse(self) -> int:
        if self._chosen is not None:
            self.controller.start_in(self._choice)
            self._chosen(self.controller.agent)
        return await converse(self.controller, self._models)

    def _call(self, action: Callable[[], object]) -> None:
        if self._background is not None:
            self._background.call(action)

    def _finish(self) -> None:
        self.ended = True
        self.exit()

    def _put(self, action: Callable[[], object]) -> None:
        """Run an action in the application's thread, in order; called in any thread."""
        self._actions.append(action)
        with suppress(RuntimeError):  # the application has ended
            self.call_later(self._act)

    def _act(self) -> None:
        while self._actions:
            self._actions.popleft()()

    # Keys

    async def on_event(self, event: Event) -> None:
        """Give what is typed or pasted in the chat to its prompt from the first key on. By way of another part, keys
        would reach the prompt behind keys that are typed after them."""
        if isinstance(event, Key | Paste) and not event.is_forwarded and self.screen is self.chat:
            self.chat.focus_for(event)
        await super().on_event(event)

    def action_interrupt(self) -> None:
        """Copy the selected text. Without a selection, interrupt the turn or command. If none runs, clear the prompt.
        In an empty prompt, the second press leaves the chat."""
        if text := self._selected():
            self.copy_to_clipboard(text)  # by OSC 52, which reaches the terminal through ssh, too
            self.screen.clear_selection()
            self.notify(f"Copied {count(len(text), 'character')}.")
        elif self._choosing:
            self._finish()
        elif not self.idle:
            self._interrupt()
        elif self.screen is self.chat and self.chat.prompt.text:
            self.chat.prompt.clear()
        elif self._leaving:
            self.action_leave()
        else:
            self._leaving = True
            self.set_timer(3.0, partial(setattr, self, "_leaving", False))
            self.notify("Ctrl-C again leaves; everything is kept.")

    def _selected(self) -> str:
        """Return the selected text of the focused field, otherwise that of the screen; "" without a selection."""
        field = self.screen.focused
        own = field.selected_text if isinstance(field, Input | TextArea) else ""
        return own or self.screen.get_selected_text() or ""

    def action_leave(self) -> None:
        """Leave the chat at the end of the current turn or command. If one runs, the second press interrupts it."""
        if self._choosing:
            self._finish()
        if self._view.leaving:
            self._interrupt()
        self._view.leave()

    def action_stop(self) -> None:
        """Interrupt the answer."""
        self._interrupt()

    def action_move(self, action: str) -> None:
        """Move in the list of the screen (see `moves`)."""
        getattr(self.screen.query_one(OptionList), f"action_{action}")()

    def action_bring_in(self) -> None:
        """Import new messages of the conversation's session."""
        self.submit("/import")

    def action_change_theme(self) -> None:
        """Switch between light and dark."""
        self.theme = LIGHT.name if self.current_theme.dark else DARK.name

    def get_key_display(self, binding: Binding) -> str:
        """Return the name of a key: `F2`, `Esc`, `^C`, `PgUp`, `d`."""
        shown = super().get_key_display(binding)
        for theirs, ours in (("⏎", "Enter"), ("pgup", "PgUp"), ("pgdn", "PgDn")):
            shown = shown.replace(theirs, ours)
        return shown.upper() if shown.startswith("^") else shown[0].upper() + shown[1:] if shown[1:] else shown

    async def action_open(self, name: str) -> None:
        """Open another screen, or a panel next to the chat. In a terminal that is too narrow, a panel has its own
        screen."""
        module, _, screen = SCREENS[name].partition(":")
        opened = getattr(import_module(f"foldmark.terminal.side_screens.{module}"), screen)
        shown = self.screen.panel if isinstance(self.screen, PanelScreen) else type(self.screen)
        if issubclass(opened, Panel) and self.screen is self.chat and self.size.width >= WIDE:
            await self.chat.toggle(opened)
        elif opened is not shown:
            make = partial(PanelScreen, opened) if issubclass(opened, Panel) else opened
            self.push_screen(make(self.chat.agent, self.submit))

    async def on_resize(self, event: Resize) -> None:
        """Move an open panel next to the chat, or to a screen of its own if the terminal has become too narrow."""
        shown = self.screen
        if event.size.width >= WIDE:
            if isinstance(shown, PanelScreen):
                await self.pop_screen()
                await self.chat.toggle(shown.panel)
            return
        for panel in self.chat.query(Panel):
            await panel.remove()
            self.chat.prompt.focus()
            if shown is self.chat:
                self.push_screen(PanelScreen(type(panel), self.chat.agent, self.submit))

    def submit(self, line: str) -> None:
        """Accept a line that was typed, or that a screen made from a person's action."""
        self._view.submit(line)

    def action_answer(self) -> None:
        """Open the approval that is answered next."""
        self.chat.approval.open_next()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False if the action has nothing to do."""
        if action == "stop":
            return self.chat.transcript.streaming
        if action == "bring_in":
            return not self._choosing
        if action != "answer":
            return True
        return bool(self.chat.approval.asked) and not any(
            isinstance(each, ApprovalDialog) for each in self.screen_stack
        )
