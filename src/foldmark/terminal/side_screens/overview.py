"""The panels: the agents of a conversation as a tree, and the state of an agent."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from foldmark.chat.display.operated import brief, line
from foldmark.chat.display.overview import MEMOS, AgentLine, AgentState, agent_state, agents, price_of_rewind
from foldmark.core.wording import FINAL, count
from foldmark.log import Agent
from foldmark.operations.history import MarkEntry, OperationEntry
from foldmark.rendering import harmless
from foldmark.terminal.dialogs import Question
from foldmark.terminal.operations import Possible, offer
from foldmark.terminal.panels import Panel, fill
from foldmark.terminal.screens import Submit, read_in_thread

RENEWED = 2.0
"""Seconds between two readings of the agents. Agents in the background change without a command."""

SIGNS = {"idle": "○", "dead": "✕", "turn open": "◌"}
"""Signs of the states. A running agent has `●`."""


class AgentsPanel(Panel):
    """The agents of this conversation."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "mail", "mail", tooltip="go to the agent and read its mail"),
        Binding("f", "fork", "fork", tooltip="go to the agent and fork it"),
        Binding("k", "kill", "kill", tooltip="end the agent and its descendants, after a question"),
    ]

    LETTERS = ("mail", "fork", "kill")

    def compose(self) -> ComposeResult:
        """Lay out the panel."""
        yield Static("Agents", classes="title", markup=False)
        yield OptionList(markup=False)

    def on_mount(self) -> None:
        """Read the agents again every `RENEWED` seconds."""
        self.set_interval(RENEWED, self.renew)

    read = staticmethod(agents)

    def show(self, found: Sequence[AgentLine]) -> None:
        """Draw the tree."""
        fill(self.query_one(OptionList), [Option(_agent_row(line), id=line.entry.agent) for line in found])

    @property
    def chosen(self) -> str | None:
        """The uuid of the highlighted agent."""
        option = self.query_one(OptionList).highlighted_option
        return None if option is None else option.id

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Offer the operations on the selected agent."""
        if (chosen := self.chosen) is None:
            return
        possible = [
            *([Possible("go there", f"/switch {chosen}")] if chosen != self.agent.id else []),
            Possible("read its mail there", act=self.action_mail),
            Possible("fork it there", act=self.action_fork),
            Possible("end it and its descendants", act=self.action_kill),
        ]
        offer(self, self.agent, f"Agent {chosen[:8]}", possible, self.submit)

    def _go(self) -> None:
        """Switch to the highlighted agent, unless the chat is already there."""
        if self.chosen not in (None, self.agent.id):
            self.submit(f"/switch {self.chosen}")

    def action_mail(self) -> None:
        """Read the highlighted agent's mail. The mail enters that agent's context, so the chat switches to it."""
        self._go()
        self.submit("/check-mail")

    def action_fork(self) -> None:
        """Fork the highlighted agent."""
        self._go()
        self.submit("/fork")

    def action_kill(self) -> None:
        """End the highlighted agent and its descendants. For the current agent, the command explains why it refuses."""
        if (chosen := self.chosen) is None:
            return
        if chosen == self.agent.id:
            self.submit(f"/kill {chosen}")
            return

        def answered(agreed: bool | None) -> None:
            if agreed:
                self.submit(f"/kill {chosen}")

        question = f"End agent {chosen[:8]} and its descendants? Their logs stay. {FINAL}"
        self.app.push_screen(Question(question), answered)


def _agent_row(line: AgentLine) -> Content:
    """Return an agent as two lines, or three if it has a name and a goal. An agent without a name is called by its
    goal. Unread mail and open questions are bold."""
    entry = line.entry
    indent = "  " * entry.depth
    name = harmless(entry.name or line.goal or entry.agent[:8])
    about = "" if entry.name else f"{entry.agent[:8]} · "
    about += f"{count(entry.messages, 'message')}, {brief(entry.tokens)} recorded ({entry.percent}%)"
    waits = [f"{entry.unread:,} unread"] if entry.unread else []
    waits += [f"{count(line.asks, 'question')} · F8"] if line.asks else []
    parts = [
        Content(indent),
        Content.styled(f"{SIGNS.get(entry.state, '●')} {name}", "bold" if entry.current else ""),
        Content.styled(f" · {entry.state}" + (" · here" if entry.current else ""), "$text-muted"),
        Content(f"\n{indent}  "),
        *(Content.styled(f"{each} · ", "bold") for each in waits),
        Content.styled(about, "$text-muted"),
    ]
    if line.goal and entry.name:
        parts += [Content(f"\n{indent}  {harmless(line.goal)}")]
    return Content.assemble(*parts)


class StatePanel(Panel):
    """The state of this agent. The last lines describe the highlighted row; for a mark, they show the cost of a rewind.
    Enter submits the command that they name."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "undo", "undo newest", tooltip="take back the newest operation in force"),
    ]

    LETTERS = ("undo",)

    read = staticmethod(agent_state)

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

    def show(self, found: AgentState) -> None:
        """Draw the state."""
        self._found = found
        memos = f"{MEMOS} or more memos" if found.memos == MEMOS else count(found.memos, "memo")
        texts = [
            ("State", found.state or "No state block in the context."),
            ("Scratchpad", found.scratchpad or "It is empty."),
            ("Memory", f"{memos}; /memo list shows them"),
        ]
        shown = [Content.assemble((head, "bold $accent"), f"\n{harmless(text)}\n") for head, text in texts]
        self.query_one("#texts", Static).update(Content("\n").join(shown))
        self._rows = {f"mark {each.name}": each for each in found.marks}
        self._rows |= {f"operation {each.event.id}": each for each in found.operations}
        rows = [Option(_state_row(each), id=id) for id, each in self._rows.items()]
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
            time_of = self.agent.log.given.minute
            self._show_about([] if chosen is None else _about(chosen, time_of(chosen.event.created_at)))
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


def _state_row(entry: MarkEntry | OperationEntry) -> Content:
    """Return the row of a mark or an operation. The row of a restored operation is struck out and says so."""
    if isinstance(entry, OperationEntry):
        return Content.styled(harmless(line(entry)), "" if entry.by is None else "strike $text-muted")
    behind = f"{count(entry.behind.messages, 'message')}, {brief(entry.behind.tokens)} recorded, behind it"
    return Content.assemble(
        f"⚑ {harmless(entry.name)}", (f" · {behind if entry.first else 'nothing behind it'}", "$text-muted")
    )


def _about(done: OperationEntry, time: str) -> list[str]:
    event = done.event
    lines = [f"event {event.id} · {time} · {done.words}"]
    lines += [f"reason: {event.reason}"] if event.reason else []
    lines += [done.took] if done.took else []
    lines += [f"taken back by operation {done.by}" if done.by is not None else "in force"]
    lines += [f"Enter: {done.back}" if done.back else "It cannot be taken back."]
    return lines
