"""One answer without a chat: for `foldmark ask`, and for a command of `foldmark do` after which the model is asked."""

import sys
from asyncio import CancelledError
from collections.abc import Sequence

from msgspec.structs import replace

from foldmark.chat.approvals import Approval
from foldmark.chat.conversation import Models
from foldmark.chat.lines.foreground import Foreground
from foldmark.chat.lines.person import answer_beside_output, decides
from foldmark.chat.lines.screen import Screen
from foldmark.chat.views import STOPPED, Put
from foldmark.commands.messages import add_message
from foldmark.core.errors import CommandError, ContextFullError
from foldmark.core.request import Piece, Stopped
from foldmark.editing.answering import question
from foldmark.log import Agent
from foldmark.operations.effects import Asking, Decision, Permission
from foldmark.runtime.lease import take
from foldmark.runtime.supervisor import Supervisor, TurnInterruptedError
from foldmark.sending.interruption import Interruption
from foldmark.sending.status import has_no_room, repeats, too_long, unanswered
from foldmark.text.attachment import Attachment


def answer(agent: Agent, models: Models, asking: Asking, text: str | None = None, *, shown: bool) -> None:
    """Let the model answer a text, or without one in the open turn, without a chat. Raises FoldmarkError, and
    KeyboardInterrupt after Ctrl-C."""
    front = Foreground()
    _answer(agent, models, text, asking, front, Screen(front.put if shown else lambda _: None))


def answer_prompt(
    agent: Agent,
    models: Models,
    text: str | None,
    files: Sequence[Attachment],
    asking: Asking,
    *,
    attended: bool,
    printed: bool,
) -> "AnswerScreen":
    """Let the model answer a prompt behind its files, or without both what there is to answer, and return the screen
    that showed it.

    What a failed request left unanswered is not recorded again. `check_sendable` comes before.

    With `attended`, a person at the terminal is asked what a tool may do. The answer's text is `printed` on standard
    output, everything else on standard error. Raises FoldmarkError, and KeyboardInterrupt after Ctrl-C.
    """
    prompt = _recorded(agent, text, files)
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


def check_sendable(agent: Agent, text: str | None, files: Sequence[Attachment]) -> None:
    """Raise FoldmarkError, before anything is recorded, if nothing can be sent."""
    agent.context()
    over = too_long(agent, "\n".join([*(file.content for file in files), text or ""]))
    if over is not None and over.text > over.limit:
        raise CommandError(
            f"the prompt has ~{over.text:,} tokens, and {agent.standing().config.model} takes {over.limit:,}; nothing "
            "was sent. Shorten it, or name another model with --model"
        )
    with agent.reading() as (moment, at):
        is_offered = bool(question(moment, at))
    if not is_offered and has_no_room(agent):  # an answer to an offer may free space, and needs no request
        raise ContextFullError


def _recorded(agent: Agent, text: str | None, files: Sequence[Attachment]) -> str | None:
    """Record the files, and return the text that is still to be recorded. What a failed request left unanswered in the
    context is not recorded again. Raises LeaseError while another program runs the agent."""
    lease = take(agent, agent.log.new_id())
    try:
        with agent.reading() as (moment, at):
            left = list(unanswered(moment, at))
        is_repeated = text is not None and repeats(agent, text)
        with agent.batch():
            for file in files:
                if not any(file.is_held_by(each.content, each.data) for each in left):
                    add_message(agent, file.content, file.data, "human")
    finally:
        lease.give_back()
    return None if is_repeated else text


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
