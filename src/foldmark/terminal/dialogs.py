"""Dialogs: a yes-or-no question of a command, and the approval of a tool call.

A command's question opens automatically, because the person has just typed that command. An approval does not: it can
come at any moment, and text that is being typed must not answer it. It is announced above the prompt and in the line of
keys, and has a key that opens it.
"""

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple, TypeVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.events import Key
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from foldmark.chat.approvals import Approval, ApprovalLine
from foldmark.core.wording import FINAL, count
from foldmark.operations.effects import Decision
from foldmark.rendering import harmless
from foldmark.terminal.screens import KeyLine

_T = TypeVar("_T")


class Asked(NamedTuple):
    """An approval that waits for its answer. Cancelling `answer` withdraws it."""

    approval: Approval
    answer: "Future[Decision]"


class Question(ModalScreen[bool]):
    """A question before something is done; red if that is irreversible. The answer is no until `y` is pressed, and
    Enter confirms it. Any other key resets it to no, because that key may begin a text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "choose(True)", "yes"),
        Binding("enter", "answer", "answer", tooltip="give the answer that is chosen"),
        Binding("n,escape", "dismiss(False)", "no"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question
        self._agreed = False

    def compose(self) -> ComposeResult:
        """Lay out the dialog."""
        with Vertical(classes="final" if FINAL in self._question else ""):
            yield Static(harmless(self._question), markup=False)
            yield Static(id="choice", markup=False)
        yield KeyLine()

    def on_mount(self) -> None:
        """Begin with no."""
        self.action_choose(False)

    def on_key(self, event: Key) -> None:
        """Reset the answer to no on any other key."""
        if event.key not in ("y", "enter"):
            self.action_choose(False)

    def action_choose(self, agreed: bool) -> None:
        """Choose an answer."""
        self._agreed = agreed
        self.query_one("#choice", Static).update("  no   ▸ yes" if agreed else "▸ no     yes")

    def action_answer(self) -> None:
        """Confirm the answer."""
        self.dismiss(self._agreed)


class ApprovalDialog(ModalScreen[Decision]):
    """Whether a tool may do something. The whole question can be scrolled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss('yes')", "yes", tooltip="yes, this once"),
        Binding("a", "dismiss('always')", "always", tooltip="always in this conversation, for what the dialog names"),
        Binding("n,escape", "dismiss('no')", "no", tooltip="no, not now"),
        Binding("v", "dismiss('never')", "never", tooltip="never in this conversation, for what the dialog names"),
    ]

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self.asked = asked

    def compose(self) -> ComposeResult:
        """Lay out the dialog."""
        approval = self.asked.approval
        with VerticalScroll():
            yield Static(harmless(approval.heading), markup=False, classes="heading")
            yield Static(harmless(approval.permission.coverage), markup=False, classes="muted")
            yield Static(_details(approval), markup=False)
        yield KeyLine()


def _details(approval: Approval) -> Content:
    """Return the whole question. If any line is removed or added, each line of the diff begins with its number in the
    file, if that is known, and its sign."""
    lines = approval.lines()
    signs = any(line.sign != " " for line in lines)
    width = max(len(_number(line)) for line in lines)
    style = {" ": "", "-": "$removed", "+": "$added"}
    shown = []
    for line in lines:
        number = f"{_number(line):>{width}} " if width else ""
        is_diff = signs and (line.sign != " " or line.number is not None or not width)
        text = f"{number}{line.sign} {line.text}" if is_diff else line.text
        shown.append(Content.styled(harmless(text), style[line.sign]))
    return Content("\n").join(shown)


def _number(line: ApprovalLine) -> str:
    return "" if line.number is None else str(line.number)


class ApprovalBar(Static):
    """The approval that is answered next, above the prompt; `asked` holds all that wait."""

    class Changed(Message):
        """An approval was announced, answered or withdrawn."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.asked: list[Asked] = []

    def announce(self, approval: Approval, answer: "Future[Decision]") -> None:
        """Announce that a tool asks for approval."""
        if not answer.cancelled():
            self.asked.append(Asked(approval, answer))
            _at_end(answer, self.app, self._show)
            self._show()
            if self.app.screen is not self.screen:
                self.app.notify(f"{approval.heading}; F8 answers", markup=False)

    def open_next(self) -> None:
        """Open the approval that is answered next."""
        ask(self.app, ApprovalDialog(self.asked[0]), self.asked[0].answer)

    def _show(self) -> None:
        """Show the approval that is answered next, and how many are queued after it; hide the bar if there is none."""
        self.asked = [each for each in self.asked if not each.answer.done()]
        self.display = bool(self.asked)
        self.post_message(self.Changed())
        if self.asked:
            approval = self.asked[0].approval
            behind = len(self.asked) - 1 + approval.waiting
            more = f" ({count(behind, 'more question')} behind it)" if behind else ""
            text = f"{approval.heading}; F8 answers{more}\n{approval.permission.question}"
            self.update(harmless(text))


def ask(app: App[Any], dialog: ModalScreen[_T], answer: "Future[_T]") -> None:
    """Open a dialog and pass on its answer. If the question is withdrawn, the dialog closes without an answer."""

    def answered(decision: _T | None) -> None:
        if decision is not None:
            with suppress(InvalidStateError):  # the question has just been withdrawn
                answer.set_result(decision)

    def withdraw() -> None:
        while dialog in app.screen_stack:  # also closes the screens opened from it
            app.pop_screen()

    if not answer.cancelled():
        app.push_screen(dialog, answered)
        _at_end(answer, app, withdraw)


def _at_end(answer: "Future[_T]", app: App[Any], action: Callable[[], object]) -> None:
    """Run an action in the application's thread once the question is answered or withdrawn."""

    def ended(_: object) -> None:
        with suppress(RuntimeError):  # the application has ended
            app.call_later(action)

    answer.add_done_callback(ended)
