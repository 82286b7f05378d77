"""The review of an offer to forget or to remember: a panel above the prompt with its ranges to tick [SPEC 4.2].

The keys of the panel act while it has the focus, which it takes only from an empty prompt: what is being typed stays a
message. A message ends the review; one that was begun before the offer came is sent only after a question.
"""

from collections.abc import Callable
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import OptionList, Static, TextArea
from textual.worker import get_current_worker

from foldmark.chat.display.review import Review, ReviewedRange, range_messages, review
from foldmark.commands.show import message_line
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.wording import count
from foldmark.log import Agent
from foldmark.rendering import harmless
from foldmark.terminal.dialogs import Question
from foldmark.terminal.prompt import Prompt
from foldmark.terminal.screens import ContextScreen
from foldmark.text.consent import chosen, is_no, is_yes

REST = "Enter shows a range whole. Anything else you type at the prompt is an ordinary message and ends this review."
BEGUN = "Your message waits at the prompt; to send it ends this review. Shift+Tab goes to the ranges."


class ReviewPanel(Vertical):
    """The agent's open offer; `submit` takes the command that answers it, as if it was typed. `is_open` until then."""

    DEFAULT_CSS = """
    ReviewPanel { height: auto; max-height: 60%; border-top: solid $accent; padding: 0 1; }
    ReviewPanel .heading { text-style: bold; }
    ReviewPanel OptionList { height: auto; max-height: 12; border: none; padding: 0; background: $background; }
    ReviewPanel OptionList:focus { border: none; }
    ReviewPanel .rest { color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "agree", "agree", tooltip="carry out what is ticked"),
        Binding("n,escape", "keep", "keep all", tooltip="end the review; nothing changes"),
        Binding("space", "tick", "tick", tooltip="take a range out, or put it back"),
        Binding("tab", "type", "type", tooltip="go to the prompt; Shift+Tab comes back"),
    ]

    def __init__(self, agent: Agent, submit: Callable[[str], None]) -> None:
        super().__init__()
        self._agent, self._submit = agent, submit
        self._found: Review | None = None
        self._unticked: set[int] = set()
        self._begun, self.is_open = False, True

    def compose(self) -> ComposeResult:
        """Lay out the panel."""
        yield Static(markup=False, classes="heading")
        yield OptionList(markup=False)
        yield Static(markup=False, classes="outcome")
        yield Static(markup=False, classes="rest")

    def on_mount(self) -> None:
        """Read the offer."""
        self._read()

    def attend(self, agent: Agent) -> None:
        """Show the offer as it is now: something may have changed."""
        self._agent = agent
        self._read()

    @work(thread=True, exclusive=True)
    def _read(self) -> None:
        try:
            found = review(self._agent, frozenset(self._unticked))
        except FoldmarkError as error:
            found, why = None, str(error)
        else:
            why = "The offer is no longer open: the context or the conversation went on. Nothing was changed by it."
        if not get_current_worker().is_cancelled:
            self.app.call_from_thread(self._show, found, why)

    def _show(self, found: Review | None, why: str) -> None:
        if found is None:
            self.app.notify(harmless(why), markup=False)
            self._close()
            return
        before, self._found = self._found, found
        if before is None:
            self._begun = bool(self._prompt.text)
        elif before.offer.id != found.offer.id and self._unticked:
            self._unticked.clear()
            self._read()
        self._draw()
        if before is None and not self._begun:
            self._list.focus()

    @property
    def _list(self) -> OptionList:
        return self.query_one(OptionList)

    @property
    def _prompt(self) -> Prompt:
        return self.screen.query_one(Prompt)

    def on_resize(self) -> None:
        """Fit the rows."""
        self._draw()

    def _draw(self) -> None:
        found = self._found
        if found is None:
            return
        ranges, options = self._list, found.ranges
        rows = _rows(found, frozenset(self._unticked), ranges.scrollable_content_region.width - 2)
        if ranges.option_count != len(options):
            ranges.clear_options().add_options(rows)
            ranges.highlighted = 0
        else:
            for place, row in enumerate(rows):
                ranges.replace_option_prompt_at_index(place, row)
        self.query_one(".heading", Static).update(harmless(found.heading))
        self.query_one(".outcome", Static).update(harmless("\n".join((found.outcome, *found.price))))
        self.query_one(".rest", Static).update(BEGUN if self._begun else REST)

    # Keys

    def action_tick(self) -> None:
        """Take a range out of what is carried out, or put it back."""
        if self._found is not None and self._list.highlighted is not None:
            self._unticked ^= {self._found.ranges[self._list.highlighted].number}
            self._draw()
            self._read()

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        """Show a range whole."""
        if self._found is not None:
            shown = self._found.ranges[message.option_index]
            self.app.push_screen(RangeScreen(self._agent, self._submit, self._found, shown))

    def action_agree(self) -> None:
        """Carry out what is ticked."""
        if self._found is not None and (command := self._found.command(self._unticked)) is not None:
            self._answer(command)

    def action_keep(self) -> None:
        """End the review; nothing is forgotten."""
        self._answer("/cancel")

    def action_type(self) -> None:
        """Go to the prompt."""
        self._prompt.focus()

    def _answer(self, command: str) -> None:
        self._close()
        self._submit(command)

    def _close(self) -> None:
        self.is_open = False
        self._prompt.focus()
        self.remove()

    # What is typed in the prompt

    def takes(self, line: str) -> bool:
        """Return True if a submitted line was an answer to the review, or waits for one; False if it is to be carried
        out, which ends the review unless it is a command."""
        found = self._found
        if found is None or line.lstrip().startswith("/"):
            return False
        if is_yes(line):
            self.action_agree()
            return True
        if is_no(line):
            self.action_keep()
            return True
        try:
            named = chosen(line, len(found.offer.ranges))
        except CommandError:
            return False  # the offer stays open
        if named is None and self._begun:
            self._begun = False
            question = "This message ends the review, and nothing is forgotten. Send it?"
            self.app.push_screen(Question(question), lambda sent: self._decided(line, sent=bool(sent)))
            return True
        self._close()
        return False

    def _decided(self, line: str, *, sent: bool) -> None:
        if sent:
            self._answer(line)
        else:
            self._prompt.insert(line)
            self._list.focus()


def _rows(found: Review, unticked: frozenset[int], width: int) -> list[str]:
    """Return the ranges as rows of so many columns, each with a second line for what goes along."""
    digits, spans = (max(len(text) for text in texts) for texts in _columns(found))
    rows = []
    for each in found.ranges:
        tick = " " if each.number in unticked else "x"
        before = f"[{tick}] {each.number:>{digits}}  {each.span:<{spans}}  "
        row = _row(before, each.matches.title, each.matches.count, each.matches.tokens, width)
        if along := each.along_line(forgets=found.offer.forgets):
            row += "\n" + _row(" " * len(before), along, None, each.along.tokens, width)
        rows.append(row)
    return rows


def _columns(found: Review) -> tuple[list[str], list[str]]:
    return [str(each.number) for each in found.ranges], [each.span for each in found.ranges]


def _row(before: str, text: str, messages: int | None, tokens: int, width: int) -> str:
    amount = "" if messages is None else count(messages, "message")
    after = f"{amount:>14}  {'~' + count(tokens, 'token'):>14}"
    text, room = harmless(text), max(10, width - len(before) - len(after))
    cut = text if cell_len(text) <= room else f"{set_cell_size(text, room - 1)}…"
    return f"{before}{set_cell_size(cut, room)}{after}"


class RangeScreen(ContextScreen):
    """The messages of a range, whole."""

    DEFAULT_CSS = "RangeScreen TextArea, RangeScreen TextArea:focus { border: none; height: 1fr; }"

    def __init__(self, agent: Agent, submit: Callable[[str], None], found: Review, shown: ReviewedRange) -> None:
        super().__init__(agent, submit)
        self._found, self._range = found, shown

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        heading = f"{self._range.number}  {self._range.span}  {self._range.matches.title}"
        yield Static(harmless(heading), markup=False, classes="heading")
        yield TextArea(read_only=True, soft_wrap=True, show_line_numbers=False)

    async def on_mount(self) -> None:
        """Read the messages."""
        self._read()

    @work(thread=True)
    def _read(self) -> None:
        try:
            messages = range_messages(self.agent, self._found, self._range.number)
        except FoldmarkError as error:
            self.app.call_from_thread(self.app.notify, harmless(str(error)), markup=False)
            return
        along = "(goes along)" if self._found.offer.forgets else "(stays along)"
        lines = [message_line(each, whole=True, beside=None if matches else along) for each, matches in messages]
        self.app.call_from_thread(self._show, harmless("\n".join(lines)))

    def _show(self, text: str) -> None:
        self.query_one(TextArea).text = text
        self.query_one(TextArea).focus()
