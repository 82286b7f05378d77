"""The state of an agent: its state block, scratchpad, memos, marks and operations, with the commands to go back."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from foldmark.chat.display.operated import brief, line
from foldmark.chat.display.overview import MEMOS, AgentState, agent_state, price_of_rewind
from foldmark.core.agents import minute
from foldmark.core.wording import count
from foldmark.log import Agent
from foldmark.operations.history import MarkEntry, OperationEntry
from foldmark.rendering import harmless
from foldmark.terminal.panels import Panel, PanelScreen, fill
from foldmark.terminal.screens import Submit, read_in_thread


class StatePanel(Panel):
    """The state of this agent. The last lines describe the highlighted row; for a mark, they show the cost of a rewind.
    Enter submits the command that they name."""

    DEFAULT_CSS = """
    StatePanel VerticalScroll { height: auto; max-height: 40%; }
    StatePanel #about { height: auto; max-height: 8; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "undo", "undo newest", tooltip="take back the newest operation in force"),
    ]

    def __init__(self, agent: Agent, submit: Submit) -> None:
        super().__init__(agent, submit)
        self._found: AgentState | None = None
        self._rows: dict[str, MarkEntry | OperationEntry] = {}
        self._priced: str | None = None

    def compose(self) -> ComposeResult:
        """Lay out the panel."""
        with VerticalScroll():
            yield Static(id="texts", markup=False)
        yield Static("Marks and operations", classes="title", markup=False)
        yield OptionList(markup=False)
        yield Static(id="about", classes="muted", markup=False)

    def read(self, agent: Agent) -> AgentState:
        """Return the state."""
        return agent_state(agent)

    def show(self, found: AgentState) -> None:
        """Draw the state."""
        self._found = found
        memos = f"{MEMOS} or more memos" if found.memos == MEMOS else count(found.memos, "memo")
        texts = [
            ("State", found.state or "No state block in the context."),
            ("Scratchpad", found.scratchpad or "It is empty."),
            ("Memory", f"{memos}; /memo list shows them"),
        ]
        shown = [part for head, text in texts for part in (Content.styled(head, "bold"), Content(harmless(text)))]
        self.query_one("#texts", Static).update(Content("\n").join(shown))
        self._rows = {f"mark {each.name}": each for each in found.marks}
        self._rows |= {f"operation {each.event.id}": each for each in found.operations}
        rows = [Option(_row(each), id=id) for id, each in self._rows.items()]
        fill(self.query_one(OptionList), rows or [Option("No mark and no operation yet.", disabled=True)])
        self._tell()

    def _chosen(self) -> MarkEntry | OperationEntry | None:
        option = self.query_one(OptionList).highlighted_option
        return None if option is None else self._rows.get(option.id or "")

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Describe the highlighted row."""
        self._tell()

    def _tell(self) -> None:
        self._priced = None
        chosen = self._chosen()
        if not isinstance(chosen, MarkEntry):
            self._show_about([] if chosen is None else _about(chosen))
            return
        agent, mark = self.agent, chosen.name

        def show(lines: list[str]) -> None:
            if self._chosen() == chosen:
                self._priced = mark
                self._show_about([*lines, f"Enter: /rewind {mark}"])

        read_in_thread(self, lambda: price_of_rewind(agent, mark), show, group="price")

    def _show_about(self, lines: list[str]) -> None:
        self.query_one("#about", Static).update(harmless("\n".join(lines)))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Rewind to a mark whose price is shown, or restore an operation."""
        match self._chosen():
            case MarkEntry(name=name) if name == self._priced:
                self.submit(f"/rewind {name}")
            case OperationEntry(back=str(back)):
                self.submit(back)

    def action_undo(self) -> None:
        """Restore the newest operation in force."""
        newest = self._found.newest if self._found is not None else None
        if newest is not None and newest.back is not None:
            self.submit(newest.back)


def _row(entry: MarkEntry | OperationEntry) -> Content:
    """Return the row of a mark or an operation. A restored operation is struck out, and its line says so."""
    if isinstance(entry, OperationEntry):
        return Content.styled(harmless(line(entry)), "" if entry.by is None else "strike dim")
    behind = f"{count(entry.behind.messages, 'message')}, {brief(entry.behind.tokens)} behind it"
    return Content.assemble(
        f"⚑ {harmless(entry.name)}", (f" · {behind if entry.first else 'nothing behind it'}", "dim")
    )


def _about(done: OperationEntry) -> list[str]:
    event = done.event
    lines = [f"event {event.id} · {minute(event.created_at)} · {done.words}"]
    lines += [f"reason: {event.reason}"] if event.reason else []
    lines += [done.took] if done.took else []
    lines += [f"taken back by operation {done.by}" if done.by is not None else "in force"]
    lines += [f"Enter: {done.back}" if done.back else "It cannot be taken back."]
    return lines


class StateScreen(PanelScreen):
    """The state on a screen of its own."""

    PANEL = StatePanel
