"""The prompt: where a person types a message or a command."""

from textual.events import Key
from textual.message import Message
from textual.widgets import TextArea

from foldmark.log import Agent


class Prompt(TextArea):
    """The line that is typed; Enter submits it."""

    class Submitted(Message):
        """A person has submitted a line."""

        def __init__(self, line: str) -> None:
            super().__init__()
            self.line = line

    def attend(self, agent: Agent, offer: str) -> None:
        """Say who reads the line, and what is offered."""

    async def _on_key(self, event: Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            if self.text.strip():
                self.post_message(self.Submitted(self.text))
                self.clear()
        else:
            await super()._on_key(event)
