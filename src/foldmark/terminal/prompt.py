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

    def check_consume_key(self, key: str, character: str | None = None) -> bool:
        """Return True for what is typed: not for `?` while nothing is, which opens the screen of all keys."""
        return super().check_consume_key(key, character) and (character != "?" or bool(self.text))

    async def _on_key(self, event: Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            if self.text.strip():
                self.post_message(self.Submitted(self.text))
                self.clear()
        else:
            await super()._on_key(event)
