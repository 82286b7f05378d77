"""What the screens beside the chat share: the agent that they show, and a line for what a person does there."""

from collections.abc import Callable

from textual.screen import Screen

from foldmark.log import Agent


class ContextScreen(Screen[None]):
    """A screen that shows something of an agent. `submit` takes a command line, as if it was typed in the chat; what it
    changes comes back with `attend`."""

    def __init__(self, agent: Agent, submit: Callable[[str], None]) -> None:
        super().__init__()
        self.agent, self.submit = agent, submit

    def attend(self, agent: Agent) -> None:
        """Show the agent as the log has it now: something may have changed."""
        self.agent = agent
        self.renew()

    def renew(self) -> None:
        """Read from the log and show again."""
