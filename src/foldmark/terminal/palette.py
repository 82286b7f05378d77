"""The palette of commands: all of them with their help, narrowed down while a person types."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static

from foldmark.chat.completion import CompletionCandidate, complete
from foldmark.commands import REGISTRY
from foldmark.terminal.prompt import candidate_options
from foldmark.terminal.screens import KeyLine, moves


def fitting(commands: Sequence[CompletionCandidate], typed: str) -> list[CompletionCandidate]:
    """Return the commands in whose line or help every typed word occurs, those that begin with the text first."""
    words, begin = typed.lower().split(), f"/{typed.strip().lower().lstrip('/')}"
    found = [
        each for each in commands if all(word.lstrip("/") in f"{each.label} {each.help}".lower() for word in words)
    ]
    return sorted(found, key=lambda each: not each.text.startswith(begin))


class CommandPalette(ModalScreen[str]):
    """All commands. The chosen one is put at the prompt."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "to the prompt", tooltip="put the command at the prompt", priority=True),
        *moves("command"),
        Binding("escape", "dismiss", "back"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._commands = complete(REGISTRY, None, "/").candidates
        self._shown: list[CompletionCandidate] = []

    def compose(self) -> ComposeResult:
        """Lay out the palette."""
        with Vertical():
            yield Input(placeholder="a command, or words of its help", compact=True)
            yield OptionList(compact=True, markup=False, classes="cut")
            yield Static(markup=False, classes="usage muted")
        yield KeyLine()

    def on_mount(self) -> None:
        """Show all commands."""
        self._list.can_focus = False
        self.query_one(Input).focus()
        self.on_input_changed()

    @property
    def _list(self) -> OptionList:
        return self.query_one(OptionList)

    def on_input_changed(self) -> None:
        """Show the commands that fit what is typed."""
        self._shown = fitting(self._commands, self.query_one(Input).value)
        self._list.clear_options()
        self._list.add_options(candidate_options([each._replace(label="") for each in self._shown]))
        self._list.highlighted = 0 if self._shown else None
        if not self._shown:
            self.query_one(".usage", Static).update("No command fits.")

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show the arguments of the highlighted command."""
        self.query_one(".usage", Static).update(self._shown[event.option_index].label)

    def action_choose(self) -> None:
        """Close the palette with the highlighted command as its result."""
        if (row := self._list.highlighted) is not None:
            self.dismiss(self._shown[row].text)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Close the palette with the clicked command as its result."""
        self.dismiss(self._shown[event.option_index].text)
