"""The prompt: the text being typed, below the lines that wait and the possible completions."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.css.query import DOMQuery
from textual.message import Message
from textual.widget import Widget
from textual.widgets import OptionList, Static, TextArea
from textual.widgets.option_list import Option

from foldmark.chat.completion import Completion, CompletionCandidate, can_complete, complete
from foldmark.chat.history import InputHistory
from foldmark.chat.lines.keyboard import Prompting
from foldmark.commands import REGISTRY
from foldmark.core.errors import FoldmarkError
from foldmark.core.wording import count, one_line
from foldmark.log import Agent
from foldmark.rendering import harmless
from foldmark.sending.status import was_cut_off
from foldmark.terminal.editor import Editor
from foldmark.terminal.screens import notify_error, read_in_thread
from foldmark.text.mentions import SHELL

HINT = "A message · / command · @ file · ! shell · Alt+Enter new line · ↑ earlier"
UNANSWERED = "The answer failed or was cut off: /retry asks again · or another message"
RESENDS = "Enter: rewind to before turn {turn}, then send this · Esc or empty: nothing is rewound"
OFFERED = "yes carries it out · no or anything else keeps everything"

PAUSE_SECONDS = 0.03
"""Seconds without another key before the log is read for a completion."""

MOST_SHOWN = 500
"""Maximum number of characters of a line in a list."""

MOST_SEARCHED = 10_000
"""Maximum number of characters of a line that are searched."""

MOST_COLUMNS = 40
"""Maximum column at which the help texts of a list begin."""

MOST_WAITING = 5
"""Maximum number of waiting lines that are shown."""


class InputPrompt(Vertical):
    """The prompt. Enter submits its text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "take", "complete", show=False, tooltip="complete; ↑ ↓ choose from the list"),
        Binding("escape", "withdraw", "close", show=False, tooltip="close the list, the search or the panel"),
        Binding("ctrl+r", "search", "search", show=False, tooltip="search what was typed before"),
        Binding("ctrl+g", "edit", "edit", show=False, tooltip="edit the text in $EDITOR"),
    ]

    class Submitted(Message):
        """A person has submitted a line."""

        def __init__(self, line: str) -> None:
            super().__init__()
            self.line = line

    def __init__(self, history: InputHistory, take_back: Callable[[], str | None], edit: Callable[[str], str]) -> None:
        """`take_back` removes and returns the newest line that waits. `edit` lets the person edit a text in `$EDITOR`;
        it raises FoldmarkError."""
        super().__init__()
        self.editor = Editor(self._enter, self._go)
        self._before = Static(markup=False, classes="before")
        self._usage, self._waiting = Static(classes="usage"), Static(markup=False, classes="waiting muted")
        self._choices = OptionList(classes="cut")
        self._choices.can_focus = False
        self._history, self._take_back, self._edit = history, take_back, edit
        self._typed: list[str] = []
        self._at = 0
        self._draft = ""
        self._searched: str | None = None
        self._agent: Agent | None = None
        self._prompting = Prompting()
        self._completion = Completion()
        self._completed: tuple[str, int] | None = None
        self._chosen = False
        self._takes: str | None = None
        self._quiet: str | None = None
        self._resends: int | None = None

    def compose(self) -> ComposeResult:
        """Lay out the prompt."""
        yield self._waiting
        yield self._choices
        yield self._usage
        with Horizontal():
            yield self._before
            yield self.editor

    def on_mount(self) -> None:
        """Load the lines typed in earlier chats."""
        self._name_reader()
        self._say(HINT)
        read_in_thread(self, self._history.load, self._take_stored, group="history")

    @property
    def text(self) -> str:
        """The typed text, with labels in place of long pastes."""
        return self.editor.text

    def clear(self) -> None:
        """Clear the prompt. An undo brings the text back."""
        if self._searched is not None:
            self.action_withdraw()
        self._at = len(self._typed)
        self.editor.put("")

    def insert(self, text: str) -> None:
        """Insert a text at the cursor."""
        self.editor.insert(harmless(text))

    def resend(self, turn: int, text: str) -> None:
        """Put the text of a turn's prompt here, to be edited. Enter sends it in place of that turn and what follows,
        unless it has become a command; Esc and an empty prompt end this."""
        self._resends = turn
        self._put_line(text)
        self._show(Completion())
        self.focus()

    def put_command(self, text: str) -> None:
        """Begin a line with a command. An undo brings back what was typed before."""
        self._resends = None
        self.editor.put(text)
        self.focus()

    def focus(self, scroll_visible: bool = True) -> "InputPrompt":
        """Focus the editor."""
        self.editor.focus(scroll_visible)
        return self

    def attend(self, agent: Agent, offer: str) -> None:
        """Show the line's recipient and the open offer."""
        if agent != self._agent:
            self._resends = None
        self._agent = agent
        self._prompting.show(agent, offer)
        self._name_reader()
        if offer:
            self._say(OFFERED)
            return

        def read() -> str:
            with agent.reading() as (moment, at):
                return UNANSWERED if was_cut_off(moment, at) else HINT

        read_in_thread(self, read, self._say, failed=lambda _: None, group="end")

    def show_waiting(self, lines: Sequence[str], *, leaving: bool = False) -> None:
        """Show the lines that wait for the end of the turn or command, and whether the chat ends then."""
        shown = [f"waits  › {one_line(line[:MOST_SHOWN])}" for line in lines[-MOST_WAITING:]]
        if more := len(lines) - len(shown):
            shown.insert(0, f"{count(more, 'more line')} waiting")
        if shown:
            shown[-1] += "   (↑ takes it back)"
        if leaving:
            shown.append("leaves when this has ended · ^Q again interrupts it")
        self._waiting.update("\n".join(shown))
        self._waiting.display = bool(shown)

    def _name_reader(self) -> None:
        before = "search › " if self._searched is not None else harmless(self._prompting.prompt).replace(">", "❯")
        self._before.update(before)

    def _say(self, hint: str) -> None:
        self.editor.placeholder = Content(hint)

    # Sending

    def _enter(self) -> None:
        """Insert the chosen completion, or submit the text."""
        if self._searched is not None or (self._chosen and self._choices.display):
            self.action_take()
            return
        line = self.editor.whole
        if line.strip():
            self._remember(line)
            if self._resends is not None and not line.lstrip().startswith(("/", SHELL)):
                line = f"/resend {self._resends} {line}"
            self.editor.begin()
            self.post_message(self.Submitted(line))

    def _remember(self, line: str) -> None:
        self._draft = ""
        if not self._typed or self._typed[-1] != line:
            self._typed.append(line)
            # Not exclusive: every line must be written.
            self.run_worker(partial(self._history.add, line), thread=True, exit_on_error=False)
        self._at = len(self._typed)

    # Lines typed before

    def _take_stored(self, stored: list[str]) -> None:
        self._typed[:0] = stored
        self._at += len(stored)

    def _go(self, step: int) -> None:
        """Move in the list, take back a line that waits, or step through the lines typed before."""
        if self._choices.display:
            self._choose(step)
        elif step < 0 and not self.text and (line := self._take_back()) is not None:
            self._put_line(line)
        elif 0 <= (at := self._at + step) <= len(self._typed):
            if self._at == len(self._typed):
                self._draft = self.text
            self._at = at
            if at < len(self._typed):
                self._put_line(self._typed[at])
            else:
                self._put(self._draft)

    def _put_line(self, line: str) -> None:
        self._put(self.editor.pastes.folded(line))

    def _put(self, text: str) -> None:
        """Put a text into the editor without completing it."""
        self._quiet = text
        self.editor.put(text)

    def action_search(self) -> None:
        """Search the lines typed before. When repeated, choose an older line."""
        if self._searched is None:
            self._searched = self.text
            self._name_reader()
            self.editor.put("")
            self._show_found()
        else:
            self._choose(1)

    def _show_found(self) -> None:
        words = self.text.lower().split()
        lines = ((line, line[:MOST_SEARCHED].lower()) for line in dict.fromkeys(reversed(self._typed)))
        found = [line for line, lower in lines if all(word in lower for word in words)]
        self._show(Completion(tuple(CompletionCandidate(line, "", 0, len(self.text)) for line in found[:50])))

    # Completion

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Complete the current text."""
        if not self.text:
            self._resends = None
        if self._searched is not None:
            self._show_found()
        elif self.text != self._quiet and can_complete(self.text, self.editor.index):
            self._complete()
        else:
            self._show(Completion())

    def _complete(self) -> None:
        """Show the completions of the current text once they have been read."""
        agent, line, cursor = self._agent, self.text, self.editor.index

        def show(found: Completion) -> None:
            if line == self.text and self._searched is None:
                self._show(found)
                if self._takes == line:
                    self.action_take()

        read = partial(complete, REGISTRY, agent, line, cursor)
        read_in_thread(self, read, show, failed=lambda _: show(Completion()), group="completion", pause=PAUSE_SECONDS)

    def _show(self, found: Completion) -> None:
        """Show the completions, unless the only one has already been typed."""
        self._completion, self._completed, self._chosen = found, (self.text, self.editor.index), False
        rows = [each for each in found.candidates if self.text[each.first : each.last] != each.text.rstrip()]
        if len(found.candidates) > 1:
            rows = list(found.candidates)
        choices = self._choices
        choices.clear_options()
        choices.add_options(candidate_options(rows))
        choices.display = bool(rows)
        if rows:
            choices.highlighted = 0
        shown = (
            found
            if any(found.usage) or rows or not found.candidates
            else Completion((), (found.candidates[0].label, "", ""), found.candidates[0].help)
        )
        resends = RESENDS.format(turn=self._resends) if self._resends is not None else ""
        self._usage.display = any(shown.usage) or bool(resends)
        before, awaited, behind = shown.usage if any(shown.usage) else (resends, "", "")
        self._usage.update(Content.assemble(before, (awaited, "bold"), behind, (f"   {shown.help}", "$text-muted")))

    def _choose(self, step: int) -> None:
        self._chosen = True
        if step < 0:
            self._choices.action_cursor_up()
        else:
            self._choices.action_cursor_down()

    def action_take(self) -> None:
        """Insert the highlighted completion. From an empty prompt, focus the transcript or the review above it."""
        self._takes = None
        if self._searched is None and not self.text:
            self.screen.focus_previous()
            return
        if self._searched is None and self._completed != (self.text, self.editor.index):
            if can_complete(self.text, self.editor.index):
                self._takes = self.text  # inserted once it has been read
                self._complete()
            return
        row = self._choices.highlighted
        if self._choices.display and row is not None:
            self._take(row)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Insert the clicked completion."""
        self._take(event.option_index)

    def _take(self, row: int) -> None:
        candidate = self._completion.candidates[row]
        if self._searched is not None:
            self._searched = None
            self._name_reader()
            self._show(Completion())
            self._put_line(candidate.text)
        else:
            self.editor.put_in(candidate.text, candidate.first, candidate.last)
        self.editor.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False for closing something while nothing is open: the key then stops the answer."""
        is_open = self._searched is not None or self._choices.display or self._resends is not None
        return action != "withdraw" or is_open or bool(self._panels)

    @property
    def _panels(self) -> DOMQuery[Widget]:
        """The open panels, by the name of their class, whose module imports this one."""
        return self.screen.query("Panel")

    def action_withdraw(self) -> None:
        """End the search, close the list, send nothing in place of a turn, or else close the panel."""
        if self._searched is None and not self._choices.display:
            if self._resends is None:
                self._panels.remove()
            self._resends = None
        if self._searched is not None:
            draft, self._searched = self._searched, None
            self._name_reader()
            self._put(draft)
        self._show(Completion())

    def action_edit(self) -> None:
        """Edit the whole text in `$EDITOR`."""
        try:
            text = self._edit(self.editor.whole)
        except FoldmarkError as error:
            notify_error(self, str(error))
        else:
            self._put(self.editor.pastes.refolded(text))


def candidate_options(candidates: Sequence[CompletionCandidate]) -> list[Option]:
    """Return the rows of a list of candidates, with their help in one column."""
    width = min(MOST_COLUMNS, max((cell_len(_label(each)) for each in candidates), default=0))
    return [Option(_row(each, width)) for each in candidates]


def _label(candidate: CompletionCandidate) -> str:
    return one_line((candidate.label or candidate.text)[:MOST_SHOWN])


def _row(candidate: CompletionCandidate, width: int) -> Content:
    label, help = _label(candidate), one_line(candidate.help[:MOST_SHOWN])
    if help:
        label += " " * (width - cell_len(label))
    return Content.assemble(label, (f"  {help}", "$text-muted"))
