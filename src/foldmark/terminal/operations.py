"""The dialog of operations on a line of the conversation or of a panel. It shows the price of each before Enter."""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.dom import DOMNode
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from foldmark.log import Agent
from foldmark.rendering import harmless
from foldmark.terminal.screens import KeyLine, Submit, read_in_thread


class Possible(NamedTuple):
    """An operation that the dialog offers: a command to submit, or an action `act` of the screen. `priced`: the command
    has a preview."""

    label: str
    command: str = ""
    act: Callable[[], object] | None = None
    priced: bool = False


class OperationsDialog(ModalScreen[Possible]):
    """The operations on a line. Enter carries out the highlighted one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "carry_out", "carry out", tooltip="carry out the operation at the cursor", priority=True),
        Binding("escape", "dismiss", "back", tooltip="do nothing"),
    ]

    def __init__(self, agent: Agent, heading: str, possible: Sequence[Possible]) -> None:
        super().__init__()
        self._agent, self._heading, self._possible = agent, heading, possible

    def compose(self) -> ComposeResult:
        """Lay out the dialog."""
        with Vertical():
            yield Static(harmless(self._heading), markup=False, classes="heading")
            yield OptionList(*(Option(harmless(each.label)) for each in self._possible), markup=False)
            yield Static(id="price", classes="muted", markup=False)
        yield KeyLine()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show the preview of the highlighted operation."""
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

    def action_carry_out(self) -> None:
        """Select the highlighted operation."""
        self.query_one(OptionList).action_select()

    def _tell(self, text: str) -> None:
        self.query_one("#price", Static).update(harmless(text))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Close the dialog with the selected operation as its result."""
        self.dismiss(self._possible[event.option_index])


def offer(node: DOMNode, agent: Agent, heading: str, possible: Sequence[Possible], submit: Submit) -> None:
    """Open the dialog, and carry out the operation that the person selects."""

    def carry_out(selected: Possible | None) -> None:
        if selected is not None and selected.act is not None:
            selected.act()
        elif selected is not None:
            submit(selected.command)

    node.app.push_screen(OperationsDialog(agent, heading, possible), carry_out)
