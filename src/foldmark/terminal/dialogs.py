"""Dialogs: a question that is answered with yes or no, and whether a tool may do something."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from foldmark.operations.effects import Decision
from foldmark.rendering import harmless


class Question(ModalScreen[bool]):
    """A question of a command."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "yes"),
        Binding("n,escape,enter", "dismiss(False)", "no"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Lay out the dialog."""
        with Vertical(classes="dialog"):
            yield Static(harmless(self._question), markup=False)
            yield Static("y yes   n no", markup=False)


class Approval(ModalScreen[Decision]):
    """Whether a tool may do something."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss('yes')", "yes"),
        Binding("a", "dismiss('always')", "always"),
        Binding("n,escape", "dismiss('no')", "no"),
        Binding("v", "dismiss('never')", "never"),
    ]

    def __init__(self, heading: str, question: str) -> None:
        super().__init__()
        self._heading, self._question = heading, question

    def compose(self) -> ComposeResult:
        """Lay out the dialog."""
        with Vertical(classes="dialog"):
            yield Static(harmless(self._heading), markup=False, classes="heading")
            yield Static(harmless(self._question), markup=False)
            yield Static("y yes   a always   n no   v never", markup=False)
