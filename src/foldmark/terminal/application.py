"""The application: the screen of the chat, its keys, and the thread in which the controller runs."""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, ClassVar, TypeVar

import click
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen

from foldmark.chat.approvals import Approval
from foldmark.chat.controller import ChatController
from foldmark.chat.conversation import Models, converse
from foldmark.chat.history import input_history
from foldmark.chat.lines.person import edited
from foldmark.core.errors import FoldmarkError
from foldmark.editing.offers import Offer
from foldmark.log import Agent, Result
from foldmark.operations.effects import Decision
from foldmark.rendering import harmless
from foldmark.terminal.chat import ChatScreen
from foldmark.terminal.dialogs import ApprovalDialog, Asked, Question
from foldmark.terminal.panels import WIDE, PanelScreen
from foldmark.terminal.pasting import install
from foldmark.terminal.prompt import Prompt
from foldmark.terminal.screens import ContextScreen, GoTo, GoToImported, notify_error, read_in_thread
from foldmark.terminal.theme import DARK, LIGHT, fitting
from foldmark.terminal.view import TerminalView

if TYPE_CHECKING:
    from foldmark.chat.display.find import FoundHit

_T = TypeVar("_T")

SCREENS = {
    "turns": "turns:TurnsScreen",
    "agents": "agents:AgentsScreen",
    "state": "state:StateScreen",
    "time": "time:TimeScreen",
    "find": "find:FindScreen",
    "keys": "keys:KeysScreen",
}
"""Screens beside the chat, each imported when it is opened."""


def run(agent: Agent, models: Models, opening: str = "") -> int:
    """Chat in the application until the person leaves. `opening` is shown first. Return the exit code of the last
    error."""
    install()
    application = ChatApplication(agent, models, opening)
    try:
        application.run()
    finally:
        application.end()
    if application.failure is not None:
        raise application.failure
    if text := application.farewell:
        click.echo(harmless(text))
    return application.code


class ChatApplication(App[None]):
    """The chat on a full screen. `attended` is True once the agent is shown. Once the chat has `ended`, `code` is its
    exit code and `failure` the error that broke it, if any."""

    CSS_PATH = "application.tcss"
    ENABLE_COMMAND_PALETTE = False
    TITLE = "Foldmark"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "stop", priority=True),
        Binding("ctrl+q", "leave", "leave", show=False, priority=True),
        Binding("f1", "open('keys')", "keys", tooltip="all keys"),
        Binding("question_mark", "open('keys')", show=False, tooltip="all keys, while nothing is typed"),
        Binding("f8", "answer", "answer", tooltip="answer a tool that asks for approval", priority=True),
        Binding("f7", "bring_in", "import", show=False, tooltip="import what is new in the session", priority=True),
        Binding("f9", "change_theme", "light or dark", show=False),
    ]

    def __init__(self, agent: Agent, models: Models, opening: str = "") -> None:
        super().__init__()
        self.agent, self.code = agent, 0
        self.attended = self.ended = False
        self.failure: BaseException | None = None
        self._models = models
        self._view = TerminalView(self, self._put)
        self._controller = ChatController(agent, self._view, opening)
        self._actions: deque[Callable[[], object]] = deque()
        self._thread = Thread(target=self._converse, name="foldmark-chat")
        self._asked: list[Asked] = []
        self._leaving = False
        self._destination: GoTo | None = None
        self._sought: FoundHit | None = None
        self._ended_by = 0

    def get_default_screen(self) -> Screen[None]:
        """Return the screen of the chat."""
        prompt = Prompt(input_history(self.agent.log), self._view.take_back, self.edit_text)
        return ChatScreen(self.submit, prompt)

    @property
    def farewell(self) -> str:
        """The remark for a person who has left; empty if there is none."""
        return self._controller.farewell

    @property
    def idle(self) -> bool:
        """True while the chat waits for a line, and no turn or command runs."""
        return self._view.idle

    @property
    def chat(self) -> ChatScreen:
        """The screen of the chat."""
        found = self.screen_stack[0]
        assert isinstance(found, ChatScreen)
        return found

    def on_mount(self) -> None:
        """Choose the theme and handle signals."""
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = fitting(os.environ).name
        if sys.platform != "win32":
            for number in (signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                    asyncio.get_running_loop().add_signal_handler(number, self._end_by, number)

    def on_chat_screen_ready(self) -> None:
        """Begin the chat once its screen is complete."""
        self._thread.start()

    def _end_by(self, number: int) -> None:
        self._ended_by = number
        self._view.leave()
        self._view.interrupt()

    def end(self) -> None:
        """Wait for the end of the chat. If it still runs, its turn is interrupted and recorded."""
        self._view.leave()
        if self._thread.is_alive():
            self._view.interrupt()
            self._thread.join()

    # The controller's thread

    def _converse(self) -> None:
        self._view.begin_work()
        try:
            self.code = converse(
                self._controller, self._models, self._view, self._controller.asking(self._controller.agent)
            )
        except BaseException as error:  # `run` raises it again
            self.failure = error
        finally:
            if self._ended_by:
                self.code = 128 + self._ended_by
            self._put(self._finish)

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

    def action_interrupt(self) -> None:
        """Interrupt the turn or command. If none runs, clear the prompt; if it is empty, leave at the second time."""
        if not self.idle:
            self._view.interrupt()
        elif self.screen is self.chat and self.chat.prompt.text:
            self.chat.prompt.clear()
        elif self._leaving:
            self.action_leave()
        else:
            self._leaving = True
            self.set_timer(3.0, partial(setattr, self, "_leaving", False))
            self.notify("Ctrl-C again leaves; everything is kept.")

    def action_leave(self) -> None:
        """Leave the chat after the current turn or command."""
        self._view.leave()

    def action_bring_in(self) -> None:
        """Import what is new in the conversation's session."""
        self.submit("/import")

    def action_change_theme(self) -> None:
        """Switch between light and dark."""
        self.theme = LIGHT.name if self.current_theme.dark else DARK.name

    def get_key_display(self, binding: Binding) -> str:
        """Return the name of a key: `F2`, `Esc`, `^C`, `d`."""
        shown = super().get_key_display(binding).replace("⏎", "Enter")
        return shown.upper() if shown.startswith("^") else shown[0].upper() + shown[1:] if shown[1:] else shown

    async def action_open(self, name: str) -> None:
        """Open a screen beside the chat. If the terminal is wide enough, a panel opens on the right of the chat."""
        module, _, screen = SCREENS[name].partition(":")
        opened = getattr(import_module(f"foldmark.terminal.side_screens.{module}"), screen)
        if self.screen is self.chat and self.size.width >= WIDE and issubclass(opened, PanelScreen):
            await self.chat.toggle(opened.PANEL, self.agent)
        elif not isinstance(self.screen, opened):
            self.push_screen(opened(self.agent, self.submit))

    def on_go_to(self, message: GoTo) -> None:
        """Show an event in the transcript once the chat attends its agent."""
        self._destination = message
        self._arrive()

    def _arrive(self) -> None:
        wanted = self._destination
        if wanted is not None and wanted.agent_id == self.agent.id:
            self._destination = None
            self.chat.transcript.jump(wanted.event_id)

    def on_go_to_imported(self, message: GoToImported) -> None:
        """Show a hit in the transcript once its session has been imported."""
        self._sought = message.hit

    def _seek(self, agent: Agent, hit: "FoundHit") -> None:
        from foldmark.chat.display.find import imported_place  # only a search needs it

        def show(event_id: int | None) -> None:
            if event_id is not None:
                self.post_message(GoTo(agent.id, event_id))

        read_in_thread(self, partial(imported_place, agent, hit), show, group="seek")

    def submit(self, line: str) -> None:
        """Take a line that was typed, or that a screen made from an action of the person."""
        self._view.submit(line)

    # Called by the view

    def add_line(self, text: str, *, error: bool = False) -> None:
        """Add a line that is not in the log. An error is also shown above any other screen."""
        self.chat.transcript.add_line(text, error=error)
        if error and self.screen is not self.chat:
            notify_error(self, text)

    def give_back(self, line: str) -> None:
        """Put a line back into the prompt."""
        self.chat.prompt.insert(f"\n{line}" if self.chat.prompt.text else line)

    def add_result(self, result: Result) -> None:
        """Add the result of a command, except an offer, which the review shows."""
        if not isinstance(result.effect, Offer):
            self.chat.transcript.add_result(result)

    def attend(self, agent: Agent, offer: str) -> None:
        """Show the agent again on every screen: its log may have changed."""
        self.agent, self.attended = agent, True
        self.chat.attend(agent, offer)
        self._arrive()
        if self._sought is not None:
            self._seek(agent, self._sought)
            self._sought = None
        for screen in self.screen_stack[1:]:
            if isinstance(screen, ContextScreen):
                screen.attend(agent)

    def follow(self, agent: Agent, offer: str) -> None:
        """Show what was recorded meanwhile, unless another agent is shown by now."""
        if agent.id == self.agent.id and self.attended:
            self.attend(agent, offer)

    def begin_turn(self) -> None:
        """Begin an answer."""
        self.chat.meter.show_own(answering=True)
        self.chat.transcript.begin_answer()

    def end_turn(self) -> None:
        """End the answer, and show it as it was recorded."""
        self.chat.meter.show_own(answering=False)
        self.chat.transcript.end_answer()

    def edit_text(self, text: str) -> str:
        """Return a text as the person leaves it in `$EDITOR`. Raises FoldmarkError."""
        wrong: FoldmarkError | None = None
        with self.suspend():  # an error inside the block would leave the application suspended
            try:
                text = edited(text)
            except FoldmarkError as error:
                wrong = error
        if wrong is not None:
            raise wrong
        return text

    def ask(self, question: str, answer: "Future[bool]") -> None:
        """Ask a yes-or-no question."""
        if not answer.cancelled():
            self._open_dialog(Question(question), answer)

    def ask_approval(self, approval: Approval, answer: "Future[Decision]") -> None:
        """Announce that a tool asks for approval."""
        if not answer.cancelled():
            self._asked.append(Asked(approval, answer))
            answer.add_done_callback(lambda _: self._put(self._show_asked))
            self._show_asked()
            if self.screen is not self.chat:
                self.notify(f"{approval.heading}; F8 answers", markup=False)

    def _show_asked(self) -> None:
        self._asked = [each for each in self._asked if not each.answer.done()]
        self.chat.meter.show_own(waiting=bool(self._asked))
        self.chat.approval.show_asked(self._asked[0] if self._asked else None, len(self._asked) - 1)
        self.refresh_bindings()

    def action_answer(self) -> None:
        """Open the approval that is answered next."""
        asked = self._asked[0]
        self._open_dialog(ApprovalDialog(asked), asked.answer)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False if an action has nothing to do."""
        if action != "answer":
            return True
        return bool(self._asked) and not any(isinstance(each, ApprovalDialog) for each in self.screen_stack)

    def _open_dialog(self, dialog: ModalScreen[_T], answer: "Future[_T]") -> None:
        """Open a dialog and take its answer. It closes without an answer if the question is withdrawn."""

        def answered(decision: _T | None) -> None:
            if decision is not None:
                with suppress(InvalidStateError):  # it has just been withdrawn
                    answer.set_result(decision)

        self.push_screen(dialog, answered)
        answer.add_done_callback(lambda done: self._put(partial(self._withdraw, dialog)))

    def _withdraw(self, dialog: ModalScreen[_T]) -> None:
        """Close a dialog, and the screens opened from it."""
        while dialog in self.screen_stack:
            self.pop_screen()
