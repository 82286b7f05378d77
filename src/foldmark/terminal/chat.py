"""The screen of the chat: meter, transcript and prompt, with a panel on the right of the transcript."""

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Resize
from textual.message import Message
from textual.screen import Screen

from foldmark.cost.filling import OTHER
from foldmark.log import Agent
from foldmark.terminal.bar import Bar
from foldmark.terminal.dialogs import ApprovalBar
from foldmark.terminal.meter import Meter
from foldmark.terminal.panels import WIDE, Panel
from foldmark.terminal.prompt import Prompt
from foldmark.terminal.screens import KeyLine, Submit
from foldmark.terminal.scrollback.transcript import Transcript

if TYPE_CHECKING:
    from foldmark.terminal.review import ReviewPanel


class ChatScreen(Screen[None]):
    """The conversation: meter, transcript, prompt."""

    class Ready(Message):
        """All parts of the screen are mounted."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2", "app.open('turns')", "turns", tooltip="the turns of the context, to tick", priority=True),
        Binding("f3", "app.open('agents')", "agents", tooltip="the agents of this conversation", priority=True),
        Binding("f4", "app.open('state')", "state", tooltip="state, scratchpad, marks, operations", priority=True),
        Binding("f5", "app.open('time')", "time", tooltip="the conversation at other moments", priority=True),
        Binding("f6", "app.open('find')", "find", tooltip="search everything that was said", priority=True),
    ]

    def __init__(self, submit: Submit, prompt: Prompt) -> None:
        super().__init__()
        self._submit, self.prompt = submit, prompt
        self._agent: Agent | None = None
        self._review: ReviewPanel | None = None

    @property
    def transcript(self) -> Transcript:
        """The conversation."""
        return self.query_one(Transcript)

    @property
    def approval(self) -> ApprovalBar:
        """The approval that is answered next."""
        return self.query_one(ApprovalBar)

    @property
    def meter(self) -> Meter:
        """The meter and its bar."""
        return self.query_one(Meter)

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Meter()
        with Horizontal(id="middle"):
            yield Transcript(self._submit)
        yield ApprovalBar()
        yield self.prompt
        yield KeyLine()

    def on_mount(self) -> None:
        """Focus the prompt and report that the screen is ready."""
        self.prompt.focus()
        self.post_message(self.Ready())

    def on_resize(self, event: Resize) -> None:
        """Hide the panel while the screen is too narrow."""
        self.set_class(event.size.width < WIDE, "-narrow")

    async def toggle(self, kind: type[Panel], agent: Agent) -> None:
        """Open a panel in place of any other, and focus it. Close it if it has the focus already."""
        found = next(iter(self.query(kind)), None)
        if found is not None and not found.has_focus_within:
            found.take_keys()
            return
        await self.query(Panel).remove()
        if found is None:
            await self.query_one("#middle").mount(kind(agent, self._submit))
        else:
            self.prompt.focus()

    def on_bar_chosen(self, message: Bar.Chosen) -> None:
        """Show the turns of the chosen part of the bar."""
        from foldmark.terminal.side_screens.turns import TurnsScreen

        wanted = "" if message.share.kind == OTHER else message.share.name
        if self._agent is not None:
            self.app.push_screen(TurnsScreen(self._agent, self._submit, wanted))

    async def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        """Submit a line, unless it opens a screen or answers the review."""
        if message.line.split() == ["/context", "at"]:
            await self.app.run_action("open('time')")
        elif not (self._review is not None and self._review.is_open and self._review.takes(message.line)):
            self._submit(message.line)

    def attend(self, agent: Agent, offer: str) -> None:
        """Show the agent again: its log may have changed."""
        self._agent = agent
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
