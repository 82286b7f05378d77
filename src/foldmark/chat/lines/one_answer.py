"""One answer without a chat: for `foldmark ask`, and for a command of `foldmark do` after which the model is asked."""

import sys
from asyncio import CancelledError

from msgspec.structs import replace

from foldmark.chat.approvals import Approval
from foldmark.chat.conversation import Models
from foldmark.chat.lines.foreground import Foreground
from foldmark.chat.lines.person import answer_beside_output, decides
from foldmark.chat.lines.screen import Screen
from foldmark.chat.views import STOPPED, Put
from foldmark.core.request import Piece, Stopped
from foldmark.log import Agent
from foldmark.operations.effects import Asking, Decision, Permission
from foldmark.runtime.supervisor import Supervisor, TurnInterruptedError
from foldmark.sending.interruption import Interruption


def answer(agent: Agent, models: Models, asking: Asking, text: str | None = None, *, shown: bool) -> None:
    """Let the model answer a text, or without one in the open turn, without a chat. Raises FoldmarkError, and
    KeyboardInterrupt after Ctrl-C."""
    front = Foreground()
    _answer(agent, models, text, asking, front, Screen(front.put if shown else lambda _: None))


def answer_prompt(
    agent: Agent, models: Models, prompt: str | None, asking: Asking, *, attended: bool, printed: bool
) -> "AnswerScreen":
    """Let the model answer a prompt, or without one what there is to answer, and return the screen that showed it.

    With `attended`, a person at the terminal is asked what a tool may do. The answer's text is `printed` on standard
    output, everything else on standard error. Raises FoldmarkError, and KeyboardInterrupt after Ctrl-C.
    """
    front = Foreground()
    screen = AnswerScreen(front.put, printed=printed)

    def approve(permission: Permission) -> Decision:
        def ask() -> Decision:
            screen.end_line()
            heading = Approval(agent, permission).heading
            return decides(heading, permission, answer_beside_output, stream=sys.stderr)

        return front.ask(ask, "no")

    _answer(agent, models, prompt, replace(asking, approve=approve) if attended else asking, front, screen)
    return screen


def _answer(agent: Agent, models: Models, text: str | None, asking: Asking, front: Foreground, screen: Screen) -> None:
    """Run one turn, and end all work with it. Ctrl-C keeps the text so far, and raises KeyboardInterrupt."""
    pressed = Interruption()

    async def turn() -> None:
        agents = Supervisor(agent.log, models)
        agents.attended, agents.takes_up = agent.id, False
        async with agents:
            with pressed.cancels():
                await agents.say(agent, text, screen.shown(), replace(asking, operated=screen.operated))

    try:
        front.run(turn(), pressed.happen)
    except (CancelledError, TurnInterruptedError):
        if not pressed.happened:
            raise
        raise KeyboardInterrupt from None
    finally:
        screen.end_line()


class AnswerScreen(Screen):
    """Prints an answer's text on standard output, with one line feed at its end, and everything else on standard error.

    Unless `printed`, the text is discarded. `stopped` is the end of the newest answer, if the provider reported it.
    """

    def __init__(self, put: Put, *, printed: bool) -> None:
        super().__init__(put, sys.stderr)
        self.stopped: Stopped | None = None
        self._printed, self._line_feeds = printed, ""

    @property
    def complete(self) -> bool:
        """False if the model answered nothing, or the answer was cut off or refused."""
        return not self.blank and (self.stopped is None or self.stopped.why not in STOPPED)

    def end_line(self) -> None:
        """Start a new line unless the current one is empty."""
        self._line_feeds = ""
        super().end_line()

    def _text(self, piece: str) -> None:
        text = self._line_feeds + piece
        piece = text.rstrip("\n")
        self._line_feeds = text[len(piece) :]
        if self._printed:
            super()._text(piece)

    def _other(self, piece: Piece) -> None:
        if isinstance(piece, Stopped):
            self.stopped = piece
        super()._other(piece)
