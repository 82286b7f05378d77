"""What can be done with a line of the conversation or of a panel, and what it takes and costs before it is done."""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from foldmark.log import Agent
from foldmark.rendering import harmless
from foldmark.terminal.screens import KeyLine, read_in_thread


class Possible(NamedTuple):
    """Something that can be done: a command to submit, or an `act` of the screen. `priced`: the command has a
    preview."""

    label: str
    command: str = ""
    act: Callable[[], object] | None = None
    priced: bool = False


class OperationsDialog(ModalScreen[Possible]):
    """What can be done with a line; nothing is done before Enter."""

    DEFAULT_CSS = """
    OperationsDialog { align: center middle; }
    OperationsDialog Vertical { width: 80%; max-width: 90; height: auto; border: round $accent; padding: 0 1; }
    OperationsDialog OptionList, OperationsDialog OptionList:focus {
        height: auto; max-height: 10; border: none; padding: 0; background: transparent;
    }
    OperationsDialog #price { height: auto; min-height: 3; max-height: 8; margin-top: 1; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "back", tooltip="do nothing")]

    def __init__(self, agent: Agent, heading: str, possible: Sequence[Possible]) -> None:
        super().__init__()
        self._agent, self._heading, self._possible = agent, heading, possible

    def compose(self) -> ComposeResult:
        """Lay out the dialog."""
        with Vertical():
            yield Static(harmless(self._heading), markup=False, classes="heading")
            yield OptionList(*(Option(harmless(each.label)) for each in self._possible), markup=False)
            yield Static(id="price", markup=False)
        yield KeyLine()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show what the highlighted operation takes and costs."""
        chosen = self._possible[event.option_index]
        if not chosen.priced:
            self._tell(chosen.command)
            return
        self._tell(f"{chosen.command} …")

        def show(text: str) -> None:
            if self.query_one(OptionList).highlighted == event.option_index:
                self._tell(text)

        read_in_thread(
            self, lambda: self._agent.do(f"{chosen.command} --preview").text, show, failed=self._tell, group="price"
        )

    def _tell(self, text: str) -> None:
        self.query_one("#price", Static).update(harmless(text))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Do it."""
        self.dismiss(self._possible[event.option_index])
