"""The choice of a conversation: the newest first, filtered while a person types; the last row starts a new one."""

from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from foldmark.chat.display.conversations import ConversationRow, beginning, conversation_rows
from foldmark.core.errors import CommandError
from foldmark.core.wording import count, one_line
from foldmark.log import Agent
from foldmark.rendering import harmless
from foldmark.terminal.panels import fill
from foldmark.terminal.screens import ContextScreen, Submit, moves, read_in_thread

HINT = "type to filter, or the name of a new conversation"
NEW = "new"
"""The id of the last row."""


class ConversationsScreen(ContextScreen):
    """Conversations: the one to go on with, or a new one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "open", tooltip="open the conversation, or start the new one", priority=True),
        *moves("conversation"),
    ]

    def __init__(self, agent: Agent, submit: Submit, *, opened: bool = True) -> None:
        """`opened` is True if the chat is in the conversation of `agent`."""
        super().__init__(agent, submit)
        self._opened = opened
        self._rows: list[ConversationRow] = []
        self._shown_for = ""

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Input(placeholder=HINT, compact=True)
        yield Static(id="about", classes="muted", markup=False)
        yield OptionList(markup=False)

    async def on_mount(self) -> None:
        """Read the conversations."""
        self.query_one(OptionList).can_focus = False
        self.query_one(Input).focus()
        self.renew()

    def renew(self) -> None:
        """Read the conversations again."""
        read_in_thread(
            self,
            partial(conversation_rows, self.agent.log, self.agent if self._opened else None),
            self._show,
            failed=self._tell,
        )

    def _show(self, rows: list[ConversationRow]) -> None:
        self._rows = rows
        self._filter()

    def on_input_changed(self) -> None:
        """Show the conversations that fit the typed words."""
        if self._typed != self._shown_for:
            self._filter()
            self.query_one(OptionList).highlighted = 0

    @property
    def _typed(self) -> str:
        return self.query_one(Input).value.strip()

    def _filter(self) -> None:
        self._shown_for = self._typed
        found = [row for row in self._rows if row.fits(self._typed)]
        new = f"New conversation “{self._typed}”" if self._typed else "New conversation: type its name"
        fill(
            self.query_one(OptionList),
            [*(Option(_drawn(row), id=row.agent) for row in found), Option(harmless(new), id=NEW)],
        )
        self._tell(f"{len(found):,} of {count(len(self._rows), 'conversation')}")

    def _tell(self, text: str) -> None:
        self.query_one("#about", Static).update(harmless(text))

    # Keys

    def on_option_list_option_selected(self) -> None:
        """Open the row that was clicked."""
        self.action_open()

    def action_open(self) -> None:
        """Go to the conversation, or start a new one with the typed name, once the line has all keys typed before."""
        self.query_one(Input).call_later(self._open)

    def _open(self) -> None:
        self.on_input_changed()  # its message may come after the key
        rows = self.query_one(OptionList)
        if rows.highlighted is None:
            return
        chosen = rows.get_option_at_index(rows.highlighted).id
        try:
            line = (
                beginning(self.agent.log, self._typed)
                if chosen == NEW
                else next(row.command for row in self._rows if row.agent == chosen)
            )
        except CommandError as error:
            self._tell(str(error) if self._typed else f"{HINT}, then Enter")
            return
        self.submit(line)
        self.dismiss()


def _drawn(row: ConversationRow) -> Content:
    """Return a row as two lines: name, time, size and model, then the last prompt."""
    here = " (this one)" if row.current else ""
    return Content.assemble(
        (harmless(one_line(row.name)), "bold"),
        (f"{here}  {harmless(one_line(row.about))}", "$text-muted"),
        f"\n    {harmless(row.title) or '(no prompt yet)'}",
    )
