"""A person's shell command in a chat: `!command` runs it as the tool `bash` does, and the model sees it and its output
with the next message. No approval is asked, because a person typed it."""

from foldmark.core.request import ToolCall
from foldmark.core.wording import title
from foldmark.log import Agent
from foldmark.log.live_session import check_not_live
from foldmark.operations.effects import NOBODY
from foldmark.text.attachment import fenced
from foldmark.text.mentions import SHELL
from foldmark.tools.working.bash import BASH, BashArguments

HELP = (
    f"{SHELL}COMMAND runs a shell command in the working folder. The model sees it and its output with your next "
    "message."
)


class ShellCommand:
    """A command that a line gives, with its `call` as the model would make it. Raises CommandError if it cannot be
    run, or its output could not be recorded."""

    def __init__(self, agent: Agent, line: str) -> None:
        self._agent, self._command = agent, line.strip().removeprefix(SHELL).strip()
        self._arguments = BashArguments(self._command)
        self.call = ToolCall("", BASH.spec.name, {"command": self._command})
        check_not_live(agent)
        assert BASH.question is not None
        BASH.question(agent, self._arguments)  # checks the command

    def run(self) -> str:
        """Run the command in this thread, and return its output. Raises CommandError."""
        return BASH.run(self._agent, self._arguments, NOBODY)

    def message(self, output: str) -> str:
        """Return the person's message about the command and its output."""
        shown = f"$ {self._command}\n{output}"
        return f"I ran: {title(self._command)}\n{fenced(shown)}"
