"""The agents of a conversation as a tree: the state, goal and mail of each, and the questions for a person."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from foldmark.chat.display.operated import brief
from foldmark.chat.display.overview import AgentLine, agents
from foldmark.core.wording import FINAL, count
from foldmark.log import Agent
from foldmark.rendering import harmless
from foldmark.terminal.dialogs import Question
from foldmark.terminal.panels import Panel, PanelScreen, fill

RENEWED = 2.0
"""Seconds between two readings of the agents. Agents in the background change on their own."""

SIGNS = {"idle": "○", "dead": "✕", "turn open": "◌"}
"""Signs of the states. A running agent has `●`."""


class AgentsPanel(Panel):
    """The agents of this conversation."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "mail", "mail", tooltip="go to the agent and read its mail"),
        Binding("f", "fork", "fork", tooltip="go to the agent and fork it"),
        Binding("k", "kill", "kill", tooltip="end the agent and its descendants, after a question"),
    ]

    def compose(self) -> ComposeResult:
        """Lay out the panel."""
        yield Static("Agents · Enter goes there", classes="title", markup=False)
        yield OptionList(markup=False)

    def on_mount(self) -> None:
        """Read the agents again every `RENEWED` seconds."""
        self.set_interval(RENEWED, self.renew)

    def read(self, agent: Agent) -> list[AgentLine]:
        """Return the agents."""
        return agents(agent)

    def show(self, found: Sequence[AgentLine]) -> None:
        """Draw the tree."""
        fill(self.query_one(OptionList), [Option(_row(line), id=line.entry.agent) for line in found])

    @property
    def chosen(self) -> str | None:
        """The uuid of the highlighted agent."""
        option = self.query_one(OptionList).highlighted_option
        return None if option is None else option.id

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Go to the selected agent."""
        self._go()

    def _go(self) -> None:
        """Go to the highlighted agent, unless the chat is already there."""
        if self.chosen not in (None, self.agent.id):
            self.submit(f"/switch {self.chosen}")

    def action_mail(self) -> None:
        """Read the mail of the highlighted agent. The mail enters that agent's context, so the chat goes there."""
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


def _row(line: AgentLine) -> Content:
    """Return an agent as two lines, or three if it has a goal. Unread mail and open questions are bold."""
    entry = line.entry
    indent = "  " * entry.depth
    name = harmless(entry.name or entry.agent[:8])
    parts = [
        Content(indent),
        Content.styled(f"{SIGNS.get(entry.state, '●')} {name}", "bold" if entry.current else ""),
        Content.styled(f" · {entry.state}" + (" · here" if entry.current else ""), "dim"),
        Content(f"\n{indent}  "),
        Content.styled(f"{count(entry.messages, 'message')}, {brief(entry.tokens)} ({entry.percent}%)", "dim"),
    ]
    waits = [f"{entry.unread:,} unread"] if entry.unread else []
    waits += [f"{count(line.asks, 'question')} · F8"] if line.asks else []
    parts += [Content.styled(f" · {each}", "bold") for each in waits]
    if line.goal:
        parts += [Content(f"\n{indent}  {harmless(line.goal)}")]
    return Content.assemble(*parts)


class AgentsScreen(PanelScreen):
    """The agents on a screen of their own."""

    PANEL = AgentsPanel
