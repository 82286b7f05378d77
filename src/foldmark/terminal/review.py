"""The review of an offer to forget or to remember: a panel above the prompt with the offer's ranges [SPEC 4.2].

The panel's keys work while it has the focus. It takes the focus only from an empty prompt, because text that is being
typed stays a message. A message ends the review; one that was begun before the offer arrived is sent only after a
confirmation.
"""

from functools import partial
from typing import ClassVar, NamedTuple

from rich.cells import set_cell_size
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from foldmark.chat.display.review import Review, range_messages, review
from foldmark.commands.show import message_line
from foldmark.core.wording import count
from foldmark.log import Agent
from foldmark.rendering import harmless
from foldmark.terminal.columns import WIDEST, fitted
from foldmark.terminal.dialogs import Question
from foldmark.terminal.panels import fill
from foldmark.terminal.prompt import InputPrompt
from foldmark.terminal.screens import Submit, TextScreen, read_in_thread
from foldmark.text.consent import No, Refinement, Yes, read

REST = (
    "Enter takes a line out or puts it back, → opens it. The prompt takes answers.\n"
    "Anything else you type there is an ordinary message and ends this review."
)
CARRY_OUT, CARRIED_OUT = "▸ Carry out what is ticked", "carried-out"
"""The last line of the list, and its id."""
TITLE = 10
"""Minimum columns of a title. A narrow row lacks its number of messages."""

BEGUN = "Your message waits at the prompt; to send it ends this review. Shift+Tab goes to the ranges."


class ReviewPanel(Vertical):
    """The agent's open offer. `is_open` is True until a command answers it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "show", "open", tooltip="show the messages of a range, or a message whole"),
        Binding("left", "fold", show=False, tooltip="fold a range"),
        Binding("escape", "keep", "keep all", tooltip="end the review; nothing changes"),
        Binding("tab", "type", "type", tooltip="go to the prompt; Shift+Tab comes back"),
    ]

    def __init__(self, agent: Agent, submit: Submit) -> None:
        super().__init__()
        self._agent, self._submit = agent, submit
        self._found: Review | None = None
        self._unticked: frozenset[int] = frozenset()
        self._opened: set[int] = set()
        self._lines: list[ReviewLine] = []
        self._begun, self.is_open = False, True

    def compose(self) -> ComposeResult:
        """Lay out the panel."""
        yield Static(markup=False, classes="heading")
        yield OptionList(markup=False)
        yield Static(markup=False, classes="outcome")
        yield Static(markup=False, classes="rest muted")

    def on_mount(self) -> None:
        """Read the offer."""
        self._read()

    def attend(self, agent: Agent) -> None:
        """Show the offer again: the log may have changed."""
        self._agent = agent
        self._read()

    def _read(self) -> None:
        read_in_thread(
            self,
            partial(review, self._agent, self._unticked, frozenset(self._opened)),
            self._show,
            failed=self._close_because,
        )

    def _close_because(self, why: str) -> None:
        self.app.notify(harmless(why), markup=False)
        self._close()

    def _show(self, found: Review | None) -> None:
        if found is None:
            self._close_because(
                "The offer is no longer open: the context or the conversation went on. Nothing was changed by it."
            )
            return
        before, self._found = self._found, found
        if before is None:
            self._begun = bool(self._prompt.text)
        elif before.offer.id != found.offer.id and (self._unticked or self._opened):
            self._unticked = frozenset()
            self._opened.clear()
            self._read()
        self._draw()
        if before is None and not self._begun:
            self._list.focus()

    @property
    def _list(self) -> OptionList:
        return self.query_one(OptionList)

    @property
    def _prompt(self) -> InputPrompt:
        return self.screen.query_one(InputPrompt)

    def on_resize(self) -> None:
        """Fit the rows to the new width."""
        self._draw()

    def _draw(self) -> None:
        found = self._found
        if found is None:
            return
        rows = _rows(found, self._unticked, min(WIDEST, self._list.scrollable_content_region.width) - 2)
        self._lines = [line for line, _ in rows]
        options = [Option(row, id=str(line)) for line, row in rows]
        fill(self._list, [*options, Option(CARRY_OUT, id=CARRIED_OUT)])
        self.query_one(".heading", Static).update(harmless(found.heading))
        self.query_one(".outcome", Static).update(harmless("\n".join((found.outcome, *found.price))))
        self.query_one(".rest", Static).update(BEGUN if self._begun else REST)

    # Keys

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        """Tick or untick the selected range or message. The last line carries out what is ticked."""
        if self._found is None:
            return
        if message.option_id == CARRIED_OUT:
            self.action_agree()
            return
        line = self._lines[message.option_index]
        ids = frozenset(line.ids) if line.message is None else frozenset((line.message,))
        # A range of which only a part is ticked is ticked whole first.
        self._unticked = self._unticked - ids if ids & self._unticked else self._unticked | ids
        self._draw()
        self._read()

    @property
    def _line(self) -> "ReviewLine | None":
        at = self._list.highlighted
        return self._lines[at] if at is not None and at < len(self._lines) else None

    def action_show(self) -> None:
        """Show the messages of a range below it. Show a message in full, with those that go along with its range."""
        found, line = self._found, self._line
        if found is None or line is None:
            return
        if line.message is None and line.number not in self._opened:
            self._opened.add(line.number)
            self._read()
            return
        shown = next(each for each in found.ranges if each.number == line.number)
        heading = f"{shown.number}  {shown.span}  {shown.matches.title}"
        read = partial(_range_text, self._agent, found, shown.number)
        begin = "" if line.message is None else f"{line.message:>8} "
        self.app.push_screen(TextScreen(self._agent, self._submit, read, heading=heading, begin=begin))

    def action_fold(self) -> None:
        """Fold the range of the line."""
        if (line := self._line) is not None and line.number in self._opened:
            self._opened.discard(line.number)
            self._list.highlighted = self._lines.index(line._replace(message=None))
            self._read()

    def action_agree(self) -> None:
        """Apply what is ticked."""
        if self._found is not None and (command := self._found.command(self._unticked)) is not None:
            self._answer(command)

    def action_keep(self) -> None:
        """End the review. Nothing is forgotten."""
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

    # Lines from the prompt

    def takes(self, line: str) -> bool:
        """Return True if the review handles a submitted line, as an answer or by asking whether to send it. Otherwise
        return False; a line that is not a command then ends the review."""
        found = self._found
        if found is None or line.lstrip().startswith("/"):
            return False
        answer = read(line, found.offer.mode)
        if answer == Yes():
            self.action_agree()
            return True
        if isinstance(answer, No):
            self.action_keep()
            return True
        if answer is not None and not isinstance(answer, Refinement):
            return False  # the chat carries it out, or keeps the offer open
        if self._begun:
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


class ReviewLine(NamedTuple):
    """A line of the review: a range with the ids of its matches, or one message of it."""

    number: int
    ids: tuple[int, ...]
    message: int | None = None


def _rows(found: Review, unticked: frozenset[int], width: int) -> list[tuple[ReviewLine, str]]:
    """Return the ranges as rows of `width` columns, each with a second line for the other messages that leave or stay
    with it, and below an opened one the rows of its messages."""
    digits = max(len(str(each.number)) for each in found.ranges)
    spans = max(len(each.span) for each in found.ranges)
    rows = []
    for each in found.ranges:
        out = len(unticked.intersection(each.ids))
        tick = "x" if not out else " " if out == len(each.ids) else "-"
        before = f"[{tick}] {each.number:>{digits}}  {each.span:<{spans}}  "
        row = _row(before, each.matches.title, each.matches.count, each.matches.tokens, width)
        if along := each.along_line(forgets=found.offer.forgets):
            row += "\n" + _row(" " * len(before), along, None, each.along.tokens, width)
        rows.append((ReviewLine(each.number, each.ids), row))
        for message in each.messages:
            tick = " " if message.id in unticked else "x"
            begin = f"    [{tick}] {message.id}  ".ljust(len(before))
            line = ReviewLine(each.number, each.ids, message.id)
            rows.append((line, _row(begin, message.title, None, message.tokens, width)))
    return rows


def _row(before: str, text: str, messages: int | None, tokens: int, width: int) -> str:
    amount = "" if messages is None else count(messages, "message")
    size = f"  {'~' + count(tokens, 'token'):>14}"
    after = f"{amount:>14}{size}"
    if len(before) + TITLE + len(after) > width:
        after = size
    text, room = harmless(text), max(TITLE, width - len(before) - len(after))
    return f"{before}{set_cell_size(fitted(text, room), room)}{after}"


def _range_text(agent: Agent, found: Review, number: int) -> str:
    along = "(goes along)" if found.offer.forgets else "(stays along)"
    messages = range_messages(agent, found, number)
    return "\n".join(message_line(each, whole=True, beside=None if fits else along) for each, fits in messages)
