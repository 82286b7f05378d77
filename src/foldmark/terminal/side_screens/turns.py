"""The turns of the context as a list with ticks: their sizes, the price of an edit, and the edit."""

from collections import Counter
from collections.abc import Collection
from functools import partial
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from foldmark.chat.display.operated import brief
from foldmark.chat.display.turns import (
    ORDERS,
    PAGE,
    ContextTurns,
    EditPrice,
    Stale,
    arranged,
    context_turns,
    edits,
    own_matches,
    prices,
    receipt,
    results_named,
    span,
    stale_results,
)
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.wording import count
from foldmark.cost.filling import TURNLESS
from foldmark.cost.messages import OUT, SENT, Place
from foldmark.log import Agent
from foldmark.rendering import harmless
from foldmark.terminal.columns import WIDEST
from foldmark.terminal.screens import ContextScreen, Submit, TextScreen, read_in_thread
from foldmark.terminal.side_screens.rows import RowList

PAUSE = 0.15
"""Seconds without a change of ticks before prices are computed."""

EDITS = ("d", "e", "s")
"""The keys of edits, which ask for a reason."""

FILTER, RULE = "/", "t"
"""The keys of the lines for a filter, and for a rule of what to tick."""


class LineInput(Input):
    """The line for a filter or a reason; Esc leaves it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "done"),
        Binding("escape", "screen.leave_line", "cancel"),
    ]


class TurnsScreen(ContextScreen):
    """The turns of the context. `wanted` is the initial filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # In the order of their importance: a narrow terminal omits the last ones.
        Binding("space", "row('tick')", "tick"),
        Binding("d", "ask('d')", "drop", tooltip="take the ticked turns out of the context"),
        Binding("e", "ask('e')", "evict", tooltip="send a placeholder instead of the ticked results"),
        Binding("u", "undo", "restore", tooltip="restore the newest operation"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("o", "order", "order", tooltip="sort by size, newest, results or kind"),
        Binding("t", "rule", "rule", tooltip="tick results by size and tool: over 2K, bash, bash over 500"),
        Binding("s", "ask('s')", "summarize", tooltip="put a summary in place of the ticked turns"),
        Binding("p", "pin", "pin", tooltip="pin or unpin the turn: the window keeps it"),
        Binding("right", "row('fold(True)')", "results", tooltip="show the results of a turn, or a section"),
        Binding("enter", "row('open')", "open", tooltip="show the messages of the turn, or open a section"),
        Binding("x", "tick_stale", show=False, tooltip="tick the results that later calls superseded"),
        Binding("a", "tick_all", show=False, tooltip="tick all rows, or none"),
    ]

    def __init__(self, agent: Agent, submit: Submit, wanted: str = "") -> None:
        super().__init__(agent, submit)
        self._wanted, self._order, self._asked = wanted, ORDERS[0], ""
        self._found: ContextTurns | None = None
        self._opened: set[int | Place] = {SENT}
        self._listed: dict[Place, int] = {}
        self._stale = Stale(frozenset(), "")
        self._since: int | None = None

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Static(id="head", markup=False)
        yield RowList()
        yield Static(id="price", markup=False)
        yield Static(id="told", classes="muted", markup=False)
        yield LineInput(compact=True)

    async def on_mount(self) -> None:
        """Read the turns."""
        self.table.focus()
        self.renew()

    @property
    def table(self) -> RowList:
        """The rows."""
        return self.query_one(RowList)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False for the filter's key while the line takes it as text, as Textual does for letters."""
        return action != "filter" or not self._asked

    # Reading

    def renew(self) -> None:
        """Read the turns again."""
        agent, listed, since = self.agent, dict(self._listed), self._since

        def read() -> tuple[ContextTurns, str]:
            with agent.reading() as (moment, at):
                return context_turns(agent, listed), receipt(moment, at, since) if since is not None else ""

        if self.is_attached:
            read_in_thread(self, read, self._show, failed=self._tell)
            read_in_thread(self, lambda: stale_results(agent), self._suggest, failed=lambda _: None, group="stale")

    def _suggest(self, stale: Stale) -> None:
        self._stale = stale
        if not self.table.ticked and not self._asked:
            self._price([])

    def _show(self, read: tuple[ContextTurns, str]) -> None:
        self._found, done = read
        self.table.ticked &= {row.id for row in self._found.rows}
        self._arrange()
        self._look()
        if done:
            self._tell(done)

    def _arrange(self) -> None:
        if (found := self._found) is None:
            return
        rows = arranged(found, self._order, self._wanted, self._opened)
        self.table.show(rows, found.tokens, frozenset(self._opened), apart=self._order in ("results", "kind"))
        orders = "  ".join(f"▾ {each}" if each == self._order else each for each in ORDERS)
        left = f"Turns · next request {brief(found.tokens)}"
        right = f"sort: {orders}" + (f" · filter: {harmless(self._wanted)}" if self._wanted else "")
        room = max(0, min(self.size.width, WIDEST) - 3 - cell_len(right))
        self.query_one("#head", Static).update(f"{set_cell_size(left, room)} {right}")
        if not rows:
            about = (
                TURNLESS.get(self._wanted) or f"No turn holds “{self._wanted}”; / changes the filter."
                if self._wanted
                else "There is nothing to list."
            )
            self._tell(about)

    def on_resize(self) -> None:
        """Fit the list to the new width."""
        self._arrange()

    def _tell(self, text: str) -> None:
        self.query_one("#told", Static).update(harmless(text))

    # Prices

    def on_row_list_ticked(self) -> None:
        """Compute prices once the person pauses."""
        self._look()

    @property
    def _meant(self) -> frozenset[int]:
        """The ids of the rows that an edit applies to: the ticked rows. If none is ticked and an edit asks for its
        reason, it is the row at the cursor."""
        current = self.table.current_row
        if self.table.ticked or self._asked not in EDITS or current is None:
            return frozenset(self.table.ticked)
        return frozenset((current.id,))

    def _look(self) -> None:
        found, meant = self._found, self._meant
        if found is None or not meant:
            self.workers.cancel_group(self, "prices")
            self._price([])
            return
        self._price([], f"{self._chosen(found, meant)} · …")

        def show(worked: list[EditPrice]) -> None:
            if meant == self._meant:
                self._price(worked, self._chosen(found, meant))

        read_in_thread(self, partial(prices, self.agent, found.rows, meant), show, group="prices", pause=PAUSE)

    def _chosen(self, found: ContextTurns, meant: Collection[int]) -> str:
        """Return a text such as `2 turns and 3 results ticked: 18.1K (29%)`. The tokens of a result in a ticked turn
        count once."""
        rows = [row for row in found.rows if row.id in meant]
        counts = Counter("result" if row.tool else "turn" for row in rows)
        what = " and ".join(count(counts[kind], kind) for kind in ("turn", "result") if counts[kind])
        tokens = sum(row.tokens for row in rows if row.sent and (not row.tool or row.turn not in meant))
        how = " ticked" if self.table.ticked else " at the cursor"
        return f"{what}{how}: {brief(tokens)} ({100 * tokens // max(1, found.tokens)}%)"

    def _price(self, worked: list[EditPrice], first: str = "") -> None:
        lines = [f"{each.key} {each.what}: {each.text}" for each in worked]
        first = first or ("" if lines else self._stale.text)
        self.query_one("#price", Static).update(harmless("\n".join(filter(None, [first, *lines]))))

    # Keys

    def on_row_list_opened(self, message: RowList.Opened) -> None:
        """Show a turn."""
        agent, row = self.agent, message.row
        # `/message show` begins a message's line with its id in this form.
        begin, command = f"{row.id:>8} ", f"/message show {row.turn}"
        self.app.push_screen(TextScreen(agent, self.submit, lambda: agent.do(command).text, begin=begin))

    def on_row_list_folded(self, message: RowList.Folded) -> None:
        """Fold or unfold a turn or a section. The messages of a section are read when it is unfolded."""
        what = message.what
        if message.unfold:
            self._opened.add(what)
        else:
            self._opened.discard(what)
        if not isinstance(what, int) and message.unfold and what != SENT:
            self._listed[what] = self._listed.get(what, 0) + (PAGE if message.more or what not in self._listed else 0)
            self.renew()
        self._arrange()

    async def action_row(self, action: str) -> None:
        """Carry out an action of the list."""
        await self.table.run_action(action)

    def action_order(self) -> None:
        """Switch to the next sort order."""
        self._order = ORDERS[(ORDERS.index(self._order) + 1) % len(ORDERS)]
        self._arrange()

    def action_tick_all(self) -> None:
        """Tick every row that the filter finds; if all are ticked, untick them."""
        shown = own_matches(self.table.lines, self._wanted)
        self.table.ticked = set() if shown <= self.table.ticked else self.table.ticked | shown
        self.table.refresh()
        self._look()

    def action_filter(self) -> None:
        """Open the line for a filter."""
        self._open_line(FILTER, "a word of a title, or the name of a tool or a kind", self._wanted)

    def action_rule(self) -> None:
        """Open the line for a rule of what to tick."""
        self._open_line(RULE, "tick results: over 2K, a tool, or both: bash over 500", "")

    def action_tick_stale(self) -> None:
        """Tick the results that later calls superseded."""
        if not self._stale.ids:
            self._tell("No result is superseded by a later call.")
            return
        self._tick(self._stale.ids)

    def _tick(self, ids: Collection[int]) -> None:
        """Tick rows, and unfold their turns."""
        rows = self._found.rows if self._found is not None else ()
        self.table.ticked |= {*ids}
        self._opened |= {row.turn for row in rows if row.id in ids}
        self._arrange()
        self._look()

    def action_ask(self, key: str) -> None:
        """Ask for a reason before an edit."""
        try:
            command = self._command(key)
        except FoldmarkError as error:
            self._tell(str(error))
            return
        self._tell(f"{_shortened(command)} · Enter does it, Esc does not")
        self._open_line(key, "a reason, or nothing", "")
        self._look()

    def _command(self, key: str) -> str:
        """Return a key's command for the ticked rows, or for the row at the cursor if none is ticked.

        Raises CommandError if the key has nothing to act on.
        """
        rows = self._found.rows if self._found is not None else ()
        current = self.table.current_row
        if not self.table.ticked and current is not None and current.place == OUT:
            raise CommandError("That turn is out already; u brings it back.")
        turns, results = edits(rows, self.table.ticked or ({current.id} if current is not None else set()))
        if key == "e":
            if not results:
                raise CommandError("There is no result to evict among them.")
            return f"/context evict {' '.join(map(str, results))}"
        if not turns:
            raise CommandError("A result leaves with its turn only; e evicts it: a placeholder is sent instead.")
        if key == "d":
            return f"/context drop {' '.join(map(str, turns))}"
        return f"/summarize {span(rows, turns)}"

    def _open_line(self, asked: str, hint: str, text: str) -> None:
        self._asked = asked
        line = self.query_one(LineInput)
        line.value, line.placeholder = text, hint
        line.add_class("asked")
        line.focus()

    def action_leave_line(self) -> None:
        """Close the line without an edit, and clear the filter if the line held it."""
        if self._asked == FILTER:
            self._wanted = ""
            self._arrange()
        self._tell("")
        self._close_line()

    def _close_line(self) -> None:
        self._asked = ""
        self.query_one(LineInput).remove_class("asked")
        self.table.focus()
        self._look()

    def on_input_changed(self, message: Input.Changed) -> None:
        """Filter while the person types."""
        if self._asked == FILTER:
            self._wanted = message.value
            self._tell("")
            self._arrange()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Keep the filter, or carry out the edit with its reason."""
        asked, text = self._asked, " ".join(message.value.split())
        self._close_line()
        try:
            if asked == RULE:
                self._tick(results_named(self._found.rows if self._found is not None else (), text))
            elif asked != FILTER:
                self._carry_out(f"{self._command(asked)}{f' -- {text}' if text else ''}")
        except FoldmarkError as error:  # the ticked rows are gone, or the rule names nothing
            self._tell(str(error))

    def action_pin(self) -> None:
        """Pin the turn at the cursor, or remove its pin."""
        if (row := self.table.current_row) is not None and self._found is not None:
            pinned = any(each.pinned for each in self._found.rows if each.id == row.turn)
            self._carry_out(f"/{'unpin' if pinned else 'pin'} {row.turn}")

    def action_undo(self) -> None:
        """Restore the operation that keeps the turn at the cursor out, otherwise the newest operation."""
        row = self.table.current_row
        if row is not None and row.back is not None:
            self._carry_out(row.back)
        elif self._found is None or self._found.back is None:
            self._tell("There is no operation to restore.")
        else:
            self._carry_out(f"/restore {self._found.back}")

    def _carry_out(self, command: str) -> None:
        self._since = self._found.newest if self._found is not None else None
        self._tell(f"{_shortened(command)} …")
        self.submit(command)


def _shortened(command: str) -> str:
    """Return a command, shortened to its first ten words if it has more than 14 words."""
    words = command.split(" ")
    return command if len(words) <= 14 else f"{' '.join(words[:10])} … ({count(len(words), 'word')})"
