"""The meter at the top: agent, model, how full the context is."""

from textual.widgets import Static

from foldmark.log import Agent
from foldmark.log.family import label
from foldmark.rendering import harmless
from foldmark.sending.status import fullness


class Meter(Static):
    """How full the agent's context is."""

    def __init__(self) -> None:
        super().__init__(markup=False)

    def attend(self, agent: Agent) -> None:
        """Show the agent as the log has it now."""
        model = agent.standing().config.model
        self.update(harmless(f"{label(agent)} · {model} · {fullness(agent, agent.request())}"))

    def show_progress(self, done: int, total: int) -> None:
        """Show how far long work has come."""
