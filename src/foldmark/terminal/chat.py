"""The screen of the chat: meter, transcript and prompt, with a panel to the right of the transcript."""

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Key, Paste
from textual.message import Message
from textual.screen import Screen

from foldmark.chat.history import input_history
from foldmark.chat.lines.person import edited
from foldmark.core.errors import FoldmarkError
from foldmark.cost.filling import OTHER, TURNLESS
from foldmark.editing.offer import Offer
from foldmark.log import Agent, Result
from foldmark.operations.effects import ChangeTheme, ChooseConversation, CopyText
from foldmark.rendering import harmless
from foldmark.terminal.dialogs import ApprovalBar
from foldmark.terminal.meter import Bar, Meter
from foldmark.terminal.panels import Panel
from foldmark.terminal.prompt import InputPrompt
from foldmark.terminal.screens import (
    ContextScreen,
    GoTo,
    GoToImported,
    KeyLine,
    Submit,
    notify_error,
    read_in_thread,
)
from foldmark.terminal.scrollback.transcript import Transcript
from foldmark.terminal.theme import named

if TYPE_CHECKING:
    from foldmark.chat.display.find import FoundHit
    from foldmark.terminal.review import ReviewPanel


class ChatScreen(Screen[None]):
    """The conversation: meter, transcript, prompt. `attended` is True once `agent` is shown. `take_back` removes and
    returns the newest line that waits."""

    class Ready(Message):
        """All parts of the screen are mounted."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2", "app.open('turns')", "turns", tooltip="the turns of the context, to tick", priority=True),
        Binding("f3", "app.open('agents')", "agents", tooltip="the agents of this conversation", priority=True),
        Binding("f4", "app.open('state')", "state", tooltip="state, scratchpad, marks, operations", priority=True),
        Binding("f5", "app.open('time')", "time", tooltip="the conversation at other moments", priority=True),
        Binding("f6", "app.open('find')", "find", tooltip="search everything that was said", priority=True),
        Binding("ctrl+p", "list_commands", "commands", tooltip="all commands, for the prompt", priority=True),
        Binding("escape", "app.stop", "stop", tooltip="stop the answer if nothing is open; what you typed stays"),
    ]

    def __init__(self, agent: Agent, submit: Submit, take_back: Callable[[], str | None]) -> None:
        super().__init__()
        self.agent, self.attended, self._submit = agent, False, submit
        self.meter, self.transcript, self.approval = Meter(), Transcript(submit), ApprovalBar()
        self.prompt = InputPrompt(input_history(agent.log), take_back, self.edit_text)
        self._review: ReviewPanel | None = None
        self._destination: GoTo | None = None
        self._sought: FoundHit | None = None

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield self.meter
        with Horizontal(id="middle"):
            yield self.transcript
        yield self.approval
        yield self.prompt
        yield KeyLine()

    def on_mount(self) -> None:
        """Focus the prompt and report that the screen is ready."""
        self.prompt.focus()
        self.post_message(self.Ready())

    def focus_for(self, typed: Key | Paste) -> None:
        """Focus the prompt for a printable key or a paste, wherever the focus is. Typing never carries out an
        operation."""
        asks = isinstance(typed, Key) and typed.key == "question_mark" and not self.prompt.text
        if isinstance(typed, Paste) or (typed.is_printable and not asks):
            self.set_focus(self.prompt.editor)

    async def toggle(self, kind: type[Panel]) -> None:
        """Open a panel in place of any other and focus it. If it already has the focus, close it."""
        found = next(iter(self.query(kind)), None)
        if found is not None and not found.has_focus_within:
            found.take_keys()
            return
        await self.query(Panel).remove()
        if found is None:
            await self.query_one("#middle").mount(kind(self.agent, self._submit))
        else:
            self.prompt.focus()

    def action_list_commands(self) -> None:
        """List all commands, and put the chosen one at the prompt."""
        from foldmark.terminal.palette import CommandPalette

        self.app.push_screen(CommandPalette(), lambda text: self.prompt.put_command(text) if text else None)

    def on_bar_chosen(self, message: Bar.Chosen) -> None:
        """Show the turns of the chosen part of the bar, or say what it is if it belongs to no turn."""
        from foldmark.terminal.side_screens.turns import TurnsScreen

        share = message.share
        if share.kind in TURNLESS:
            self.app.notify(TURNLESS[share.kind], title=share.name, timeout=15, markup=False)
            return
        self.app.push_screen(TurnsScreen(self.agent, self._submit, "" if share.kind == OTHER else share.name))

    async def on_input_prompt_submitted(self, message: InputPrompt.Submitted) -> None:
        """Submit a line, unless it opens a screen or answers the review."""
        if message.line.split() == ["/context", "at"]:
            await self.app.run_action("open('time')")
        elif not (self._review is not None and self._review.is_open and self._review.takes(message.line)):
            self._submit(message.line)

    def on_approval_bar_changed(self) -> None:
        """Show in the meter and the line of keys whether an approval waits."""
        self.meter.show_own(waiting=bool(self.approval.asked))
        self.app.refresh_bindings()

    def on_go_to(self, message: GoTo) -> None:
        """Show an event in the transcript once the chat attends its agent."""
        self._destination = message
        self._arrive()

    def _arrive(self) -> None:
        wanted = self._destination
        if wanted is not None and wanted.agent_id == self.agent.id:
            self._destination = None
            self.transcript.jump(wanted.event_id)

    def on_go_to_imported(self, message: GoToImported) -> None:
        """Show a hit in the transcript once its session has been imported."""
        self._sought = message.hit

    def _seek(self, hit: "FoundHit") -> None:
        from foldmark.chat.display.find import imported_place  # only a search needs it

        agent = self.agent

        def show(event_id: int | None) -> None:
            if event_id is not None:
                self.post_message(GoTo(agent.id, event_id))

        read_in_thread(self, partial(imported_place, agent, hit), show, group="seek")

    # Called by the view

    def add_line(self, text: str, *, error: bool = False) -> None:
        """Add a line that is not in the log. An error is also shown above any other screen."""
        self.transcript.add_line(text, error=error)
        if error and self.app.screen is not self:
            notify_error(self, text)

    def give_back(self, line: str) -> None:
        """Return a line to the prompt."""
        self.prompt.insert(f"\n{line}" if self.prompt.text else line)

    def add_result(self, result: Result, *, typed: bool = False) -> None:
        """Add the result of a command, or do what it leaves to the screen. The review shows an offer. `typed` is True
        for a person's command."""
        match result.effect:
            case Offer():
                pass
            case CopyText() as copy:
                self.app.copy_to_clipboard(harmless(copy.text))  # by OSC 52
                self.add_line(copy.done)
            case ChangeTheme(name):
                self.app.theme = named(name, os.environ).name
                self.add_line(f'The theme is {name} until the chat ends; the setting theme = "{name}" keeps it.')
            case ChooseConversation():
                self.call_next(self.app.run_action, "open('conversations')")
            case _:
                self.transcript.add_result(result, typed=typed)

    def attend(self, agent: Agent, offer: str) -> None:
        """Show the agent and its open offer on every screen: its log may have changed."""
        self.agent, self.attended = agent, True
        self.transcript.attend(agent)
        for panel in self.query(Panel):
            panel.attend(agent)
        self.meter.attend(agent)
        self.prompt.attend(agent, offer)
        if self._review is not None and self._review.is_open:
            self._review.attend(agent)
        elif offer:
            from foldmark.terminal.review import ReviewPanel

            self._review = ReviewPanel(agent, self._submit)
            self.mount(self._review, before=self.prompt)
        self._arrive()
        if self._sought is not None:
            self._seek(self._sought)
            self._sought = None
        for screen in self.app.screen_stack:
            if isinstance(screen, ContextScreen):
                screen.attend(agent)

    def follow(self, agent: Agent, offer: str) -> None:
        """Show the agent as it now is in the log, unless the chat has moved to another agent."""
        if agent.id == self.agent.id and self.attended:
            self.attend(agent, offer)

    def show_answering(self, answering: bool) -> None:
        """Begin an answer at the end of the transcript, or end it and show its recorded form."""
        self.meter.show_own(answering=answering)
        if answering:
            self.transcript.begin_answer()
        else:
            self.transcript.end_answer()
        self.app.refresh_bindings()

    def edit_text(self, text: str) -> str:
        """Let the person edit a text in `$EDITOR`, and return the result. Raises FoldmarkError."""
        wrong: FoldmarkError | None = None
        with self.app.suspend():  # an error inside the block would leave the application suspended
            try:
                text = edited(text)
            except FoldmarkError as error:
                wrong = error
        if wrong is not None:
            raise wrong
        return text
